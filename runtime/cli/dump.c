/* dump: logits, losses, gradients and stepped weights of one batch, for comparing with any other
 * implementation. */
#include "base/file.h"
#include "runtime/checkpoint/tensor_file.h"
#include "runtime/cli/cli.h"
#include "runtime/diagnose/dump_batch.h"
#include "runtime/session/batch.h"
#include "runtime/session/rank_parts.h"
#include "runtime/session/ranks_check.h"
#include "runtime/session/step.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAGING_BYTES = 1 << 16 };

struct request {
    struct session session;
    struct fault *fault;
    const char *out_path;
    int64_t rank_count;
    int64_t steps;
    bool gradients;
    struct dump_batch batch;
    int64_t own_first, own_rows; /* of it, dealt to this rank */
    int64_t own_valid;           /* labels that count */
    float *losses;
    float *logits;
    struct tensor_spec *tensors;
    struct tensor_piece *pieces; /* the parts that this rank writes */
    int tensor_count, piece_count;
};

/* Rows in rank order, as a step deals them; the last ranks may have none. */
static void place_batch(struct request *dump) {
    const struct session *session = &dump->session;
    int64_t most = session->settings.microbatch;
    int64_t first = most * session->bound.ranks.of[AXIS_WORLD];
    dump->own_first = first < dump->batch.rows ? first : dump->batch.rows;
    dump->own_rows =
        dump->batch.rows - dump->own_first < most ? dump->batch.rows - dump->own_first : most;
    struct token_row batch = batch_row(session, 0);
    size_t before = (size_t)(dump->own_first * dump->batch.time);
    size_t tokens = (size_t)(dump->own_rows * dump->batch.time);
    memcpy(batch.ids, dump->batch.ids + before, tokens * sizeof(int32_t));
    memcpy(batch.labels, dump->batch.labels + before, tokens * sizeof(int32_t));
    memcpy(batch.positions, dump->batch.positions + before, tokens * sizeof(int32_t));
    batch_empty_rows(session, dump->own_rows);
    for (size_t i = 0; i < tokens; i++) {
        dump->own_valid += batch.labels[i] != LABEL_IGNORED;
    }
}

static void add_tensor(struct request *dump, const struct tensor_spec *tensor) {
    dump->tensors[dump->tensor_count] = *tensor;
    dump->tensors[dump->tensor_count++].dtype = DTYPE_F32;
}

/* A copy of the piece: the arena's own bytes change again. A device that fails keeps its failure,
 * and write_out meets it. */
static void add_piece(struct request *dump, const struct tensor_piece *piece) {
    size_t bytes = (size_t)(piece_count(piece) * dtype_bytes(piece->dtype));
    struct tensor_piece *added = &dump->pieces[dump->piece_count++];
    *added = *piece;
    added->memory = region_alloc(&dump->session.region, bytes, 1);
    added->device_memory = NULL;
    enum status status =
        device_read(piece->device_memory, piece->memory, added->memory, bytes, dump->fault);
    (void)status;
}

/* This rank's part of every parameter's `view`, named PREFIX.NAME. */
static void keep_params(struct request *dump, const char *prefix, enum param_view view) {
    struct session *session = &dump->session;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        char name[2 * NAME_BYTES];
        struct tensor_piece piece;
        if (!rank_parts_has(session, i, view)) {
            continue;
        }
        struct tensor_spec tensor = rank_parts_tensor(session, i, view);
        snprintf(name, sizeof name, "%s.%s", prefix, tensor.name);
        tensor.name = region_copy_text(&session->region, name);
        add_tensor(dump, &tensor);
        if (rank_parts_piece(session, i, view, PART_SAVED, &piece)) {
            piece.name = tensor.name;
            add_piece(dump, &piece);
        }
    }
}

static void keep_logits(struct request *dump) {
    struct session *session = &dump->session;
    int64_t row = dump->batch.time * session->blueprint.vocab;
    const struct tensor_spec tensor = {
        .name = "logits",
        .rank = 3,
        .shape = {dump->batch.rows, dump->batch.time, session->blueprint.vocab}};
    add_tensor(dump, &tensor);
    if (dump->own_rows > 0) {
        void *logits = program_extent(&session->bound, session->program.schedule.host.logits);
        struct tensor_piece piece = piece_of_spec(&dump->tensors[dump->tensor_count - 1], logits);
        piece.first = dump->own_first * row;
        piece.count = dump->own_rows * row;
        add_piece(dump, &piece);
    }
}

