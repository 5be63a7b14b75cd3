/* test_weight_names: every way that files spell a parameter leads to it, and nothing else does. */
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct blueprint opened(const char *name, struct region *region) {
    char path[512];
    char folder[PATH_BYTES];
    struct blueprint blueprint;
    struct fault fault;
    snprintf(path, sizeof path, "%s/%s.json", CONFIGS, name);
    assert_int_equal(blueprint_open(path, region, &blueprint, folder, &fault), OK);
    return blueprint;
}

static void full_names_and_those_of_the_base_model_match(void **state) {
    (void)state;
    static const char *const MODELS[] = {"gpt2", "llama-3.1-405b", "qwen2.5-0.5b", "qwen3-8b"};
    for (size_t m = 0; m < ARRAY_COUNT(MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint = opened(MODELS[m], &region);
        for (int i = 0; i < blueprint.param_count; i++) {
            const char *name = blueprint.params[i].name;
            assert_int_equal(weight_name_match(&blueprint, name), i);
            if (strcmp(name, "lm_head.weight") != 0) {
                assert_int_equal(weight_name_match(&blueprint, strchr(name, '.') + 1), i);
            }
        }
        region_finish(&region);
    }
}

struct spelled {
    const char *model;
    const char *name;
    int answer;
};

static void buffers_are_ignored_and_strangers_unknown(void **state) {
    (void)state;
    static const struct spelled ROWS[] = {
        {"gpt2", "h.0.attn.bias", WEIGHT_IGNORED},
        {"gpt2", "transformer.h.11.attn.bias", WEIGHT_IGNORED},
        {"gpt2", "h.3.attn.masked_bias", WEIGHT_IGNORED},
        {"gpt2", "lm_head.weight", WEIGHT_IGNORED},
        {"gpt2", "h.0.rotary_emb.inv_freq", WEIGHT_UNKNOWN},
        {"gpt2", "h.12.ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "h.00.ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "h.+1.ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "h.-1.ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "h..ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "h.99999999999999999999.ln_1.weight", WEIGHT_UNKNOWN},
        {"gpt2", "", WEIGHT_UNKNOWN},
        {"gpt2", "transformer.", WEIGHT_UNKNOWN},
        {"gpt2", "h.1", WEIGHT_UNKNOWN},
        {"gpt2", "transformer.transformer.wte.weight", WEIGHT_UNKNOWN},
        {"llama-2-7b", "model.layers.0.self_attn.rotary_emb.inv_freq", WEIGHT_IGNORED},
        {"llama-2-7b", "model.rotary_emb.inv_freq", WEIGHT_IGNORED},
        {"llama-2-7b", "model.layers.0.self_attn.q_proj.bias", WEIGHT_UNKNOWN},
        {"llama-2-7b", "model.layers.32.input_layernorm.weight", WEIGHT_UNKNOWN},
        {"llama-2-7b", "model.layers.1.attn.bias", WEIGHT_UNKNOWN},
        {"llama-2-7b", "lm_head.bias", WEIGHT_UNKNOWN},
        {"qwen2.5-0.5b", "lm_head.weight", WEIGHT_IGNORED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct region region = {0};
        struct blueprint blueprint = opened(ROWS[i].model, &region);
        int answer = weight_name_match(&blueprint, ROWS[i].name);
        if (answer != ROWS[i].answer) {
            fail_msg("%s: %s gave %d", ROWS[i].model, ROWS[i].name, answer);
        }
        region_finish(&region);
    }
}

static void a_name_of_any_length_is_unknown(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint = opened("gpt2", &region);
    char name[1000];
    memset(name, 'h', sizeof name);
    name[1] = '.';
    name[sizeof name - 1] = '\0';
    assert_int_equal(weight_name_match(&blueprint, name), WEIGHT_UNKNOWN);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_names_and_those_of_the_base_model_match),
        cmocka_unit_test(buffers_are_ignored_and_strangers_unknown),
        cmocka_unit_test(a_name_of_any_length_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
