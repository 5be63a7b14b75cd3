#include "runtime/model/graph.h"

#include <string.h>

/* State of backward_build. The arrays are indexed by the id of the forward tensor that owns the
 * memory, that is, of the base and not of its views. */
struct backward_pass {
    struct graph *graph;
    bool *needs_gradient; /* true for a tensor that depends on a trainable parameter */
    int *gradient;        /* id of the gradient tensor; TENSOR_NONE until an op contributes to it */
    bool *is_exclusive;   /* true if ops may update the gradient in place */
};

static int new_gradient_tensor(struct backward_pass *pass, int tensor) {
    struct graph *graph = pass->graph;
    struct tensor gradient = graph->tensors[graph_base_tensor(graph, tensor)];
    gradient.name = region_format(graph->region, "d.%s", gradient.name);
    gradient.kind = TENSOR_ACTIVATION_GRADIENT;
    return graph_add_tensor(graph, gradient);
}

/* Return the gradient of `tensor`: `base_gradient` itself, or the view of it that matches `tensor`.
 */
static int view_base_gradient(struct backward_pass *pass, int tensor, int base_gradient) {
    struct tensor view = pass->graph->tensors[tensor];
    if (view.base == TENSOR_NONE) {
        return base_gradient;
    }
    int64_t column = view.offset;
    int64_t columns = view.columns;
    return graph_add_view(pass->graph, base_gradient, "d.view", column, columns);
}

static int get_gradient(struct backward_pass *pass, int tensor) {
    int base_gradient = pass->gradient[graph_base_tensor(pass->graph, tensor)];
    ASSERT(base_gradient != TENSOR_NONE);
    return view_base_gradient(pass, tensor, base_gradient);
}

static bool has_gradient(const struct backward_pass *pass, int tensor) {
    return pass->gradient[graph_base_tensor(pass->graph, tensor)] != TENSOR_NONE;
}

static bool needs_gradient(const struct backward_pass *pass, int tensor) {
    return pass->needs_gradient[graph_base_tensor(pass->graph, tensor)];
}

/* Return the gradient of parameter `tensor`, or TENSOR_NONE when the parameter is frozen. */
static int param_gradient_or_none(struct backward_pass *pass, int tensor) {
    return graph_tensor_is_frozen(pass->graph, tensor) ? TENSOR_NONE
                                                       : graph_param_gradient(pass->graph, tensor);
}

static void set_gradient(struct backward_pass *pass, int tensor, int gradient, bool is_exclusive) {
    int base = graph_base_tensor(pass->graph, tensor);
    pass->gradient[base] = gradient;
    pass->is_exclusive[base] = is_exclusive;
}

/* Create the gradient of `tensor`, which an op is about to write. Views of one base share one
 * gradient. */
static int create_gradient(struct backward_pass *pass, int tensor) {
    if (pass->graph->tensors[tensor].base == TENSOR_NONE) {
        ASSERT(!has_gradient(pass, tensor));
    }
    if (!has_gradient(pass, tensor)) {
        set_gradient(pass, tensor, new_gradient_tensor(pass, tensor), true);
    }
    return get_gradient(pass, tensor);
}

/* Add `gradient` to the gradient of `tensor`. The op leaves `gradient` unchanged for other
 * readers. */
static void add_gradient(struct backward_pass *pass, int layer, int tensor, int gradient,
                         bool is_exclusive) {
    if (!needs_gradient(pass, tensor)) {
        return;
    }
    if (!has_gradient(pass, tensor)) {
        set_gradient(pass, tensor, gradient, is_exclusive);
        return;
    }
    int sum = new_gradient_tensor(pass, tensor);
    const int operands[] = {
        [ADD_A] = get_gradient(pass, tensor), [ADD_B] = gradient, [ADD_OUT] = sum};
    graph_add_op(pass->graph, OP_ADD, layer, operands, ADD_OPERANDS);
    set_gradient(pass, tensor, sum, true);
}

