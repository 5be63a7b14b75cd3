#include "tests/unit/checkpoint/sharded_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/model/families/families.h"
#include "runtime/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { UNSET = 0xee };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
    " \"vocab_size\": 37, \"hidden_size\": 20, \"intermediate_size\": 52,\n"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,\n"
    " \"hidden_act\": \"silu\", \"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5,\n"
    " \"tie_word_embeddings\": true, \"torch_dtype\": \"float32\"}\n";

static const struct {
    const char *file, *prefix;
    enum dtype dtype;
} GROUPS[SHARDED_GROUPS] = {{"weights.safetensors", "", DTYPE_F32},
                            {"optimizer.safetensors", "exp_avg.", DTYPE_F32},
                            {"optimizer.safetensors", "exp_avg_sq.", DTYPE_BF16}};

/* Finite, and different almost everywhere. */
static float value_of(int group, int param, int64_t i) {
    uint64_t mixed = (uint64_t)(i * 61 + param * 7919 + group * 104729 + 1) * 0x9e3779b97f4a7c15u;
    return (float)(int32_t)(mixed >> 40) / 4096.0f - 2048.0f;
}

static void expect(const struct sharded_fixture *sharded, int group, int param, int64_t i,
                   uint8_t element[static sizeof(float)]) {
    float value = value_of(group, param, i);
    convert_from_f32(sharded->tensors[group][param].dtype, &value, 1, element);
}

static void set_state(struct sharded_fixture *sharded) {
    for (int group = 0; group < SHARDED_GROUPS; group++) {
        for (int param = 0; param < sharded->blueprint.param_count; param++) {
            const struct tensor_piece *piece = &sharded->whole[group][param];
            int64_t width = dtype_bytes(piece->dtype);
            for (int64_t i = 0; i < piece_tensor_elements(piece); i++) {
                uint8_t element[sizeof(float)];
                expect(sharded, group, param, i, element);
                memcpy((char *)piece->memory + i * width, element, (size_t)width);
            }
        }
    }
}

static void make_group(struct sharded_fixture *sharded, int group) {
    int count = sharded->blueprint.param_count;
    for (int i = 0; i < count; i++) {
        const struct param *param = &sharded->blueprint.params[i];
        struct tensor_spec *tensor = &sharded->tensors[group][i];
        *tensor = (struct tensor_spec){.name = param->name,
                                       .dtype = GROUPS[group].dtype,
                                       .rank = param->rank,
                                       .shape = {param->shape[0], param->shape[1]}};
        sharded->whole[group][i] = piece_of_spec(
            tensor, region_alloc(&sharded->region, (size_t)spec_elements(tensor), sizeof(float)));
    }
    sharded->groups[group] =
        (struct snapshot_group){GROUPS[group].file,
                                GROUPS[group].prefix,
                                {sharded->tensors[group], count, sharded->whole[group], count}};
}

struct sharded_fixture *sharded_start(void) {
    struct sharded_fixture *sharded = calloc(1, sizeof *sharded);
    assert_non_null(sharded);
    strcpy(sharded->folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/skep-shards-XXXXXX"
                                                          : "/tmp/skep-shards-XXXXXX");
    assert_non_null(mkdtemp(sharded->folder));
    sharded->config = CONFIG;
    assert_int_equal(blueprint_read(CONFIG, strlen(CONFIG), "config.json", &sharded->region,
                                    &sharded->blueprint, &sharded->fault),
                     OK);
    assert_in_range(sharded->blueprint.param_count, 1, SHARDED_PARAMS_MAX);
    for (int group = 0; group < SHARDED_GROUPS; group++) {
        make_group(sharded, group);
    }
    set_state(sharded);
    sharded->staging =
        (struct staging){region_alloc(&sharded->region, SHARDED_STAGING, 1), SHARDED_STAGING};
    return sharded;
}

