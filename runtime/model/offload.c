#include "runtime/model/graph.h"

#include <string.h>

enum { NO_OP = -1 };

/* Ops of a layer in one pass: [begin, end). */
struct op_span {
    int begin, end;
};

/* A tensor that is copied out and in again, with ops of the graph before the rewrite. */
struct saved {
    int tensor, copy, restored; /* `copy` is in host memory; `restored` replaces the tensor */
    int layer;                  /* the layer that uses it last in the forward pass */
    int copy_out_after, release_before, copy_in_before;
};

struct rewrite {
    struct graph *graph;
    const struct op *old_ops;
    int old_count, old_forward_count;
    struct op_span *forward, *backward; /* per layer */
    int *last_forward, *first_backward; /* per tensor that owns its bytes: ops, or NO_OP */
    struct saved *saved;
    int saved_count;
    int *saved_of; /* per tensor: index in `saved`, or NO_OP */
};

static void find_layer(struct op_span *layers, const struct op *op, int index) {
    if (op->layer == PARAM_NO_LAYER) {
        return;
    }
    struct op_span *layer = &layers[op->layer];
    layer->begin = layer->end == 0 ? index : layer->begin;
    layer->end = index + 1;
}

static void find_uses(struct rewrite *rewrite, const struct op *op, int index) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (op_access(op, k) == 0) {
            continue;
        }
        int base = graph_base(rewrite->graph, op->operands[k]);
        if (index < rewrite->old_forward_count) {
            rewrite->last_forward[base] = index;
        } else if (rewrite->first_backward[base] == NO_OP) {
            rewrite->first_backward[base] = index;
        }
    }
}

static uint64_t bytes_of(const struct tensor *tensor) {
    return (uint64_t)(tensor->rows * tensor->stride * dtype_bytes(tensor->dtype));
}

/* The op of `layer` at the same distance from its beginning as `index` is from that of `own`. */
static int same_position(const struct op_span *own, const struct op_span *layer, int index) {
    ASSERT(layer->end > 0);
    int position = layer->begin + index - own->begin;
    return position < layer->end ? position : layer->end - 1;
}

static bool is_saved(const struct rewrite *rewrite, int tensor) {
    const struct tensor *of = &rewrite->graph->tensors[tensor];
    int last = rewrite->last_forward[tensor];
    int first = rewrite->first_backward[tensor];
    if (of->kind != TENSOR_ACTIVATION || of->base != TENSOR_NONE || last == NO_OP ||
        first == NO_OP || bytes_of(of) < OFFLOAD_BYTES_MIN) {
        return false;
    }
    int layers_but_last = (int)rewrite->graph->blueprint->layers - 1;
    int last_layer = rewrite->old_ops[last].layer;
    int first_layer = rewrite->old_ops[first].layer;
    return last_layer != PARAM_NO_LAYER && first_layer != PARAM_NO_LAYER &&
           last_layer < layers_but_last && first_layer < layers_but_last;
}

static int copy_of_tensor(struct rewrite *rewrite, int tensor, const char *suffix) {
    struct tensor made = rewrite->graph->tensors[tensor];
    made.name = region_format(rewrite->graph->region, "%.100s.%s", made.name, suffix);
    return graph_tensor(rewrite->graph, made);
}

static void save(struct rewrite *rewrite, int tensor) {
    int last = rewrite->last_forward[tensor];
    int first = rewrite->first_backward[tensor];
    int last_layer = rewrite->old_ops[last].layer;
    int first_layer = rewrite->old_ops[first].layer;
    struct saved saved = {
        .tensor = tensor,
        .copy = copy_of_tensor(rewrite, tensor, "saved"),
        .restored = copy_of_tensor(rewrite, tensor, "back"),
        .layer = last_layer,
        .copy_out_after = last,
        .release_before =
            same_position(&rewrite->forward[last_layer], &rewrite->forward[last_layer + 1], last),
        .copy_in_before = same_position(&rewrite->backward[first_layer],
                                        &rewrite->backward[first_layer + 1], first)};
    rewrite->graph->tensors[saved.copy].kind = TENSOR_SAVED;
    rewrite->saved_of[tensor] = rewrite->saved_count;
    rewrite->saved[rewrite->saved_count++] = saved;
}