/* The losses are written when all of them are known: by reference. */
static void keep_losses(struct request *dump) {
    const struct tensor_spec tensor = {.name = "losses", .rank = 1, .shape = {dump->steps + 1}};
    add_tensor(dump, &tensor);
    if (session_is_rank0(&dump->session)) {
        dump->pieces[dump->piece_count++] =
            piece_of_spec(&dump->tensors[dump->tensor_count - 1], dump->losses);
    }
}

static float batch_loss(struct request *dump) {
    int64_t valid = 0;
    return (float)(evaluate_batch(&dump->session, dump->own_valid, &valid) /
                   (double)dump->batch.valid);
}

static void run_batch(struct request *dump) {
    struct session *session = &dump->session;
    place_batch(dump);
    dump->losses[0] = batch_loss(dump);
    keep_logits(dump);
    keep_losses(dump);
    if (dump->gradients) {
        const struct step_schedule first = step_schedule_at(session, 0);
        step_begin(session, &first, dump->own_valid);
        program_run(&session->bound, SEGMENT_MICROBATCH);
        keep_params(dump, "gradients", VIEW_GRADIENT);
    }
    for (int64_t step = 0; step < dump->steps; step++) {
        const struct step_schedule schedule = step_schedule_at(session, step);
        step_begin(session, &schedule, dump->own_valid);
        program_run(&session->bound, SEGMENT_MICROBATCH);
        dump->losses[step] = (float)step_finish(session, &schedule, dump->batch.valid).loss;
    }
    if (dump->steps > 0) {
        dump->losses[dump->steps] = batch_loss(dump);
        keep_params(dump, "weights", VIEW_MASTER);
    }
}

/* Half a file must not pass for a whole one. A device that was named is no such file. */
static void remove_file(const char *path) {
    struct stat found;
    if (lstat(path, &found) == 0 && S_ISREG(found.st_mode)) {
        unlink(path);
    }
}

/* Rank 0 makes the file, each rank fills in what it has. */
static enum status write_out(struct request *dump) {
    struct tensor_file file;
    char folder[PATH_BYTES];
    struct session *session = &dump->session;
    struct region *region = &session->region;
    const char *slash = strrchr(dump->out_path, '/');
    const struct tensor_set set = {dump->tensors, dump->tensor_count, dump->pieces,
                                   dump->piece_count};
    struct tensor_source *sources = region_alloc(region, (size_t)set.tensor_count, sizeof *sources);
    struct staging staging = {.memory = region_alloc(region, STAGING_BYTES, 1),
                              .bytes = STAGING_BYTES};
    bool leads = session_is_rank0(session);
    file_folder_of(dump->out_path, folder, sizeof folder);
    tensor_sources_init(&set, region, sources);
    tensor_file_plan(slash == NULL ? dump->out_path : slash + 1, sources, set.tensor_count, region,
                     &file);
    enum status status = leads ? tensor_file_begin(&file, folder, dump->fault) : OK;
    status = session_agree(session, status, dump->fault);
    if (status == OK) {
        status = tensor_file_fill(&file, folder, &staging, dump->fault);
        status = session_agree(session, status, dump->fault);
    }
    if (status != OK && leads) {
        remove_file(dump->out_path);
    }
    return status;
}

/* What ranks compare: their batch and what they were asked to do with it. */
static struct hash batch_hash(const struct request *dump) {
    const int64_t asked[] = {dump->batch.rows, dump->batch.time, dump->steps, dump->gradients};
    size_t bytes = (size_t)(dump->batch.rows * dump->batch.time) * sizeof(int32_t);
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, asked, sizeof asked);
    hash_add(&state, dump->batch.ids, bytes);
    hash_add(&state, dump->batch.labels, bytes);
    hash_add(&state, dump->batch.positions, bytes);
    return hash_end(&state);
}

static enum status compile(struct request *dump) {
    bool train = dump->gradients || dump->steps > 0;
    return session_compile(&dump->session, train ? PURPOSE_COMPARE : PURPOSE_LOGITS, dump->fault);
}

