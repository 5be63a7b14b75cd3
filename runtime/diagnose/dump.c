#include "runtime/diagnose/dump.h"

#include "base/bytes.h"
#include "base/file.h"
#include "runtime/checkpoint/tensor_file.h"
#include "runtime/session/batch.h"
#include "runtime/session/rank_parts.h"
#include "runtime/session/ranks_check.h"
#include "runtime/session/step.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAGING_BYTES = 1 << 16 }; /* Size of the buffer for file access. */

struct dump {
    struct session *session;
    const struct dump_request *request;
    const struct dump_batch *batch;
    struct fault *fault;
    int64_t first_row, row_count; /* First row and number of rows of the batch on this rank. */
    /* Number of labels in this rank's rows that count for the loss. */
    int64_t valid_labels;
    float *losses; /* [steps + 1] loss before each step, and loss after the last step */
    struct tensor_spec *tensors;
    struct tensor_piece *pieces; /* Tensor parts that this rank writes. */
    int tensor_count, piece_count;
};

/* Fills this rank's rows of the batch. Rows are assigned in the order of the ranks, as in a
 * training step. The last ranks may have no rows. */
static void fill_batch(struct dump *dump) {
    const struct session *session = dump->session;
    int64_t rows_max = session->settings.microbatch;
    dump->first_row = min_i64(rows_max * session->bound.ranks.index[AXIS_WORLD], dump->batch->rows);
    dump->row_count = min_i64(dump->batch->rows - dump->first_row, rows_max);
    struct token_row batch = batch_row(session, 0);
    size_t before = (size_t)(dump->first_row * dump->batch->time);
    size_t tokens = (size_t)(dump->row_count * dump->batch->time);
    memcpy(batch.ids, dump->batch->ids + before, tokens * sizeof(int32_t));
    memcpy(batch.labels, dump->batch->labels + before, tokens * sizeof(int32_t));
    memcpy(batch.positions, dump->batch->positions + before, tokens * sizeof(int32_t));
    batch_clear_rows(session, dump->row_count);
    for (size_t i = 0; i < tokens; i++) {
        dump->valid_labels += batch.labels[i] != LABEL_IGNORED;
    }
}

static void add_tensor(struct dump *dump, const struct tensor_spec *tensor) {
    dump->tensors[dump->tensor_count] = *tensor;
    dump->tensors[dump->tensor_count++].dtype = DTYPE_F32;
}

/* Copies the piece, because later steps change the arena. If the device fails, write_file returns
 * the fault. */
static void add_piece(struct dump *dump, const struct tensor_piece *piece) {
    size_t bytes = (size_t)(piece_range_elements(piece) * dtype_bytes(piece->dtype));
    struct tensor_piece *added = &dump->pieces[dump->piece_count++];
    *added = *piece;
    added->memory = region_alloc(&dump->session->region, bytes, 1);
    added->device_memory = NULL;
    enum status status =
        device_read(piece->device_memory, piece->memory, added->memory, bytes, dump->fault);
    (void)status;
}

/* Adds this rank's shard of every parameter in `view` under the name PREFIX.NAME. */
static void add_params(struct dump *dump, const char *prefix, enum param_view view) {
    struct session *session = dump->session;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        char name[2 * NAME_BYTES];
        struct tensor_piece piece;
        if (!rank_parts_has_view(session, i, view)) {
            continue;
        }
        struct tensor_spec tensor = rank_parts_tensor(session, i, view);
        snprintf(name, sizeof name, "%s.%s", prefix, tensor.name);
        tensor.name = region_copy_text(&session->region, name);
        add_tensor(dump, &tensor);
        if (rank_parts_find_piece(session, i, view, PART_SAVED, &piece)) {
            piece.name = tensor.name;
            add_piece(dump, &piece);
        }
    }
}

static void add_logits(struct dump *dump) {
    struct session *session = dump->session;
    int64_t row = dump->batch->time * session->blueprint.vocab;
    const struct tensor_spec tensor = {
        .name = "logits",
        .rank = 3,
        .shape = {dump->batch->rows, dump->batch->time, session->blueprint.vocab}};
    add_tensor(dump, &tensor);
    if (dump->row_count > 0) {
        void *logits =
            program_extent_address(&session->bound, session->program.schedule.host.logits);
        struct tensor_piece piece = piece_of_spec(&dump->tensors[dump->tensor_count - 1], logits);
        piece.first = dump->first_row * row;
        piece.count = dump->row_count * row;
        add_piece(dump, &piece);
    }
}

/* Adds the piece of the losses, which points to them and copies nothing, because they are written
 * to the file after the last step. */
static void add_losses(struct dump *dump) {
    const struct tensor_spec tensor = {
        .name = "losses", .rank = 1, .shape = {dump->request->steps + 1}};
    add_tensor(dump, &tensor);
    if (session_is_rank0(dump->session)) {
        dump->pieces[dump->piece_count++] =
            piece_of_spec(&dump->tensors[dump->tensor_count - 1], dump->losses);
    }
}

static float batch_loss(struct dump *dump) {
    int64_t valid = 0;
    return (float)(evaluate_batch(dump->session, dump->valid_labels, &valid) /
                   (double)dump->batch->valid);
}

