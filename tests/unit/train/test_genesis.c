/* Tests of train/genesis: the streamed root against the whole outer state laid out in memory, leaf
 * by leaf as replica.h draws it. */
#include "runtime/swarm_setup/genesis.h"

#include "runtime/checkpoint/weights.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "runtime/swarm/ledger/merkle.h"
#include "runtime/swarm/replica/replica.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Neither has a whole number of leaves. The second has more than a folder is read for at once, in
 * its embedding. */
enum { SMALL_VOCAB = 5003, LARGE_VOCAB = 140001, SEED = 11 };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 64, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": %d, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0}";

/* A model and its first parameters, whole. */
struct model {
    struct region region;
    struct blueprint blueprint;
    char config[1024];
    int64_t elements;
    float *values; /* [elements] */
};

static struct fault fault;

static void expect_ok(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

static void make_model(int vocab, struct model *model) {
    *model = (struct model){.region = {0}};
    snprintf(model->config, sizeof model->config, CONFIG, vocab);
    expect_ok(blueprint_read(model->config, strlen(model->config), "config.json", &model->region,
                             &model->blueprint, &fault));
    model->elements = blueprint_elements(&model->blueprint);
    model->values = region_alloc(&model->region, (size_t)model->elements, sizeof(float));
    float *at = model->values;
    for (int i = 0; i < model->blueprint.param_count; i++) {
        const struct param *param = &model->blueprint.params[i];
        param_init_fill(param, SEED, 0, param_elements(param), at);
        at += param_elements(param);
    }
}

/* Byte by byte where replica.h says, then the root over the leaves' names. */
static struct hash root_of_whole(struct model *model) {
    uint64_t bytes = 8 * (uint64_t)model->elements;
    uint8_t *state = region_alloc(&model->region, bytes, 1);
    struct hash *names =
        region_alloc(&model->region, (size_t)merkle_leaf_count(bytes), sizeof *names);
    for (int64_t i = 0; i < model->elements; i++) {
        int64_t leaf = i / LEAF_ELEMENTS;
        memcpy(state + leaf * LEAF_BYTES + 4 * (i % LEAF_ELEMENTS), &model->values[i], 4);
    }
    for (uint64_t leaf = 0; leaf < merkle_leaf_count(bytes); leaf++) {
        size_t count = merkle_leaf_bytes(bytes, leaf);
        names[leaf] = merkle_leaf_hash(state + leaf * LEAF_BYTES, count);
    }
    return merkle_root_from_leaves(bytes, names);
}

static void expect_root(struct model *model, const struct settings *settings, const char *folder) {
    char found_hex[HASH_HEX_BYTES];
    char wanted_hex[HASH_HEX_BYTES];
    struct hash found;
    struct hash wanted = root_of_whole(model);
    expect_ok(genesis_root(settings, &model->blueprint, folder, &found, &fault));
    assert_string_equal(hash_hex(&found, found_hex), hash_hex(&wanted, wanted_hex));
}

static enum status agree_alone(void *context, enum status mine, struct fault *of) {
    (void)context;
    (void)of;
    return mine;
}

/* The model's values as a Hugging Face folder in that type; what it rounds to is what the values
 * then are. */
static void write_folder(struct model *model, enum dtype dtype, const char *folder) {
    size_t count = (size_t)model->blueprint.param_count;
    struct tensor_spec *tensors = region_alloc(&model->region, count, sizeof *tensors);
    struct tensor_piece *pieces = region_alloc(&model->region, count, sizeof *pieces);
    struct weights_save *save = region_alloc(&model->region, 1, sizeof *save);
    struct staging staging = {region_alloc(&model->region, STAGING_BYTES_MIN, 1),
                              STAGING_BYTES_MIN};
    float *at = model->values;
    for (size_t i = 0; i < count; i++) {
        const struct param *param = &model->blueprint.params[i];
        tensors[i] = (struct tensor_spec){.name = param->name,
                                          .dtype = DTYPE_F32,
                                          .rank = param->rank,
                                          .shape = {param->shape[0], param->shape[1]}};
        pieces[i] = piece_of_spec(&tensors[i], at);
        at += param_elements(param);
    }
    struct weights_save_args args = {.folder = folder,
                                     .model_folder = "",
                                     .config_text = model->config,
                                     .config_length = strlen(model->config),
                                     .set = {tensors, (int)count, pieces, (int)count},
                                     .dtype = dtype,
                                     .ranks = {.rank = 0, .world = 1, .agree = agree_alone}};
    expect_ok(weights_save_plan(&args, &model->region, save, &fault));
    expect_ok(weights_save_run(save, &staging, &fault));
    uint16_t *rounded = region_alloc(&model->region, (size_t)model->elements, 2);
    if (dtype == DTYPE_BF16) {
        convert_from_f32(DTYPE_BF16, model->values, model->elements, rounded);
        convert_to_f32(DTYPE_BF16, rounded, model->elements, model->values);
    }
}

static void random_weights_have_the_root_of_the_whole_state(void **state) {
    (void)state;
    struct model model;
    struct settings settings = {.init_kind = INIT_RANDOM, .seed = SEED};
    make_model(SMALL_VOCAB, &model);
    assert_true(model.elements > 2 * LEAF_ELEMENTS && model.elements % LEAF_ELEMENTS != 0);
    expect_root(&model, &settings, "");
    region_finish(&model.region);
}

static void another_seed_has_another_root(void **state) {
    (void)state;
    struct model model;
    struct hash roots[2];
    make_model(SMALL_VOCAB, &model);
    for (int i = 0; i < 2; i++) {
        struct settings settings = {.init_kind = INIT_RANDOM, .seed = SEED + i};
        expect_ok(genesis_root(&settings, &model.blueprint, "", &roots[i], &fault));
    }
    assert_false(hash_equal(&roots[0], &roots[1]));
    region_finish(&model.region);
}

static void weights_of_a_folder_have_it_in_any_type(void **state) {
    (void)state;
    static const struct {
        int vocab;
        enum dtype dtype;
        const char *folder;
    } ROWS[] = {{SMALL_VOCAB, DTYPE_F32, "f32"},
                {SMALL_VOCAB, DTYPE_BF16, "bf16"},
                {LARGE_VOCAB, DTYPE_BF16, "large"}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct model model;
        struct settings settings = {.init_kind = INIT_FROM_WEIGHTS, .seed = 1};
        make_model(ROWS[i].vocab, &model);
        write_folder(&model, ROWS[i].dtype, ROWS[i].folder);
        expect_root(&model, &settings, ROWS[i].folder);
        region_finish(&model.region);
    }
}

static void weights_without_a_folder_are_refused(void **state) {
    (void)state;
    struct model model;
    struct hash root = {.bytes = {77}};
    struct settings settings = {.init_kind = INIT_FROM_WEIGHTS, .model = "config.json"};
    make_model(SMALL_VOCAB, &model);
    assert_int_equal(genesis_root(&settings, &model.blueprint, "", &root, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "only a config.json was given, which has no weights");
    assert_int_equal(root.bytes[0], 77);
    region_finish(&model.region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_weights_have_the_root_of_the_whole_state),
        cmocka_unit_test(another_seed_has_another_root),
        cmocka_unit_test(weights_of_a_folder_have_it_in_any_type),
        cmocka_unit_test(weights_without_a_folder_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
