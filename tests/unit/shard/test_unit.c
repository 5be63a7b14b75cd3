/* Units: every parameter once, on granules, decayed ones first, with little padding in real
 * models. */
#include "runtime/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "models.h"

/* All above 100M parameters. */
static const char *const REAL_MODELS[] = {
    "gpt2",         "gpt2-xl",         "llama-3.1-8b", "llama-3.1-405b", "llama-3.2-1b",
    "smollm2-135m", "mistral-7b-v0.1", "qwen2.5-0.5b", "qwen3-0.6b"};

static void slots_hold_every_parameter_once_and_apart(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(REAL_MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint;
        struct unit_table table;
        model_open(REAL_MODELS[m], &region, &blueprint);
        model_units(&blueprint, (struct unit_options){.world = 1}, &region, &table);
        int *seen = region_alloc(&region, (size_t)blueprint.param_count, sizeof *seen);
        int64_t end = 0;
        for (int s = 0; s < table.param_count; s++) {
            const struct unit_param *slot = &table.params[s];
            const struct unit *unit = &table.units[slot->unit];
            end = s == unit->first_param ? 0 : end;
            assert_int_equal(slot->offset % GRANULE_ELEMENTS, 0);
            assert_true(slot->offset >= end && slot->offset - end < GRANULE_ELEMENTS);
            assert_int_equal(slot->elements, param_elements(&blueprint.params[slot->param]));
            end = slot->offset + slot->elements;
            assert_true(end <= unit->elements);
            assert_int_equal(table.position_of_param[slot->param], s);
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
        model_open(REAL_MODELS[m], &region, &blueprint);
        model_units(&blueprint, (struct unit_options){.world = 1}, &region, &table);
        for (int s = 0; s < table.param_count; s++) {
            const struct unit_param *slot = &table.params[s];
            bool decayed = slot->offset < table.units[slot->unit].decayed_elements;
            assert_int_equal(decayed, blueprint.params[slot->param].rank == 2);
        }
        region_finish(&region);
    }
}

static void padding_of_real_models_is_below_a_thousandth_in_worlds_to_64(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(REAL_MODELS); m++) {
        struct region region = {0};
        struct blueprint blueprint;
        model_open(REAL_MODELS[m], &region, &blueprint);
        assert_true(blueprint_elements(&blueprint) >= 100000000);
        for (int64_t world = 1; world <= 64; world++) {
            struct unit_table table;
            int64_t padding = 0;
            int64_t elements = 0;
            model_units(&blueprint, (struct unit_options){.world = world}, &region, &table);
            for (int unit = 0; unit < table.unit_count; unit++) {
                padding += table.units[unit].padding_elements;
                elements += table.units[unit].elements;
            }
            assert_int_equal(elements - padding, blueprint_elements(&blueprint));
            if (padding * 1000 > elements) {
                fail_msg("%s over %lld ranks: %lld of %lld are padding", REAL_MODELS[m],
                         (long long)world, (long long)padding, (long long)elements);
            }
        }
        region_finish(&region);
    }
}

static void a_tied_head_lives_with_the_embedding(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct unit_table table;
    model_open("gpt2", &region, &blueprint);
    model_units(&blueprint, (struct unit_options){.world = 1}, &region, &table);
    assert_int_equal(table.unit_count, 14);
    assert_string_equal(table.units[0].name, "embed");
    assert_int_equal(table.units[0].param_count, 2); /* tokens and positions */
    assert_string_equal(table.units[13].name, "final");
    assert_int_equal(table.units[13].param_count, 2); /* norm weight and bias, no head */
    region_finish(&region);
}

static void a_world_only_lengthens_units_at_their_ends(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct unit_table alone;
    model_open("qwen2.5-0.5b", &region, &blueprint);
    model_units(&blueprint, (struct unit_options){.world = 1}, &region, &alone);
    static const int64_t WORLDS[] = {2, 3, 7, 8, 64, 1021};
    for (size_t w = 0; w < ARRAY_COUNT(WORLDS); w++) {
        struct unit_table table;
        model_units(&blueprint, (struct unit_options){.world = WORLDS[w]}, &region, &table);
        assert_int_equal(table.unit_count, alone.unit_count);
        assert_memory_equal(table.params, alone.params,
                            (size_t)alone.param_count * sizeof alone.params[0]);
        for (int unit = 0; unit < table.unit_count; unit++) {
            int64_t more = table.units[unit].elements - alone.units[unit].elements;
            int64_t step = WORLDS[w] * GRANULE_ELEMENTS;
            assert_true(more >= 0 && more < step && table.units[unit].elements % step == 0);
            assert_int_equal(table.units[unit].decayed_elements,
                             alone.units[unit].decayed_elements);
        }
    }
    region_finish(&region);
}

static void shards_are_equal_slots_of_whole_granules(void **state) {
    (void)state;
    const struct unit unit = {.elements = 12 * GRANULE_ELEMENTS};
    static const int64_t WANTED[4][2] = {{0, 192}, {192, 384}, {384, 576}, {576, 768}};
    for (int64_t rank = 0; rank < 4; rank++) {
        struct unit_range range = unit_shard_range(&unit, 4, rank);
        assert_int_equal(range.begin, WANTED[rank][0]);
        assert_int_equal(range.end, WANTED[rank][1]);
    }
    assert_int_equal(unit_shard_elements(&unit, 6), 2 * GRANULE_ELEMENTS);
    assert_int_equal(unit_shard_elements(&unit, 1), 12 * GRANULE_ELEMENTS);
}

