/* test_blueprint: published configurations give exactly the parameters that transformers makes. */
#include "base/file.h"
#include "base/hash.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* From transformers 5.23.0: each model made on the meta device from the same file. The digest is
 * the head of the BLAKE2b of the sorted lines "name rowsxcolumns". */
struct golden {
    const char *name;
    int64_t elements;
    int tensors;
    const char *digest;
};

static const struct golden GOLDENS[] = {
    {"distilgpt2", 81912576, 76, "2367b79aea2047db"},
    {"gpt2-large", 774030080, 436, "fa677c61a1b05c5c"},
    {"gpt2-medium", 354823168, 292, "86cf331665edbbc4"},
    {"gpt2-xl", 1557611200, 580, "f070461a2bbbffd2"},
    {"gpt2", 124439808, 148, "f9945e3cf1c03db8"},
    {"llama-2-70b", 68976648192, 723, "132fcfb1bcc9a495"},
    {"llama-2-7b", 6738415616, 291, "728bc3b36218f30d"},
    {"llama-3-8b", 8030261248, 291, "98366fc3e10f9c18"},
    {"llama-3.1-405b", 405853388800, 1137, "aeceead432c07e95"},
    {"llama-3.1-70b", 70553706496, 723, "110c944cebb1743c"},
    {"llama-3.1-8b", 8030261248, 291, "98366fc3e10f9c18"},
    {"llama-3.2-1b", 1235814400, 146, "6ac52ff2eddd7c9b"},
    {"llama-3.2-3b", 3212749824, 254, "f5d69250eb83ed65"},
    {"llama-7b", 6738415616, 291, "728bc3b36218f30d"},
    {"mistral-7b-v0.1", 7241732096, 291, "dccc65de5cc1582d"},
    {"mistral-7b-v0.2", 7241732096, 291, "dccc65de5cc1582d"},
    {"mistral-7b-v0.3", 7248023552, 291, "7a43595dd4e12653"},
    {"mistral-nemo-12b", 12247782400, 363, "305239470836a5f7"},
    {"qwen2-0.5b", 494032768, 290, "18dd0f3d74b29068"},
    {"qwen2-72b", 72706203648, 963, "de2192a6f82274d9"},
    {"qwen2-7b", 7615616512, 339, "233a98e5157d56e0"},
    {"qwen2.5-0.5b", 494032768, 290, "18dd0f3d74b29068"},
    {"qwen2.5-1.5b", 1543714304, 338, "a23699be7eed989b"},
    {"qwen2.5-14b", 14770033664, 579, "550084a6736ae117"},
    {"qwen2.5-32b", 32763876352, 771, "7618e6bdecf44661"},
    {"qwen2.5-3b", 3085938688, 434, "84bb3855848fdff1"},
    {"qwen2.5-72b", 72706203648, 963, "de2192a6f82274d9"},
    {"qwen2.5-7b", 7615616512, 339, "233a98e5157d56e0"},
    {"qwen3-0.6b", 596049920, 310, "d9629c1ece926d93"},
    {"qwen3-1.7b", 1720574976, 310, "851c0fce4fd83ec4"},
    {"qwen3-14b", 14768307200, 443, "031f9aa85c2a1b80"},
    {"qwen3-32b", 32762123264, 707, "59623354f8939b1e"},
    {"qwen3-4b-new-spelling", 4022468096, 398, "62fb2932ded9e64f"},
    {"qwen3-4b", 4022468096, 398, "62fb2932ded9e64f"},
    {"qwen3-8b", 8190735360, 399, "8feaea0e5d7c222d"},
    {"smollm-135m", 134515008, 272, "2c57d609e47831cd"},
    {"smollm2-1.7b", 1711376384, 218, "40453cdfa3be30f6"},
    {"smollm2-135m", 134515008, 272, "2c57d609e47831cd"},
    {"smollm2-360m-instruct", 361821120, 290, "e03c601b916569a3"},
    {"tinyllama-1.1b", 1100048384, 201, "cfdf556c53640a8f"},
    {"vicuna-7b-16k", 6738415616, 291, "728bc3b36218f30d"},
};

