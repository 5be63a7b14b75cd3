/* dump: logits, losses, gradients and stepped weights of one batch, for comparing with any other
 * implementation. */
#include "base/file.h"
#include "runtime/checkpoint/tensor_file.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/train/batch.h"
#include "runtime/train/step.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STAGING_BYTES = 1 << 16 };

struct dump {
    struct session session;
    struct fault fault;
    const char *batch_path, *out_path;
    int64_t steps;
    bool gradients;
    int64_t rows, time;
    int32_t *ids, *labels, *positions; /* [rows * time], labels already shifted */
    float *losses;
    float *logits;
    int64_t valid; /* labels that count */
    struct tensor_source *sources;
    struct tensor_piece *pieces;
    int source_count;
};

static enum status read_i32(struct dump *dump, const struct safetensors *file, const char *name,
                            int64_t count, int32_t *out) {
    const struct safetensors_entry *entry = safetensors_find(file, name);
    if (entry->dtype != ST_I32 || entry->elements != count) {
        return fault_set(&dump->fault, STATUS_INPUT, dump->batch_path, NULL,
                         "%s: want I32 of %lld elements, have %s of %lld", name, (long long)count,
                         safetensors_dtype_name(entry->dtype), (long long)entry->elements);
    }
    return safetensors_read(file, entry, 0, out, (size_t)count * sizeof(int32_t), &dump->fault);
}

/* The model's positions bound a document, not a row of several. */
static enum status find_longest_document(struct dump *dump, const struct safetensors *file) {
    const struct safetensors_entry *entry = safetensors_find(file, "cu_seqlens");
    if (entry == NULL) {
        return OK;
    }
    int64_t count = entry->elements;
    int32_t *ends = region_alloc(&dump->session.region, (size_t)count + 1, sizeof(int32_t));
    enum status status = read_i32(dump, file, "cu_seqlens", count, ends);
    for (int64_t d = 0; d + 1 < count && status == OK; d++) {
        int64_t length = (int64_t)ends[d + 1] - ends[d];
        int64_t *longest = &dump->session.longest_document;
        *longest = length > *longest ? length : *longest;
    }
    return status;
}

static enum status find_shape(struct dump *dump, const struct safetensors *file) {
    const struct safetensors_entry *ids = safetensors_find(file, "input_ids");
    if (ids == NULL || ids->rank != 2 || ids->elements == 0) {
        return fault_set(&dump->fault, STATUS_INPUT, dump->batch_path, NULL,
                         "input_ids: want I32 [rows, tokens], %s",
                         ids == NULL ? "but there is none" : "have another shape");
    }
    dump->rows = ids->shape[0];
    dump->time = ids->shape[1];
    return find_longest_document(dump, file);
}

/* Document d holds tokens [ends[d], ends[d + 1]) of the only row. */
static enum status read_documents(struct dump *dump, const struct safetensors *file) {
    const struct safetensors_entry *entry = safetensors_find(file, "cu_seqlens");
    if (entry == NULL) {
        return OK;
    }
    int64_t count = entry->elements;
    int32_t *ends = region_alloc(&dump->session.region, (size_t)count + 1, sizeof(int32_t));
    enum status status = read_i32(dump, file, "cu_seqlens", count, ends);
    bool good = dump->rows == 1 && count >= 2 && ends[0] == 0 && ends[count - 1] == dump->time;
    for (int64_t d = 0; d + 1 < count && good; d++) {
        good = ends[d] < ends[d + 1] && ends[d + 1] <= dump->time;
        for (int64_t t = ends[d]; good && t < ends[d + 1]; t++) {
            dump->positions[t] = (int32_t)(t - ends[d]);
        }
    }
    if (status == OK && !good) {
        return fault_set(&dump->fault, STATUS_INPUT, dump->batch_path, NULL,
                         "cu_seqlens: want one row, rising from 0 to its %lld tokens",
                         (long long)dump->time);
    }
    return status;
}

static enum status check_values(struct dump *dump) {
    int64_t vocab = dump->session.blueprint.vocab;
    for (int64_t i = 0; i < dump->rows * dump->time; i++) {
        bool label =
            dump->labels[i] == LABEL_IGNORED || (dump->labels[i] >= 0 && dump->labels[i] < vocab);
        if (dump->ids[i] < 0 || dump->ids[i] >= vocab || !label) {
            return fault_set(&dump->fault, STATUS_INPUT, dump->batch_path, NULL,
                             "token %lld: id %d or label %d is beyond the vocabulary of %lld",
                             (long long)i, dump->ids[i], dump->labels[i], (long long)vocab);
        }
    }
    return OK;
}