static int unit_named(const struct unit_table *table, const char *name) {
    for (int unit = 0; unit < table->unit_count; unit++) {
        if (strcmp(table->units[unit].name, name) == 0) {
            return unit;
        }
    }
    fail_msg("no unit is named %s", name);
    return -1;
}

static void frozen_parameters_form_units_of_their_own(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct unit_table table;
    model_open("llama-3.2-1b", &region, &blueprint);
    const struct unit_options options = {
        .world = 4, .frozen = "model.embed_tokens, model.layers.1.mlp, model.layers.15*"};
    model_units(&blueprint, options, &region, &table);
    assert_int_equal(table.unit_count, 18 + 1); /* layer 1 in two parts */
    assert_true(table.units[unit_named(&table, "embed.frozen")].frozen);
    assert_true(table.units[unit_named(&table, "layers.15.frozen")].frozen);
    assert_false(table.units[unit_named(&table, "layers.1")].frozen);
    assert_int_equal(table.units[unit_named(&table, "layers.1")].param_count, 6);
    const struct unit *mlp = &table.units[unit_named(&table, "layers.1.frozen")];
    assert_true(mlp->frozen && mlp->param_count == 3);
    assert_string_equal(blueprint.params[table.params[mlp->first_param].param].name,
                        "model.layers.1.mlp.gate_proj.weight");
    region_finish(&region);
}

static void freezing_part_of_a_product_or_everything_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *frozen, *reason, *remedy;
    } CASES[] = {
        {"model.layers.3.self_attn.k_proj.bias", "model.layers.3.self_attn.k_proj.bias",
         "together"},
        {"model*", "freezes every parameter", "freeze fewer parameters"},
        {"model.layer", "matches no parameter", "skep inspect"},
    };
    struct region region = {0};
    struct blueprint blueprint;
    model_open("qwen2.5-0.5b", &region, &blueprint);
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct unit_table table = {.unit_count = 77};
        struct fault fault;
        const struct unit_options options = {
            .world = 1, .frozen = CASES[c].frozen, .frozen_subject = "run.yaml:3"};
        assert_int_equal(unit_table_init(&blueprint, &options, &region, &table, &fault),
                         STATUS_INPUT);
        assert_int_equal(table.unit_count, 77);
        assert_string_equal(fault.subject, "run.yaml:3");
        assert_non_null(strstr(fault.reason, CASES[c].reason));
        assert_non_null(strstr(fault.remedy, CASES[c].remedy));
    }
    region_finish(&region);
}

static void parts_of_all_shards_are_every_parameter_once(void **state) {
    (void)state;
    static const int64_t WORLDS[] = {1, 2, 3, 8, 61};
    struct region region = {0};
    struct blueprint blueprint;
    model_open("gpt2", &region, &blueprint);
    int64_t *next = region_alloc(&region, (size_t)blueprint.param_count, sizeof *next);
    for (size_t w = 0; w < ARRAY_COUNT(WORLDS); w++) {
        struct unit_table table;
        model_units(&blueprint, (struct unit_options){.world = WORLDS[w]}, &region, &table);
        memset(next, 0, (size_t)blueprint.param_count * sizeof *next);
        struct unit_part *parts = region_alloc(&region, (size_t)table.param_count, sizeof *parts);
        for (int64_t k = 0; k < table.unit_count * WORLDS[w]; k++) {
            int unit = (int)(k / WORLDS[w]);
            struct unit_range range =
                unit_shard_range(&table.units[unit], WORLDS[w], k % WORLDS[w]);
            int count = unit_list_parts(&table, unit, range, parts);
            for (int p = 0; p < count; p++) {
                const struct unit_param *slot =
                    &table.params[table.position_of_param[parts[p].param]];
                assert_true(parts[p].count > 0 && slot->unit == unit);
                assert_int_equal(parts[p].first, next[parts[p].param]);
                assert_int_equal(range.begin + parts[p].offset, slot->offset + parts[p].first);
                assert_true(range.begin + parts[p].offset + parts[p].count <= range.end);
                next[parts[p].param] += parts[p].count;
            }
        }
        for (int i = 0; i < blueprint.param_count; i++) {
            assert_int_equal(next[i], param_elements(&blueprint.params[i]));
        }
    }
    region_finish(&region);
}

static void an_empty_range_has_no_parts(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct unit_table table;
    struct unit_part parts[4];
    model_open("gpt2", &region, &blueprint);
    model_units(&blueprint, (struct unit_options){.world = 1024}, &region, &table);
    int final = table.unit_count - 1;
    assert_int_equal(unit_list_parts(&table, final, (struct unit_range){64, 64}, parts), 0);
    /* 1,536 elements over 1,024 ranks of 64: most have padding alone. */
    assert_int_equal(table.units[final].elements, 65536);
    assert_int_equal(
        unit_list_parts(&table, final, unit_shard_range(&table.units[final], 1024, 23), parts), 1);
    assert_int_equal(
        unit_list_parts(&table, final, unit_shard_range(&table.units[final], 1024, 24), parts), 0);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_hold_every_parameter_once_and_apart),
        cmocka_unit_test(decayed_parameters_come_first),
        cmocka_unit_test(padding_of_real_models_is_below_a_thousandth_in_worlds_to_64),
        cmocka_unit_test(a_tied_head_lives_with_the_embedding),
        cmocka_unit_test(a_world_only_lengthens_units_at_their_ends),
        cmocka_unit_test(shards_are_equal_slots_of_whole_granules),
        cmocka_unit_test(frozen_parameters_form_units_of_their_own),
        cmocka_unit_test(freezing_part_of_a_product_or_everything_is_refused),
        cmocka_unit_test(parts_of_all_shards_are_every_parameter_once),
        cmocka_unit_test(an_empty_range_has_no_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
