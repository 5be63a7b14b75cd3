#include "runtime/model/graph.h"

#include <string.h>

enum { NO_OP = -1 }; /* op index of an absent op */

/* Op indexes of one layer in the forward or the backward pass: [begin, end). */
struct op_span {
    int begin, end; /* ops [begin, end) */
};

/* An activation that is copied to host memory and back. Op indexes refer to the graph before the
 * rewrite. */
struct offloaded_tensor {
    /* ids of the activation, of its copy in host memory, and of the device tensor copied back from
     * there, which the backward pass reads */
    int tensor, host_copy, restored;
    int layer; /* layer of the last use in the forward pass */
    /* index of the op after which the activation is copied out */
    int copy_out_after;
    /* indexes of the ops before which its device memory is released, and before which it is copied
     * in */
    int release_before, copy_in_before;
};

struct offload_rewrite {
    struct graph *graph;
    const struct op *old_ops;         /* ops before the rewrite */
    int old_count, old_forward_count; /* numbers of all ops and of forward ops in `old_ops` */
    /* [layers]: span of the forward ops, and of the backward ops, of each layer */
    struct op_span *forward_spans, *backward_spans;
    /* [tensors]: op index of the last forward use, and of the first backward use, of a base tensor;
     * NO_OP: none */
    int *last_forward_use, *first_backward_use;
    struct offloaded_tensor *offloaded;
    int offloaded_count;
    /* [tensors]: index of each tensor in `offloaded`; NO_OP: it is not offloaded */
    int *offloaded_index;
};

static void extend_layer_span(struct op_span *layers, const struct op *op, int index) {
    if (op->layer == PARAM_NO_LAYER) {
        return;
    }
    struct op_span *layer = &layers[op->layer];
    layer->begin = layer->end == 0 ? index : layer->begin;
    layer->end = index + 1;
}

static void record_uses(struct offload_rewrite *rewrite, const struct op *op, int index) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (op_access(op, k) == 0) {
            continue;
        }
        int base = graph_base_tensor(rewrite->graph, op->operands[k]);
        if (index < rewrite->old_forward_count) {
            rewrite->last_forward_use[base] = index;
        } else if (rewrite->first_backward_use[base] == NO_OP) {
            rewrite->first_backward_use[base] = index;
        }
    }
}

static uint64_t tensor_bytes(const struct tensor *tensor) {
    return (uint64_t)(tensor->rows * tensor->stride * dtype_bytes(tensor->dtype));
}

/* Return the index of the op in `layer` that corresponds to op `index` of layer `current`: the op
 * at the same distance from the layer's beginning, or the last op. */
static int matching_op_index(const struct op_span *current, const struct op_span *layer,
                             int index) {
    ASSERT(layer->end > 0);
    int position = layer->begin + index - current->begin;
    return position < layer->end ? position : layer->end - 1;
}

static bool should_offload(const struct offload_rewrite *rewrite, int tensor) {
    const struct tensor *of = &rewrite->graph->tensors[tensor];
    int last = rewrite->last_forward_use[tensor];
    int first = rewrite->first_backward_use[tensor];
    if (of->kind != TENSOR_ACTIVATION || of->base != TENSOR_NONE || last == NO_OP ||
        first == NO_OP || tensor_bytes(of) < OFFLOAD_BYTES_MIN) {
        return false;
    }
    int layers_but_last = (int)rewrite->graph->blueprint->layers - 1;
    int last_layer = rewrite->old_ops[last].layer;
    int first_layer = rewrite->old_ops[first].layer;
    return last_layer != PARAM_NO_LAYER && first_layer != PARAM_NO_LAYER &&
           last_layer < layers_but_last && first_layer < layers_but_last;
}

static int append_tensor_copy(struct offload_rewrite *rewrite, int tensor, const char *suffix) {
    struct tensor made = rewrite->graph->tensors[tensor];
    made.name = region_format(rewrite->graph->region, "%.100s.%s", made.name, suffix);
    return graph_add_tensor(rewrite->graph, made);
}

static void add_offloaded_tensor(struct offload_rewrite *rewrite, int tensor) {
    int last = rewrite->last_forward_use[tensor];
    int first = rewrite->first_backward_use[tensor];
    int last_layer = rewrite->old_ops[last].layer;
    int first_layer = rewrite->old_ops[first].layer;
    struct offloaded_tensor saved = {
        .tensor = tensor,
        .host_copy = append_tensor_copy(rewrite, tensor, "saved"),
        .restored = append_tensor_copy(rewrite, tensor, "back"),
        .layer = last_layer,
        .copy_out_after = last,
        .release_before = matching_op_index(&rewrite->forward_spans[last_layer],
                                            &rewrite->forward_spans[last_layer + 1], last),
        .copy_in_before = matching_op_index(&rewrite->backward_spans[first_layer],
                                            &rewrite->backward_spans[first_layer + 1], first)};
    rewrite->graph->tensors[saved.host_copy].kind = TENSOR_SAVED;
    rewrite->offloaded_index[tensor] = rewrite->offloaded_count;
    rewrite->offloaded[rewrite->offloaded_count++] = saved;
}