/* The file's label t belongs to token t; the kernels want the label that token t must predict. */
static void shift_labels(struct dump *dump) {
    for (int64_t row = 0; row < dump->rows; row++) {
        int32_t *labels = dump->labels + row * dump->time;
        memmove(labels, labels + 1, (size_t)(dump->time - 1) * sizeof *labels);
        labels[dump->time - 1] = LABEL_IGNORED;
    }
    for (int64_t i = 0; i < dump->rows * dump->time; i++) {
        dump->valid += dump->labels[i] != LABEL_IGNORED;
    }
}

static enum status read_tensors(struct dump *dump, const struct safetensors *file) {
    struct region *region = &dump->session.region;
    int64_t tokens = dump->rows * dump->time;
    dump->ids = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    dump->labels = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    dump->positions = region_alloc(region, (size_t)tokens, sizeof(int32_t));
    for (int64_t i = 0; i < tokens; i++) {
        dump->positions[i] = (int32_t)(i % dump->time);
    }
    bool labelled = safetensors_find(file, "labels") != NULL;
    enum status status = read_i32(dump, file, "input_ids", tokens, dump->ids);
    if (status == OK) {
        status = read_i32(dump, file, labelled ? "labels" : "input_ids", tokens, dump->labels);
    }
    if (status == OK) {
        status = read_documents(dump, file);
    }
    if (status == OK) {
        status = check_values(dump);
    }
    if (status == OK) {
        shift_labels(dump);
    }
    return status;
}

static enum status with_batch(struct dump *dump,
                              enum status (*use)(struct dump *, const struct safetensors *)) {
    struct safetensors file;
    enum status status =
        safetensors_open(dump->batch_path, &dump->session.region, &file, &dump->fault);
    if (status == OK) {
        status = use(dump, &file);
        safetensors_close(&file);
    }
    return status;
}

static enum status read_batch(struct dump *dump) {
    enum status status = with_batch(dump, read_tensors);
    if (status == OK && dump->valid == 0) {
        status = fault_set(&dump->fault, STATUS_INPUT, dump->batch_path, NULL,
                           "labels: none of them counts, so there is no loss");
    }
    return status;
}

static void place_batch(struct dump *dump) {
    struct token_row batch = batch_row(&dump->session, 0);
    size_t bytes = (size_t)(dump->rows * dump->time) * sizeof(int32_t);
    memcpy(batch.ids, dump->ids, bytes);
    memcpy(batch.labels, dump->labels, bytes);
    memcpy(batch.positions, dump->positions, bytes);
}

static void add_tensor(struct dump *dump, const char *name, int rank, const int64_t *shape,
                       void *memory) {
    int index = dump->source_count++;
    struct tensor_spec tensor = {.name = name, .dtype = DTYPE_F32, .rank = rank};
    memcpy(tensor.shape, shape, (size_t)rank * sizeof *shape);
    dump->pieces[index] = piece_of_spec(&tensor, memory);
    dump->sources[index] =
        (struct tensor_source){.tensor = tensor, .pieces = &dump->pieces[index], .piece_count = 1};
}

/* Copies of every parameter's `view`, named PREFIX.NAME: the arena's own bytes change again. */
static void keep_params(struct dump *dump, const char *prefix, enum param_view view) {
    struct session *session = &dump->session;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        const struct param *param = &session->blueprint.params[i];
        size_t bytes = (size_t)param_elements(param) * sizeof(float);
        char name[2 * NAME_BYTES];
        snprintf(name, sizeof name, "%s.%s", prefix, param->name);
        float *copy = region_alloc(&session->region, bytes, 1);
        memcpy(copy, program_param(&session->bound, i, view), bytes);
        add_tensor(dump, region_text(&session->region, name), param->rank, param->shape, copy);
    }
}

static void run_batch(struct dump *dump) {
    struct session *session = &dump->session;
    int64_t shape[] = {dump->rows, dump->time, session->blueprint.vocab};
    place_batch(dump);
    dump->losses[0] = (float)(evaluate_batch(session) / (double)dump->valid);
    size_t bytes = (size_t)(shape[0] * shape[1] * shape[2]) * sizeof(float);
    float *logits = region_alloc(&session->region, bytes, 1);
    memcpy(logits, program_extent(&session->bound, session->program.schedule.host.logits), bytes);
    add_tensor(dump, "logits", 3, shape, logits);
    add_tensor(dump, "losses", 1, (int64_t[]){dump->steps + 1}, dump->losses);
    if (dump->gradients) {
        step_begin(session, 0, dump->valid);
        program_run(&session->bound, SEGMENT_MICROBATCH);
        keep_params(dump, "gradients", VIEW_GRADIENT);
    }
    for (int64_t step = 0; step < dump->steps; step++) {
        step_begin(session, step, dump->valid);
        program_run(&session->bound, SEGMENT_MICROBATCH);
        dump->losses[step] = (float)step_finish(session, step, dump->valid).loss;
    }
    if (dump->steps > 0) {
        dump->losses[dump->steps] = (float)(evaluate_batch(session) / (double)dump->valid);
        keep_params(dump, "weights", VIEW_MASTER);
    }
}

