/* build: the segments in their order, first instructions, then the lives of what they touch. */
#include "runtime/schedule/schedule.h"

#include "runtime/model/backward.h"
#include "runtime/schedule/lives.h"
#include "runtime/schedule/order.h"
#include "runtime/schedule/ranks.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/translate.h"
#include "runtime/schedule/workspaces.h"

#include <stdio.h>
#include <string.h>

static const char *const SEGMENT_NAMES[SEGMENT_COUNT] = {
    "load", "begin", "microbatch", "finish", "evaluate", "prefill", "decode", "snapshot"};

const char *segment_name(enum segment_kind kind) {
    ASSERT(kind < SEGMENT_COUNT);
    return SEGMENT_NAMES[kind];
}

union kernel_args schedule_args_of_rank(const struct instruction *instruction,
                                        const int index[static AXIS_COUNT]) {
    union kernel_args args = instruction->args;
    if (instruction->op == OP_ADAMW && args.adamw.split) {
        int64_t count = args.adamw.run.count;
        int64_t before = index[AXIS_SHARD] * count;
        int64_t decayed = args.adamw.decayed_of_unit - before;
        args.adamw.run.decayed = decayed < 0 ? 0 : decayed > count ? count : decayed;
        args.adamw.run.position = before;
    }
    return args;
}

bool schedule_on_host(const struct schedule *schedule, const struct instruction *instruction) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int extent = instruction->operands[k].extent;
        if (extent != EXTENT_NONE && schedule->extents[extent].space == SPACE_DEVICE) {
            return false;
        }
    }
    return true;
}

static void *grown(struct schedule *schedule, const void *old, int count, int *capacity,
                   size_t size) {
    int wanted = *capacity == 0 ? 512 : 2 * *capacity;
    void *bigger = region_alloc(schedule->region, (size_t)wanted, size);
    if (count > 0) {
        memcpy(bigger, old, (size_t)count * size);
    }
    *capacity = wanted;
    return bigger;
}

int schedule_extent(struct schedule *schedule, struct extent extent) {
    ASSERT(extent.bytes > 0);
    if (schedule->extent_count == schedule->extent_capacity) {
        schedule->extents = grown(schedule, schedule->extents, schedule->extent_count,
                                  &schedule->extent_capacity, sizeof *schedule->extents);
    }
    extent.align = schedule->options.align;
    extent.space = schedule->options.unified ? SPACE_DEVICE : extent.space;
    schedule->extents[schedule->extent_count] = extent;
    return schedule->extent_count++;
}

struct instruction *schedule_instruction(struct schedule *schedule, enum op_kind op,
                                         enum segment_kind segment, enum lane lane) {
    if (schedule->instruction_count == schedule->instruction_capacity) {
        schedule->instructions =
            grown(schedule, schedule->instructions, schedule->instruction_count,
                  &schedule->instruction_capacity, sizeof *schedule->instructions);
    }
    struct instruction *added = &schedule->instructions[schedule->instruction_count++];
    *added = (struct instruction){
        .op = op, .segment = (uint8_t)segment, .lane = (uint8_t)lane, .layer = PARAM_NO_LAYER};
    for (int i = 0; i < OPERANDS_MAX; i++) {
        added->operands[i].extent = EXTENT_NONE;
    }
    added->workspace.extent = EXTENT_NONE;
    return added;
}

struct operand schedule_whole(const struct schedule *schedule, int extent, enum access access) {
    return (struct operand){
        .extent = extent, .access = access, .bytes = schedule->extents[extent].bytes};
}

void schedule_workspace(struct schedule *schedule, struct instruction *instruction) {
    uint64_t bytes = workspace_bytes(instruction, &schedule->options);
    if (bytes == 0) {
        return;
    }
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s/%d.%s.workspace", segment_name(instruction->segment),
             (int)(instruction - schedule->instructions), op_row(instruction->op)->name);
    int extent = schedule_named_extent(schedule, region_text(schedule->region, name),
                                       ROLE_WORKSPACE, SPACE_DEVICE, bytes);
    instruction->workspace = schedule_whole(schedule, extent, ACCESS_WRITE);
}

void schedule_copy_part(struct schedule *schedule, enum segment_kind segment, struct operand from,
                        struct operand to) {
    struct instruction *copy = schedule_instruction(schedule, OP_COPY, segment, LANE_COPY);
    ASSERT(from.bytes == to.bytes);
    from.access = ACCESS_READ;
    to.access = ACCESS_WRITE;
    copy->operands[COPY_FROM] = from;
    copy->operands[COPY_TO] = to;
    copy->args.count = (int64_t)from.bytes;
}

