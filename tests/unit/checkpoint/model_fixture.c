#include "tests/unit/checkpoint/model_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/model/families/families.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char CONFIG[] =
    "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
    "  \"vocab_size\": 16, \"hidden_size\": 8, \"intermediate_size\": 12,\n"
    "  \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,\n"
    "  \"hidden_act\": \"silu\", \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5,\n"
    "  \"tie_word_embeddings\": %s, \"torch_dtype\": \"float32\"\n}\n";

/* Element i of a tensor: exact in F32, BF16 and F16, and different for each tensor. */
static float value_of(const char *name, int64_t i) {
    int sum = 0;
    for (const char *c = name; *c != '\0'; c++) {
        sum = (sum * 33 + *c) % 1009;
    }
    return (float)((sum + i) % 127 - 63) / 8.0f;
}

void fixture_add_entry(struct fixture *fixture, const char *name, enum safetensors_dtype dtype,
                       int rank, int64_t rows, int64_t columns) {
    assert_true(fixture->entry_count < ENTRIES_MAX);
    fixture->entries[fixture->entry_count++] = (struct safetensors_entry){
        .name = name, .dtype = dtype, .rank = rank, .shape = {rows, columns}};
}

struct fixture *fixture_start(bool tied, enum safetensors_dtype dtype) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    strcpy(fixture->folder, "/tmp/skep-weights-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->target, sizeof fixture->target, "%s-saved", fixture->folder);
    snprintf(fixture->config, sizeof fixture->config, CONFIG, tied ? "true" : "false");
    fixture->poison_at = -1;
    assert_int_equal(blueprint_read(fixture->config, strlen(fixture->config), "config.json",
                                    &fixture->region, &fixture->blueprint, &fixture->fault),
                     OK);
    for (int i = 0; i < fixture->blueprint.param_count; i++) {
        const struct param *param = &fixture->blueprint.params[i];
        fixture_add_entry(fixture, param->name, dtype, param->rank, param->shape[0],
                          param->shape[1]);
        fixture->tensors[i] = (struct tensor_spec){
            .name = param->name, .rank = param->rank, .shape = {param->shape[0], param->shape[1]}};
    }
    fixture->staging = (struct staging){region_alloc(&fixture->region, STAGING, 1), STAGING};
    return fixture;
}

void fixture_finish(struct fixture *fixture) {
    struct fault fault;
    assert_int_equal(folder_remove(fixture->folder, &fault), OK);
    assert_int_equal(folder_remove(fixture->target, &fault), OK);
    region_finish(&fixture->region);
    free(fixture);
}

void fixture_write_text(const struct fixture *fixture, const char *name, const char *text) {
    struct fault fault;
    assert_int_equal(folder_write_file(fixture->folder, name, text, strlen(text), &fault), OK);
}

static void store(enum safetensors_dtype dtype, float value, int64_t i, void *out) {
    float *floats = out;
    uint16_t *halves = out;
    switch (dtype) {
    case ST_F32:
        floats[i] = value;
        break;
    case ST_BF16:
        halves[i] = bf16_from_f32(value);
        break;
    case ST_F16:
        halves[i] = f16_from_f32(value);
        break;
    default:
        break; /* a type that is refused: its bytes do not matter */
    }
}

/* Entries [first, end) as a file of the folder. */
void fixture_write_entries(struct fixture *fixture, const char *name, int first, int end) {
    static char buffer[1 << 16];
    struct safetensors_entry *entries = &fixture->entries[first];
    int count = end - first;
    int64_t data_bytes = safetensors_lay_out(entries, count);
    const struct safetensors_header header = {.entries = entries, .count = count};
    size_t start = safetensors_render_header(&header, buffer, sizeof buffer);
    assert_true(start + (size_t)data_bytes <= sizeof buffer);
    memset(buffer + start, 0, (size_t)data_bytes);
    for (int e = 0; e < count; e++) {
        static float aligned[VALUES_MAX];
        for (int64_t i = 0; i < entries[e].elements; i++) {
            bool poisoned = first + e == 2 && i == fixture->poison_at;
            store(entries[e].dtype, poisoned ? fixture->poison : value_of(entries[e].name, i), i,
                  aligned);
        }
        memcpy(buffer + start + entries[e].begin, aligned,
               (size_t)(entries[e].end - entries[e].begin));
    }
    assert_int_equal(folder_write_file(fixture->folder, name, buffer, start + (size_t)data_bytes,
                                       &fixture->fault),
                     OK);
}

void fixture_write_single(struct fixture *fixture) {
    fixture_write_entries(fixture, "model.safetensors", 0, fixture->entry_count);
}

void fixture_add_pieces(struct fixture *fixture, enum dtype dtype) {
    for (int i = 0; i < fixture->blueprint.param_count; i++) {
        struct tensor_spec tensor = fixture->tensors[i];
        tensor.dtype = dtype;
        size_t bytes = (size_t)(spec_elements(&tensor) * dtype_bytes(dtype));
        assert_true(fixture->piece_count < ENTRIES_MAX);
        fixture->pieces[fixture->piece_count++] =
            piece_of_spec(&tensor, region_alloc(&fixture->region, bytes, 1));
    }
}

enum status fixture_load_from(struct fixture *fixture, const char *folder) {
    const struct weights_load_args args = {.folder = folder,
                                           .blueprint = &fixture->blueprint,
                                           .pieces = fixture->pieces,
                                           .piece_count = fixture->piece_count,
                                           .staging = fixture->staging};
    return weights_load(&args, &fixture->fault);
}

enum status fixture_load(struct fixture *fixture) {
    return fixture_load_from(fixture, fixture->folder);
}

void fixture_assert_loaded(const struct fixture *fixture) {
    for (int p = 0; p < fixture->piece_count; p++) {
        const struct tensor_piece *piece = &fixture->pieces[p];
        for (int64_t i = 0; i < piece_range_elements(piece); i++) {
            float found;
            convert_to_f32(piece->dtype,
                           (const char *)piece->memory + i * dtype_bytes(piece->dtype), 1, &found);
            if (found != value_of(piece->name, piece->first + i)) {
                fail_msg("%s[%lld] is %g", piece->name, (long long)i, (double)found);
            }
        }
    }
}

void fixture_clear(const struct fixture *fixture) {
    for (int p = 0; p < fixture->piece_count; p++) {
        const struct tensor_piece *piece = &fixture->pieces[p];
        memset(piece->memory, 0xff,
               (size_t)(piece_range_elements(piece) * dtype_bytes(piece->dtype)));
    }
}

void fixture_assert_refused(struct fixture *fixture, const char *reason) {
    memset(&fixture->fault, 0, sizeof fixture->fault);
    assert_int_equal(fixture_load(fixture), STATUS_INPUT);
    if (strstr(fixture->fault.reason, reason) == NULL) {
        fail_msg("'%s' does not say '%s'", fixture->fault.reason, reason);
    }
}