static enum status write_out(struct dump *dump) {
    struct tensor_file file;
    char folder[PATH_BYTES];
    const char *slash = strrchr(dump->out_path, '/');
    file_folder_of(dump->out_path, folder, sizeof folder);
    struct staging staging = {.memory = region_alloc(&dump->session.region, STAGING_BYTES, 1),
                              .bytes = STAGING_BYTES};
    tensor_file_plan(slash == NULL ? dump->out_path : slash + 1, dump->sources, dump->source_count,
                     &dump->session.region, &file);
    enum status status = tensor_file_write(&file, folder, &staging, &dump->fault);
    if (status != OK) {
        unlink(dump->out_path); /* half a file must not pass for a whole one */
    }
    return status;
}

static enum status run_dump(struct dump *dump) {
    struct session *session = &dump->session;
    bool train = dump->gradients || dump->steps > 0;
    enum status status =
        session_compile(session, train ? PURPOSE_COMPARE : PURPOSE_LOGITS, &dump->fault);
    if (status == OK) {
        status = session_bind(session, &dump->fault);
    }
    if (status == OK) {
        status = session_weights(session, &dump->fault);
    }
    if (status != OK) {
        return status;
    }
    size_t tensors = (size_t)(2 + 2 * session->blueprint.param_count);
    dump->sources = region_alloc(&session->region, tensors, sizeof *dump->sources);
    dump->pieces = region_alloc(&session->region, tensors, sizeof *dump->pieces);
    dump->losses = region_alloc(&session->region, (size_t)dump->steps + 1, sizeof(float));
    run_batch(dump);
    return write_out(dump);
}

/* The batch gives the shape that the program must have, so it is read before the settings are
 * checked against the model. */
static enum status read_all(struct dump *dump, struct arguments *arguments) {
    enum status status = with_batch(dump, find_shape);
    char sequence[48];
    char microbatch[48];
    if (status != OK) {
        return status;
    }
    snprintf(sequence, sizeof sequence, "batch.sequence=%lld", (long long)dump->time);
    snprintf(microbatch, sizeof microbatch, "batch.microbatch=%lld", (long long)dump->rows);
    ASSERT(arguments->override_count + 2 <= OVERRIDES_MAX);
    arguments->overrides[arguments->override_count++] = sequence;
    arguments->overrides[arguments->override_count++] = microbatch;
    status = session_read(&dump->session, arguments->positionals[0], arguments->overrides,
                          arguments->override_count, &dump->fault);
    return status == OK ? read_batch(dump) : status;
}

int command_dump(int argc, char **argv) {
    static struct dump dump;
    struct arguments arguments;
    const char *steps = NULL;
    const char *ranks = NULL;
    int64_t rank_count = 1;
    const struct flag flags[] = {{"-o", &dump.out_path, NULL},
                                 {"--gradients", NULL, &dump.gradients},
                                 {"--steps", &steps, NULL},
                                 {"--ranks", &ranks, NULL}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 2, &arguments, &dump.fault);
    if (status == OK) {
        status = argument_i64("--steps", steps, 0, &dump.steps, &dump.fault);
    }
    if (status == OK) {
        status = argument_i64("--ranks", ranks, 1, &rank_count, &dump.fault);
    }
    if (status == OK && rank_count != 1) {
        status = fault_set(&dump.fault, STATUS_USAGE, "--ranks", "leave it at 1",
                           "%lld ranks: one rank is supported", (long long)rank_count);
    }
    if (status == OK && dump.out_path == NULL) {
        status = fault_set(&dump.fault, STATUS_USAGE, "dump", "add -o OUT.safetensors",
                           "where to write is missing");
    }
    if (status == OK) {
        dump.batch_path = arguments.positionals[1];
        status = read_all(&dump, &arguments);
    }
    if (status == OK) {
        status = run_dump(&dump);
    }
    if (status != OK) {
        fault_print(&dump.fault, STDERR_FILENO);
    }
    session_finish(&dump.session);
    return fault_exit_code(status);
}