static struct blueprint opened(const char *name, struct region *region) {
    char path[512];
    char folder[PATH_BYTES];
    struct blueprint blueprint;
    struct fault fault;
    snprintf(path, sizeof path, "%s/%s.json", CONFIGS, name);
    if (blueprint_open(path, region, &blueprint, folder, &fault) != OK) {
        fail_msg("%s: %s: %s", name, fault.subject, fault.reason);
    }
    assert_string_equal(folder, "");
    return blueprint;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct param *const *)a)->name, (*(const struct param *const *)b)->name);
}

static void digest_names(const struct blueprint *blueprint, char *hex) {
    const struct param **sorted = malloc((size_t)blueprint->param_count * sizeof *sorted);
    for (int i = 0; i < blueprint->param_count; i++) {
        sorted[i] = &blueprint->params[i];
    }
    qsort(sorted, (size_t)blueprint->param_count, sizeof *sorted, by_name);
    struct hash_state state;
    hash_begin(&state);
    for (int i = 0; i < blueprint->param_count; i++) {
        char line[256];
        int length =
            snprintf(line, sizeof line, "%s %lld", sorted[i]->name, (long long)sorted[i]->shape[0]);
        if (sorted[i]->rank == 2) {
            length += snprintf(line + length, sizeof line - (size_t)length, "x%lld",
                               (long long)sorted[i]->shape[1]);
        }
        line[length++] = '\n';
        hash_add(&state, line, (size_t)length);
    }
    struct hash hash = hash_end(&state);
    hash_hex(&hash, hex);
    free(sorted);
}

static void names_and_shapes_equal_those_of_transformers(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(GOLDENS); i++) {
        const struct golden *golden = &GOLDENS[i];
        struct region region = {0};
        char hex[HASH_HEX_BYTES];
        struct blueprint blueprint = opened(golden->name, &region);
        digest_names(&blueprint, hex);
        if (blueprint_elements(&blueprint) != golden->elements ||
            blueprint.param_count != golden->tensors ||
            strncmp(hex, golden->digest, strlen(golden->digest)) != 0) {
            fail_msg("%s: %lld elements in %d tensors, digest %s", golden->name,
                     (long long)blueprint_elements(&blueprint), blueprint.param_count, hex);
        }
        region_finish(&region);
    }
}

static void parameters_come_in_blueprint_order(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(GOLDENS); i++) {
        struct region region = {0};
        struct blueprint blueprint = opened(GOLDENS[i].name, &region);
        assert_int_equal(blueprint.params[0].kind, PARAM_EMBEDDING);
        int layer = PARAM_NO_LAYER;
        bool behind = false;
        for (int p = 0; p < blueprint.param_count; p++) {
            const struct param *param = &blueprint.params[p];
            behind = behind || (layer >= 0 && param->layer == PARAM_NO_LAYER);
            assert_true(behind ? param->layer == PARAM_NO_LAYER : param->layer >= layer);
            assert_true(param->kind != PARAM_FINAL_NORM || behind);
            assert_true(param->kind != PARAM_HEAD || p == blueprint.param_count - 1);
            layer = behind ? layer : param->layer;
        }
        assert_int_equal(layer, blueprint.layers - 1);
        region_finish(&region);
    }
}

static void a_parameter_is_found_by_kind_and_layer(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(GOLDENS); i++) {
        struct region region = {0};
        struct blueprint blueprint = opened(GOLDENS[i].name, &region);
        int found = 0;
        for (int layer = PARAM_NO_LAYER; layer < blueprint.layers; layer++) {
            for (int kind = 0; kind < PARAM_KIND_COUNT; kind++) {
                const struct param *param =
                    blueprint_param(&blueprint, (enum param_kind)kind, layer);
                if (param != NULL) {
                    assert_int_equal(param->kind, kind);
                    assert_int_equal(param->layer, layer);
                    found++;
                }
            }
        }
        assert_int_equal(found, blueprint.param_count);
        region_finish(&region);
    }
}