static void collect_outputs(struct dump *dump) {
    struct session *session = dump->session;
    fill_batch(dump);
    dump->losses[0] = batch_loss(dump);
    add_logits(dump);
    add_losses(dump);
    if (dump->request->gradients) {
        const struct step_schedule first = step_schedule_at(session, 0);
        step_begin(session, &first, dump->valid_labels);
        program_execute_segment(&session->bound, SEGMENT_MICROBATCH);
        add_params(dump, "gradients", VIEW_GRADIENT);
    }
    for (int64_t step = 0; step < dump->request->steps; step++) {
        const struct step_schedule schedule = step_schedule_at(session, step);
        step_begin(session, &schedule, dump->valid_labels);
        program_execute_segment(&session->bound, SEGMENT_MICROBATCH);
        dump->losses[step] = (float)step_finish(session, &schedule, dump->batch->valid).loss;
    }
    if (dump->request->steps > 0) {
        dump->losses[dump->request->steps] = batch_loss(dump);
        add_params(dump, "weights", VIEW_MASTER);
    }
}

/* Removes an incomplete file, which could be mistaken for a complete one. Does nothing if the path
 * is a device such as /dev/null. */
static void remove_file(const char *path) {
    struct stat found;
    if (lstat(path, &found) == 0 && S_ISREG(found.st_mode)) {
        unlink(path);
    }
}

/* Rank 0 creates the file; every rank writes its pieces. */
static enum status write_file(struct dump *dump) {
    struct tensor_file file;
    char folder[PATH_BYTES];
    struct session *session = dump->session;
    struct region *region = &session->region;
    const char *slash = strrchr(dump->request->out_path, '/');
    const struct tensor_set set = {dump->tensors, dump->tensor_count, dump->pieces,
                                   dump->piece_count};
    struct tensor_source *sources = region_alloc(region, (size_t)set.tensor_count, sizeof *sources);
    struct staging staging = {.memory = region_alloc(region, STAGING_BYTES, 1),
                              .bytes = STAGING_BYTES};
    bool is_rank0 = session_is_rank0(session);
    file_parent_folder(dump->request->out_path, folder, sizeof folder);
    tensor_sources_init(&set, region, sources);
    tensor_file_plan(slash == NULL ? dump->request->out_path : slash + 1, sources, set.tensor_count,
                     region, &file);
    enum status status = is_rank0 ? tensor_file_create(&file, folder, dump->fault) : OK;
    status = session_agree(session, status, dump->fault);
    if (status == OK) {
        status = tensor_file_write_pieces(&file, folder, &staging, dump->fault);
        status = session_agree(session, status, dump->fault);
    }
    if (status != OK && is_rank0) {
        remove_file(dump->request->out_path);
    }
    return status;
}

/* Returns the hash of the batch and the request, which must be equal on all ranks. */
static struct hash batch_hash(const struct dump *dump) {
    const int64_t numbers[] = {dump->batch->rows, dump->batch->time, dump->request->steps,
                               dump->request->gradients};
    size_t bytes = (size_t)(dump->batch->rows * dump->batch->time) * sizeof(int32_t);
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, numbers, sizeof numbers);
    hash_add(&state, dump->batch->ids, bytes);
    hash_add(&state, dump->batch->labels, bytes);
    hash_add(&state, dump->batch->positions, bytes);
    return hash_end(&state);
}

/* Executes the stages before the computation. The ranks agree after each stage, so that a failure
 * on one rank ends all ranks. */
static enum status prepare_dump(struct dump *dump) {
    struct session *session = dump->session;
    struct fault *fault = dump->fault;
    bool trains = dump->request->gradients || dump->request->steps > 0;
    enum purpose purpose = trains ? PURPOSE_COMPARE : PURPOSE_LOGITS;
    TRY(session_agree(session, session_compile(session, purpose, fault), fault));
    struct hash hash = batch_hash(dump);
    TRY(session_agree(session, ranks_check_equal(session, &hash, fault), fault));
    TRY(session_agree(session, session_bind(session, fault), fault));
    TRY(session_agree(session, session_connect(session, fault), fault));
    return session_agree(session, session_init_weights(session, fault), fault);
}

enum status dump_run(struct session *session, const struct dump_request *request,
                     const struct dump_batch *batch, struct fault *fault) {
    struct dump dump = {.session = session, .request = request, .batch = batch, .fault = fault};
    TRY(prepare_dump(&dump));
    size_t tensors = (size_t)(2 + 2 * session->blueprint.param_count);
    dump.tensors = region_alloc(&session->region, tensors, sizeof *dump.tensors);
    dump.pieces = region_alloc(&session->region, tensors, sizeof *dump.pieces);
    dump.losses = region_alloc(&session->region, (size_t)request->steps + 1, sizeof(float));
    collect_outputs(&dump);
    return write_file(&dump);
}

enum status dump_check(const struct session *session, const struct dump_request *request,
                       struct fault *fault) {
    const struct sharding *sharding = &session->sharding_settings.sharding;
    if (!request->gradients || session->ranks == 1 || sharding->reduce_at == REDUCE_AT_MICROBATCH) {
        return OK;
    }
    return fault_set(fault, STATUS_USAGE, "--gradients", "set strategy.reduce_at=microbatch",
                     "strategy.reduce_at is step, so the gradients are only summed over ranks at "
                     "the end of a step");
}