static void find_saved(struct rewrite *rewrite, int tensor_count) {
    for (int i = 0; i < rewrite->old_count; i++) {
        bool forward = i < rewrite->old_forward_count;
        find_layer(forward ? rewrite->forward : rewrite->backward, &rewrite->old_ops[i], i);
        find_uses(rewrite, &rewrite->old_ops[i], i);
    }
    for (int tensor = 0; tensor < tensor_count; tensor++) {
        if (is_saved(rewrite, tensor)) {
            save(rewrite, tensor);
        }
    }
}

static void emit_copy(struct graph *graph, int layer, int from, int to) {
    graph_op(graph, OP_COPY, layer, (int[]){[COPY_FROM] = from, [COPY_TO] = to}, COPY_OPERANDS);
}

static void emit_before(struct rewrite *rewrite, int index) {
    struct graph *graph = rewrite->graph;
    for (int i = 0; i < rewrite->saved_count; i++) {
        const struct saved *saved = &rewrite->saved[i];
        if (saved->release_before == index) {
            const int operands[] = {[RELEASE_EXTENT] = saved->tensor};
            graph_op(graph, OP_RELEASE, saved->layer, operands, RELEASE_OPERANDS);
        }
    }
    for (int i = 0; i < rewrite->saved_count; i++) {
        const struct saved *saved = &rewrite->saved[i];
        if (saved->copy_in_before == index) {
            emit_copy(graph, saved->layer, saved->copy, saved->restored);
        }
    }
}

static void emit_after(struct rewrite *rewrite, int index) {
    for (int i = 0; i < rewrite->saved_count; i++) {
        const struct saved *saved = &rewrite->saved[i];
        if (saved->copy_out_after == index) {
            emit_copy(rewrite->graph, saved->layer, saved->tensor, saved->copy);
        }
    }
}

/* The operand that replaces `tensor` in the backward pass. */
static int replace_operand(struct rewrite *rewrite, int tensor) {
    struct tensor view = rewrite->graph->tensors[tensor];
    int index = rewrite->saved_of[graph_base(rewrite->graph, tensor)];
    if (index == NO_OP) {
        return tensor;
    }
    int restored = rewrite->saved[index].restored;
    if (view.base == TENSOR_NONE) {
        return restored;
    }
    view.base = restored;
    return graph_tensor(rewrite->graph, view);
}

static void emit(struct rewrite *rewrite, int index) {
    struct op op = rewrite->old_ops[index];
    int operand_count = op_row(op.kind)->operand_count;
    for (int k = 0; index >= rewrite->old_forward_count && k < operand_count; k++) {
        if (op.operands[k] != TENSOR_NONE) {
            op.operands[k] = replace_operand(rewrite, op.operands[k]);
        }
    }
    *graph_op(rewrite->graph, op.kind, op.layer, op.operands, operand_count) = op;
}

static int *filled_with_no_op(struct region *region, size_t count) {
    int *positions = region_alloc(region, count, sizeof *positions);
    memset(positions, 0xff, count * sizeof *positions); /* NO_OP is -1 */
    return positions;
}

/* Emitting adds tensors. Only tensors that existed before have an entry in saved_of. */
static void emit_all(struct rewrite *rewrite) {
    struct graph *graph = rewrite->graph;
    graph->ops = NULL;
    graph->op_count = graph->op_capacity = 0;
    for (int i = 0; i < rewrite->old_count; i++) {
        emit_before(rewrite, i);
        emit(rewrite, i);
        emit_after(rewrite, i);
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
    struct rewrite rewrite = {.graph = graph,
                              .old_ops = graph->ops,
                              .old_count = graph->op_count,
                              .old_forward_count = graph->forward_count,
                              .forward = region_alloc(region, layers, sizeof(struct op_span)),
                              .backward = region_alloc(region, layers, sizeof(struct op_span)),
                              .last_forward = filled_with_no_op(region, tensors),
                              .first_backward = filled_with_no_op(region, tensors),
                              .saved = region_alloc(region, tensors, sizeof(struct saved)),
                              .saved_of = filled_with_no_op(region, tensors)};
    find_saved(&rewrite, graph->tensor_count);
    emit_all(&rewrite);
}
