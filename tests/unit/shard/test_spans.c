/* Spans on real graphs, over many strategies, against plain searches through all ops. */
#include "runtime/shard/spans.h"

#include "runtime/model/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "models.h"
#include "runtime/model/families/families.h"

/* Four blocks each; heads of 16, so that q, k and v are one product in llama and qwen2. */
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 64,"
    " \"intermediate_size\": 160, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4, \"max_position_embeddings\": 64}";
static const char QWEN2[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 300, \"hidden_size\": 64,"
    " \"intermediate_size\": 160, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";
static const char GPT2[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 300, \"n_embd\": 64,"
                           " \"n_layer\": 4, \"n_head\": 4, \"n_positions\": 64}";

struct sweep_settings {
    const char *config, *wrap, *frozen, *overrides;
    enum graph_mode mode;
    enum recompute recompute;
    int zero, shard, prefetch, gathered_units_max;
    bool keep_gathered;
};

struct rig {
    struct sweep_settings settings;
    struct region region;
    struct blueprint blueprint;
    struct unit_table units;
    struct graph graph;
    struct sharding sharding;
    struct spans spans;
};

static void build_graph(struct rig *rig) {
    const struct graph_shape shape = {.mode = rig->settings.mode,
                                      .rows = rig->settings.mode == GRAPH_GENERATE ? 1 : 2,
                                      .time = 16,
                                      .context = 32,
                                      .dtype = DTYPE_F32};
    graph_build(&rig->blueprint, &shape, &rig->region, &rig->graph);
    if (rig->settings.mode == GRAPH_TRAIN) {
        const enum recompute policy[4] = {rig->settings.recompute, rig->settings.recompute,
                                          rig->settings.recompute, rig->settings.recompute};
        backward_build(&rig->graph);
        recompute_apply(&rig->graph, policy);
    }
}

static void rig_init(struct rig *rig, const struct sweep_settings *settings) {
    *rig = (struct rig){.settings = *settings};
    struct fault fault;
    if (blueprint_read(settings->config, strlen(settings->config), "config", &rig->region,
                       &rig->blueprint, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    const struct unit_options options = {
        .world = settings->shard, .wrap = settings->wrap, .frozen = settings->frozen};
    model_units(&rig->blueprint, options, &rig->region, &rig->units);
    build_graph(rig);
    rig->sharding = (struct sharding){.shard = settings->shard,
                                      .replicate = 1,
                                      .prefetch = settings->prefetch,
                                      .gathered_units_max = settings->gathered_units_max,
                                      .reduce = DTYPE_F32};
    const struct strategy_keys keys = {.zero = settings->zero,
                                       .keep_gathered = settings->keep_gathered,
                                       .overrides = settings->overrides};
    if (strategy_read(&keys, &rig->units, &rig->region, &rig->sharding.units, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    spans_find(&rig->graph, &rig->units, &rig->sharding, &rig->region, &rig->spans);
}

static void rig_finish(struct rig *rig) {
    region_finish(&rig->region);
}

/* Whether op `op` touches bytes of `unit` as `kind`; what it touches lies in that unit alone. */
static bool touches(const struct rig *rig, int op, int unit, enum tensor_kind kind) {
    const struct op *of = &rig->graph.ops[op];
    for (int k = 0; k < op_row(of->kind)->operand_count; k++) {
        if (of->operands[k] == TENSOR_NONE) {
            continue;
        }
        const struct tensor *tensor = &rig->graph.tensors[of->operands[k]];
        if (tensor->kind != kind) {
            continue;
        }
        const struct unit_param *slot =
            &rig->units.params[rig->units.position_of_param[tensor->param]];
        assert_true(slot->offset + tensor->rows * tensor->columns <=
                    rig->units.units[slot->unit].elements);
        if (slot->unit == unit) {
            return true;
        }
    }
    return false;
}

static bool touches_another(const struct rig *rig, int op, int unit) {
    for (int other = 0; other < rig->units.unit_count; other++) {
        if (other != unit && touches(rig, op, other, TENSOR_PARAM)) {
            return true;
        }
    }
    return false;
}

static int64_t elements(const struct rig *rig, const struct gather_span *span) {
    return rig->units.units[span->unit].elements;
}

/* The param elements that ZeRO 3 saves over ZeRO 2. */
static int64_t saved_elements(const struct rig *rig) {
    int64_t saved = 0;
    for (int unit = 0; unit < rig->units.unit_count; unit++) {
        if (rig->sharding.units[unit].zero == 3 && rig->sharding.shard > 1) {
            saved +=
                rig->units.units[unit].elements / rig->sharding.shard * (rig->sharding.shard - 1);
        }
    }
    return saved;
}

/* Whether two uses that follow each other have to be of one span. */
static bool belong_together(const struct rig *rig, int unit, int first, int second) {
    bool kept = rig->sharding.units[unit].keep_gathered && first < rig->graph.forward_count &&
                second >= rig->graph.forward_count;
    bool others = false;
    for (int op = first + 1; op < second; op++) {
        others = others || touches_another(rig, op, unit);
    }
    return kept || !others;
}

static int span_at(const struct rig *rig, int unit, int op) {
    int found = -1;
    for (int i = 0; i < rig->spans.gather_count; i++) {
        const struct gather_span *span = &rig->spans.gathers[i];
        if (span->unit == unit && span->first <= op && op <= span->last) {
            assert_int_equal(found, -1);
            found = i;
        }
    }
    return found;
}

static void check_uses(const struct rig *rig) {
    for (int unit = 0; unit < rig->units.unit_count; unit++) {
        int before = -1;
        bool split = rig->sharding.units[unit].zero == 3 && rig->sharding.shard > 1;
        for (int op = 0; op < rig->graph.op_count; op++) {
            if (!touches(rig, op, unit, TENSOR_PARAM)) {
                continue;
            }
            int span = span_at(rig, unit, op);
            assert_int_equal(span >= 0, split);
            if (split && before >= 0) {
                assert_int_equal(span_at(rig, unit, before) == span,
                                 belong_together(rig, unit, before, op));
            }
            before = op;
        }
    }
    for (int i = 0; i < rig->spans.gather_count; i++) {
        const struct gather_span *span = &rig->spans.gathers[i];
        assert_true(touches(rig, span->first, span->unit, TENSOR_PARAM));
        assert_true(touches(rig, span->last, span->unit, TENSOR_PARAM));
        assert_true(span->gather_at <= span->first);
        assert_true(i == 0 ||
                    (span[-1].first <= span->first && span[-1].gather_at <= span->gather_at));
    }
}

/* Whether listing gather `index` at op `at`, after those before it, keeps every bound. */
static bool admissible(const struct rig *rig, int index, int at) {
    const struct gather_span *gathers = rig->spans.gathers;
    int64_t sum = elements(rig, &gathers[index]);
    int count = 1;
    for (int j = 0; j < index; j++) {
        if (gathers[j].last < at) {
            continue;
        }
        if (gathers[j].unit == gathers[index].unit) {
            return false;
        }
        sum += elements(rig, &gathers[j]);
        count++;
    }
    return sum <= saved_elements(rig) &&
           (rig->sharding.gathered_units_max == 0 || count <= rig->sharding.gathered_units_max);
}

/* Each gather is listed as early as the bounds permit. */
static void check_places(const struct rig *rig) {
    for (int i = 0; i < rig->spans.gather_count; i++) {
        const struct gather_span *span = &rig->spans.gathers[i];
        int ahead = i < rig->sharding.prefetch ? i : rig->sharding.prefetch;
        int from = span[-ahead].first;
        from = i > 0 && span[-1].gather_at > from ? span[-1].gather_at : from;
        assert_true(span->gather_at >= from);
        assert_true(span->gather_at == span->first || admissible(rig, i, span->gather_at));
        for (int at = from; at < span->gather_at; at++) {
            assert_false(admissible(rig, i, at));
        }
    }
}

/* Spans of the default units follow each other; only these may lie within each other. */
static bool spans_may_overlap(const struct rig *rig) {
    bool overlap = rig->settings.wrap != NULL;
    for (int unit = 0; unit < rig->units.unit_count; unit++) {
        overlap = overlap || rig->sharding.units[unit].keep_gathered;
    }
    return overlap;
}

static int64_t most_gathered(const struct rig *rig) {
    int64_t most = 0;
    for (int op = 0; op < rig->graph.op_count; op++) {
        int64_t sum = 0;
        int count = 0;
        for (int i = 0; i < rig->spans.gather_count; i++) {
            const struct gather_span *span = &rig->spans.gathers[i];
            bool there = span->gather_at <= op && op <= span->last;
            sum += there ? elements(rig, span) : 0;
            count += there;
        }
        assert_true(sum <= saved_elements(rig) || count == 1 || spans_may_overlap(rig));
        most = sum > most ? sum : most;
    }
    return most;
}

static void check_reduces(const struct rig *rig) {
    int wanted = 0;
    for (int unit = 0; unit < rig->units.unit_count; unit++) {
        int first = -1;
        int last = -1;
        for (int op = 0; op < rig->graph.op_count; op++) {
            if (touches(rig, op, unit, TENSOR_PARAM_GRADIENT)) {
                first = first < 0 ? op : first;
                last = op;
            }
        }
        int found = 0;
        for (int i = 0; i < rig->spans.reduce_count; i++) {
            const struct reduce_span *span = &rig->spans.reduces[i];
            found += span->unit == unit;
            assert_true(span->unit != unit || (span->first == first && span->last == last));
        }
        assert_int_equal(found, last >= 0 && !rig->units.units[unit].frozen);
        wanted += found;
    }
    assert_int_equal(rig->spans.reduce_count, wanted);
    for (int i = 0; i < wanted; i++) {
        const struct reduce_span *span = &rig->spans.reduces[i];
        int next = i + 1 < wanted ? span[1].last + 1 : rig->graph.op_count;
        assert_true(i == 0 || span[-1].last <= span->last);
        assert_int_equal(span->accumulate_at, rig->sharding.prefetch > 0 ? next : span->last + 1);
    }
}

static void check(const struct sweep_settings *settings) {
    static struct rig rig;
    static struct rig plain;
    rig_init(&rig, settings);
    check_uses(&rig);
    check_places(&rig);
    check_reduces(&rig);
    int64_t most = most_gathered(&rig);
    struct sweep_settings without = *settings;
    without.prefetch = 0;
    rig_init(&plain, &without);
    int64_t bound = saved_elements(&rig);
    int64_t needed = most_gathered(&plain);
    assert_true(most <= (bound > needed ? bound : needed));
    rig_finish(&plain);
    rig_finish(&rig);
}

static void sweep_strategies(struct sweep_settings settings) {
    static const int SHARDS[] = {2, 8};
    for (int k = 0; k < 2 * 4 * 4 * 2; k++) {
        settings.shard = SHARDS[k % 2];
        settings.prefetch = k / 2 % 4;
        settings.gathered_units_max = k / 8 % 4;
        settings.keep_gathered = k / 32 == 1;
        check(&settings);
    }
}

static void spans_cover_what_training_computes_with(void **state) {
    (void)state;
    static const char *const CONFIGURATIONS[] = {LLAMA, QWEN2, GPT2};
    for (size_t m = 0; m < ARRAY_COUNT(CONFIGURATIONS); m++) {
        for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            sweep_strategies((struct sweep_settings){.config = CONFIGURATIONS[m],
                                                     .mode = GRAPH_TRAIN,
                                                     .recompute = (enum recompute)recompute,
                                                     .zero = 3});
        }
    }
}

static void spans_cover_forward_only_graphs(void **state) {
    (void)state;
    static const char *const CONFIGURATIONS[] = {LLAMA, QWEN2, GPT2};
    static const enum graph_mode MODES[] = {GRAPH_EVALUATE, GRAPH_LOGITS, GRAPH_GENERATE};
    for (size_t m = 0; m < ARRAY_COUNT(CONFIGURATIONS); m++) {
        for (size_t k = 0; k < ARRAY_COUNT(MODES); k++) {
            sweep_strategies(
                (struct sweep_settings){.config = CONFIGURATIONS[m], .mode = MODES[k], .zero = 3});
        }
    }
}

static void spans_follow_overrides_wraps_and_freezing(void **state) {
    (void)state;
    static const struct sweep_settings CASES[] = {
        {.config = LLAMA, .zero = 3, .overrides = "embed=zero:1,layers.2=zero:0"},
        {.config = LLAMA, .zero = 2, .overrides = "layers.*=zero:3;keep_gathered:true"},
        {.config = QWEN2, .zero = 3, .overrides = "layers.1=keep_gathered:true"},
        {.config = QWEN2, .zero = 3, .wrap = "root"},
        {.config = QWEN2, .zero = 3, .wrap = "size:80000"},
        {.config = LLAMA, .zero = 3, .wrap = "model.layers.0.mlp,model.layers.1.mlp.up_proj"},
        {.config = GPT2, .zero = 3, .wrap = "transformer.h.1.ln_1.weight,transformer.h.2.mlp"},
        {.config = LLAMA, .zero = 3, .frozen = "model.embed_tokens,model.layers.0"},
        {.config = QWEN2, .zero = 3, .frozen = "model.layers.3.mlp*"},
    };
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        struct sweep_settings settings = CASES[c];
        settings.mode = GRAPH_TRAIN;
        settings.recompute = RECOMPUTE_SELECTIVE;
        sweep_strategies(settings);
    }
}

static void nothing_is_gathered_when_params_are_whole(void **state) {
    (void)state;
    static const struct sweep_settings CASES[] = {{.config = LLAMA, .zero = 3, .shard = 1},
                                                  {.config = LLAMA, .zero = 2, .shard = 4},
                                                  {.config = QWEN2, .zero = 0, .shard = 4}};
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        static struct rig rig;
        struct sweep_settings settings = CASES[c];
        settings.mode = GRAPH_TRAIN;
        rig_init(&rig, &settings);
        assert_int_equal(rig.spans.gather_count, 0);
        assert_int_equal(rig.spans.reduce_count, rig.units.unit_count);
        assert_int_equal(most_gathered(&rig), 0);
        rig_finish(&rig);
    }
}

static void expect_units(const struct rig *rig, const char *gathers, const char *reduces) {
    char order[256] = "";
    for (int i = 0; i < rig->spans.gather_count; i++) {
        const char *name = rig->units.units[rig->spans.gathers[i].unit].name;
        snprintf(order + strlen(order), sizeof order - strlen(order), " %s", name);
    }
    assert_string_equal(order, gathers);
    order[0] = '\0';
    for (int i = 0; i < rig->spans.reduce_count; i++) {
        const char *name = rig->units.units[rig->spans.reduces[i].unit].name;
        snprintf(order + strlen(order), sizeof order - strlen(order), " %s", name);
    }
    assert_string_equal(order, reduces);
}

static void units_are_gathered_and_reduced_in_the_known_order(void **state) {
    (void)state;
    static struct rig rig;
    struct sweep_settings settings = {.config = LLAMA, .mode = GRAPH_TRAIN, .zero = 3, .shard = 4};
    rig_init(&rig, &settings);
    expect_units(&rig,
                 " embed layers.0 layers.1 layers.2 layers.3 final"
                 " layers.3 layers.2 layers.1 layers.0",
                 " final layers.3 layers.2 layers.1 layers.0 embed");
    rig_finish(&rig);
    settings.keep_gathered = true;
    rig_init(&rig, &settings);
    expect_units(&rig, " embed layers.0 layers.1 layers.2 layers.3 final",
                 " final layers.3 layers.2 layers.1 layers.0 embed");
    rig_finish(&rig);
}

/* The head is the embedding: gathered again for the loss, its gradient reduced once, last. */
static void a_tied_unit_is_reduced_once_after_its_last_use(void **state) {
    (void)state;
    static struct rig rig;
    const struct sweep_settings settings = {
        .config = QWEN2, .mode = GRAPH_TRAIN, .zero = 3, .shard = 2};
    rig_init(&rig, &settings);
    expect_units(&rig,
                 " embed layers.0 layers.1 layers.2 layers.3 final embed final"
                 " layers.3 layers.2 layers.1 layers.0",
                 " final layers.3 layers.2 layers.1 layers.0 embed");
    const struct reduce_span *embed = &rig.spans.reduces[rig.spans.reduce_count - 1];
    assert_int_equal(rig.graph.ops[embed->first].kind, OP_HEAD_LOSS_GRADIENT);
    assert_int_equal(rig.graph.ops[embed->last].kind, OP_EMBEDDING_BACKWARD);
    rig_finish(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_cover_what_training_computes_with),
        cmocka_unit_test(spans_cover_forward_only_graphs),
        cmocka_unit_test(spans_follow_overrides_wraps_and_freezing),
        cmocka_unit_test(nothing_is_gathered_when_params_are_whole),
        cmocka_unit_test(units_are_gathered_and_reduced_in_the_known_order),
        cmocka_unit_test(a_tied_unit_is_reduced_once_after_its_last_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
