#include "rig.h"

#include "base/text.h"
#include "runtime/model/families/families.h"
#include "runtime/schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCE = 8, ROWS = 2, ACCUMULATION = 3 };

static const char *const FAMILIES[RIG_FAMILIES] = {"gpt2", "llama", "qwen3", "mistral"};

static void write_config(const struct rig_case *of, char *text, size_t bytes) {
    int hidden = of->hidden == 0 ? 32 : (int)of->hidden;
    if (of->family == 0) {
        snprintf(text, bytes,
                 "{\"model_type\": \"gpt2\", \"n_head\": 2, \"n_embd\": %d, \"n_layer\": %d, "
                 "\"vocab_size\": 37, \"n_positions\": 32}",
                 hidden, RIG_LAYERS);
        return;
    }
    snprintf(text, bytes,
             "{\"model_type\": \"%s\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
             "\"head_dim\": 8, \"hidden_size\": %d, \"intermediate_size\": %d, "
             "\"num_hidden_layers\": %d, \"vocab_size\": 37, \"max_position_embeddings\": 32, "
             "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": %s}",
             FAMILIES[of->family], hidden, 2 * hidden, RIG_LAYERS,
             of->family == 2 ? "true" : "false");
}

const char *rig_title(const struct rig_case *of) {
    static char title[256];
    snprintf(title, sizeof title,
             "%s zero %d%s shard %d replicate %d prefetch %d live %d keep %d at %s wire %s "
             "compute %s recompute %s offload %u%s%s",
             FAMILIES[of->family], of->zero, of->mixed ? " mixed" : "", of->shard, of->replicate,
             of->prefetch, of->live, of->keep_gathered,
             of->reduce_at == REDUCE_AT_STEP ? "step" : "microbatch", dtype_name(of->reduce),
             dtype_name(of->compute), recompute_name(of->recompute), of->offload,
             of->separate ? " separate" : "", of->frozen ? " frozen" : "");
    return title;
}

static void expect(const struct rig *rig, enum status status, const struct fault *fault) {
    if (status != OK) {
        fail_msg("%s: %s: %s", rig_title(&rig->of), fault->subject, fault->reason);
    }
}

static void make_strategies(struct rig *rig) {
    assert_true(rig->units.unit_count <= RIG_UNITS_MAX);
    for (int unit = 0; unit < rig->units.unit_count; unit++) {
        int zero = rig->of.mixed ? (rig->of.zero + unit) % ZERO_STAGE_COUNT : rig->of.zero;
        rig->strategies[unit] =
            (struct unit_strategy){.zero = zero, .keep_gathered = rig->of.keep_gathered};
    }
    rig->sharding = (struct sharding){.shard = rig->of.shard,
                                      .replicate = rig->of.replicate,
                                      .units = rig->strategies,
                                      .prefetch = rig->of.prefetch,
                                      .gathered_units_max = rig->of.live,
                                      .reduce_at = rig->of.reduce_at,
                                      .reduce = rig->of.reduce};
}

static struct schedule_options options_of(struct rig *rig) {
    enum recompute *recompute = region_alloc(&rig->region, RIG_LAYERS, sizeof *recompute);
    for (int layer = 0; layer < RIG_LAYERS; layer++) {
        recompute[layer] = rig->of.recompute;
    }
    return (struct schedule_options){.sequence = SEQUENCE,
                                     .microbatch = ROWS,
                                     .accumulation = ACCUMULATION,
                                     .context = 16,
                                     .prefill = 4,
                                     .train = !rig->of.no_training,
                                     .evaluate = true,
                                     .compute = rig->of.compute,
                                     .moments = DTYPE_F32,
                                     .recompute = recompute,
                                     .offload = rig->of.offload,
                                     .staging_bytes = 1024,
                                     .sharding = rig->sharding,
                                     .resident = rig->of.resident,
                                     .resident_count = rig->of.resident_count};
}

/* Every parameter of the second block, by name. */
static void write_frozen(const struct rig *rig, char *text, size_t bytes) {
    struct text names = text_over(text, bytes);
    text[0] = '\0';
    for (int i = 0; rig->of.frozen && i < rig->blueprint.param_count; i++) {
        const struct param *param = &rig->blueprint.params[i];
        if (param->layer == 1) {
            text_add(&names, "%s%s", names.length > 0 ? "," : "", param->name);
        }
    }
    assert_false(names.truncated);
}

void rig_init(struct rig *rig, const struct rig_case *of) {
    struct fault fault;
    char config[512];
    memset(rig, 0, sizeof *rig);
    rig->of = *of;
    rig->of.shard = of->shard == 0 ? 1 : of->shard;
    rig->of.replicate = of->replicate == 0 ? 1 : of->replicate;
    write_config(of, config, sizeof config);
    expect(rig,
           blueprint_read(config, strlen(config), "config.json", &rig->region, &rig->blueprint,
                          &fault),
           &fault);
    char frozen[2048];
    write_frozen(rig, frozen, sizeof frozen);
    struct unit_options by_block = {.world = rig->of.shard * rig->of.replicate, .frozen = frozen};
    expect(rig, unit_table_init(&rig->blueprint, &by_block, &rig->region, &rig->units, &fault),
           &fault);
    make_strategies(rig);
    struct schedule_options options = options_of(rig);
    rig->target = (struct target){
        .unified = !rig->of.separate, .align_bytes = ARENA_ALIGN_BYTES, .threads = 2};
    schedule_build(&rig->blueprint, &rig->units, &rig->target, &options, &rig->region,
                   &rig->schedule);
    arena_plan(&(struct arena_problem){rig->schedule.extents, rig->schedule.extent_count},
               &rig->region, &rig->plan);
}

void rig_prove(struct rig *rig) {
    struct fault fault;
    expect(rig, arena_verify(&rig->plan.problem, &rig->plan, &rig->region, &fault), &fault);
    expect(rig, schedule_verify(&rig->schedule, rig->plan.offsets, &rig->region, &fault), &fault);
}

void rig_finish(struct rig *rig) {
    region_finish(&rig->region);
}
