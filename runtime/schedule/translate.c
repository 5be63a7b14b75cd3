/* translate: turns one graph into the instructions of one segment. */
#include "runtime/schedule/translate.h"

#include "runtime/schedule/instruction_list.h"
#include "runtime/schedule/rank_exchange.h"
#include "runtime/shard/spans.h"

#include <stdio.h>
#include <string.h>

/* The translation of one graph into one segment. */
struct translation {
    struct schedule *schedule;
    const struct graph *graph;
    enum segment_kind segment; /* segment to which instructions are added */
    struct device_inputs inputs;
    const int *caches;   /* extents of the key-value caches, in the order of graph->caches */
    int *tensor_extents; /* [graph->tensor_count]: extents of tensors that own their bytes */
    struct spans spans;  /* ops between which units are gathered and reduced */
    int *gather_extents; /* [spans.gather_count]: extent that each gather listed so far fills */
    int *params;         /* [unit_count]: extent of each unit's params at the current op */
    /* number of gathers, reductions and gradient sums listed so far */
    int gathers_listed, reduces_listed, sums_listed;
};

static uint64_t tensor_bytes(const struct tensor *tensor) {
    int64_t elements = (tensor->rows - 1) * tensor->stride + tensor->columns;
    ASSERT(elements > 0);
    return (uint64_t)(elements * dtype_bytes(tensor->dtype));
}

static enum extent_role tensor_role(const struct tensor *tensor) {
    return tensor->kind == TENSOR_ACTIVATION_GRADIENT ? ROLE_ACTIVATION_GRADIENTS
                                                      : ROLE_ACTIVATIONS;
}

static int input_extent(const struct translation *translation, int tensor) {
    const struct graph *graph = translation->graph;
    const struct device_inputs *inputs = &translation->inputs;
    if (tensor == graph->ids) {
        return inputs->ids;
    }
    if (tensor == graph->positions) {
        return inputs->positions;
    }
    if (tensor == graph->labels) {
        return inputs->labels;
    }
    if (tensor == graph->rope_table) {
        return inputs->rope_table;
    }
    ASSERT(tensor == graph->scalars);
    return inputs->scalars;
}

static const char *name_with_segment(const struct translation *translation, const char *name) {
    if (translation->segment == SEGMENT_MICROBATCH) {
        return name;
    }
    char full[NAME_BYTES + 32];
    snprintf(full, sizeof full, "%s/%s", segment_name(translation->segment), name);
    return region_copy_text(translation->schedule->region, full);
}

/* Returns the extent of a tensor that owns its bytes, and adds it at the first use. */
static int extent_of_owner(struct translation *translation, int tensor) {
    const struct tensor *of = &translation->graph->tensors[tensor];
    ASSERT(of->base == TENSOR_NONE);
    if (of->kind == TENSOR_INPUT) {
        return input_extent(translation, tensor);
    }
    for (int i = 0; of->kind == TENSOR_CACHE && i < 2 * translation->graph->blueprint->layers;
         i++) {
        if (translation->graph->caches[i] == tensor) {
            return translation->caches[i];
        }
    }
    if (translation->tensor_extents[tensor] == EXTENT_NONE) {
        const char *name = name_with_segment(translation, of->name);
        translation->tensor_extents[tensor] =
            of->kind == TENSOR_SAVED
                ? extent_table_add_offloaded(translation->schedule, name, ROLE_ACTIVATIONS, true,
                                             tensor_bytes(of))
                : extent_table_add(translation->schedule, name, tensor_role(of), SPACE_DEVICE,
                                   tensor_bytes(of));
    }
    return translation->tensor_extents[tensor];
}

