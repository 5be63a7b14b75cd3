/* Wrap policies: which parameters share a unit, how it is named, and which policies are
 * rejected. */
#include "runtime/shard/wrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "models.h"

struct rig {
    struct region region;
    struct blueprint blueprint;
    struct unit_table table;
};

static void rig_init(struct rig *rig, const char *model, const char *wrap) {
    memset(rig, 0, sizeof *rig);
    model_open(model, &rig->region, &rig->blueprint);
    model_units(&rig->blueprint, (struct unit_options){.world = 2, .wrap = wrap}, &rig->region,
                &rig->table);
}

/* The name of the unit of the parameter `name`. */
static const char *unit_of(const struct rig *rig, const char *name) {
    for (int i = 0; i < rig->blueprint.param_count; i++) {
        if (strcmp(rig->blueprint.params[i].name, name) == 0) {
            const struct unit_param *slot = &rig->table.params[rig->table.position_of_param[i]];
            assert_int_equal(slot->param, i);
            return rig->table.units[slot->unit].name;
        }
    }
    fail_msg("no parameter is named %s", name);
    return NULL;
}

static void root_is_one_unit_of_everything(void **state) {
    (void)state;
    static struct rig rig;
    rig_init(&rig, "qwen3-0.6b", "root");
    assert_int_equal(rig.table.unit_count, 1);
    assert_string_equal(rig.table.units[0].name, "root");
    assert_int_equal(rig.table.units[0].elements - rig.table.units[0].padding_elements,
                     blueprint_elements(&rig.blueprint));
    region_finish(&rig.region);
}

static void sizes_join_neighbours_until_they_suffice(void **state) {
    (void)state;
    static const int64_t SIZES[] = {1, 7000000, 7087873, 20000000, 38597377, 60000000, 200000000};
    for (size_t s = 0; s < ARRAY_COUNT(SIZES); s++) {
        static struct rig rig;
        char policy[32];
        snprintf(policy, sizeof policy, "size:%lld", (long long)SIZES[s]);
        rig_init(&rig, "gpt2", policy);
        int64_t whole = blueprint_elements(&rig.blueprint);
        int layer = -1;
        for (int unit = 0; unit < rig.table.unit_count; unit++) {
            const struct unit *of = &rig.table.units[unit];
            assert_true(of->elements - of->padding_elements >= SIZES[s] ||
                        (SIZES[s] > whole && rig.table.unit_count == 1));
            for (int k = 0; k < of->param_count; k++) {
                const struct unit_param *slot = &rig.table.params[of->first_param + k];
                int next = rig.blueprint.params[slot->param].layer;
                layer = next > layer ? next : layer; /* blocks never go back */
                assert_true(next == PARAM_NO_LAYER || next == layer ||
                            slot->offset >= of->decayed_elements);
            }
        }
        region_finish(&rig.region);
    }
}

/* GPT-2: embeddings 39,383,808, a block 7,087,872, final norm 1,536 parameters. */
static void joined_units_are_named_by_their_ends(void **state) {
    (void)state;
    static struct rig rig;
    rig_init(&rig, "gpt2", "size:20000000");
    assert_int_equal(rig.table.unit_count, 5);
    assert_string_equal(rig.table.units[0].name, "embed");
    assert_string_equal(rig.table.units[1].name, "layers.0..2");
    assert_string_equal(rig.table.units[4].name, "layers.9..final");
    region_finish(&rig.region);
    rig_init(&rig, "gpt2", "size:40000000");
    assert_string_equal(rig.table.units[0].name, "embed..layers.0");
    assert_string_equal(rig.table.units[1].name, "layers.1..final"); /* 7..final fall short */
    assert_int_equal(rig.table.unit_count, 2);
    region_finish(&rig.region);
}