void schedule_copy(struct schedule *schedule, enum segment_kind segment, int from, int to) {
    if (from == to || from == EXTENT_NONE) {
        return;
    }
    schedule_copy_part(schedule, segment, schedule_whole(schedule, from, ACCESS_READ),
                       schedule_whole(schedule, to, ACCESS_WRITE));
}

void schedule_zero_fill(struct schedule *schedule, enum segment_kind segment, int extent) {
    struct instruction *zero = schedule_instruction(schedule, OP_ZERO, segment, LANE_COMPUTE);
    zero->operands[ZERO_EXTENT] = schedule_whole(schedule, extent, ACCESS_WRITE);
    zero->args.count = (int64_t)schedule->extents[extent].bytes;
}

static void copy_batch_in(struct schedule *schedule, enum segment_kind segment,
                          const struct device_inputs *inputs) {
    const struct host_extents *host = &schedule->host;
    schedule_copy(schedule, segment, host->ids, inputs->ids);
    schedule_copy(schedule, segment, host->positions, inputs->positions);
    if (segment == SEGMENT_MICROBATCH || segment == SEGMENT_EVALUATE) {
        schedule_copy(schedule, segment, host->labels, inputs->labels);
    }
}

void schedule_begin(struct schedule *schedule, enum segment_kind segment, int64_t repeat) {
    schedule->segments[segment].first = (uint32_t)schedule->instruction_count;
    schedule->segments[segment].repeat = repeat;
}

void schedule_end(struct schedule *schedule, enum segment_kind segment) {
    schedule->segments[segment].end = (uint32_t)schedule->instruction_count;
}

/* The host at work: nothing to run, but the extents named are in use. */
static void add_host_work(struct schedule *schedule, enum segment_kind segment, int extent) {
    struct instruction *work = schedule_instruction(schedule, OP_HOST, segment, LANE_COMPUTE);
    work->operands[HOST_EXTENT] = schedule_whole(schedule, extent, ACCESS_UPDATE);
}

static void build_load(struct schedule *schedule, const struct device_inputs *inputs) {
    schedule_begin(schedule, SEGMENT_LOAD, 1);
    add_host_work(schedule, SEGMENT_LOAD, schedule->host.staging);
    schedule_copy(schedule, SEGMENT_LOAD, schedule->host.rope_table, inputs->rope_table);
    schedule_end(schedule, SEGMENT_LOAD);
}

static void build_microbatch(struct schedule *schedule, const struct translate_context *context) {
    const struct schedule_options *options = &schedule->options;
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
    schedule_begin(schedule, SEGMENT_MICROBATCH, options->accumulation);
    copy_batch_in(schedule, SEGMENT_MICROBATCH, &context->inputs);
    translate_graph(schedule, &graph, SEGMENT_MICROBATCH, context);
    schedule_end(schedule, SEGMENT_MICROBATCH);
}

static void build_evaluate(struct schedule *schedule, struct translate_context context) {
    const struct schedule_options *options = &schedule->options;
    struct graph_shape shape = {.mode = options->logits ? GRAPH_LOGITS : GRAPH_EVALUATE,
                                .rows = options->microbatch,
                                .time = options->sequence,
                                .dtype = options->compute,
                                .frozen = schedule->frozen};
    struct graph graph;
    graph_build(schedule->blueprint, &shape, schedule->region, &graph);
    int64_t tokens = graph_tokens(&graph);
    if (options->logits) {
        uint64_t bytes = (uint64_t)(tokens * schedule->blueprint->vocab) * sizeof(float);
        context.logits = extents_add_result(schedule, "logits", bytes, &schedule->host.logits);
    }
    schedule_begin(schedule, SEGMENT_EVALUATE, 1);
    schedule_copy(schedule, SEGMENT_EVALUATE, schedule->host.scalars, context.inputs.scalars);
    copy_batch_in(schedule, SEGMENT_EVALUATE, &context.inputs);
    translate_graph(schedule, &graph, SEGMENT_EVALUATE, &context);
    ranks_tally_send(schedule, SEGMENT_EVALUATE);
    ranks_tally_receive(schedule, SEGMENT_EVALUATE, TALLY_TOKENS | TALLY_LOSS);
    schedule_copy(schedule, SEGMENT_EVALUATE, context.inputs.scalars, schedule->host.scalars);
    schedule_copy(schedule, SEGMENT_EVALUATE, context.logits, schedule->host.logits);
    schedule_end(schedule, SEGMENT_EVALUATE);
}

