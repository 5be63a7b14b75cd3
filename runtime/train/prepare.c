/* prepare: everything that a training run needs before it is sealed. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/session/disk.h"
#include "runtime/session/hello.h"
#include "runtime/session/parts.h"
#include "runtime/session/resume.h"
#include "runtime/train/loop.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double DISK_BYTES_PER_S = 200e6; /* a slow SATA disk; until a save was measured */

static enum status open_data(struct training *training, const struct path_list *wanted,
                             const char *key, struct token_data *data, struct fault *fault) {
    struct session *session = &training->session;
    if (wanted->count == 0) {
        char remedy[NAME_BYTES];
        snprintf(remedy, sizeof remedy, "name token files in %s", key);
        return fault_set(fault, STATUS_INPUT, session->run.place, remedy, "there is no data");
    }
    return data_open_run(&session->run, wanted, session->blueprint.vocab, &session->region, data,
                         fault);
}

static enum status open_all_data(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    enum status status =
        open_data(training, &session->run.train, "data.train", &training->train, fault);
    if (status == OK && session->run.validation.count > 0) {
        status = open_data(training, &session->run.validation, "data.validation",
                           &training->validation, fault);
    }
    struct fingerprint both[2] = {{0}};
    if (status == OK) {
        status = fingerprint_of(&training->train, &both[0], fault);
    }
    if (status == OK && training->validation.file_count > 0) {
        status = fingerprint_of(&training->validation, &both[1], fault);
    }
    training->fingerprint = both[0];
    training->data_hash = hash_of(both, sizeof both);
    return status;
}

/* Weights and both moments, each parameter whole under its name. */
static void make_groups(struct session *session, enum part_kind kind,
                        struct snapshot_group groups[static TRAINING_GROUPS]) {
    static const struct {
        const char *file, *prefix;
        enum param_view view;
    } ROWS[TRAINING_GROUPS] = {{"weights.safetensors", "", VIEW_MASTER},
                               {"optimizer.safetensors", "exp_avg.", VIEW_MOMENT1},
                               {"optimizer.safetensors", "exp_avg_sq.", VIEW_MOMENT2}};
    for (int i = 0; i < TRAINING_GROUPS; i++) {
        groups[i] = (struct snapshot_group){.file = ROWS[i].file,
                                            .prefix = ROWS[i].prefix,
                                            .set = rank_parts_of_copy(session, ROWS[i].view, kind)};
    }
}

static enum status same_model(const struct training *training, const struct snapshot *snapshot,
                              struct fault *fault) {
    char path[2 * PATH_BYTES];
    struct region region = {0};
    size_t length;
    char *config = region_alloc(&region, CONFIG_BYTES_MAX, 1);
    file_join(snapshot->path, "config.json", path, sizeof path);
    enum status status = file_read_text(path, config, CONFIG_BYTES_MAX, &length, fault);
    if (status == OK && (length != training->outputs.config_length ||
                         memcmp(config, training->outputs.config_text, length) != 0)) {
        status = fault_set(fault, STATUS_INPUT, training->session.run.model,
                           "put the old config.json back, or start anew with --fresh",
                           "config.json is not the one of %s", path);
    }
    region_finish(&region);
    return status;
}

static enum status take_up(struct training *training, const struct snapshot *snapshot,
                           struct fault *fault) {
    struct session *session = &training->session;
    uint64_t cursor;
    struct snapshot_group groups[TRAINING_GROUPS];
    make_groups(session, PART_STORED, groups);
    enum status status = resume_check(&session->run, snapshot, &session->region, fault);
    if (status == OK) {
        status = same_model(training, snapshot, fault);
    }
    if (status == OK) {
        status = fingerprint_same(&training->fingerprint, snapshot, fault);
    }
    if (status == OK) {
        status = snapshot_load(snapshot, groups, TRAINING_GROUPS, fault);
    }
    if (status == OK) {
        status = session_compute_copies(session, snapshot, fault);
    }
    if (status == OK &&
        (!snapshot_find_value(snapshot, "cursor", &cursor) || cursor > DATA_CURSOR_MAX)) {
        status = fault_set(fault, STATUS_INPUT, snapshot->path, "start anew with --fresh",
                           "the snapshot has no usable data cursor");
    }
    if (status != OK) {
        return status;
    }
    training->step = training->saved_step = snapshot->step;
    training->cursor = (int64_t)cursor;
    log_line(LOG_INFO, "going on from %s, step %lld", snapshot->path, (long long)snapshot->step);
    return OK;
}

/* What rank 0 found: reading every snapshot to its last byte is for one. */
struct newest {
    bool found;
    char path[PATH_BYTES];
};

