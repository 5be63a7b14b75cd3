#include "runtime/model/graph.h"

static const char *const NAMES[RECOMPUTE_COUNT] = {"none", "selective", "block"};

const char *recompute_name(enum recompute kind) {
    ASSERT(kind < RECOMPUTE_COUNT);
    return NAMES[kind];
}

struct recompute_rewrite {
    struct graph *graph;
    const struct op *old_ops; /* ops before the rewrite */
    int tensor_count;         /* number of tensors before the rewrite */
    bool *is_recomputed;      /* [tensor_count] true if not stored for the backward pass */
    int *clone_tensor; /* [tensor_count] id of the recomputed copy; TENSOR_NONE until created */
    bool *is_needed;   /* [tensor_count] scratch: true if recompute_operands must recompute it */
    int *layer_begin;  /* [layers] the forward ops of a layer are [layer_begin, layer_end) */
    int *layer_end;    /* [layers] */
};

static bool is_selectively_recomputed(enum op_kind kind) {
    return kind == OP_RMSNORM || kind == OP_LAYERNORM || kind == OP_SWIGLU || kind == OP_GELU;
}

/* Marks the tensors that are recomputed. The output of a block is stored, because it is the input
 * of the next block. */
static void mark_recomputed_tensors(struct recompute_rewrite *rewrite,
                                    const enum recompute *policy) {
    const struct graph *graph = rewrite->graph;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct op *op = &rewrite->old_ops[i];
        if (op->layer == PARAM_NO_LAYER || policy[op->layer] == RECOMPUTE_NONE) {
            continue;
        }
        bool last = i + 1 == rewrite->layer_end[op->layer];
        bool recomputed =
            policy[op->layer] == RECOMPUTE_BLOCK ? !last : is_selectively_recomputed(op->kind);
        for (int k = 0; recomputed && k < OPERANDS_MAX; k++) {
            if (op_access(op, k) & ACCESS_WRITE) {
                rewrite->is_recomputed[graph_base_tensor(graph, op->operands[k])] = true;
            }
        }
    }
}

static void find_layer_ranges(struct recompute_rewrite *rewrite) {
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

static bool must_recompute(const struct recompute_rewrite *rewrite, int tensor) {
    return tensor != TENSOR_NONE && tensor < rewrite->tensor_count &&
           rewrite->is_recomputed[graph_base_tensor(rewrite->graph, tensor)];
}

/* Return the operand that replaces `tensor`: its clone, or for a view, the same view of the base's
 * clone. */
static int find_replacement(struct recompute_rewrite *rewrite, int tensor) {
    struct graph *graph = rewrite->graph;
    struct tensor view = graph->tensors[tensor];
    int base = graph_base_tensor(graph, tensor);
    if (rewrite->clone_tensor[base] == TENSOR_NONE) {
        rewrite->clone_tensor[base] = graph_add_tensor(graph, graph->tensors[base]);
    }
    if (view.base == TENSOR_NONE) {
        return rewrite->clone_tensor[base];
    }
    view.base = rewrite->clone_tensor[base];
    return graph_add_tensor(graph, view);
}

static void replace_operands(struct recompute_rewrite *rewrite, struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (must_recompute(rewrite, op->operands[k])) {
            op->operands[k] = find_replacement(rewrite, op->operands[k]);
        }
    }
}

static bool writes_needed_tensor(const struct recompute_rewrite *rewrite, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if ((op_access(op, k) & ACCESS_WRITE) &&
            rewrite->is_needed[graph_base_tensor(rewrite->graph, op->operands[k])]) {
            return true;
        }
    }
    return false;
}

static void mark_needed_operands(struct recompute_rewrite *rewrite, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int tensor = op->operands[k];
        if (must_recompute(rewrite, tensor) &&
            rewrite->clone_tensor[graph_base_tensor(rewrite->graph, tensor)] == TENSOR_NONE) {
            rewrite->is_needed[graph_base_tensor(rewrite->graph, tensor)] = true;
        }
    }
}

static void emit_unchanged(struct graph *graph, struct op op) {
    int operand_count = op_row(op.kind)->operand_count;
    *graph_add_op(graph, op.kind, op.layer, op.operands, operand_count) = op;
}

static void emit_with_clones(struct recompute_rewrite *rewrite, struct op op) {
    replace_operands(rewrite, &op);
    emit_unchanged(rewrite->graph, op);
}

/* Before `op`, emit clones of the ops that compute those of its operands that are not stored. The
 * backward scan through the block finds the ops whose results these clones need, and the forward
 * scan emits them in order. */
static void recompute_operands(struct recompute_rewrite *rewrite, const struct op *op) {
    if (op->layer == PARAM_NO_LAYER) {
        return;
    }
    int begin = rewrite->layer_begin[op->layer];
    int end = rewrite->layer_end[op->layer];
    memset(rewrite->is_needed, 0, (size_t)rewrite->tensor_count * sizeof(bool));
    mark_needed_operands(rewrite, op);
    for (int i = end - 1; i >= begin; i--) {
        if (writes_needed_tensor(rewrite, &rewrite->old_ops[i])) {
            mark_needed_operands(rewrite, &rewrite->old_ops[i]);
        }
    }
    for (int i = begin; i < end; i++) {
        if (writes_needed_tensor(rewrite, &rewrite->old_ops[i])) {
            emit_with_clones(rewrite, rewrite->old_ops[i]);
        }
    }
}

void recompute_apply(struct graph *graph, const enum recompute *policy) {
    ASSERT(graph->forward_count > 0);
    size_t tensors = (size_t)graph->tensor_count;
    size_t layers = (size_t)graph->blueprint->layers;
    struct region *region = graph->region;
    struct recompute_rewrite rewrite = {.graph = graph,
                                        .old_ops = graph->ops,
                                        .tensor_count = graph->tensor_count,
                                        .is_recomputed =
                                            region_alloc(region, tensors, sizeof(bool)),
                                        .clone_tensor = region_alloc(region, tensors, sizeof(int)),
                                        .is_needed = region_alloc(region, tensors, sizeof(bool)),
                                        .layer_begin = region_alloc(region, layers, sizeof(int)),
                                        .layer_end = region_alloc(region, layers, sizeof(int))};
    int old_count = graph->op_count;
    memset(rewrite.clone_tensor, 0xff, tensors * sizeof(int)); /* TENSOR_NONE is -1 */
    find_layer_ranges(&rewrite);
    mark_recomputed_tensors(&rewrite, policy);
    graph->ops = NULL;
    graph->op_count = graph->op_capacity = 0;
    for (int i = 0; i < old_count; i++) {
        if (i < graph->forward_count) {
            emit_unchanged(graph, rewrite.old_ops[i]);
            continue;
        }
        recompute_operands(&rewrite, &rewrite.old_ops[i]);
        emit_with_clones(&rewrite, rewrite.old_ops[i]);
    }
}