static void linear_input_backward(struct backward_pass *pass, const struct op *op, int dout) {
    struct graph *graph = pass->graph;
    int x = op->operands[LINEAR_X];
    /* In f32, the product adds its result to the earlier gradient itself. In bf16, the result is
     * rounded first and then added by a separate op, as in all other sums of activations. */
    bool accumulate = has_gradient(pass, x) && pass->is_exclusive[graph_base_tensor(graph, x)] &&
                      graph->shape.dtype == DTYPE_F32;
    int dx = accumulate ? get_gradient(pass, x) : new_gradient_tensor(pass, x);
    const int operands[] = {[LINEAR_DX_DOUT] = dout,
                            [LINEAR_DX_WEIGHT] = op->operands[LINEAR_WEIGHT],
                            [LINEAR_DX_DX] = dx};
    struct op *product = graph_add_op(graph, OP_LINEAR_DX, op->layer, operands, LINEAR_DX_OPERANDS);
    product->transposed = op->transposed;
    product->accumulate = accumulate;
    if (!accumulate) {
        add_gradient(pass, op->layer, x, dx, true);
    }
}

static void linear_bias_backward(struct backward_pass *pass, const struct op *op, int dout) {
    const int operands[] = {[COLUMN_SUM_DOUT] = dout,
                            [COLUMN_SUM_DBIAS] =
                                graph_param_gradient(pass->graph, op->operands[LINEAR_BIAS])};
    graph_add_op(pass->graph, OP_COLUMN_SUM, op->layer, operands, COLUMN_SUM_OPERANDS);
}

static void linear_weight_backward(struct backward_pass *pass, const struct op *op, int dout) {
    const int operands[] = {[LINEAR_DW_DOUT] = dout,
                            [LINEAR_DW_X] = op->operands[LINEAR_X],
                            [LINEAR_DW_DWEIGHT] =
                                graph_param_gradient(pass->graph, op->operands[LINEAR_WEIGHT])};
    struct op *product =
        graph_add_op(pass->graph, OP_LINEAR_DW, op->layer, operands, LINEAR_DW_OPERANDS);
    product->transposed = op->transposed;
}

static void linear_backward(struct backward_pass *pass, const struct op *op) {
    const struct graph *graph = pass->graph;
    int bias = op->operands[LINEAR_BIAS];
    int dout = get_gradient(pass, op->operands[LINEAR_OUT]);
    if (bias != TENSOR_NONE && !graph_tensor_is_frozen(graph, bias)) {
        linear_bias_backward(pass, op, dout);
    }
    if (!graph_tensor_is_frozen(graph, op->operands[LINEAR_WEIGHT])) {
        linear_weight_backward(pass, op, dout);
    }
    if (needs_gradient(pass, op->operands[LINEAR_X])) {
        linear_input_backward(pass, op, dout);
    }
}

/* Create the gradient of x that the norm's backward op writes: the sum of the earlier gradient and
 * the norm's contribution. It replaces the earlier gradient. */
static int replace_norm_input_gradient(struct backward_pass *pass, int x) {
    if (!needs_gradient(pass, x)) {
        return TENSOR_NONE;
    }
    int dx = new_gradient_tensor(pass, x);
    set_gradient(pass, x, dx, true);
    return dx;
}

/* Return the gradient of x so far, to which the norm's backward op adds its contribution. */
static int earlier_gradient_or_none(struct backward_pass *pass, int x) {
    return has_gradient(pass, x) ? get_gradient(pass, x) : TENSOR_NONE;
}

