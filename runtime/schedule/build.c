/* build: lists the segments in order, then finds the lives of the extents that they access. */
#include "runtime/schedule/schedule.h"

#include "runtime/model/families/families.h"
#include "runtime/model/graph.h"
#include "runtime/schedule/extents.h"
#include "runtime/schedule/instruction_list.h"
#include "runtime/schedule/lives.h"
#include "runtime/schedule/optimizer_segments.h"
#include "runtime/schedule/order.h"
#include "runtime/schedule/rank_exchange.h"
#include "runtime/schedule/translate.h"

#include <stdio.h>

static void copy_batch_to_device(struct schedule *schedule, enum segment_kind segment,
                                 const struct device_inputs *inputs) {
    const struct cpu_extents *host = &schedule->host;
    ASSERT(segment == SEGMENT_MICROBATCH || segment == SEGMENT_EVALUATE ||
           segment == SEGMENT_PREFILL || segment == SEGMENT_DECODE);
    append_extent_copy(schedule, segment, host->ids, inputs->ids);
    append_extent_copy(schedule, segment, host->positions, inputs->positions);
    if (segment == SEGMENT_MICROBATCH || segment == SEGMENT_EVALUATE) {
        append_extent_copy(schedule, segment, host->labels, inputs->labels);
    }
}

/* Appends an instruction that executes nothing and marks an extent as in use, because the CPU
 * accesses that extent. */
static void append_cpu_use(struct schedule *schedule, enum segment_kind segment, int extent) {
    struct instruction *work = append_instruction(schedule, OP_HOST, segment, LANE_COMPUTE);
    work->operands[HOST_EXTENT] = extent_table_whole_extent(schedule, extent, ACCESS_UPDATE);
}

static void build_load_segment(struct schedule *schedule, const struct device_inputs *inputs) {
    begin_segment(schedule, SEGMENT_LOAD, 1);
    append_cpu_use(schedule, SEGMENT_LOAD, schedule->host.staging);
    append_extent_copy(schedule, SEGMENT_LOAD, schedule->host.rope_table, inputs->rope_table);
    end_segment(schedule, SEGMENT_LOAD);
}

static void build_microbatch_segment(struct schedule *schedule,
                                     const struct translate_context *context) {
    const struct schedule_options *options = &schedule->options;
    ASSERT(options->train && options->accumulation >= 1);
    struct graph_shape shape = {.mode = GRAPH_TRAIN,
                                .rows = options->microbatch,
                                .time = options->sequence,
                                .dtype = options->compute,
                                .frozen = schedule->frozen};
    struct graph graph;
    graph_build(schedule->blueprint, &shape, schedule->region, &graph);
    backward_build(&graph);
    recompute_apply(&graph, options->recompute);
    if ((options->offload & OFFLOAD_ACTIVATIONS) != 0) {
        offload_apply(&graph);
    }
    begin_segment(schedule, SEGMENT_MICROBATCH, options->accumulation);
    copy_batch_to_device(schedule, SEGMENT_MICROBATCH, &context->inputs);
    translate_graph(schedule, &graph, SEGMENT_MICROBATCH, context);
    end_segment(schedule, SEGMENT_MICROBATCH);
}

static void build_evaluate_segment(struct schedule *schedule, struct translate_context context) {
    const struct schedule_options *options = &schedule->options;
    ASSERT(options->evaluate);
    struct graph_shape shape = {.mode = options->stores_logits ? GRAPH_LOGITS : GRAPH_EVALUATE,
                                .rows = options->microbatch,
                                .time = options->sequence,
                                .dtype = options->compute,
                                .frozen = schedule->frozen};
    struct graph graph;
    graph_build(schedule->blueprint, &shape, schedule->region, &graph);
    int64_t tokens = graph_token_count(&graph);
    if (options->stores_logits) {
        uint64_t bytes = (uint64_t)(tokens * schedule->blueprint->vocab) * sizeof(float);
        context.logits = extents_add_result(schedule, "logits", bytes, &schedule->host.logits);
    }
    begin_segment(schedule, SEGMENT_EVALUATE, 1);
    append_extent_copy(schedule, SEGMENT_EVALUATE, schedule->host.scalars, context.inputs.scalars);
    copy_batch_to_device(schedule, SEGMENT_EVALUATE, &context.inputs);
    translate_graph(schedule, &graph, SEGMENT_EVALUATE, &context);
    append_tally_send(schedule, SEGMENT_EVALUATE);
    append_tally_receive(schedule, SEGMENT_EVALUATE, TALLY_TOKENS | TALLY_LOSS);
    append_extent_copy(schedule, SEGMENT_EVALUATE, context.inputs.scalars, schedule->host.scalars);
    append_extent_copy(schedule, SEGMENT_EVALUATE, context.logits, schedule->host.logits);
    end_segment(schedule, SEGMENT_EVALUATE);
}

