/* alone_prepare: prepares everything that a training run needs before the seal. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/session/disk_budget.h"
#include "runtime/session/step.h"
#include "runtime/train/resume.h"
#include "runtime/train/train.h"

#include <stdio.h>
#include <unistd.h>

/* speed of a slow SATA disk, assumed before a save is measured */
static const double DISK_BYTES_PER_S = 200e6;

static enum status fingerprint_data(struct training *training, struct fault *fault) {
    const struct trainer *trainer = &training->trainer;
    struct fingerprint both[2] = {{0}};
    TRY(fingerprint_compute(&trainer->train, &both[0], fault));
    if (trainer->validation.file_count > 0) {
        TRY(fingerprint_compute(&trainer->validation, &both[1], fault));
    }
    training->fingerprint = both[0];
    training->data_hash = hash_of(both, sizeof both);
    return OK;
}

static enum status open_data(struct training *training, struct fault *fault) {
    const struct settings *settings = &training->trainer.session.settings;
    if (settings->train_files.count == 0) {
        return fault_set(fault, STATUS_INPUT, settings->run_file,
                         "set data.train to the token files", "no training data is given");
    }
    TRY(trainer_open_data(&training->trainer, fault));
    return fingerprint_data(training, fault);
}

static enum status check_same_model(const struct trainer *trainer, const struct snapshot *snapshot,
                                    struct fault *fault) {
    char path[2 * PATH_BYTES];
    struct region region = {0};
    size_t length;
    char *config = region_alloc(&region, CONFIG_BYTES_MAX, 1);
    path_join(snapshot->path, "config.json", path, sizeof path);
    enum status status = file_read_text(path, config, CONFIG_BYTES_MAX, &length, fault);
    if (status == OK && (length != trainer->outputs.config_length ||
                         memcmp(config, trainer->outputs.config_text, length) != 0)) {
        status = fault_set(fault, STATUS_INPUT, trainer->session.settings.model,
                           "restore the old config.json, or start a new run with --fresh",
                           "config.json differs from the one in %s", path);
    }
    region_finish(&region);
    return status;
}

static enum status resume_from(struct training *training, const struct snapshot *snapshot,
                               struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    struct session *session = &trainer->session;
    uint64_t cursor;
    TRY(resume_check_settings(&session->settings, snapshot, &session->region, fault));
    TRY(check_same_model(trainer, snapshot, fault));
    TRY(fingerprint_check(&training->fingerprint, snapshot, fault));
    TRY(snapshot_load(snapshot, trainer->groups_to_load, trainer->group_count, fault));
    TRY(session_load_compute_copies(session, snapshot, fault));
    if (!snapshot_find_value(snapshot, "cursor", &cursor) || cursor > DATA_CURSOR_MAX) {
        return fault_set(fault, STATUS_INPUT, snapshot->path, "start a new run with --fresh",
                         "the snapshot has no usable position in the data");
    }
    training->step = training->saved_step = snapshot->step;
    training->cursor = (int64_t)cursor;
    log_line(LOG_INFO, "resuming from %s at step %lld", snapshot->path, (long long)snapshot->step);
    return OK;
}

/* The newest snapshot. Only rank 0 searches for it, because the search reads every snapshot
 * completely. */
struct newest_snapshot {
    bool found;            /* a snapshot exists */
    char path[PATH_BYTES]; /* folder of the snapshot */
};

static enum status find_newest_snapshot(struct training *training, struct newest_snapshot *newest,
                                        struct fault *fault) {
    struct session *session = &training->trainer.session;
    struct snapshot snapshot;
    bool found = false;
    enum status status = OK;
    if (session_is_rank0(session) && !training->fresh) {
        status = snapshot_find_newest(session->settings.snapshot_folder, &session->region,
                                      &snapshot, &found, fault);
    }
    status = session_agree(session, status, fault);
    memset(newest, 0, sizeof *newest);
    newest->found = found;
    if (found) {
        snprintf(newest->path, sizeof newest->path, "%s", snapshot.path);
    }
    if (status != OK || session->site == NULL) {
        return status;
    }
    struct region scratch = {0};
    struct newest_snapshot *all =
        region_alloc(&scratch, (size_t)session_rank_count(session), sizeof *all);
    status = site_exchange(session->site, newest, sizeof *newest, all, fault);
    if (status == OK) {
        *newest = all[0];
    }
    region_finish(&scratch);
    return status;
}

static enum status load_state(struct training *training, struct fault *fault) {
    struct session *session = &training->trainer.session;
    struct snapshot snapshot;
    struct newest_snapshot newest;
    TRY(find_newest_snapshot(training, &newest, fault));
    if (!newest.found) {
        return session_init_weights(session, fault);
    }
    TRY(snapshot_read(newest.path, &session->region, &snapshot, fault));
    return resume_from(training, &snapshot, fault);
}

/* Reads the rows of the first step before the files of the old run are renamed, because token ids
 * are compared with the vocabulary only when a row is read. */