static struct operand param_operand(const struct translation *translation, int tensor) {
    const struct schedule *schedule = translation->schedule;
    const struct tensor *of = &translation->graph->tensors[tensor];
    const struct unit_param *placed =
        &schedule->units->params[schedule->units->position_of_param[of->param]];
    const struct unit_extents *extents = &schedule->unit_extents[placed->unit];
    uint64_t element = (uint64_t)dtype_bytes(of->dtype);
    int gradients = extents->microbatch_gradients != EXTENT_NONE ? extents->microbatch_gradients
                                                                 : extents->gradients;
    struct operand operand = {.extent = of->kind == TENSOR_PARAM ? translation->params[placed->unit]
                                                                 : gradients,
                              .offset = (uint64_t)placed->offset * element,
                              .bytes = tensor_bytes(of)};
    ASSERT(operand.extent != EXTENT_NONE);
    ASSERT(operand.offset + operand.bytes <= schedule->extents[operand.extent].bytes);
    return operand;
}

static struct operand tensor_operand(struct translation *translation, int tensor) {
    const struct tensor *of = &translation->graph->tensors[tensor];
    if (of->kind == TENSOR_PARAM || of->kind == TENSOR_PARAM_GRADIENT) {
        return param_operand(translation, tensor);
    }
    int owner = of->base == TENSOR_NONE ? tensor : of->base;
    struct operand operand = {.extent = extent_of_owner(translation, owner),
                              .offset = (uint64_t)(of->offset * dtype_bytes(of->dtype)),
                              .bytes = tensor_bytes(of)};
    if (tensor == translation->graph->scalars) {
        operand.bytes = sizeof(struct step_scalars);
    }
    ASSERT(operand.offset + operand.bytes <= translation->schedule->extents[operand.extent].bytes);
    return operand;
}

static void append_op(struct translation *translation, const struct op *op) {
    struct schedule *schedule = translation->schedule;
    struct instruction *added =
        append_instruction(schedule, op->kind, translation->segment,
                           op_work(op->kind) == OP_WORK_COPY ? LANE_COPY : LANE_COMPUTE);
    added->layer = op->layer;
    added->transposed = op->transposed;
    added->args = op_args(translation->graph, op, schedule_device(schedule));
    for (int k = 0; k < op_row(op->kind)->operand_count; k++) {
        if (op->operands[k] != TENSOR_NONE) {
            added->operands[k] = tensor_operand(translation, op->operands[k]);
            added->operands[k].access = op_access(op, k);
        }
    }
    add_workspace(schedule, added);
}

/* ---- between the ranks ---- */

static bool reduces_by_microbatch(const struct translation *translation, int unit) {
    return translation->schedule->unit_extents[unit].microbatch_gradients != EXTENT_NONE;
}

/* List the reductions of units whose gradients are complete before op `index`. */
static void append_reductions(struct translation *translation, int index) {
    const struct spans *spans = &translation->spans;
    while (translation->reduces_listed < spans->reduce_count &&
           spans->reduces[translation->reduces_listed].last < index) {
        ASSERT(spans->reduces[translation->reduces_listed].first <= index);
        int unit = spans->reduces[translation->reduces_listed++].unit;
        if (reduces_by_microbatch(translation, unit)) {
            append_gradient_reduction(
                translation->schedule, translation->segment, unit,
                translation->schedule->unit_extents[unit].microbatch_gradients);
        }
    }
}

static void append_gradient_sums(struct translation *translation, int index) {
    const struct spans *spans = &translation->spans;
    while (translation->sums_listed < translation->reduces_listed &&
           spans->reduces[translation->sums_listed].accumulate_at <= index) {
        int unit = spans->reduces[translation->sums_listed++].unit;
        ASSERT(translation->sums_listed <= translation->reduces_listed);
        if (reduces_by_microbatch(translation, unit)) {
            append_reduction_end(translation->schedule, translation->segment, unit,
                                 translation->schedule->unit_extents[unit].microbatch_gradients);
            append_step_gradient_sum(translation->schedule, translation->segment, unit);
        }
    }
}

