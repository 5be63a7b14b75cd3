/* prepare: everything that a training run needs before it is sealed. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/train/disk.h"
#include "runtime/train/loop.h"
#include "runtime/train/resume.h"
#include "runtime/train/stop.h"

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
    return status == OK ? fingerprint_of(&training->train, &training->fingerprint, fault) : status;
}

/* Weights and both moments, each parameter whole under its name. */
static void make_groups(struct training *training) {
    static const struct {
        const char *file, *prefix;
        enum param_view view;
    } ROWS[TRAINING_GROUPS] = {{"weights.safetensors", "", VIEW_MASTER},
                               {"optimizer.safetensors", "exp_avg.", VIEW_MOMENT1},
                               {"optimizer.safetensors", "exp_avg_sq.", VIEW_MOMENT2}};
    struct session *session = &training->session;
    int count = session->blueprint.param_count;
    for (int group = 0; group < TRAINING_GROUPS; group++) {
        struct tensor_piece *pieces = region_alloc(&session->region, (size_t)count, sizeof *pieces);
        struct tensor_spec *tensors =
            region_alloc(&session->region, (size_t)count, sizeof *tensors);
        for (int i = 0; i < count; i++) {
            pieces[i] = session_piece(session, i, ROWS[group].view);
            tensors[i] = session_tensor(session, i, ROWS[group].view);
        }
        training->groups[group] = (struct snapshot_group){.file = ROWS[group].file,
                                                          .prefix = ROWS[group].prefix,
                                                          .set = {tensors, count, pieces, count}};
    }
}

static enum status read_config(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    char path[2 * PATH_BYTES];
    char *config = region_alloc(&session->region, CONFIG_BYTES_MAX, 1);
    if (session->model_folder[0] == '\0') {
        snprintf(path, sizeof path, "%s", session->run.model);
    } else {
        file_join(session->model_folder, "config.json", path, sizeof path);
    }
    training->config_text = config;
    return file_read_text(path, config, CONFIG_BYTES_MAX, &training->config_length, fault);
}

static enum status same_model(const struct training *training, const struct snapshot *snapshot,
                              struct fault *fault) {
    char path[2 * PATH_BYTES];
    struct region region = {0};
    size_t length;
    char *config = region_alloc(&region, CONFIG_BYTES_MAX, 1);
    file_join(snapshot->path, "config.json", path, sizeof path);
    enum status status = file_read_text(path, config, CONFIG_BYTES_MAX, &length, fault);
    if (status == OK &&
        (length != training->config_length || memcmp(config, training->config_text, length) != 0)) {
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
    enum status status = run_continues(&session->run, snapshot, &session->region, fault);
    if (status == OK) {
        status = same_model(training, snapshot, fault);
    }
    if (status == OK) {
        status = fingerprint_same(&training->fingerprint, snapshot, fault);
    }
    if (status == OK) {
        status = snapshot_load(snapshot, training->groups, TRAINING_GROUPS, fault);
    }
    if (status == OK &&
        (!snapshot_find_value(snapshot, "cursor", &cursor) || cursor > DATA_CURSOR_MAX)) {
        status = fault_set(fault, STATUS_INPUT, snapshot->path, "start anew with --fresh",
                           "the snapshot has no usable data cursor");
    }
    if (status != OK) {
        return status;
    }
    session_round_params(session);
    training->step = training->saved_step = snapshot->step;
    training->cursor = (int64_t)cursor;
    log_line(LOG_INFO, "going on from %s, step %lld", snapshot->path, (long long)snapshot->step);
    return OK;
}

static enum status first_state(struct training *training, bool fresh, struct fault *fault) {
    struct session *session = &training->session;
    struct snapshot snapshot;
    bool found = false;
    enum status status = OK;
    if (!fresh) {
        status = snapshot_find_newest(session->run.snapshot_folder, &session->region, &snapshot,
                                      &found, fault);
    }
    if (status == OK) {
        status = found ? take_up(training, &snapshot, fault) : session_weights(session, fault);
    }
    return status;
}

/* A snapshot carries the keys, and bounds them. */
static enum status describe_keys(struct session *session, const char **keys, struct fault *fault) {
    size_t room = run_describe_room(&session->run);
    struct text text = text_over(region_alloc(&session->region, room, 1), room);
    run_describe(&session->run, false, &text);
    ASSERT(!text.cut);
    if (text.length >= SNAPSHOT_KEYS_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, session->run.place,
                         "name the files of data.train by a pattern",
                         "the settings take %zu bytes, a snapshot has room for %d", text.length,
                         SNAPSHOT_KEYS_BYTES_MAX);
    }
    *keys = text.bytes;
    return OK;
}

/* The old run is set aside only when nothing of the new one can be refused any more. */
static enum status make_writers(struct training *training, bool fresh, struct fault *fault) {
    struct session *session = &training->session;
    const char *keys = NULL;
    enum status status = describe_keys(session, &keys, fault);
    if (status != OK) {
        return status;
    }
    struct weights_save_args save = {.folder = session->run.export,
                                     .model_folder = session->model_folder,
                                     .config_text = training->config_text,
                                     .config_length = training->config_length,
                                     .set = training->groups[0].set,
                                     .dtype = (enum dtype)session->run.params};
    status = weights_save_plan(&save, &session->region, &training->export, fault);
    if (status == OK) {
        status = metrics_check(session->run.metrics, fault);
    }
    if (status == OK && fresh) {
        status = run_set_aside(&session->run, fault);
    }
    if (status != OK) {
        return status;
    }
    struct snapshot_args args = {.folder = session->run.snapshot_folder,
                                 .keep = (int)session->run.snapshot_keep,
                                 .groups = training->groups,
                                 .group_count = TRAINING_GROUPS,
                                 .config_text = training->config_text,
                                 .config_length = training->config_length,
                                 .model_folder = session->model_folder,
                                 .keys = keys,
                                 .plan_hash = session->program.hash};
    status = snapshot_writer_init(&args, &session->region, &training->writer, fault);
    if (status != OK) {
        return status;
    }
    training->save_seconds = (double)training->writer.bytes / DISK_BYTES_PER_S;
    return OK;
}

static enum status build_program(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    enum status status = session_compile(session, PURPOSE_TRAIN, fault);
    if (status == OK) {
        status = disk_fits(session, fault);
    }
    return status == OK ? session_bind(session, fault) : status;
}

enum status training_prepare(struct training *training, bool fresh, struct fault *fault) {
    struct session *session = &training->session;
    training->saved_step = training->evaluated_step = -1;
    training->metrics.fd = -1;
    enum status status = run_lock(&session->run, &training->lock_fd, fault);
    if (status == OK) {
        status = open_all_data(training, fault);
    }
    if (status == OK) {
        status = build_program(training, fault);
    }
    if (status == OK) {
        make_groups(training);
        status = read_config(training, fault);
    }
    if (status == OK) {
        status = first_state(training, fresh, fault);
    }
    if (status == OK) {
        status = make_writers(training, fresh, fault);
    }
    if (status == OK) {
        status = metrics_open(session->run.metrics, &training->metrics, fault);
    }
    if (status == OK) {
        stop_watch();
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
