/* load_weights: loads parameters into the arena from a model folder or a snapshot, or initializes
 * them at random. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/session/random_weights.h"
#include "runtime/session/rank_parts.h"

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

/* Returns the number of pieces at the head of a list that belong to the same parameter. */
static int pieces_of_param(const struct tensor_piece *pieces, int count) {
    int same = 1;
    while (same < count && pieces[same].name == pieces[0].name) {
        same++;
    }
    return same;
}

static enum status draw_pieces(struct session *session, const struct tensor_piece *pieces,
                               int count, struct fault *fault) {
    const struct random_weights weights = {.compute = &session->bound.compute,
                                           .seed = (uint64_t)session->settings.seed,
                                           .staging = session_staging(session)};
    enum status status = OK;
    uint64_t elements = 0;
    for (int i = 0; i < count; i++) {
        elements += (uint64_t)piece_range_elements(&pieces[i]);
    }
    activity_begin("drawing random weights", elements);
    for (int i = 0; i < count && status == OK;) {
        int same = pieces_of_param(&pieces[i], count - i);
        status = random_weights_draw(&weights, find_param(session, pieces[i].name), &pieces[i],
                                     same, fault);
        i += same;
    }
    activity_end(false);
    return status;
}

enum status session_init_weights(struct session *session, struct fault *fault) {
    struct tensor_piece *pieces;
    int count = rank_parts_of_weights(session, &pieces);
    if (session->settings.init_kind == INIT_RANDOM) {
        return draw_pieces(session, pieces, count, fault);
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

/* Loads pieces from a snapshot, whose weights are fp32 and are rounded once if the compute dtype is
 * smaller. */
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
        /* a model without a run file has no snapshots to load from */
        return session_init_weights(session, fault);
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
                         "the run has no snapshot yet, so there are no trained weights to load");
    }
    log_line(LOG_INFO, "the run has no snapshot, so it loads the weights from %s", settings->model);
    return session_init_weights(session, fault);
}
