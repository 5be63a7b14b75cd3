#include "runtime/model/offload.h"

#include <stdio.h>
#include <string.h>

enum { NOWHERE = -1 };

/* Ops of a layer in one pass: [begin, end). */
struct replica_chunk {
    int begin, end;
};

/* What happens to one tensor, by ops of the graph as it was. */
struct saved {
    int tensor, copy, back; /* the copy is in host memory; `back` takes the tensor's place */
    int layer;              /* that uses it last in the forward pass */
    int out_behind, release_before, in_before;
};

struct rewrite {
    struct graph *graph;
    const struct op *old_ops;
    int old_count, old_forward_count;
    struct replica_chunk *forward, *backward; /* per layer */
    int *last_forward, *first_backward;       /* per tensor that owns its bytes: ops, or NOWHERE */
    struct saved *saved;
    int saved_count;
    int *saved_of; /* per tensor: index in `saved`, or NOWHERE */
};

static void note_layer(struct replica_chunk *layers, const struct op *op, int index) {
    if (op->layer == PARAM_NO_LAYER) {
        return;
    }
    struct replica_chunk *layer = &layers[op->layer];
    layer->begin = layer->end == 0 ? index : layer->begin;
    layer->end = index + 1;
}

static void note_uses(struct rewrite *rewrite, const struct op *op, int index) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (op_access(op, k) == 0) {
            continue;
        }
        int base = graph_base(rewrite->graph, op->operands[k]);
        if (index < rewrite->old_forward_count) {
            rewrite->last_forward[base] = index;
        } else if (rewrite->first_backward[base] == NOWHERE) {
            rewrite->first_backward[base] = index;
        }
    }
}

static uint64_t bytes_of(const struct tensor *tensor) {
    return (uint64_t)(tensor->rows * tensor->stride * dtype_bytes(tensor->dtype));
}

/* The op of `layer` as far from its beginning as `index` is from the beginning of `own`. */
static int same_place(const struct replica_chunk *own, const struct replica_chunk *layer,
                      int index) {
    ASSERT(layer->end > 0);
    int place = layer->begin + index - own->begin;
    return place < layer->end ? place : layer->end - 1;
}

static bool is_saved(const struct rewrite *rewrite, int tensor) {
    const struct tensor *of = &rewrite->graph->tensors[tensor];
    int last = rewrite->last_forward[tensor];
    int first = rewrite->first_backward[tensor];
    if (of->kind != TENSOR_ACTIVATION || of->base != TENSOR_NONE || last == NOWHERE ||
        first == NOWHERE || bytes_of(of) < OFFLOAD_BYTES_MIN) {
        return false;
    }
    int followed = (int)rewrite->graph->blueprint->layers - 1;
    int left = rewrite->old_ops[last].layer;
    int wanted = rewrite->old_ops[first].layer;
    return left != PARAM_NO_LAYER && wanted != PARAM_NO_LAYER && left < followed &&
           wanted < followed;
}

static int named_after(struct rewrite *rewrite, int tensor, const char *suffix) {
    struct tensor made = rewrite->graph->tensors[tensor];
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.100s.%s", made.name, suffix);
    made.name = region_text(rewrite->graph->region, name);
    return graph_tensor(rewrite->graph, made);
}

static void save(struct rewrite *rewrite, int tensor) {
    int last = rewrite->last_forward[tensor];
    int first = rewrite->first_backward[tensor];
    int left = rewrite->old_ops[last].layer;
    int wanted = rewrite->old_ops[first].layer;
    struct saved saved = {
        .tensor = tensor,
        .copy = named_after(rewrite, tensor, "saved"),
        .back = named_after(rewrite, tensor, "back"),
        .layer = left,
        .out_behind = last,
        .release_before = same_place(&rewrite->forward[left], &rewrite->forward[left + 1], last),
        .in_before = same_place(&rewrite->backward[wanted], &rewrite->backward[wanted + 1], first)};
    rewrite->graph->tensors[saved.copy].kind = TENSOR_SAVED;
    rewrite->saved_of[tensor] = rewrite->saved_count;
    rewrite->saved[rewrite->saved_count++] = saved;
}

static void find_saved(struct rewrite *rewrite, int tensor_count) {
    for (int i = 0; i < rewrite->old_count; i++) {
        bool forward = i < rewrite->old_forward_count;
        note_layer(forward ? rewrite->forward : rewrite->backward, &rewrite->old_ops[i], i);
        note_uses(rewrite, &rewrite->old_ops[i], i);
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
        if (saved->in_before == index) {
            emit_copy(graph, saved->layer, saved->copy, saved->back);
        }
    }
}

static void emit_behind(struct rewrite *rewrite, int index) {
    for (int i = 0; i < rewrite->saved_count; i++) {
        const struct saved *saved = &rewrite->saved[i];
        if (saved->out_behind == index) {
            emit_copy(rewrite->graph, saved->layer, saved->tensor, saved->copy);
        }
    }
}

/* What stands for `tensor` in the backward pass. */
static int stand_in(struct rewrite *rewrite, int tensor) {
    struct tensor view = rewrite->graph->tensors[tensor];
    int index = rewrite->saved_of[graph_base(rewrite->graph, tensor)];
    if (index == NOWHERE) {
        return tensor;
    }
    int back = rewrite->saved[index].back;
    if (view.base == TENSOR_NONE) {
        return back;
    }
    view.base = back;
    return graph_tensor(rewrite->graph, view);
}

static void emit(struct rewrite *rewrite, int index) {
    struct op op = rewrite->old_ops[index];
    int operand_count = op_row(op.kind)->operand_count;
    for (int k = 0; index >= rewrite->old_forward_count && k < operand_count; k++) {
        if (op.operands[k] != TENSOR_NONE) {
            op.operands[k] = stand_in(rewrite, op.operands[k]);
        }
    }
    *graph_op(rewrite->graph, op.kind, op.layer, op.operands, operand_count) = op;
}

static int *nowhere(struct region *region, size_t count) {
    int *places = region_alloc(region, count, sizeof *places);
    memset(places, 0xff, count * sizeof *places); /* NOWHERE is -1 */
    return places;
}

/* Tensors are added on the way: only those that there were have a place in saved_of. */
static void emit_all(struct rewrite *rewrite) {
    struct graph *graph = rewrite->graph;
    graph->ops = NULL;
    graph->op_count = graph->op_capacity = 0;
    for (int i = 0; i < rewrite->old_count; i++) {
        emit_before(rewrite, i);
        emit(rewrite, i);
        emit_behind(rewrite, i);
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
                              .forward = region_alloc(region, layers, sizeof(struct replica_chunk)),
                              .backward =
                                  region_alloc(region, layers, sizeof(struct replica_chunk)),
                              .last_forward = nowhere(region, tensors),
                              .first_backward = nowhere(region, tensors),
                              .saved = region_alloc(region, tensors, sizeof(struct saved)),
                              .saved_of = nowhere(region, tensors)};
    find_saved(&rewrite, graph->tensor_count);
    emit_all(&rewrite);
}