static void listed_names_nest_and_the_rest_stays_by_block(void **state) {
    (void)state;
    static struct rig rig;
    rig_init(&rig, "llama-3.2-1b",
             "model.layers.1, model.layers.1.mlp,model.layers.2.self_attn,model.layers.4*");
    assert_string_equal(unit_of(&rig, "model.embed_tokens.weight"), "embed");
    assert_string_equal(unit_of(&rig, "model.layers.0.mlp.up_proj.weight"), "layers.0");
    assert_string_equal(unit_of(&rig, "model.layers.1.mlp.up_proj.weight"), "model.layers.1.mlp");
    assert_string_equal(unit_of(&rig, "model.layers.1.self_attn.q_proj.weight"), "model.layers.1");
    assert_string_equal(unit_of(&rig, "model.layers.1.input_layernorm.weight"), "model.layers.1");
    assert_string_equal(unit_of(&rig, "model.layers.10.mlp.up_proj.weight"), "layers.10");
    assert_string_equal(unit_of(&rig, "model.layers.2.self_attn.v_proj.weight"),
                        "model.layers.2.self_attn");
    assert_string_equal(unit_of(&rig, "model.layers.2.mlp.up_proj.weight"), "layers.2");
    assert_string_equal(unit_of(&rig, "model.layers.4.mlp.up_proj.weight"), "model.layers.4*");
    assert_string_equal(unit_of(&rig, "model.norm.weight"), "final");
    assert_int_equal(rig.table.unit_count, 20); /* 18, layers.1 and layers.2 in two */
    region_finish(&rig.region);
}

static void one_product_has_neighbours_under_every_policy(void **state) {
    (void)state;
    static const char *const POLICIES[] = {"block", "root", "size:60000000",
                                           "model.layers.0.self_attn,model.layers.2"};
    static const enum param_kind KINDS[] = {PARAM_Q,      PARAM_K,      PARAM_V,
                                            PARAM_Q_BIAS, PARAM_K_BIAS, PARAM_V_BIAS};
    for (size_t p = 0; p < ARRAY_COUNT(POLICIES); p++) {
        static struct rig rig;
        rig_init(&rig, "qwen2.5-0.5b", POLICIES[p]);
        for (int layer = 0; layer < (int)rig.blueprint.layers; layer++) {
            for (int k = 0; k < 6; k++) {
                const struct param *param = blueprint_param(&rig.blueprint, KINDS[k], layer);
                const struct unit_param *slot =
                    &rig.table.params[rig.table.position_of_param[param - rig.blueprint.params]];
                if (k % 3 > 0) {
                    assert_int_equal(slot[-1].unit, slot->unit);
                    assert_int_equal(rig.blueprint.params[slot[-1].param].kind, KINDS[k - 1]);
                    assert_int_equal(slot->offset, slot[-1].offset + slot[-1].elements);
                }
            }
        }
        region_finish(&rig.region);
    }
}

static void bad_policies_are_refused_with_a_remedy(void **state) {
    (void)state;
    static const struct {
        const char *wrap, *reason, *remedy;
    } CASES[] = {
        {"size:0", "\"size:0\" does not give a number", "size:10000000"},
        {"size:", "does not give a number", "size:N"},
        {"model.layer.3", "for example, \"model.layers.3\"", "size:N"},
        {"model.layers.16", "\"model.layers.16\" matches no parameter", "block, root"},
        {"blok", "\"blok\" matches no parameter", "block, root"},
        {"model.layers.0,,model.layers.1", "name 2 of the list is empty", "block, root"},
        {"model.layers.0.self_attn.q_proj", "one matrix product computes q, k and v", "self_attn"},
    };
    struct region region = {0};
    struct blueprint blueprint;
    model_open("llama-3.2-1b", &region, &blueprint);
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct unit_table table = {.unit_count = 77};
        struct fault fault;
        const struct unit_options options = {.world = 1, .wrap = CASES[c].wrap};
        assert_int_equal(unit_table_init(&blueprint, &options, &region, &table, &fault),
                         STATUS_INPUT);
        assert_int_equal(table.unit_count, 77);
        assert_string_equal(fault.subject, "strategy.units");
        if (strstr(fault.reason, CASES[c].reason) == NULL ||
            strstr(fault.remedy, CASES[c].remedy) == NULL) {
            fail_msg("%s: %s; %s", CASES[c].wrap, fault.reason, fault.remedy);
        }
    }
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_is_one_unit_of_everything),
        cmocka_unit_test(sizes_join_neighbours_until_they_suffice),
        cmocka_unit_test(joined_units_are_named_by_their_ends),
        cmocka_unit_test(listed_names_nest_and_the_rest_stays_by_block),
        cmocka_unit_test(one_product_has_neighbours_under_every_policy),
        cmocka_unit_test(bad_policies_are_refused_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
