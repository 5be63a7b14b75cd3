/* test_counts: operations against PyTorch's own counter, attention against a plain sum. */
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"

#include <math.h>
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

/* torch.utils.flop_counter.FlopCounterMode over one forward pass of transformers 5.23.0 with eager
 * attention, which computes every score, masked or not. */
struct counted {
    const char *name;
    int64_t sequence;
    double flops;
};

static const struct counted COUNTED[] = {
    {"gpt2", 64, 15963095040.0},           {"smollm2-135m", 48, 13069320192.0},
    {"qwen2.5-0.5b", 32, 31701598208.0},   {"qwen3-0.6b", 32, 38377881600.0},
    {"tinyllama-1.1b", 16, 33147584512.0}, {"gpt2-medium", 128, 92094595072.0},
};

static void products_and_full_attention_equal_pytorchs_count(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(COUNTED); i++) {
        struct region region = {0};
        struct blueprint blueprint = opened(COUNTED[i].name, &region);
        struct token_flops flops = counts_flops_per_token(&blueprint, COUNTED[i].sequence);
        double all =
            (flops.matrix_products + flops.attention_unmasked) * (double)COUNTED[i].sequence;
        if (all != COUNTED[i].flops) {
            fail_msg("%s: %.0f, counted %.0f", COUNTED[i].name, all, COUNTED[i].flops);
        }
        region_finish(&region);
    }
}

static void attention_counts_the_keys_that_each_query_sees(void **state) {
    (void)state;
    static const int64_t SEQUENCES[] = {1, 7, 4095, 4096, 4097, 10000};
    struct region region = {0};
    struct blueprint windowed = opened("mistral-7b-v0.1", &region); /* a window of 4096 */
    struct blueprint full = opened("mistral-7b-v0.2", &region);
    for (size_t i = 0; i < ARRAY_COUNT(SEQUENCES); i++) {
        double keys[2] = {0, 0};
        for (int64_t p = 0; p < SEQUENCES[i]; p++) {
            keys[0] += (double)(p + 1 < 4096 ? p + 1 : 4096);
            keys[1] += (double)(p + 1);
        }
        const struct blueprint *models[2] = {&windowed, &full};
        for (int m = 0; m < 2; m++) {
            struct token_flops flops = counts_flops_per_token(models[m], SEQUENCES[i]);
            double wanted = 4.0 * 4096 * 32 * keys[m] / (double)SEQUENCES[i];
            assert_true(fabs(flops.attention - wanted) <= 1e-12 * wanted);
            assert_true(flops.forward == flops.matrix_products + flops.attention);
            assert_true(flops.training == 3 * flops.forward);
        }
    }
    region_finish(&region);
}

static void every_parameter_is_counted_once(void **state) {
    (void)state;
    static const char *const NAMES[] = {"gpt2", "llama-3.1-405b", "qwen2.5-0.5b", "qwen3-32b"};
    for (size_t i = 0; i < ARRAY_COUNT(NAMES); i++) {
        struct region region = {0};
        struct blueprint blueprint = opened(NAMES[i], &region);
        struct param_counts counts = counts_params(&blueprint);
        int64_t sum = 0;
        for (int kind = 0; kind < PARAM_KIND_COUNT; kind++) {
            assert_true(strlen(param_kind_name((enum param_kind)kind)) > 0);
            sum += counts.by_kind[kind];
        }
        assert_int_equal(sum, counts.total);
        assert_int_equal(counts.total, blueprint_elements(&blueprint));
        assert_int_equal(counts.outside_layers + blueprint.layers * counts.one_layer, counts.total);
        region_finish(&region);
    }
}

/* By hand, from the published shapes. */
static void known_models_have_their_known_numbers(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint gpt2 = opened("gpt2", &region);
    struct param_counts counts = counts_params(&gpt2);
    assert_int_equal(counts.by_kind[PARAM_EMBEDDING], 50257 * 768);
    assert_int_equal(counts.by_kind[PARAM_POSITIONS], 1024 * 768);
    assert_int_equal(counts.matrix_params, 12 * 12 * 768 * 768 + 50257 * 768);
    assert_int_equal(counts.one_layer, 12 * 768 * 768 + 13 * 768);
    assert_int_equal(counts_param_bytes(&gpt2, DTYPE_F32), 4 * 124439808);
    struct blueprint llama = opened("llama-3.1-8b", &region);
    assert_int_equal(counts_cache_bytes_per_token(&llama, DTYPE_BF16), 128 << 10);
    assert_int_equal(counts_param_bytes(&llama, DTYPE_BF16), 2 * 8030261248);
    assert_int_equal(counts_params(&llama).matrix_params, 8030261248 - 128256L * 4096 - 65L * 4096);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_full_attention_equal_pytorchs_count),
        cmocka_unit_test(attention_counts_the_keys_that_each_query_sees),
        cmocka_unit_test(every_parameter_is_counted_once),
        cmocka_unit_test(known_models_have_their_known_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