static void build_generation_segment(struct schedule *schedule, enum segment_kind segment,
                                     int64_t tokens, const struct translate_context *context) {
    const struct schedule_options *options = &schedule->options;
    ASSERT(tokens >= 1 && tokens <= options->context);
    struct graph_shape shape = {.mode = GRAPH_GENERATE,
                                .rows = 1,
                                .time = tokens,
                                .context = options->context,
                                .dtype = options->compute,
                                .frozen = schedule->frozen};
    struct graph graph;
    graph_build(schedule->blueprint, &shape, schedule->region, &graph);
    begin_segment(schedule, segment, 1);
    append_extent_copy(schedule, segment, schedule->host.scalars, context->inputs.scalars);
    copy_batch_to_device(schedule, segment, &context->inputs);
    translate_graph(schedule, &graph, segment, context);
    append_extent_copy(schedule, segment, context->logits, schedule->host.next_logits);
    end_segment(schedule, segment);
}

static void build_generation_segments(struct schedule *schedule, struct translate_context context) {
    const struct blueprint *blueprint = schedule->blueprint;
    int64_t layers = blueprint->layers;
    int *caches = region_alloc(schedule->region, (size_t)(2 * layers), sizeof(int));
    uint64_t bytes = (uint64_t)(schedule->options.context * blueprint->kv_heads *
                                blueprint->head_dim * dtype_bytes(schedule->options.compute));
    for (int i = 0; i < 2 * layers; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "layers.%d.%s", i / 2,
                 i % 2 == 0 ? "key_cache" : "value_cache");
        caches[i] = extent_table_add(schedule, region_copy_text(schedule->region, name), ROLE_CACHE,
                                     SPACE_DEVICE, bytes);
    }
    context.caches = caches;
    bytes = (uint64_t)blueprint->vocab * sizeof(float);
    context.logits =
        extents_add_result(schedule, "next_logits", bytes, &schedule->host.next_logits);
    build_generation_segment(schedule, SEGMENT_PREFILL, schedule->options.prefill, &context);
    build_generation_segment(schedule, SEGMENT_DECODE, 1, &context);
}

static const bool *find_frozen_params(const struct schedule *schedule) {
    const struct unit_table *units = schedule->units;
    int params = schedule->blueprint->param_count;
    bool *frozen = region_alloc(schedule->region, (size_t)params, sizeof *frozen);
    bool any = false;
    for (int i = 0; i < params; i++) {
        ASSERT(units->position_of_param[i] >= 0 && units->position_of_param[i] < params);
        frozen[i] = units->units[units->params[units->position_of_param[i]].unit].frozen;
        any = any || frozen[i];
    }
    return any ? frozen : NULL;
}

void schedule_build(const struct blueprint *blueprint, const struct unit_table *units,
                    const struct target *target, const struct schedule_options *options,
                    struct region *region, struct schedule *schedule) {
    ASSERT((options->offload & OFFLOAD_PARAMS) == 0 || (options->offload & OFFLOAD_OPTIMIZER) != 0);
    ASSERT(target->align_bytes >= ARENA_ALIGN_BYTES && target->threads >= 1);
    *schedule = (struct schedule){.blueprint = blueprint,
                                  .units = units,
                                  .target = target,
                                  .options = *options,
                                  .region = region};
    struct sharding *sharding = &schedule->options.sharding;
    if (sharding->shard == 0) {
        sharding->shard = sharding->replicate = 1;
    }
    ASSERT(sharding->shard >= 1 && sharding->replicate >= 1);
    ASSERT(sharding->shard == 1 || sharding->units != NULL);
    schedule->frozen = find_frozen_params(schedule);
    extents_add_units(schedule);
    struct translate_context context = {.inputs = extents_add_inputs(schedule),
                                        .logits = EXTENT_NONE};
    extents_add_resident(schedule);
    extents_add_sum_staging(schedule);
    build_load_segment(schedule, &context.inputs);
    if (options->train) {
        build_begin_segment(schedule, &context.inputs);
        build_microbatch_segment(schedule, &context);
        build_finish_segment(schedule);
    }
    if (options->evaluate) {
        build_evaluate_segment(schedule, context);
    }
    if (options->context > 0) {
        build_generation_segments(schedule, context);
    }
    begin_segment(schedule, SEGMENT_SNAPSHOT, 1);
    append_cpu_use(schedule, SEGMENT_SNAPSHOT, schedule->host.staging);
    end_segment(schedule, SEGMENT_SNAPSHOT);
    ASSERT(schedule->segments[SEGMENT_SNAPSHOT].end == (uint32_t)schedule->instruction_count);
    struct order_clocks clocks;
    order_add_waits(schedule, &clocks);
    lives_find(schedule, &clocks);
}