static enum status compare(struct request *dump) {
    struct hash hash = batch_hash(dump);
    return ranks_check_equal(&dump->session, &hash, dump->fault);
}

static enum status bind(struct request *dump) {
    return session_bind(&dump->session, dump->fault);
}

static enum status connect_ranks(struct request *dump) {
    return session_connect(&dump->session, dump->fault);
}

static enum status load(struct request *dump) {
    return session_weights(&dump->session, dump->fault);
}

/* Each stage ends in one outcome for all ranks. */
static enum status run_dump(struct request *dump) {
    static enum status (*const STAGES[])(struct request *) = {compile, compare, bind, connect_ranks,
                                                              load};
    struct session *session = &dump->session;
    for (size_t i = 0; i < ARRAY_COUNT(STAGES); i++) {
        TRY(session_agree(session, STAGES[i](dump), dump->fault));
    }
    size_t tensors = (size_t)(2 + 2 * session->blueprint.param_count);
    dump->tensors = region_alloc(&session->region, tensors, sizeof *dump->tensors);
    dump->pieces = region_alloc(&session->region, tensors, sizeof *dump->pieces);
    dump->losses = region_alloc(&session->region, (size_t)dump->steps + 1, sizeof(float));
    run_batch(dump);
    return write_out(dump);
}

/* Gradients that are summed at the step's end are no sums before it. */
static enum status check_gradients(struct request *dump) {
    const struct sharding *sharding = &dump->session.sharding_settings.sharding;
    if (!dump->gradients || dump->session.ranks == 1 ||
        sharding->reduce_at == REDUCE_AT_MICROBATCH) {
        return OK;
    }
    return fault_set(dump->fault, STATUS_USAGE, "--gradients", "take strategy.reduce_at=microbatch",
                     "strategy.reduce_at is step: gradients are not summed over ranks before it");
}

/* The batch gives the shape that the program must have, so it is read before the settings are
 * checked against the model. */
static enum status read_all(struct request *dump, struct invocation *invocation) {
    struct session *session = &dump->session;
    struct dump_batch *batch = &dump->batch;
    TRY(dump_batch_shape(invocation->positionals[1], &session->region, batch, dump->fault));
    int64_t ranks = session->ranks;
    const struct {
        const char *key;
        int64_t value;
    } shape[] = {{"batch.sequence", batch->time},
                 {"batch.microbatch", (batch->rows + ranks - 1) / ranks},
                 {"batch.tokens", batch->rows * batch->time}};
    session->longest_document = batch->longest_document;
    for (size_t i = 0; i < ARRAY_COUNT(shape); i++) {
        char value[24];
        snprintf(value, sizeof value, "%lld", (long long)shape[i].value);
        invocation_override(invocation, shape[i].key, value);
    }
    TRY(invocation_read_session(invocation, session));
    TRY(check_gradients(dump));
    return dump_batch_read(batch, session->blueprint.vocab, &session->region, dump->fault);
}

static enum status run_command(struct invocation *invocation) {
    struct request *dump = invocation->request;
    struct session *session = &dump->session;
    const struct ranks_request ranks = {.count = dump->rank_count};
    dump->fault = &invocation->fault;
    if (dump->out_path == NULL) {
        return fault_set(dump->fault, STATUS_USAGE, "dump", "add -o OUT.safetensors",
                         "the path of the output is missing");
    }
    TRY(ranks_begin(&ranks, session, invocation));
    if (invocation->ranks.is_parent) {
        return OK;
    }
    TRY(session_agree(session, read_all(dump, invocation), dump->fault));
    return run_dump(dump);
}

static const struct option OPTIONS[] = {
    {OPTION("-o", TEXT, out_path)},
    {OPTION("--gradients", FLAG, gradients)},
    {OPTION("--steps", INTEGER, steps)},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX},
};

static void finish_dump(void *context) {
    struct request *dump = context;
    session_finish(&dump->session);
}

const struct command COMMAND_DUMP = {
    .name = "dump",
    .usage = "MODEL BATCH.safetensors -o OUT.safetensors [--gradients] [--steps N] [--ranks N] "
             "[key=value...]",
    .summary = "write logits, losses, gradients and weights, for comparison with other programs",
    .positional_count = 2,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_command,
    .finish = finish_dump,
};
