/* Patterns: which names a run key matches, and the fault for a misspelt one. */
#include "runtime/shard/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "models.h"

struct rig {
    struct region region;
    struct blueprint blueprint;
};

static int rig_open(void **state) {
    static struct rig rig;
    memset(&rig, 0, sizeof rig);
    model_open("llama-3.2-1b", &rig.region, &rig.blueprint);
    *state = &rig;
    return 0;
}

static int rig_close(void **state) {
    struct rig *rig = *state;
    region_finish(&rig->region);
    return 0;
}

static void the_longest_pattern_that_matches_is_found(void **state) {
    struct rig *rig = *state;
    struct name_patterns patterns;
    struct fault fault;
    assert_int_equal(patterns_read("model.layers.1, model.layers.1.mlp ,model.layers.1*", "frozen",
                                   &rig->blueprint, &rig->region, &patterns, &fault),
                     OK);
    static const struct {
        const char *name;
        int index;
    } CASES[] = {{"model.layers.1.input_layernorm.weight", 2},
                 {"model.layers.1.mlp.up_proj.weight", 1},
                 {"model.layers.12.mlp.up_proj.weight", 2},
                 {"model.layers.2.mlp.up_proj.weight", -1},
                 {"model.layers.1", 2},
                 {"model.layers", -1},
                 {"model.norm.weight", -1}};
    assert_int_equal(patterns.count, 3);
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        assert_int_equal(patterns_find_match(&patterns, CASES[c].name), CASES[c].index);
    }
}

static void a_name_ends_at_a_dot(void **state) {
    struct rig *rig = *state;
    struct name_patterns patterns;
    struct fault fault;
    assert_int_equal(
        patterns_read("model.layers.1", "frozen", &rig->blueprint, &rig->region, &patterns, &fault),
        OK);
    assert_int_equal(patterns_find_match(&patterns, "model.layers.1.mlp.up_proj.weight"), 0);
    assert_int_equal(patterns_find_match(&patterns, "model.layers.10.mlp.up_proj.weight"), -1);
}

static void no_text_is_no_pattern(void **state) {
    struct rig *rig = *state;
    struct name_patterns patterns = {.count = 3};
    struct fault fault;
    assert_int_equal(
        patterns_read(NULL, "frozen", &rig->blueprint, &rig->region, &patterns, &fault), OK);
    assert_int_equal(patterns.count, 0);
    assert_int_equal(patterns_find_match(&patterns, "model.norm.weight"), -1);
}

static void a_misspelt_name_is_answered_with_the_nearest(void **state) {
    struct rig *rig = *state;
    static const struct {
        const char *text, *reason;
    } CASES[] = {
        {"model.embed_token", "this model has, for example, \"model.embed_tokens\""},
        {"model.layers.3.self_attention", "for example, \"model.layers.3.self_attn\""},
        {"model.layers.3.mlp.upproj.weight", "for example, \"model.layers.3.mlp.up_proj.weight\""},
        {"model.layers.33*", "\"model.layers.33*\" matches no parameter"},
        {"model.norm, ", "name 2 of the list is empty"},
        {",", "name 1 of the list is empty"},
    };
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct name_patterns patterns = {.count = 77};
        struct fault fault;
        assert_int_equal(patterns_read(CASES[c].text, "frozen", &rig->blueprint, &rig->region,
                                       &patterns, &fault),
                         STATUS_INPUT);
        assert_int_equal(patterns.count, 77);
        assert_string_equal(fault.subject, "frozen");
        if (strstr(fault.reason, CASES[c].reason) == NULL) {
            fail_msg("%s: %s", CASES[c].text, fault.reason);
        }
    }
}

static void too_many_names_are_refused(void **state) {
    struct rig *rig = *state;
    static char text[2 * PATTERNS_MAX + 2];
    for (int i = 0; i <= PATTERNS_MAX; i++) {
        memcpy(&text[2 * i], "m,", 2);
    }
    text[2 * PATTERNS_MAX + 1] = '\0';
    struct name_patterns patterns;
    struct fault fault;
    assert_int_equal(
        patterns_read(text, "frozen", &rig->blueprint, &rig->region, &patterns, &fault),
        STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "more than 4096 names"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_pattern_that_matches_is_found, rig_open,
                                        rig_close),
        cmocka_unit_test_setup_teardown(a_name_ends_at_a_dot, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(no_text_is_no_pattern, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_misspelt_name_is_answered_with_the_nearest, rig_open,
                                        rig_close),
        cmocka_unit_test_setup_teardown(too_many_names_are_refused, rig_open, rig_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
