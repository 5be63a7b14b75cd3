/* Units: every parameter once, on granules, decayed first, hardly any padding in real models. */
#include "runtime/shard/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const REAL_MODELS[] = {"gpt2",           "gpt2-xl",      "llama-3.1-8b",
                                          "llama-3.1-405b", "llama-3.2-1b", "mistral-7b-v0.1",
                                          "qwen2.5-0.5b",   "qwen3-0.6b"};

static void open_model(const char *name, struct region *region, struct blueprint *blueprint) {
    char path[512];
    char folder[PATH_BYTES];
    struct fault fault;
    snprintf(path, sizeof path, "%s/%s.json", CONFIGS, name);
    if (blueprint_open(path, region, blueprint, folder, &fault) != OK) {
        fail_msg("%s: %s", fault.place, fault.reason);
    }
}

static void slots_hold_every_parameter_once_and_apart(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(REAL_MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint;
        struct unit_table table;
        open_model(REAL_MODELS[m], &region, &blueprint);
        unit_table_init(&blueprint, &region, &table);
        int *seen = region_alloc(&region, (size_t)blueprint.param_count, sizeof *seen);
        int64_t end = 0;
        for (int s = 0; s < table.slot_count; s++) {
            const struct unit_slot *slot = &table.slots[s];
            const struct unit *unit = &table.units[slot->unit];
            end = s == unit->first_slot ? 0 : end;
            assert_int_equal(slot->offset % GRANULE_ELEMENTS, 0);
            assert_true(slot->offset >= end && slot->offset - end < GRANULE_ELEMENTS);
            assert_int_equal(slot->elements, param_elements(&blueprint.params[slot->param]));
            end = slot->offset + slot->elements;
            assert_true(end <= unit->elements);
            assert_int_equal(table.slot_of_param[slot->param], s);
            seen[slot->param]++;
        }
        for (int i = 0; i < blueprint.param_count; i++) {
            assert_int_equal(seen[i], 1);
        }
        region_finish(&region);
    }
}

static void decayed_parameters_come_first(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(REAL_MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint;
        struct unit_table table;
        open_model(REAL_MODELS[m], &region, &blueprint);
        unit_table_init(&blueprint, &region, &table);
        for (int s = 0; s < table.slot_count; s++) {
            const struct unit_slot *slot = &table.slots[s];
            bool decayed = slot->offset < table.units[slot->unit].decayed_elements;
            assert_int_equal(decayed, blueprint.params[slot->param].rank == 2);
        }
        region_finish(&region);
    }
}

static void padding_of_real_models_is_below_a_thousandth(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(REAL_MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint;
        struct unit_table table;
        int64_t padding = 0;
        int64_t elements = 0;
        open_model(REAL_MODELS[m], &region, &blueprint);
        unit_table_init(&blueprint, &region, &table);
        for (int unit = 0; unit < table.unit_count; unit++) {
            padding += table.units[unit].padding_elements;
            elements += table.units[unit].elements;
        }
        assert_int_equal(elements - padding, blueprint_elements(&blueprint));
        assert_true(padding * 1000 <= elements);
        region_finish(&region);
    }
}

static void a_tied_head_lives_with_the_embedding(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct unit_table table;
    open_model("gpt2", &region, &blueprint);
    unit_table_init(&blueprint, &region, &table);
    assert_int_equal(table.unit_count, 14);
    assert_string_equal(table.units[0].name, "embed");
    assert_int_equal(table.units[0].slot_count, 2); /* tokens and positions */
    assert_string_equal(table.units[13].name, "final");
    assert_int_equal(table.units[13].slot_count, 2); /* norm weight and bias, no head */
    region_finish(&region);
}

static void a_unit_smaller_than_its_ranks_leaves_empty_shards(void **state) {
    (void)state;
    const struct unit unit = {.elements = 3 * GRANULE_ELEMENTS};
    static const int64_t WANTED[5][2] = {{0, 64}, {64, 128}, {128, 192}, {192, 192}, {192, 192}};
    for (int64_t rank = 0; rank < 5; rank++) {
        struct unit_range range = unit_shard(&unit, 5, rank);
        assert_int_equal(range.begin, WANTED[rank][0]);
        assert_int_equal(range.end, WANTED[rank][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_hold_every_parameter_once_and_apart),
        cmocka_unit_test(decayed_parameters_come_first),
        cmocka_unit_test(padding_of_real_models_is_below_a_thousandth),
        cmocka_unit_test(a_tied_head_lives_with_the_embedding),
        cmocka_unit_test(a_unit_smaller_than_its_ranks_leaves_empty_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