static void rmsnorm_backward(struct backward_pass *pass, const struct op *op) {
    const int *of = op->operands;
    int dadd = earlier_gradient_or_none(pass, of[RMSNORM_X]);
    int dx = replace_norm_input_gradient(pass, of[RMSNORM_X]);
    const int operands[] = {[RMSNORM_BACKWARD_DOUT] = get_gradient(pass, of[RMSNORM_OUT]),
                            [RMSNORM_BACKWARD_X] = of[RMSNORM_X],
                            [RMSNORM_BACKWARD_WEIGHT] = of[RMSNORM_WEIGHT],
                            [RMSNORM_BACKWARD_RMS_INV] = of[RMSNORM_RMS_INV],
                            [RMSNORM_BACKWARD_DADD] = dadd,
                            [RMSNORM_BACKWARD_DX] = dx,
                            [RMSNORM_BACKWARD_DWEIGHT] =
                                param_gradient_or_none(pass, of[RMSNORM_WEIGHT])};
    graph_add_op(pass->graph, OP_RMSNORM_BACKWARD, op->layer, operands, RMSNORM_BACKWARD_OPERANDS)
        ->heads = op->heads;
}

static void layernorm_backward(struct backward_pass *pass, const struct op *op) {
    const int *of = op->operands;
    int dadd = earlier_gradient_or_none(pass, of[LAYERNORM_X]);
    int dx = replace_norm_input_gradient(pass, of[LAYERNORM_X]);
    const int operands[] = {
        [LAYERNORM_BACKWARD_DOUT] = get_gradient(pass, of[LAYERNORM_OUT]),
        [LAYERNORM_BACKWARD_X] = of[LAYERNORM_X],
        [LAYERNORM_BACKWARD_WEIGHT] = of[LAYERNORM_WEIGHT],
        [LAYERNORM_BACKWARD_MEAN] = of[LAYERNORM_MEAN],
        [LAYERNORM_BACKWARD_STD_INV] = of[LAYERNORM_STD_INV],
        [LAYERNORM_BACKWARD_DADD] = dadd,
        [LAYERNORM_BACKWARD_DX] = dx,
        [LAYERNORM_BACKWARD_DWEIGHT] = param_gradient_or_none(pass, of[LAYERNORM_WEIGHT]),
        [LAYERNORM_BACKWARD_DBIAS] = param_gradient_or_none(pass, of[LAYERNORM_BIAS])};
    graph_add_op(pass->graph, OP_LAYERNORM_BACKWARD, op->layer, operands,
                 LAYERNORM_BACKWARD_OPERANDS)
        ->heads = op->heads;
}

/* Appends the op that computes the gradients of q, k and v together, even if some of them are not
 * needed later. */
static void attention_backward(struct backward_pass *pass, const struct op *op) {
    const int *of = op->operands;
    int dout = get_gradient(pass, of[ATTENTION_OUT]);
    int dq = create_gradient(pass, of[ATTENTION_Q]);
    int dk = create_gradient(pass, of[ATTENTION_K]);
    int dv = create_gradient(pass, of[ATTENTION_V]);
    const int operands[] = {[ATTENTION_BACKWARD_Q] = of[ATTENTION_Q],
                            [ATTENTION_BACKWARD_K] = of[ATTENTION_K],
                            [ATTENTION_BACKWARD_V] = of[ATTENTION_V],
                            [ATTENTION_BACKWARD_OUT] = of[ATTENTION_OUT],
                            [ATTENTION_BACKWARD_LSE] = of[ATTENTION_LSE],
                            [ATTENTION_BACKWARD_DOUT] = dout,
                            [ATTENTION_BACKWARD_POSITIONS] = of[ATTENTION_POSITIONS],
                            [ATTENTION_BACKWARD_DQ] = dq,
                            [ATTENTION_BACKWARD_DK] = dk,
                            [ATTENTION_BACKWARD_DV] = dv};
    struct op *added = graph_add_op(pass->graph, OP_ATTENTION_BACKWARD, op->layer, operands,
                                    ATTENTION_BACKWARD_OPERANDS);
    added->heads = op->heads;
    added->window = op->window;
}