static enum status find_newest(struct training *training, struct newest *newest,
                               struct fault *fault) {
    struct session *session = &training->session;
    struct snapshot snapshot;
    bool found = false;
    enum status status = OK;
    if (session_is_rank0(session) && !training->fresh) {
        status = snapshot_find_newest(session->run.snapshot_folder, &session->region, &snapshot,
                                      &found, fault);
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
    struct newest *all = region_alloc(&scratch, (size_t)session_ranks(session), sizeof *all);
    status = site_exchange(session->site, newest, sizeof *newest, all, fault);
    if (status == OK) {
        *newest = all[0];
    }
    region_finish(&scratch);
    return status;
}

/* Once the ranks agree on what they run, and before anything else is told: what started them. */
static void say_who(const struct session *session) {
    if (session_ranks(session) > 1) {
        log_line(LOG_INFO, "%d ranks (%s)", session_ranks(session),
                 site_launch_info(session->site)->source);
    }
}

static enum status first_state(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    struct snapshot snapshot;
    struct newest newest;
    say_who(session);
    enum status status = find_newest(training, &newest, fault);
    if (status != OK || !newest.found) {
        return status == OK ? session_weights(session, fault) : status;
    }
    status = snapshot_read(newest.path, &session->region, &snapshot, fault);
    return status == OK ? take_up(training, &snapshot, fault) : status;
}

static enum status plan_export(struct training *training, struct fault *fault) {
    return outputs_plan_export(&training->session, &training->groups[0].set, &training->outputs,
                               fault);
}

/* The old run is set aside only when nothing of the new one can be refused any more. */
static enum status set_aside(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    if (!session_is_rank0(session)) {
        return OK;
    }
    enum status status = metrics_check(session->run.metrics, "metrics", fault);
    return status == OK && training->fresh ? resume_set_aside(&session->run, fault) : status;
}

static enum status make_writer(struct training *training, struct fault *fault) {
    enum status status = outputs_make_writer(&training->session, training->groups, TRAINING_GROUPS,
                                             &training->outputs, fault);
    if (status == OK) {
        training->save_seconds = (double)training->outputs.writer.bytes / DISK_BYTES_PER_S;
    }
    return status;
}

static enum status build_program(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    enum status status = session_compile(session, PURPOSE_TRAIN, fault);
    return status == OK && session_is_rank0(session) ? disk_fits(session, fault) : status;
}

static enum status compare(struct training *training, struct fault *fault) {
    return ranks_check_equal(&training->session, &training->data_hash, fault);
}

static enum status bind(struct training *training, struct fault *fault) {
    return session_bind(&training->session, fault);
}

static enum status connect_ranks(struct training *training, struct fault *fault) {
    return session_connect(&training->session, fault);
}

static enum status describe(struct training *training, struct fault *fault) {
    make_groups(&training->session, PART_SAVED, training->groups);
    return outputs_describe(&training->session, &training->outputs, fault);
}

static enum status lock(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    return session_is_rank0(session) ? resume_lock(&session->run, &training->lock_fd, fault) : OK;
}

static enum status plan_trace(struct training *training, struct fault *fault) {
    return step_trace_plan(&training->session, &training->trace, fault);
}

static enum status open_metrics(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    training->memories =
        region_alloc(&session->region, (size_t)session_ranks(session), sizeof *training->memories);
    return session_is_rank0(session) ? metrics_open(session, &training->metrics, fault) : OK;
}

static enum status unless_stopped(enum status status, struct fault *fault) {
    return status == OK && stop_requested()
               ? fault_set(fault, STATUS_STOPPED, "run", NULL, "asked to stop")
               : status;
}

/* Each stage ends in one outcome for all ranks. Those in which ranks meet are stages of their own,
 * so that all of them get there. */
enum status training_prepare(struct training *training, bool fresh, struct fault *fault) {
    static enum status (*const STAGES[])(struct training *, struct fault *) = {
        lock,        open_all_data, build_program, compare,   bind,        connect_ranks, describe,
        first_state, plan_trace,    plan_export,   set_aside, make_writer, open_metrics};
    training->saved_step = training->evaluated_step = -1;
    training->metrics.fd = -1;
    training->fresh = fresh;
    enum status status = session_agree(&training->session, unless_stopped(OK, fault), fault);
    for (size_t i = 0; i < ARRAY_COUNT(STAGES) && status == OK; i++) {
        status = unless_stopped(STAGES[i](training, fault), fault);
        status = session_agree(&training->session, status, fault);
    }
    return status;
}

void training_finish(struct training *training) {
    metrics_close(&training->metrics);
    data_close(&training->train);
    data_close(&training->validation);
    if (training->lock_fd > 0) {
        close(training->lock_fd);
    }
    session_finish(&training->session);
}