static void values_are_those_of_the_file(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint llama = opened("llama-3.2-1b", &region);
    assert_int_equal(llama.family, FAMILY_LLAMA);
    assert_string_equal(llama.model_type, "llama");
    assert_int_equal(llama.checkpoint_dtype, DTYPE_BF16);
    assert_int_equal(llama.head_dim, 64);
    assert_int_equal(llama.kv_heads, 8);
    assert_true(llama.tied && !llama.qk_norm && !llama.qkv_bias && !llama.o_bias);
    assert_int_equal(llama.rope.kind, ROPE_LLAMA3);
    assert_true(llama.rope.theta == 500000.0 && llama.rope.factor == 32.0);
    assert_true(llama.rope.low_freq_factor == 1.0 && llama.rope.high_freq_factor == 4.0);
    assert_int_equal(llama.rope.original_positions, 8192);
    assert_int_equal(llama.tokens.eos, 128001);
    assert_int_equal(llama.tokens.padding, -1);
    assert_true(llama.norm_epsilon == 1e-5);
    assert_null(llama.notice);
    struct blueprint mistral = opened("mistral-7b-v0.1", &region);
    assert_int_equal(mistral.layer_window[0], 4096);
    assert_int_equal(mistral.layer_window[31], 4096);
    mistral = opened("mistral-7b-v0.3", &region);
    assert_int_equal(mistral.layer_window[31], 0);
    struct blueprint qwen = opened("qwen2.5-0.5b", &region);
    assert_true(qwen.qkv_bias && !qwen.o_bias && qwen.layer_window[23] == 0);
    qwen = opened("qwen3-4b-new-spelling", &region);
    assert_true(qwen.qk_norm && !qwen.qkv_bias && qwen.rope.theta == 5e6);
    assert_int_equal(qwen.checkpoint_dtype, DTYPE_BF16);
    struct blueprint padded = opened("smollm2-360m-instruct", &region);
    assert_int_equal(padded.tokens.padding, 2);
    struct blueprint vicuna = opened("vicuna-7b-16k", &region);
    assert_true(vicuna.rope.kind == ROPE_LINEAR && vicuna.rope.factor == 4.0);
    region_finish(&region);
}

static void gpt2_is_transposed_and_starts_residuals_smaller(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint gpt2 = opened("gpt2", &region);
    assert_int_equal(gpt2.ffn, 3072);
    assert_int_equal(gpt2.rope.kind, ROPE_NONE);
    assert_int_equal(gpt2.checkpoint_dtype, DTYPE_F32);
    assert_non_null(strstr(gpt2.notice, "attn_pdrop 0.1, embd_pdrop 0.1, resid_pdrop 0.1"));
    const struct param *down = blueprint_param(&gpt2, PARAM_DOWN, 3);
    assert_string_equal(down->name, "transformer.h.3.mlp.c_proj.weight");
    assert_true(down->transposed && down->shape[0] == 3072 && down->shape[1] == 768);
    assert_float_equal(down->init_std, 0.02f / 4.898979486f, 1e-8f); /* sqrt(2 * 12) */
    assert_float_equal(blueprint_param(&gpt2, PARAM_QKV, 0)->init_std, 0.02f, 1e-8f);
    assert_false(blueprint_param(&gpt2, PARAM_EMBEDDING, PARAM_NO_LAYER)->transposed);
    assert_null(blueprint_param(&gpt2, PARAM_HEAD, PARAM_NO_LAYER));
    assert_int_equal(blueprint_param(&gpt2, PARAM_UP_BIAS, 0)->init, INIT_ZERO);
    assert_int_equal(blueprint_param(&gpt2, PARAM_MLP_NORM, 0)->init, INIT_ONE);
    region_finish(&region);
}

