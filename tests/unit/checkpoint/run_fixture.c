#include "tests/unit/checkpoint/run_fixture.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/checkpoint/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEPS_TEXT_BYTES = 256 };

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 6, \"torch_dtype\": "
    "\"bfloat16\"}";

static const struct tensor_spec TENSORS[RUN_TENSORS] = {
    {.name = "model.embed_tokens.weight", .rank = 2, .shape = {11, 6}},
    {.name = "model.norm.weight", .rank = 1, .shape = {6}},
    {.name = "lm_head.weight", .rank = 2, .shape = {11, 6}},
};

/* The second moments are BF16, so that types mix in one file. */
static const struct {
    const char *file, *prefix;
    enum dtype dtype;
} GROUPS[RUN_GROUPS] = {
    {"weights.safetensors", "", DTYPE_F32},
    {"optimizer.safetensors", "exp_avg.", DTYPE_F32},
    {"optimizer.safetensors", "exp_avg_sq.", DTYPE_BF16},
};

struct run_fixture *run_start(int keep) {
    struct run_fixture *run = calloc(1, sizeof *run);
    assert_non_null(run);
    /* In memory where there is such a file system: thousands of snapshots are written. */
    strcpy(run->folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/skep-run-XXXXXX" : "/tmp/skep-run-XXXXXX");
    assert_non_null(mkdtemp(run->folder));
    strcat(run->folder, "/snapshots");
    for (int g = 0; g < RUN_GROUPS; g++) {
        for (int t = 0; t < RUN_TENSORS; t++) {
            struct tensor_spec *tensor = &run->tensors[g][t];
            *tensor = TENSORS[t];
            tensor->dtype = GROUPS[g].dtype;
            run->pieces[g][t] =
                piece_of_spec(tensor, region_alloc(&run->region, (size_t)spec_elements(tensor), 4));
        }
        run->groups[g] =
            (struct snapshot_group){GROUPS[g].file,
                                    GROUPS[g].prefix,
                                    {run->tensors[g], RUN_TENSORS, run->pieces[g], RUN_TENSORS}};
    }
    run->args = (struct snapshot_args){.folder = run->folder,
                                       .keep = keep,
                                       .groups = run->groups,
                                       .group_count = RUN_GROUPS,
                                       .config_text = CONFIG,
                                       .config_length = strlen(CONFIG),
                                       .model_folder = "",
                                       .keys = "seed: 7\noptimizer.lr: \"3e-4\"\n"};
    run->staging = (struct staging){region_alloc(&run->region, RUN_STAGING, 1), RUN_STAGING};
    return run;
}

void run_finish(struct run_fixture *run) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    assert_int_equal(snapshot_list(run->folder, &run->region, &listed, &count, &run->fault), OK);
    for (int i = 0; i < count; i++) {
        assert_int_equal(folder_remove(listed[i].snapshot.path, &run->fault), OK);
    }
    assert_int_equal(rmdir(run->folder), 0); /* nothing else may be left */
    char parent[PATH_BYTES];
    file_parent_folder(run->folder, parent, sizeof parent);
    assert_int_equal(rmdir(parent), 0);
    region_finish(&run->region);
    free(run);
}

/* Any bit pattern: infinities, NaNs and denormals are restored bit for bit. */
static uint8_t byte_of(int group, int tensor, int64_t i, int64_t step) {
    return (uint8_t)((uint64_t)(i * 131 + step * 17 + tensor * 7 + group * 59 + 1) * 2654435761u >>
                     13);
}

static int64_t piece_bytes(const struct tensor_piece *piece) {
    return piece_tensor_elements(piece) * dtype_bytes(piece->dtype);
}

void run_set(struct run_fixture *run, int64_t step) {
    for (int g = 0; g < RUN_GROUPS; g++) {
        for (int t = 0; t < RUN_TENSORS; t++) {
            uint8_t *bytes = run->pieces[g][t].memory;
            for (int64_t i = 0; i < piece_bytes(&run->pieces[g][t]); i++) {
                bytes[i] = byte_of(g, t, i, step);
            }
        }
    }
}

