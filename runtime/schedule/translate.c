/* translate: one graph becomes one segment's instructions. */
#include "runtime/schedule/translate.h"

#include "runtime/schedule/lower.h"

#include <stdio.h>
#include <string.h>

/* The translation of one graph into one segment. */
struct translation {
    struct schedule *schedule;
    const struct graph *graph;
    enum segment_kind segment;
    struct device_inputs inputs;
    const int *caches; /* extents of the caches, by graph->caches' order */
    int *extent_of;    /* [graph->tensor_count]: extent of each tensor that owns bytes */
};

static uint64_t tensor_bytes(const struct tensor *tensor) {
    int64_t elements = (tensor->rows - 1) * tensor->stride + tensor->columns;
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

static const char *extent_name(const struct translation *translation, const char *name) {
    if (translation->segment == SEGMENT_MICROBATCH) {
        return name;
    }
    char full[NAME_BYTES + 32];
    snprintf(full, sizeof full, "%s/%s", segment_name(translation->segment), name);
    return region_text(translation->schedule->region, full);
}

/* The extent of a tensor that owns its bytes, made at its first mention. */
static int owner_extent(struct translation *translation, int tensor) {
    const struct tensor *of = &translation->graph->tensors[tensor];
    if (of->kind == TENSOR_INPUT) {
        return input_extent(translation, tensor);
    }
    for (int i = 0; of->kind == TENSOR_CACHE && i < 2 * translation->graph->blueprint->layers;
         i++) {
        if (translation->graph->caches[i] == tensor) {
            return translation->caches[i];
        }
    }
    if (translation->extent_of[tensor] == EXTENT_NONE) {
        translation->extent_of[tensor] =
            schedule_named_extent(translation->schedule, extent_name(translation, of->name),
                                  tensor_role(of), SPACE_DEVICE, tensor_bytes(of));
    }
    return translation->extent_of[tensor];
}

static struct operand param_operand(const struct translation *translation, int tensor) {
    const struct schedule *schedule = translation->schedule;
    const struct tensor *of = &translation->graph->tensors[tensor];
    const struct unit_slot *slot =
        &schedule->units->slots[schedule->units->slot_of_param[of->param]];
    const struct unit_extents *extents = &schedule->unit_extents[slot->unit];
    uint64_t element = (uint64_t)dtype_bytes(of->dtype);
    struct operand operand = {.extent =
                                  of->kind == TENSOR_PARAM ? extents->params : extents->gradients,
                              .offset = (uint64_t)slot->offset * element,
                              .bytes = tensor_bytes(of)};
    ASSERT(operand.offset + operand.bytes <= schedule->extents[operand.extent].bytes);
    return operand;
}

static struct operand tensor_operand(struct translation *translation, int tensor) {
    const struct tensor *of = &translation->graph->tensors[tensor];
    if (of->kind == TENSOR_PARAM || of->kind == TENSOR_PARAM_GRADIENT) {
        return param_operand(translation, tensor);
    }
    int owner = of->base == TENSOR_NONE ? tensor : of->base;
    struct operand operand = {.extent = owner_extent(translation, owner),
                              .offset = (uint64_t)(of->offset * dtype_bytes(of->dtype)),
                              .bytes = tensor_bytes(of)};
    if (tensor == translation->graph->scalars) {
        operand.bytes = sizeof(struct step_scalars);
    }
    return operand;
}

static void add_op(struct translation *translation, const struct op *op) {
    struct schedule *schedule = translation->schedule;
    struct instruction *added =
        schedule_instruction(schedule, op->kind, translation->segment, LANE_COMPUTE);
    added->layer = op->layer;
    added->transposed = op->transposed;
    added->args = lower_args(translation->graph, op);
    for (int k = 0; k < op_row(op->kind)->operand_count; k++) {
        if (op->operands[k] != TENSOR_NONE) {
            added->operands[k] = tensor_operand(translation, op->operands[k]);
            added->operands[k].access = op_access(op, k);
        }
    }
    schedule_workspace(schedule, added);
}

void translate_graph(struct schedule *schedule, const struct graph *graph,
                     enum segment_kind segment, const struct translate_context *context) {
    struct translation translation = {.schedule = schedule,
                                      .graph = graph,
                                      .segment = segment,
                                      .inputs = context->inputs,
                                      .caches = context->caches};
    size_t tensors = (size_t)graph->tensor_count;
    translation.extent_of = region_alloc(schedule->region, tensors, sizeof(int));
    memset(translation.extent_of, 0xff, tensors * sizeof(int)); /* EXTENT_NONE is -1 */
    if (graph->logits != TENSOR_NONE) {
        translation.extent_of[graph->logits] = context->logits;
    }
    for (int i = 0; i < graph->op_count; i++) {
        add_op(&translation, &graph->ops[i]);
    }
}