static void find_offloaded_tensors(struct offload_rewrite *rewrite, int tensor_count) {
    for (int i = 0; i < rewrite->old_count; i++) {
        bool forward = i < rewrite->old_forward_count;
        extend_layer_span(forward ? rewrite->forward_spans : rewrite->backward_spans,
                          &rewrite->old_ops[i], i);
        record_uses(rewrite, &rewrite->old_ops[i], i);
    }
    for (int tensor = 0; tensor < tensor_count; tensor++) {
        if (should_offload(rewrite, tensor)) {
            add_offloaded_tensor(rewrite, tensor);
        }
    }
}

static void emit_copy(struct graph *graph, int layer, int from, int to) {
    graph_add_op(graph, OP_COPY, layer, (int[]){[COPY_FROM] = from, [COPY_TO] = to}, COPY_OPERANDS);
}

static void emit_copies_before(struct offload_rewrite *rewrite, int index) {
    struct graph *graph = rewrite->graph;
    for (int i = 0; i < rewrite->offloaded_count; i++) {
        const struct offloaded_tensor *saved = &rewrite->offloaded[i];
        if (saved->release_before == index) {
            const int operands[] = {[RELEASE_EXTENT] = saved->tensor};
            graph_add_op(graph, OP_RELEASE, saved->layer, operands, RELEASE_OPERANDS);
        }
    }
    for (int i = 0; i < rewrite->offloaded_count; i++) {
        const struct offloaded_tensor *saved = &rewrite->offloaded[i];
        if (saved->copy_in_before == index) {
            emit_copy(graph, saved->layer, saved->host_copy, saved->restored);
        }
    }
}

static void emit_copies_after(struct offload_rewrite *rewrite, int index) {
    for (int i = 0; i < rewrite->offloaded_count; i++) {
        const struct offloaded_tensor *saved = &rewrite->offloaded[i];
        if (saved->copy_out_after == index) {
            emit_copy(rewrite->graph, saved->layer, saved->tensor, saved->host_copy);
        }
    }
}

/* Return the tensor that replaces `tensor` as an operand in the backward pass. */
static int find_replacement(struct offload_rewrite *rewrite, int tensor) {
    struct tensor view = rewrite->graph->tensors[tensor];
    int index = rewrite->offloaded_index[graph_base_tensor(rewrite->graph, tensor)];
    if (index == NO_OP) {
        return tensor;
    }
    int restored = rewrite->offloaded[index].restored;
    if (view.base == TENSOR_NONE) {
        return restored;
    }
    view.base = restored;
    return graph_add_tensor(rewrite->graph, view);
}

static void emit_op(struct offload_rewrite *rewrite, int index) {
    struct op op = rewrite->old_ops[index];
    int operand_count = op_row(op.kind)->operand_count;
    for (int k = 0; index >= rewrite->old_forward_count && k < operand_count; k++) {
        if (op.operands[k] != TENSOR_NONE) {
            op.operands[k] = find_replacement(rewrite, op.operands[k]);
        }
    }
    *graph_add_op(rewrite->graph, op.kind, op.layer, op.operands, operand_count) = op;
}

static int *allocate_op_indexes(struct region *region, size_t count) {
    int *positions = region_alloc(region, count, sizeof *positions);
    memset(positions, 0xff, count * sizeof *positions); /* NO_OP is -1 */
    return positions;
}

/* Append the ops of the rewritten graph. offloaded_index has no entries for tensors that are added
 * while the ops are appended. */
static void emit_rewritten_ops(struct offload_rewrite *rewrite) {
    struct graph *graph = rewrite->graph;
    graph->ops = NULL;
    graph->op_count = graph->op_capacity = 0;
    for (int i = 0; i < rewrite->old_count; i++) {
        emit_copies_before(rewrite, i);
        emit_op(rewrite, i);
        emit_copies_after(rewrite, i);
        if (i + 1 == rewrite->old_forward_count) {
            graph->forward_count = graph->op_count;
        }
    }
}

void offload_apply(struct graph *graph) {
    ASSERT(graph->forward_count > 0);
    struct region *region = graph->region;
    size_t tensors = (size_t)graph->tensor_count;
    size_t layers = (size_t)graph->blueprint->layers;
    struct offload_rewrite rewrite = {
        .graph = graph,
        .old_ops = graph->ops,
        .old_count = graph->op_count,
        .old_forward_count = graph->forward_count,
        .forward_spans = region_alloc(region, layers, sizeof(struct op_span)),
        .backward_spans = region_alloc(region, layers, sizeof(struct op_span)),
        .last_forward_use = allocate_op_indexes(region, tensors),
        .first_backward_use = allocate_op_indexes(region, tensors),
        .offloaded = region_alloc(region, tensors, sizeof(struct offloaded_tensor)),
        .offloaded_index = allocate_op_indexes(region, tensors)};
    find_offloaded_tensors(&rewrite, graph->tensor_count);
    emit_rewritten_ops(&rewrite);
}
