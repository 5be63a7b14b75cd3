/* weights_in: parameters into the arena, from a model's folder or at random. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/model/init.h"
#include "runtime/train/session.h"

enum { INIT_PIECE_ELEMENTS = 1 << 14 };

struct tensor_spec session_tensor(const struct session *session, int index, enum param_view view) {
    const struct param *param = &session->blueprint.params[index];
    return (struct tensor_spec){.name = param->name,
                                .dtype = program_view_dtype(&session->bound, view),
                                .rank = param->rank,
                                .shape = {param->shape[0], param->shape[1]}};
}

struct tensor_piece session_piece(const struct session *session, int index, enum param_view view) {
    struct tensor_spec tensor = session_tensor(session, index, view);
    return piece_of_spec(&tensor, program_param(&session->bound, index, view));
}

int session_pieces(const struct session *session, struct tensor_piece *pieces) {
    const struct schedule_options *options = &session->program.schedule.options;
    int count = 0;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        pieces[count++] = session_piece(session, i, VIEW_PARAMS);
        if (options->train && options->compute != DTYPE_F32) {
            pieces[count++] = session_piece(session, i, VIEW_MASTER);
        }
    }
    return count;
}

struct staging session_staging(const struct session *session) {
    int extent = session->program.schedule.host.staging;
    return (struct staging){.memory = program_extent(&session->bound, extent),
                            .bytes = session->program.schedule.extents[extent].bytes};
}

/* Every copy of a parameter gets the same value, rounded once from fp32. */
static void init_piece(const struct session *session, const struct param *param,
                       const struct tensor_piece *piece) {
    float *values = session_staging(session).memory;
    int64_t count = param_elements(param);
    for (int64_t first = 0; first < count; first += INIT_PIECE_ELEMENTS) {
        int64_t left = count - first;
        int64_t some = left < INIT_PIECE_ELEMENTS ? left : INIT_PIECE_ELEMENTS;
        param_init_fill(param, (uint64_t)session->run.seed, first, some, values);
        char *into = (char *)piece->memory + first * dtype_bytes(piece->dtype);
        convert_from_f32(piece->dtype, values, some, into);
    }
}

enum status session_weights(struct session *session, struct fault *fault) {
    size_t most = 2 * (size_t)session->blueprint.param_count;
    struct tensor_piece *pieces = region_alloc(&session->region, most, sizeof *pieces);
    int count = session_pieces(session, pieces);
    if (session->run.init == INIT_RANDOM) {
        int per_param = count / session->blueprint.param_count;
        for (int i = 0; i < count; i++) {
            init_piece(session, &session->blueprint.params[i / per_param], &pieces[i]);
        }
        return OK;
    }
    if (session->model_folder[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, session->run.model,
                         "set init: random, or name a folder that holds safetensors",
                         "a bare config.json has no weights");
    }
    struct weights_load_args args = {.folder = session->model_folder,
                                     .blueprint = &session->blueprint,
                                     .pieces = pieces,
                                     .piece_count = count,
                                     .staging = session_staging(session)};
    return weights_load(&args, fault);
}

/* A snapshot's weights are fp32; they are rounded once if less computes. */
static enum status load_snapshot(struct session *session, const struct snapshot *snapshot,
                                 struct fault *fault) {
    struct safetensors file;
    char path[2 * PATH_BYTES];
    file_join(snapshot->path, "weights.safetensors", path, sizeof path);
    enum status status = safetensors_open(path, &session->region, &file, fault);
    if (status != OK) {
        return status;
    }
    struct staging staging = session_staging(session);
    for (int i = 0; i < session->blueprint.param_count && status == OK; i++) {
        struct tensor_piece piece = session_piece(session, i, VIEW_PARAMS);
        const struct safetensors_entry *entry = safetensors_find(&file, piece.name);
        if (entry == NULL || entry->elements != piece_elements(&piece)) {
            status = fault_set(fault, STATUS_INPUT, path, "the model's config was changed since",
                               "%s: %s", piece.name, entry == NULL ? "missing" : "another shape");
            break;
        }
        struct piece_place place = {
            .fd = file.fd, .path = path, .at = file.data_at + entry->begin, .dtype = DTYPE_F32};
        status = piece_read(&place, &piece, true, &staging, fault);
    }
    safetensors_close(&file);
    return status;
}

enum status session_trained_weights(struct session *session, struct fault *fault) {
    struct snapshot snapshot;
    bool found = false;
    const struct run *run = &session->run;
    if (run->place[0] == '\0') {
        return session_weights(session, fault); /* a bare model is what it is */
    }
    enum status status =
        snapshot_find_newest(run->snapshot_folder, &session->region, &snapshot, &found, fault);
    if (status != OK) {
        return status;
    }
    if (found) {
        log_line(LOG_INFO, "weights of %s", snapshot.path);
        return load_snapshot(session, &snapshot, fault);
    }
    if (run->init == INIT_RANDOM) {
        return fault_set(fault, STATUS_INPUT, run->snapshot_folder, "train first",
                         "the run has no snapshot yet and begins from random weights");
    }
    log_line(LOG_INFO, "no snapshot yet: weights of %s", run->model);
    return session_weights(session, fault);
}

void session_round_params(struct session *session) {
    const struct schedule_options *options = &session->program.schedule.options;
    for (int i = 0; i < session->blueprint.param_count && options->compute != DTYPE_F32; i++) {
        convert_from_f32(options->compute, program_param(&session->bound, i, VIEW_MASTER),
                         param_elements(&session->blueprint.params[i]),
                         program_param(&session->bound, i, VIEW_PARAMS));
    }
}