void sharded_finish(struct sharded_fixture *sharded) {
    struct folder_walk walk;
    assert_int_equal(folder_walk_begin(sharded->folder, &walk, &sharded->fault), OK);
    while (folder_walk_next(&walk)) {
        char path[PATH_BYTES];
        path_join(sharded->folder, walk.name, path, sizeof path);
        assert_int_equal(folder_remove(path, &sharded->fault), OK);
    }
    folder_walk_end(&walk);
    assert_int_equal(rmdir(sharded->folder), 0);
    region_finish(&sharded->region);
    free(sharded);
}

static struct tensor_piece piece_of_part(const struct tensor_piece *whole,
                                         const struct unit_part *part) {
    struct tensor_piece piece = *whole;
    piece.first = part->first;
    piece.count = part->count;
    piece.memory = (char *)whole->memory + part->first * dtype_bytes(whole->dtype);
    return piece;
}

static void take_group(struct sharded_fixture *sharded, int group, const struct unit_table *table,
                       int rank, int world) {
    struct tensor_set *set = &sharded->groups[group].set;
    struct tensor_piece *pieces =
        region_alloc(&sharded->region, (size_t)set->tensor_count, sizeof *pieces);
    set->pieces = pieces;
    set->piece_count = 0;
    for (int unit = 0; unit < table->unit_count; unit++) {
        struct unit_part parts[SHARDED_PARAMS_MAX];
        int count =
            unit_list_parts(table, unit, unit_shard_range(&table->units[unit], world, rank), parts);
        for (int i = 0; i < count; i++) {
            const struct tensor_piece *whole = &sharded->whole[group][parts[i].param];
            pieces[set->piece_count++] = piece_of_part(whole, &parts[i]);
        }
    }
}

void sharded_take_shards(struct sharded_fixture *sharded, int rank, int world) {
    const struct unit_options options = {.world = world};
    struct unit_table table;
    enum status status =
        unit_table_init(&sharded->blueprint, &options, &sharded->region, &table, &sharded->fault);
    ASSERT(status == OK);
    for (int group = 0; group < SHARDED_GROUPS; group++) {
        take_group(sharded, group, &table, rank, world);
    }
}

int64_t sharded_piece_bytes(const struct sharded_fixture *sharded, int group, int64_t width) {
    const struct tensor_set *set = &sharded->groups[group].set;
    int64_t bytes = 0;
    for (int i = 0; i < set->piece_count; i++) {
        bytes += piece_range_elements(&set->pieces[i]) * width;
    }
    return bytes;
}

void sharded_clear(struct sharded_fixture *sharded) {
    for (int group = 0; group < SHARDED_GROUPS; group++) {
        for (int param = 0; param < sharded->blueprint.param_count; param++) {
            const struct tensor_piece *piece = &sharded->whole[group][param];
            memset(piece->memory, UNSET,
                   (size_t)(piece_tensor_elements(piece) * dtype_bytes(piece->dtype)));
        }
    }
}

static bool is_covered(const struct tensor_set *set, const char *name, int64_t i) {
    bool covered = false;
    for (int p = 0; p < set->piece_count && !covered; p++) {
        const struct tensor_piece *piece = &set->pieces[p];
        covered = strcmp(piece->name, name) == 0 && i >= piece->first &&
                  i < piece->first + piece_range_elements(piece);
    }
    return covered;
}

static bool tensor_holds(const struct sharded_fixture *sharded, int group, int param, bool loaded) {
    const struct tensor_piece *piece = &sharded->whole[group][param];
    int64_t width = dtype_bytes(piece->dtype);
    bool same = true;
    for (int64_t i = 0; i < piece_tensor_elements(piece) && same; i++) {
        uint8_t element[sizeof(float)];
        memset(element, UNSET, sizeof element);
        if (loaded && is_covered(&sharded->groups[group].set, piece->name, i)) {
            expect(sharded, group, param, i, element);
        }
        same = memcmp((const char *)piece->memory + i * width, element, (size_t)width) == 0;
    }
    return same;
}

bool sharded_holds(const struct sharded_fixture *sharded, int group_count) {
    bool holds = true;
    for (int group = 0; group < SHARDED_GROUPS && holds; group++) {
        for (int param = 0; param < sharded->blueprint.param_count && holds; param++) {
            holds = tensor_holds(sharded, group, param, group < group_count);
        }
    }
    return holds;
}
