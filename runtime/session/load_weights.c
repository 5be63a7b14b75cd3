/* load_weights: loads parameters into the arena from a model folder or a snapshot, or initializes
 * them at random. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/session/rank_parts.h"

enum {
    INIT_PIECE_ELEMENTS = 1 << 14, /* elements that all threads initialize at a time */
    INIT_SHARE_ELEMENTS = 1 << 11  /* elements that one thread initializes at a time */
};

struct staging session_staging(const struct session *session) {
    int extent = session->program.schedule.host.staging;
    return (struct staging){.memory = program_extent_address(&session->bound, extent),
                            .bytes = session->program.schedule.extents[extent].bytes};
}

static const struct param *find_param(const struct session *session, const char *name) {
    const struct blueprint *blueprint = &session->blueprint;
    int index = 0;
    while (index < blueprint->param_count && blueprint->params[index].name != name) {
        index++;
    }
    ASSERT(index < blueprint->param_count);
    return &blueprint->params[index];
}

/* A range of elements of a parameter to initialize at random. Each element depends only on its
 * index, so all threads can share the work. */
struct random_range {
    const struct param *param;
    uint64_t seed;        /* seed of the run */
    int64_t first, count; /* first element of the range, and number of elements */
    float *values;        /* [count]: the initialized elements */
};

static void fill_random_share(void *context, int64_t item, int thread) {
    const struct random_range *range = context;
    (void)thread;
    int64_t begin = item * INIT_SHARE_ELEMENTS;
    int64_t left = range->count - begin;
    param_init_fill(range->param, range->seed, range->first + begin,
                    left < INIT_SHARE_ELEMENTS ? left : INIT_SHARE_ELEMENTS, range->values + begin);
}

/* Initializes every copy of an element with the same value on every rank, rounded once from
 * fp32. */
static enum status init_piece(struct session *session, const struct tensor_piece *piece,
                              struct fault *fault) {
    const struct param *param = find_param(session, piece->name);
    const struct staging whole = session_staging(session);
    float *values = whole.memory;
    const size_t drawn = INIT_PIECE_ELEMENTS * sizeof *values;
    const struct staging rest = {.memory = values + INIT_PIECE_ELEMENTS,
                                 .bytes = whole.bytes - drawn};
    int64_t count = piece_range_elements(piece);
    enum status status = OK;
    ASSERT(whole.bytes >= 2 * drawn);
    for (int64_t done = 0; done < count && status == OK; done += INIT_PIECE_ELEMENTS) {
        int64_t left = count - done;
        int64_t some = left < INIT_PIECE_ELEMENTS ? left : INIT_PIECE_ELEMENTS;
        struct random_range range = {param, (uint64_t)session->settings.seed, piece->first + done,
                                     some, values};
        pool_run(&session->bound.pool, fill_random_share, &range,
                 (some + INIT_SHARE_ELEMENTS - 1) / INIT_SHARE_ELEMENTS);
        status = piece_set_values(piece, done, some, values, &rest, fault);
        activity_advance((uint64_t)some);
    }
    return status;
}

static enum status init_pieces(struct session *session, const struct tensor_piece *pieces,
                               int count, struct fault *fault) {
    enum status status = OK;
    uint64_t elements = 0;
    for (int i = 0; i < count; i++) {
        elements += (uint64_t)piece_range_elements(&pieces[i]);
    }
    activity_begin("drawing random weights", elements);
    for (int i = 0; i < count && status == OK; i++) {
        status = init_piece(session, &pieces[i], fault);
    }
    activity_end(false);
    return status;
}

enum status session_init_weights(struct session *session, struct fault *fault) {
    struct tensor_piece *pieces;
    int count = rank_parts_of_weights(session, &pieces);
    if (session->settings.init_kind == INIT_RANDOM) {
        return init_pieces(session, pieces, count, fault);
    }
    if (session->model_folder[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, session->settings.model,
                         "set init: random, or set model to a folder with safetensors files",
                         "the model is only a config.json, which has no weights");
    }
    struct weights_load_args args = {.folder = session->model_folder,
                                     .blueprint = &session->blueprint,
                                     .pieces = pieces,
                                     .piece_count = count,
                                     .staging = session_staging(session)};
    return weights_load(&args, fault);
}

static enum status load_piece(const struct session *session, const struct safetensors *file,
                              const struct tensor_piece *piece, struct fault *fault) {
    const struct safetensors_entry *entry = safetensors_find(file, piece->name);
    struct piece_span span = {.fd = file->fd, .path = file->path};
    if (entry == NULL || entry->elements != piece_tensor_elements(piece) ||
        !safetensors_dtype_is_loadable(entry->dtype, &span.dtype)) {
        return fault_set(fault, STATUS_INPUT, file->path,
                         "restore the config.json with which the run was started", "%s: %s",
                         piece->name, entry == NULL ? "missing" : "another shape");
    }
    struct staging staging = session_staging(session);
    span.at = file->data_at + entry->begin;
    return piece_read(&span, piece, true, &staging, fault);
}

/* The weights of a snapshot are fp32. They are rounded once if the compute dtype is smaller. */
static enum status load_pieces(struct session *session, const struct snapshot *snapshot,
                               const struct tensor_piece *pieces, int count, struct fault *fault) {
    struct safetensors file;
    char path[2 * PATH_BYTES];
    path_join(snapshot->path, "weights.safetensors", path, sizeof path);
    TRY(safetensors_open(path, &session->region, &file, fault));
    enum status status = OK;
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += sizeof(float) * (uint64_t)piece_range_elements(&pieces[i]);
    }
    activity_begin("loading the weights", bytes);
    for (int i = 0; i < count && status == OK; i++) {
        status = load_piece(session, &file, &pieces[i], fault);
    }
    activity_end(false);
    safetensors_close(&file);
    return status;
}

enum status session_load_compute_copies(struct session *session, const struct snapshot *snapshot,
                                        struct fault *fault) {
    struct tensor_piece *pieces;
    int count = rank_parts_of_compute_copies(session, &pieces);
    return count == 0 ? OK : load_pieces(session, snapshot, pieces, count, fault);
}

enum status session_load_trained_weights(struct session *session, struct fault *fault) {
    struct snapshot snapshot;
    bool found = false;
    const struct settings *settings = &session->settings;
    if (settings->run_file[0] == '\0') {
        return session_init_weights(session, fault); /* a model without a run has no snapshots */
    }
    TRY(snapshot_find_newest(settings->snapshot_folder, &session->region, &snapshot, &found,
                             fault));
    if (found) {
        log_line(LOG_INFO, "loading weights from %s", snapshot.path);
        struct tensor_piece *pieces;
        int count = rank_parts_of_weights(session, &pieces);
        return load_pieces(session, &snapshot, pieces, count, fault);
    }
    if (settings->init_kind == INIT_RANDOM) {
        return fault_set(fault, STATUS_INPUT, settings->snapshot_folder, "train first",
                         "the run has no snapshot, so it starts from random weights");
    }
    log_line(LOG_INFO, "the run has no snapshot, so it loads the weights from %s", settings->model);
    return session_init_weights(session, fault);
}