static enum status check_first_rows(struct training *training, struct fault *fault) {
    struct session *session = &training->trainer.session;
    const struct step_source source = {.data = &training->trainer.train,
                                       .seed = (uint64_t)session->settings.seed};
    return training->fresh ? step_check_data(session, &source, training->cursor, fault) : OK;
}

/* Renames the folder of an earlier run. This is done late, when no further stage can reject the new
 * run. */
static enum status set_aside_earlier_files(struct training *training, struct fault *fault) {
    struct session *session = &training->trainer.session;
    if (!session_is_rank0(session)) {
        return OK;
    }
    TRY(metrics_check_path(session->settings.metrics_path, "metrics", fault));
    return training->fresh ? resume_set_aside_files(&session->settings, fault) : OK;
}

static enum status make_snapshot_writer(struct training *training, struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    TRY(trainer_make_snapshot_writer(trainer, fault));
    training->save_seconds = (double)trainer->outputs.writer.bytes / DISK_BYTES_PER_S;
    return OK;
}

static enum status build_program(struct session *session, struct fault *fault) {
    TRY(session_compile(session, PURPOSE_TRAIN, fault));
    return session_is_rank0(session) ? session_check_fit(session, fault) : OK;
}

static enum status prepare_outputs(struct trainer *trainer, struct fault *fault) {
    trainer_add_view_group(trainer, "weights.safetensors", "", VIEW_MASTER);
    trainer_add_view_group(trainer, "optimizer.safetensors", "exp_avg.", VIEW_MOMENT1);
    trainer_add_view_group(trainer, "optimizer.safetensors", "exp_avg_sq.", VIEW_MOMENT2);
    return trainer_prepare_output_texts(trainer, fault);
}

/* Reports the steps that an earlier process completed and did not save. */
static void log_lost_steps(const struct training *training) {
    struct region scratch = {0};
    const char *path = training->trainer.session.settings.metrics_path;
    int64_t reached = training->fresh ? 0 : metrics_find_interrupted_step(path, &scratch);
    if (reached > training->step && training->step == 0) {
        log_line(LOG_WARNING,
                 "the earlier run reached step %lld without a snapshot; starting at "
                 "step 1",
                 (long long)reached);
    } else if (reached > training->step) {
        log_line(LOG_WARNING,
                 "the earlier run reached step %lld; its last snapshot is of step %lld",
                 (long long)reached, (long long)training->step);
    }
    region_finish(&scratch);
}

static enum status open_metrics(struct training *training, struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    trainer_allocate_memory_reports(trainer);
    if (!session_is_rank0(&trainer->session)) {
        return OK;
    }
    log_lost_steps(training);
    return metrics_open(&trainer->session, &trainer->metrics, fault);
}

enum status training_prepare(struct training *training, bool fresh, struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    struct session *session = &trainer->session;
    bool locks = session_is_rank0(session);
    training->saved_step = training->evaluated_step = -1;
    trainer->metrics.fd = -1;
    trainer->stop_subject = "run";
    training->fresh = fresh;
    session->disk.keeps_earlier_files = fresh;
    TRY(trainer_agree_on_stage(trainer, OK, fault));
    TRY(trainer_agree_on_stage(trainer,
                               locks ? resume_lock_folder(&session->settings, &training->lock_fd,
                                                          &training->made_folder, fault)
                                     : OK,
                               fault));
    TRY(trainer_tokenise_text(trainer, fault));
    TRY(trainer_agree_on_stage(trainer, open_data(training, fault), fault));
    TRY(trainer_agree_on_stage(trainer, build_program(session, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_compare_ranks(trainer, &training->data_hash, fault),
                               fault));
    TRY(trainer_agree_on_stage(trainer, session_bind(session, fault), fault));
    TRY(trainer_agree_on_stage(trainer, session_connect(session, fault), fault));
    TRY(trainer_agree_on_stage(trainer, prepare_outputs(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, load_state(training, fault), fault));
    TRY(trainer_agree_on_stage(trainer, step_trace_plan(session, &training->trace, fault), fault));
    TRY(trainer_agree_on_stage(trainer, trainer_plan_export(trainer, fault), fault));
    TRY(trainer_agree_on_stage(trainer, check_first_rows(training, fault), fault));
    TRY(trainer_agree_on_stage(trainer, set_aside_earlier_files(training, fault), fault));
    TRY(trainer_agree_on_stage(trainer, make_snapshot_writer(training, fault), fault));
    return trainer_agree_on_stage(trainer, open_metrics(training, fault), fault);
}

void training_finish(struct training *training) {
    trainer_close_files(&training->trainer);
    if (training->lock_fd > 0) {
        if (training->made_folder && !training->has_started) {
            resume_remove_folder(&training->trainer.session.settings);
        }
        close(training->lock_fd);
    }
    session_finish(&training->trainer.session);
}