static void write_text(const char *path, const char *text) {
    struct fault fault;
    int fd;
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, path, text, strlen(text), 0, &fault), OK);
    close(fd);
}

/* A cache as huggingface_hub lays it out: the snapshot holds links into blobs/. */
static void a_cached_model_is_opened_by_its_name(void **state) {
    (void)state;
    static const char CONFIG[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"vocab_size\": 300}";
    char home[] = "/tmp/skep-hub-XXXXXX";
    char path[512];
    char folder[PATH_BYTES];
    struct region region = {0};
    struct blueprint blueprint;
    struct fault fault;
    assert_non_null(mkdtemp(home));
    snprintf(path, sizeof path, "%s/hub/models--some--model/refs", home);
    assert_int_equal(file_make_folders(path, &fault), OK);
    snprintf(path, sizeof path, "%s/hub/models--some--model/blobs", home);
    assert_int_equal(file_make_folders(path, &fault), OK);
    snprintf(path, sizeof path, "%s/hub/models--some--model/snapshots/0123abcd", home);
    assert_int_equal(file_make_folders(path, &fault), OK);
    snprintf(path, sizeof path, "%s/hub/models--some--model/refs/main", home);
    write_text(path, "0123abcd\n");
    snprintf(path, sizeof path, "%s/hub/models--some--model/blobs/feed", home);
    write_text(path, CONFIG);
    snprintf(path, sizeof path, "%s/hub/models--some--model/snapshots/0123abcd/config.json", home);
    assert_int_equal(symlink("../../blobs/feed", path), 0);

    unsetenv("HF_HUB_CACHE");
    setenv("HF_HOME", home, 1);
    assert_int_equal(blueprint_open("some/model", &region, &blueprint, folder, &fault), OK);
    assert_int_equal(blueprint.layers, 2);
    snprintf(path, sizeof path, "%s/hub/models--some--model/snapshots/0123abcd", home);
    assert_string_equal(folder, path);

    assert_int_equal(blueprint_open("some/other", &region, &blueprint, folder, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.remedy, "run `hf download some/other`"));
    snprintf(path, sizeof path, "%s/hub/models--some--model/refs/main", home);
    write_text(path, "../../../etc");
    assert_int_equal(blueprint_open("some/model", &region, &blueprint, folder, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.remedy, "run `hf download some/model`"));
    snprintf(path, sizeof path, "rm -r %s", home);
    assert_int_equal(system(path), 0);
    region_finish(&region);
}

static void a_folder_is_opened_and_a_missing_one_refused(void **state) {
    (void)state;
    char home[] = "/tmp/skep-model-XXXXXX";
    char path[512];
    char folder[PATH_BYTES] = "kept";
    struct region region = {0};
    struct blueprint blueprint = {.layers = 77};
    struct fault fault;
    assert_non_null(mkdtemp(home));
    assert_int_equal(blueprint_open(home, &region, &blueprint, folder, &fault), STATUS_INPUT);
    assert_string_equal(folder, "kept");
    assert_int_equal(blueprint.layers, 77);
    snprintf(path, sizeof path, "%s/config.json", home);
    write_text(path, "{\"model_type\": \"gpt2\"}");
    assert_int_equal(blueprint_open(home, &region, &blueprint, folder, &fault), OK);
    assert_string_equal(folder, home);
    assert_int_equal(blueprint_elements(&blueprint), 124439808);
    unlink(path);
    rmdir(home);
    assert_int_equal(blueprint_open("/no/such/place", &region, &blueprint, folder, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "/no/such/place");
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_equal_those_of_transformers),
        cmocka_unit_test(parameters_come_in_blueprint_order),
        cmocka_unit_test(a_parameter_is_found_by_kind_and_layer),
        cmocka_unit_test(values_are_those_of_the_file),
        cmocka_unit_test(gpt2_is_transposed_and_starts_residuals_smaller),
        cmocka_unit_test(a_cached_model_is_opened_by_its_name),
        cmocka_unit_test(a_folder_is_opened_and_a_missing_one_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
