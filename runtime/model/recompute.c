#include "runtime/model/graph.h"

static const char *const NAMES[RECOMPUTE_COUNT] = {"none", "selective", "block"};

const char *recompute_name(enum recompute kind) {
    ASSERT(kind < RECOMPUTE_COUNT);
    return NAMES[kind];
}

struct rewrite {
    struct graph *graph;
    const struct op *old_ops;
    int tensor_count; /* before any clone */
    bool *dropped;    /* per tensor: not stored for the backward pass */
    int *clone;       /* per tensor: its recomputed copy, TENSOR_NONE until made */
    bool *needed;     /* per tensor: scratch of recompute_operands */
    int *layer_begin; /* forward ops of a layer: [begin, end) */
    int *layer_end;
};

static bool selective_drops(enum op_kind kind) {
    return kind == OP_RMSNORM || kind == OP_LAYERNORM || kind == OP_SWIGLU || kind == OP_GELU;
}

/* The output of a block is the input of the next one, so it is stored. */
static void mark_dropped(struct rewrite *rewrite, const enum recompute *policy) {
    const struct graph *graph = rewrite->graph;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct op *op = &rewrite->old_ops[i];
        if (op->layer == PARAM_NO_LAYER || policy[op->layer] == RECOMPUTE_NONE) {
            continue;
        }
        bool last = i + 1 == rewrite->layer_end[op->layer];
        bool drop = policy[op->layer] == RECOMPUTE_BLOCK ? !last : selective_drops(op->kind);
        for (int k = 0; drop && k < OPERANDS_MAX; k++) {
            if (op_access(op, k) & ACCESS_WRITE) {
                rewrite->dropped[graph_base(graph, op->operands[k])] = true;
            }
        }
    }
}

static void find_layers(struct rewrite *rewrite) {
    const struct graph *graph = rewrite->graph;
    for (int i = graph->forward_count - 1; i >= 0; i--) {
        int layer = rewrite->old_ops[i].layer;
        if (layer != PARAM_NO_LAYER) {
            rewrite->layer_begin[layer] = i;
            if (rewrite->layer_end[layer] == 0) {
                rewrite->layer_end[layer] = i + 1;
            }
        }
    }
}

static bool needs_clone(const struct rewrite *rewrite, int tensor) {
    return tensor != TENSOR_NONE && tensor < rewrite->tensor_count &&
           rewrite->dropped[graph_base(rewrite->graph, tensor)];
}

/* The operand that replaces `tensor`: its clone, or the same view of the clone of its base. */
static int replace_operand(struct rewrite *rewrite, int tensor) {
    struct graph *graph = rewrite->graph;
    struct tensor view = graph->tensors[tensor];
    int base = graph_base(graph, tensor);
    if (rewrite->clone[base] == TENSOR_NONE) {
        rewrite->clone[base] = graph_tensor(graph, graph->tensors[base]);
    }
    if (view.base == TENSOR_NONE) {
        return rewrite->clone[base];
    }
    view.base = rewrite->clone[base];
    return graph_tensor(graph, view);
}

static void substitute(struct rewrite *rewrite, struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (needs_clone(rewrite, op->operands[k])) {
            op->operands[k] = replace_operand(rewrite, op->operands[k]);
        }
    }
}

static bool writes_needed(const struct rewrite *rewrite, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if ((op_access(op, k) & ACCESS_WRITE) &&
            rewrite->needed[graph_base(rewrite->graph, op->operands[k])]) {
            return true;
        }
    }
    return false;
}

static void mark_needed(struct rewrite *rewrite, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int tensor = op->operands[k];
        if (needs_clone(rewrite, tensor) &&
            rewrite->clone[graph_base(rewrite->graph, tensor)] == TENSOR_NONE) {
            rewrite->needed[graph_base(rewrite->graph, tensor)] = true;
        }
    }
}

static void emit_plain(struct graph *graph, struct op op) {
    int operand_count = op_row(op.kind)->operand_count;
    *graph_op(graph, op.kind, op.layer, op.operands, operand_count) = op;
}

static void emit(struct rewrite *rewrite, struct op op) {
    substitute(rewrite, &op);
    emit_plain(rewrite->graph, op);
}

/* Before `op`, emit clones of the ops that compute the dropped tensors it reads. The backward scan
 * through the block finds the ops that are needed in turn, and the forward scan emits them in
 * order. */
static void recompute_operands(struct rewrite *rewrite, const struct op *op) {
    if (op->layer == PARAM_NO_LAYER) {
        return;
    }
    int begin = rewrite->layer_begin[op->layer];
    int end = rewrite->layer_end[op->layer];
    memset(rewrite->needed, 0, (size_t)rewrite->tensor_count * sizeof(bool));
    mark_needed(rewrite, op);
    for (int i = end - 1; i >= begin; i--) {
        if (writes_needed(rewrite, &rewrite->old_ops[i])) {
            mark_needed(rewrite, &rewrite->old_ops[i]);
        }
    }
    for (int i = begin; i < end; i++) {
        if (writes_needed(rewrite, &rewrite->old_ops[i])) {
            emit(rewrite, rewrite->old_ops[i]);
        }
    }
}

void recompute_apply(struct graph *graph, const enum recompute *policy) {
    ASSERT(graph->forward_count > 0);
    size_t tensors = (size_t)graph->tensor_count;
    size_t layers = (size_t)graph->blueprint->layers;
    struct region *region = graph->region;
    struct rewrite rewrite = {.graph = graph,
                              .old_ops = graph->ops,
                              .tensor_count = graph->tensor_count,
                              .dropped = region_alloc(region, tensors, sizeof(bool)),
                              .clone = region_alloc(region, tensors, sizeof(int)),
                              .needed = region_alloc(region, tensors, sizeof(bool)),
                              .layer_begin = region_alloc(region, layers, sizeof(int)),
                              .layer_end = region_alloc(region, layers, sizeof(int))};
    int old_count = graph->op_count;
    memset(rewrite.clone, 0xff, tensors * sizeof(int)); /* TENSOR_NONE is -1 */
    find_layers(&rewrite);
    mark_dropped(&rewrite, policy);
    graph->ops = NULL;
    graph->op_count = graph->op_capacity = 0;
    for (int i = 0; i < old_count; i++) {
        if (i < graph->forward_count) {
            emit_plain(graph, rewrite.old_ops[i]);
            continue;
        }
        recompute_operands(&rewrite, &rewrite.old_ops[i]);
        emit(&rewrite, rewrite.old_ops[i]);
    }
}