/* Apply the inverse rotation in place to the gradient that attention has just computed. */
static void rope_backward(struct backward_pass *pass, const struct op *op) {
    int x = op->operands[ROPE_X];
    ASSERT(pass->is_exclusive[graph_base_tensor(pass->graph, x)]);
    const int operands[] = {[ROPE_TABLE] = op->operands[ROPE_TABLE],
                            [ROPE_POSITIONS] = op->operands[ROPE_POSITIONS],
                            [ROPE_X] = get_gradient(pass, x)};
    struct op *added = graph_add_op(pass->graph, OP_ROPE, op->layer, operands, ROPE_OPERANDS);
    added->heads = op->heads;
    added->inverse = !op->inverse;
}

static void embedding_backward(struct backward_pass *pass, const struct op *op) {
    const int *of = op->operands;
    int positions = of[EMBEDDING_POSITION_TABLE];
    int dout = get_gradient(pass, of[EMBEDDING_OUT]);
    int dtable = param_gradient_or_none(pass, of[EMBEDDING_TABLE]);
    int dpositions =
        positions == TENSOR_NONE ? TENSOR_NONE : param_gradient_or_none(pass, positions);
    const int operands[] = {[EMBEDDING_BACKWARD_IDS] = of[EMBEDDING_IDS],
                            [EMBEDDING_BACKWARD_POSITIONS] = of[EMBEDDING_POSITIONS],
                            [EMBEDDING_BACKWARD_DOUT] = dout,
                            [EMBEDDING_BACKWARD_DTABLE] = dtable,
                            [EMBEDDING_BACKWARD_DPOSITION_TABLE] = dpositions};
    graph_add_op(pass->graph, OP_EMBEDDING_BACKWARD, op->layer, operands,
                 EMBEDDING_BACKWARD_OPERANDS);
}

static void swiglu_backward(struct backward_pass *pass, const struct op *op) {
    const int *of = op->operands;
    int dout = get_gradient(pass, of[SWIGLU_OUT]);
    int dgate = create_gradient(pass, of[SWIGLU_GATE]);
    int dup = create_gradient(pass, of[SWIGLU_UP]);
    const int operands[] = {[SWIGLU_BACKWARD_DOUT] = dout,
                            [SWIGLU_BACKWARD_GATE] = of[SWIGLU_GATE],
                            [SWIGLU_BACKWARD_UP] = of[SWIGLU_UP],
                            [SWIGLU_BACKWARD_DGATE] = dgate,
                            [SWIGLU_BACKWARD_DUP] = dup};
    graph_add_op(pass->graph, OP_SWIGLU_BACKWARD, op->layer, operands, SWIGLU_BACKWARD_OPERANDS);
}

static void gelu_backward(struct backward_pass *pass, const struct op *op) {
    int dout = get_gradient(pass, op->operands[GELU_OUT]);
    int dx = create_gradient(pass, op->operands[GELU_X]);
    const int operands[] = {[GELU_BACKWARD_DOUT] = dout,
                            [GELU_BACKWARD_X] = op->operands[GELU_X],
                            [GELU_BACKWARD_DX] = dx};
    graph_add_op(pass->graph, OP_GELU_BACKWARD, op->layer, operands, GELU_BACKWARD_OPERANDS);
}

static void sum_backward(struct backward_pass *pass, const struct op *op) {
    int dout = get_gradient(pass, op->operands[ADD_OUT]);
    add_gradient(pass, op->layer, op->operands[ADD_A], dout, false);
    add_gradient(pass, op->layer, op->operands[ADD_B], dout, false);
}

/* A function that appends the backward ops of forward op `op`. `op` points to a copy, because
 * appending may move the ops of the graph. */
typedef void backward_rule(struct backward_pass *pass, const struct op *op);

static backward_rule *const RULES[OP_KIND_COUNT] = {
    [OP_EMBEDDING] = embedding_backward,
    [OP_RMSNORM] = rmsnorm_backward,
    [OP_LAYERNORM] = layernorm_backward,
    [OP_LINEAR] = linear_backward,
    [OP_ROPE] = rope_backward,
    [OP_ATTENTION] = attention_backward,
    [OP_SWIGLU] = swiglu_backward,
    [OP_GELU] = gelu_backward,
    [OP_ADD] = sum_backward,
};