static void append_gathers(struct translation *translation, int index) {
    const struct spans *spans = &translation->spans;
    while (translation->gathers_listed < spans->gather_count &&
           spans->gathers[translation->gathers_listed].gather_at <= index) {
        int span = translation->gathers_listed++;
        ASSERT(spans->gathers[span].gather_at <= spans->gathers[span].first);
        translation->gather_extents[span] = append_split_params_gather(
            translation->schedule, translation->segment, spans->gathers[span].unit);
    }
}

/* For the spans that begin at op `index`: use the gathered extents as the units' params, and append
 * the instructions that zero the microbatch gradients. */
static void begin_spans(struct translation *translation, int index) {
    struct schedule *schedule = translation->schedule;
    const struct spans *spans = &translation->spans;
    for (int i = 0; i < spans->gather_count; i++) {
        if (spans->gathers[i].first == index) {
            ASSERT(i < translation->gathers_listed);
            translation->params[spans->gathers[i].unit] = translation->gather_extents[i];
        }
    }
    for (int i = 0; i < spans->reduce_count; i++) {
        int unit = spans->reduces[i].unit;
        if (spans->reduces[i].first == index && reduces_by_microbatch(translation, unit)) {
            append_zero_fill(schedule, translation->segment,
                             schedule->unit_extents[unit].microbatch_gradients);
        }
    }
}

static void append_rank_exchanges(struct translation *translation, int index) {
    append_reductions(translation, index);
    append_gradient_sums(translation, index);
    append_gathers(translation, index);
    begin_spans(translation, index);
}

static void find_spans(struct translation *translation) {
    struct schedule *schedule = translation->schedule;
    const struct sharding *sharding = &schedule->options.sharding;
    int unit_count = schedule->units->unit_count;
    translation->params = region_alloc(schedule->region, (size_t)unit_count, sizeof(int));
    for (int unit = 0; unit < unit_count; unit++) {
        translation->params[unit] = schedule->unit_extents[unit].params;
    }
    if (schedule_rank_count(schedule, AXIS_WORLD) == 1) {
        return;
    }
    ASSERT(schedule->options.sharding.shard == 1 || schedule->options.sharding.units != NULL);
    spans_find(translation->graph, schedule->units, sharding, schedule->region,
               &translation->spans);
    translation->gather_extents =
        region_alloc(schedule->region, (size_t)translation->spans.gather_count + 1, sizeof(int));
    if (translation->segment == SEGMENT_MICROBATCH) {
        schedule->volumes = volumes_of_step(
            &(struct volume_args){.units = schedule->units,
                                  .sharding = sharding,
                                  .spans = &translation->spans,
                                  .forward_count = translation->graph->forward_count,
                                  .accumulation = schedule->options.accumulation,
                                  .compute = schedule->options.compute});
    }
}

void translate_graph(struct schedule *schedule, const struct graph *graph,
                     enum segment_kind segment, const struct translate_context *context) {
    struct translation translation = {.schedule = schedule,
                                      .graph = graph,
                                      .segment = segment,
                                      .inputs = context->inputs,
                                      .caches = context->caches};
    size_t tensors = (size_t)graph->tensor_count;
    translation.tensor_extents = region_alloc(schedule->region, tensors, sizeof(int));
    memset(translation.tensor_extents, 0xff, tensors * sizeof(int)); /* EXTENT_NONE is -1 */
    if (graph->logits != TENSOR_NONE) {
        translation.tensor_extents[graph->logits] = context->logits;
    }
    find_spans(&translation);
    for (int i = 0; i < graph->op_count; i++) {
        append_rank_exchanges(&translation, i);
        append_op(&translation, &graph->ops[i]);
    }
    append_rank_exchanges(&translation, graph->op_count);
    ASSERT(translation.gathers_listed == translation.spans.gather_count);
    ASSERT(translation.reduces_listed == translation.spans.reduce_count);
    ASSERT(translation.sums_listed == translation.reduces_listed);
}
