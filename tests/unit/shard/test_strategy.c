/* Strategies: the table of stages, and the effect of overrides on single units. */
#include "runtime/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "models.h"

struct rig {
    struct region region;
    struct blueprint blueprint;
    struct unit_table table;
};

static int rig_open(void **state) {
    static struct rig rig;
    memset(&rig, 0, sizeof rig);
    model_open("llama-3.2-1b", &rig.region, &rig.blueprint);
    model_units(&rig.blueprint, (struct unit_options){.world = 4}, &rig.region, &rig.table);
    *state = &rig;
    return 0;
}

static int rig_close(void **state) {
    struct rig *rig = *state;
    region_finish(&rig->region);
    return 0;
}

static void stages_split_one_thing_more_each(void **state) {
    (void)state;
    static const bool WANTED[ZERO_STAGE_COUNT][3] = {
        {false, false, false}, {false, false, true}, {false, true, true}, {true, true, true}};
    for (int stage = 0; stage < ZERO_STAGE_COUNT; stage++) {
        assert_int_equal(zero_stage_row(stage)->params, WANTED[stage][0]);
        assert_int_equal(zero_stage_row(stage)->gradients, WANTED[stage][1]);
        assert_int_equal(zero_stage_row(stage)->optimizer, WANTED[stage][2]);
    }
}

static void without_overrides_all_units_are_alike(void **state) {
    struct rig *rig = *state;
    const struct strategy_keys keys = {.zero = 2, .keep_gathered = true, .overrides = ""};
    const struct unit_strategy *strategies;
    struct fault fault;
    assert_int_equal(strategy_read(&keys, &rig->table, &rig->region, &strategies, &fault), OK);
    for (int unit = 0; unit < rig->table.unit_count; unit++) {
        assert_int_equal(strategies[unit].zero, 2);
        assert_true(strategies[unit].keep_gathered);
    }
}

static void the_last_override_that_matches_counts(void **state) {
    struct rig *rig = *state;
    const struct strategy_keys keys = {
        .zero = 3,
        .overrides = "embed=zero:1, layers.1*= keep_gathered:true ; zero:2,layers.12=zero:0"};
    const struct unit_strategy *strategies;
    struct fault fault;
    assert_int_equal(strategy_read(&keys, &rig->table, &rig->region, &strategies, &fault), OK);
    assert_int_equal(strategies[0].zero, 1);
    assert_false(strategies[0].keep_gathered);
    for (int layer = 0; layer < 16; layer++) {
        bool starred = layer == 1 || layer >= 10;
        assert_int_equal(strategies[1 + layer].keep_gathered, starred);
        assert_int_equal(strategies[1 + layer].zero, layer == 12 ? 0 : starred ? 2 : 3);
    }
    assert_int_equal(strategies[17].zero, 3);
}

static void bad_overrides_are_refused(void **state) {
    struct rig *rig = *state;
    static const struct {
        const char *overrides, *reason;
    } CASES[] = {
        {"layer.3=zero:1",
         "no unit is named \"layer.3\"; this model has, for example, unit \"layers.3\""},
        {"embed", "\"\" is not a valid unit setting"},
        {"=zero:1", "no unit is named \"\""},
        {"embed=zero:4", "\"zero:4\" is not a valid unit setting"},
        {"embed=zero:", "\"zero:\" is not a valid unit setting"},
        {"embed=stage:1", "\"stage:1\" is not a valid unit setting"},
        {"embed=keep_gathered:yes", "\"keep_gathered:yes\" is not a valid unit setting"},
        {"embed=zero:1,layers.17=zero:1", "no unit is named \"layers.17\""},
        {"embed=zero:1,,final=zero:1", "no unit is named \"\""},
    };
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        const struct strategy_keys keys = {
            .zero = 3, .overrides = CASES[c].overrides, .subject = "run.yaml:7:3"};
        const struct unit_strategy *strategies = NULL;
        struct fault fault;
        assert_int_equal(strategy_read(&keys, &rig->table, &rig->region, &strategies, &fault),
                         STATUS_INPUT);
        assert_null(strategies);
        assert_string_equal(fault.subject, "run.yaml:7:3");
        if (strstr(fault.reason, CASES[c].reason) == NULL) {
            fail_msg("%s: %s", CASES[c].overrides, fault.reason);
        }
    }
}

static void reducing_once_a_step_needs_whole_gradients(void **state) {
    struct rig *rig = *state;
    struct strategy_keys keys = {.zero = 1};
    const struct unit_strategy *strategies;
    struct fault fault;
    assert_int_equal(strategy_read(&keys, &rig->table, &rig->region, &strategies, &fault), OK);
    assert_int_equal(
        strategy_check_reduction(strategies, &rig->table, REDUCE_AT_STEP, NULL, &fault), OK);
    keys.overrides = "layers.7=zero:2";
    assert_int_equal(strategy_read(&keys, &rig->table, &rig->region, &strategies, &fault), OK);
    assert_int_equal(
        strategy_check_reduction(strategies, &rig->table, REDUCE_AT_MICROBATCH, NULL, &fault), OK);
    assert_int_equal(
        strategy_check_reduction(strategies, &rig->table, REDUCE_AT_STEP, NULL, &fault),
        STATUS_INPUT);
    assert_string_equal(fault.subject, "strategy.reduce_at");
    assert_non_null(strstr(fault.reason, "ZeRO 2 shards those of unit layers.7"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_split_one_thing_more_each),
        cmocka_unit_test_setup_teardown(without_overrides_all_units_are_alike, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(the_last_override_that_matches_counts, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(bad_overrides_are_refused, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(reducing_once_a_step_needs_whole_gradients, rig_open,
                                        rig_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