static void append_op_backward(struct backward_pass *pass, struct op op) {
    ASSERT(RULES[op.kind] != NULL);
    RULES[op.kind](pass, &op);
}

static void append_loss_backward(struct backward_pass *pass) {
    struct graph *graph = pass->graph;
    const struct blueprint *blueprint = graph->blueprint;
    enum param_kind kind = blueprint->tied ? PARAM_EMBEDDING : PARAM_HEAD;
    int weight = graph_param_tensor(graph, kind, PARAM_NO_LAYER);
    int hidden = graph->final_hidden;
    int dhidden = needs_gradient(pass, hidden) ? create_gradient(pass, hidden) : TENSOR_NONE;
    int dweight = param_gradient_or_none(pass, weight);
    ASSERT(dhidden != TENSOR_NONE || dweight != TENSOR_NONE);
    const int operands[] = {
        [HEAD_LOSS_GRADIENT_HIDDEN] = hidden,        [HEAD_LOSS_GRADIENT_WEIGHT] = weight,
        [HEAD_LOSS_GRADIENT_LABELS] = graph->labels, [HEAD_LOSS_GRADIENT_SCALARS] = graph->scalars,
        [HEAD_LOSS_GRADIENT_DHIDDEN] = dhidden,      [HEAD_LOSS_GRADIENT_DWEIGHT] = dweight};
    graph_add_op(graph, OP_HEAD_LOSS_GRADIENT, PARAM_NO_LAYER, operands,
                 HEAD_LOSS_GRADIENT_OPERANDS);
}

/* Return whether `op` reads a trainable parameter, or a tensor that depends on one. */
static bool reads_trainable(const struct backward_pass *pass, const struct op *op) {
    const struct graph *graph = pass->graph;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int tensor = op->operands[k];
        if ((op_access(op, k) & ACCESS_READ) == 0) {
            continue;
        }
        bool param = graph->tensors[tensor].kind == TENSOR_PARAM;
        if (param ? !graph_tensor_is_frozen(graph, tensor) : needs_gradient(pass, tensor)) {
            return true;
        }
    }
    return false;
}

static bool writes_tensor_needing_gradient(const struct backward_pass *pass, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if ((op_access(op, k) & ACCESS_WRITE) && needs_gradient(pass, op->operands[k])) {
            return true;
        }
    }
    return false;
}

static void find_tensors_needing_gradients(struct backward_pass *pass) {
    const struct graph *graph = pass->graph;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct op *op = &graph->ops[i];
        bool trainable = reads_trainable(pass, op);
        for (int k = 0; trainable && k < OPERANDS_MAX; k++) {
            if (op_access(op, k) & ACCESS_WRITE) {
                pass->needs_gradient[graph_base_tensor(graph, op->operands[k])] = true;
            }
        }
    }
}

void backward_build(struct graph *graph) {
    ASSERT(graph->shape.mode == GRAPH_TRAIN && graph->forward_count == 0);
    graph->forward_count = graph->op_count;
    /* + 1: the loss's backward op may add a tensor for the head weight */
    size_t count = (size_t)graph->tensor_count + 1;
    struct backward_pass pass = {.graph = graph,
                                 .needs_gradient = region_alloc(graph->region, count, sizeof(bool)),
                                 .gradient = region_alloc(graph->region, count, sizeof(int)),
                                 .is_exclusive = region_alloc(graph->region, count, sizeof(bool))};
    memset(pass.gradient, 0xff, count * sizeof(int)); /* TENSOR_NONE is -1 */
    find_tensors_needing_gradients(&pass);
    append_loss_backward(&pass);
    for (int i = graph->forward_count - 1; i >= 0; i--) {
        if (writes_tensor_needing_gradient(&pass, &graph->ops[i])) {
            append_op_backward(&pass, graph->ops[i]);
        }
    }
}