static void build_generation(struct schedule *schedule, enum segment_kind segment, int64_t tokens,
                             const struct translate_context *context) {
    const struct schedule_options *options = &schedule->options;
    struct graph_shape shape = {.mode = GRAPH_GENERATE,
                                .rows = 1,
                                .time = tokens,
                                .context = options->context,
                                .dtype = options->compute,
                                .frozen = schedule->frozen};
    struct graph graph;
    graph_build(schedule->blueprint, &shape, schedule->region, &graph);
    schedule_begin(schedule, segment, 1);
    schedule_copy(schedule, segment, schedule->host.scalars, context->inputs.scalars);
    copy_batch_in(schedule, segment, &context->inputs);
    translate_graph(schedule, &graph, segment, context);
    schedule_copy(schedule, segment, context->logits, schedule->host.next_logits);
    schedule_end(schedule, segment);
}

static void build_generations(struct schedule *schedule, struct translate_context context) {
    const struct blueprint *blueprint = schedule->blueprint;
    int64_t layers = blueprint->layers;
    int *caches = region_alloc(schedule->region, (size_t)(2 * layers), sizeof(int));
    uint64_t bytes = (uint64_t)(schedule->options.context * blueprint->kv_heads *
                                blueprint->head_dim * dtype_bytes(schedule->options.compute));
    for (int i = 0; i < 2 * layers; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "layers.%d.%s", i / 2,
                 i % 2 == 0 ? "key_cache" : "value_cache");
        caches[i] = schedule_named_extent(schedule, region_text(schedule->region, name), ROLE_CACHE,
                                          SPACE_DEVICE, bytes);
    }
    context.caches = caches;
    bytes = (uint64_t)blueprint->vocab * sizeof(float);
    context.logits =
        extents_add_result(schedule, "next_logits", bytes, &schedule->host.next_logits);
    build_generation(schedule, SEGMENT_PREFILL, schedule->options.prefill, &context);
    build_generation(schedule, SEGMENT_DECODE, 1, &context);
}

static const bool *frozen_params(const struct schedule *schedule) {
    const struct unit_table *units = schedule->units;
    int params = schedule->blueprint->param_count;
    bool *frozen = region_alloc(schedule->region, (size_t)params, sizeof *frozen);
    bool any = false;
    for (int i = 0; i < params; i++) {
        frozen[i] = units->units[units->slots[units->slot_of_param[i]].unit].frozen;
        any = any || frozen[i];
    }
    return any ? frozen : NULL;
}

void schedule_build(const struct blueprint *blueprint, const struct unit_table *units,
                    const struct schedule_options *options, struct region *region,
                    struct schedule *schedule) {
    ASSERT((options->offload & OFFLOAD_PARAMS) == 0 || (options->offload & OFFLOAD_OPTIMIZER) != 0);
    ASSERT(options->align >= ARENA_ALIGN_BYTES && options->threads >= 1);
    *schedule = (struct schedule){
        .blueprint = blueprint, .units = units, .options = *options, .region = region};
    static const struct sharding ALONE = {.shard = 1, .replicate = 1};
    schedule->sharding = options->sharding == NULL ? ALONE : *options->sharding;
    ASSERT(schedule->sharding.shard == 1 || schedule->sharding.units != NULL);
    schedule->frozen = frozen_params(schedule);
    extents_add_units(schedule);
    struct translate_context context = {.inputs = extents_add_host(schedule),
                                        .logits = EXTENT_NONE};
    extents_add_kept(schedule);
    extents_add_sum_staging(schedule);
    build_load(schedule, &context.inputs);
    if (options->train) {
        step_build_begin(schedule, &context.inputs);
        build_microbatch(schedule, &context);
        step_build_finish(schedule);
    }
    if (options->evaluate) {
        build_evaluate(schedule, context);
    }
    if (options->context > 0) {
        build_generations(schedule, context);
    }
    schedule_begin(schedule, SEGMENT_SNAPSHOT, 1);
    add_host_work(schedule, SEGMENT_SNAPSHOT, schedule->host.staging);
    schedule_end(schedule, SEGMENT_SNAPSHOT);
    struct order_clocks clocks;
    order_add_waits(schedule, &clocks);
    lives_find(schedule, &clocks);
}