bool run_is(const struct run_fixture *run, int64_t step) {
    for (int g = 0; g < RUN_GROUPS; g++) {
        for (int t = 0; t < RUN_TENSORS; t++) {
            const uint8_t *bytes = run->pieces[g][t].memory;
            for (int64_t i = 0; i < piece_bytes(&run->pieces[g][t]); i++) {
                if (bytes[i] != byte_of(g, t, i, step)) {
                    return false;
                }
            }
        }
    }
    return true;
}

void run_clear(struct run_fixture *run) {
    run_set(run, -1);
}

static void take_part(struct run_fixture *run, int group, int64_t begin, int64_t end) {
    int count = 0;
    int64_t offset = 0;
    for (int t = 0; t < RUN_TENSORS; t++) {
        struct tensor_piece part = run->pieces[group][t];
        int64_t elements = piece_tensor_elements(&part);
        int64_t from = begin > offset ? begin - offset : 0;
        int64_t to = end < offset + elements ? end - offset : elements;
        offset += elements;
        if (from < to) {
            part.first = from;
            part.count = to - from;
            part.memory = (char *)part.memory + from * dtype_bytes(part.dtype);
            run->parts[group][count++] = part;
        }
    }
    run->groups[group].set.pieces = run->parts[group];
    run->groups[group].set.piece_count = count;
}

void run_take_part(struct run_fixture *run, int rank, int world) {
    for (int g = 0; g < RUN_GROUPS; g++) {
        int64_t elements = 0;
        for (int t = 0; t < RUN_TENSORS; t++) {
            elements += piece_tensor_elements(&run->pieces[g][t]);
        }
        int64_t slot = (elements + world - 1) / world;
        take_part(run, g, rank * slot, (rank + 1) * slot);
    }
}

void run_fixture_open(struct run_fixture *run, struct snapshot_writer *writer) {
    if (snapshot_writer_init(&run->args, &run->region, writer, &run->fault) != OK) {
        fail_msg("%s: %s", run->fault.subject, run->fault.reason);
    }
}

enum status run_save(struct run_fixture *run, struct snapshot_writer *writer, int64_t step) {
    const struct snapshot_value values[] = {{"data.cursor", (uint64_t)step * 1000},
                                            {"tokens", UINT64_MAX - (uint64_t)step}};
    const struct snapshot_state state = {
        .step = step, .seed = UINT64_MAX, .values = values, .value_count = 2};
    run_set(run, step);
    process_seal();
    enum status status = snapshot_save(writer, &state, &run->staging, &run->fault);
    process_unseal();
    return status;
}

int64_t run_newest(struct run_fixture *run) {
    struct snapshot snapshot;
    bool found = false;
    uint64_t cursor = 0;
    uint64_t tokens = 0;
    if (snapshot_find_newest(run->folder, &run->region, &snapshot, &found, &run->fault) != OK ||
        !found) {
        return -1;
    }
    run_clear(run);
    assert_int_equal(snapshot_load(&snapshot, run->groups, RUN_GROUPS, &run->fault), OK);
    assert_true(run_is(run, snapshot.step));
    assert_true(snapshot_find_value(&snapshot, "data.cursor", &cursor));
    assert_true(snapshot_find_value(&snapshot, "tokens", &tokens));
    assert_true(cursor == (uint64_t)snapshot.step * 1000);
    assert_true(tokens == UINT64_MAX - (uint64_t)snapshot.step);
    assert_true(snapshot.seed == UINT64_MAX);
    assert_string_equal(snapshot.keys, run->args.keys);
    return snapshot.step;
}

const char *run_steps(struct run_fixture *run) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    struct text text = text_over(region_alloc(&run->region, STEPS_TEXT_BYTES, 1), STEPS_TEXT_BYTES);
    assert_int_equal(snapshot_list(run->folder, &run->region, &listed, &count, &run->fault), OK);
    for (int i = 0; i < count; i++) {
        assert_true(listed[i].is_readable);
        text_add(&text, "%s%lld", i == 0 ? "" : " ", (long long)listed[i].snapshot.step);
    }
    return text.bytes;
}
