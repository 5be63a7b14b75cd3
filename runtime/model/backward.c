#include "runtime/model/graph.h"

#include <string.h>

/* The gradient of each forward tensor, by the id of the tensor that owns its bytes. */
struct flow {
    struct graph *graph;
    bool *needed;  /* depends on a trainable parameter, so its gradient is needed */
    int *gradient; /* tensor id; TENSOR_NONE until an op contributes to it */
    bool *owned;   /* no other gradient shares its bytes: it may be updated in place */
};

static int gradient_tensor(struct flow *flow, int tensor) {
    struct graph *graph = flow->graph;
    struct tensor gradient = graph->tensors[graph_base(graph, tensor)];
    gradient.name = region_format(graph->region, "d.%s", gradient.name);
    gradient.kind = TENSOR_ACTIVATION_GRADIENT;
    return graph_tensor(graph, gradient);
}

/* A gradient in the shape of `tensor`: the whole of `base_gradient`, or the matching view of it. */
static int view_of_gradient(struct flow *flow, int tensor, int base_gradient) {
    struct tensor view = flow->graph->tensors[tensor];
    if (view.base == TENSOR_NONE) {
        return base_gradient;
    }
    int64_t column = view.offset;
    int64_t columns = view.columns;
    return graph_view(flow->graph, base_gradient, "d.view", column, columns);
}

static int gradient_of(struct flow *flow, int tensor) {
    int base_gradient = flow->gradient[graph_base(flow->graph, tensor)];
    ASSERT(base_gradient != TENSOR_NONE);
    return view_of_gradient(flow, tensor, base_gradient);
}

static bool has_gradient(const struct flow *flow, int tensor) {
    return flow->gradient[graph_base(flow->graph, tensor)] != TENSOR_NONE;
}

static bool needs_gradient(const struct flow *flow, int tensor) {
    return flow->needed[graph_base(flow->graph, tensor)];
}

/* The gradient tensor of parameter `tensor`, TENSOR_NONE when it is frozen. */
static int param_gradient(struct flow *flow, int tensor) {
    return graph_tensor_is_frozen(flow->graph, tensor) ? TENSOR_NONE
                                                       : graph_param_gradient(flow->graph, tensor);
}

static void set_gradient(struct flow *flow, int tensor, int gradient, bool owned) {
    int base = graph_base(flow->graph, tensor);
    flow->gradient[base] = gradient;
    flow->owned[base] = owned;
}

/* Create the gradient of `tensor`, which an op is about to write. Views of one base share one. */
static int new_gradient(struct flow *flow, int tensor) {
    if (flow->graph->tensors[tensor].base == TENSOR_NONE) {
        ASSERT(!has_gradient(flow, tensor));
    }
    if (!has_gradient(flow, tensor)) {
        set_gradient(flow, tensor, gradient_tensor(flow, tensor), true);
    }
    return gradient_of(flow, tensor);
}

/* Add `gradient` to the gradient of `tensor`. `gradient` itself stays readable for other ops. */
static void add_gradient(struct flow *flow, int layer, int tensor, int gradient, bool owned) {
    if (!needs_gradient(flow, tensor)) {
        return;
    }
    if (!has_gradient(flow, tensor)) {
        set_gradient(flow, tensor, gradient, owned);
        return;
    }
    int sum = gradient_tensor(flow, tensor);
    const int operands[] = {
        [ADD_A] = gradient_of(flow, tensor), [ADD_B] = gradient, [ADD_OUT] = sum};
    graph_op(flow->graph, OP_ADD, layer, operands, ADD_OPERANDS);
    set_gradient(flow, tensor, sum, true);
}

static void linear_input_backward(struct flow *flow, const struct op *op, int dout) {
    struct graph *graph = flow->graph;
    int x = op->operands[LINEAR_X];
    /* In f32, a further contribution is added inside the product. In bf16 it is rounded first and
     * then added, as in all other sums of activations. */
    bool inside = has_gradient(flow, x) && flow->owned[graph_base(graph, x)] &&
                  graph->shape.dtype == DTYPE_F32;
    int dx = inside ? gradient_of(flow, x) : gradient_tensor(flow, x);
    const int operands[] = {[LINEAR_DX_DOUT] = dout,
                            [LINEAR_DX_WEIGHT] = op->operands[LINEAR_WEIGHT],
                            [LINEAR_DX_DX] = dx};
    struct op *product = graph_op(graph, OP_LINEAR_DX, op->layer, operands, LINEAR_DX_OPERANDS);
    product->transposed = op->transposed;
    product->accumulate = inside;
    if (!inside) {
        add_gradient(flow, op->layer, x, dx, true);
    }
}

static void linear_bias_backward(struct flow *flow, const struct op *op, int dout) {
    const int operands[] = {[COLUMN_SUM_DOUT] = dout,
                            [COLUMN_SUM_DBIAS] =
                                graph_param_gradient(flow->graph, op->operands[LINEAR_BIAS])};
    graph_op(flow->graph, OP_COLUMN_SUM, op->layer, operands, COLUMN_SUM_OPERANDS);
}

static void linear_weight_backward(struct flow *flow, const struct op *op, int dout) {
    const int operands[] = {[LINEAR_DW_DOUT] = dout,
                            [LINEAR_DW_X] = op->operands[LINEAR_X],
                            [LINEAR_DW_DWEIGHT] =
                                graph_param_gradient(flow->graph, op->operands[LINEAR_WEIGHT])};
    struct op *product =
        graph_op(flow->graph, OP_LINEAR_DW, op->layer, operands, LINEAR_DW_OPERANDS);
    product->transposed = op->transposed;
}

static void linear_backward(struct flow *flow, const struct op *op) {
    const struct graph *graph = flow->graph;
    int bias = op->operands[LINEAR_BIAS];
    int dout = gradient_of(flow, op->operands[LINEAR_OUT]);
    if (bias != TENSOR_NONE && !graph_tensor_is_frozen(graph, bias)) {
        linear_bias_backward(flow, op, dout);
    }
    if (!graph_tensor_is_frozen(graph, op->operands[LINEAR_WEIGHT])) {
        linear_weight_backward(flow, op, dout);
    }
    if (needs_gradient(flow, op->operands[LINEAR_X])) {
        linear_input_backward(flow, op, dout);
    }
}

/* The gradient of x after the norm: the sum of the earlier contributions and that of the norm. It
 * replaces the earlier gradient. */
static int norm_input_gradient(struct flow *flow, int x) {
    if (!needs_gradient(flow, x)) {
        return TENSOR_NONE;
    }
    int dx = gradient_tensor(flow, x);
    set_gradient(flow, x, dx, true);
    return dx;
}

/* The gradient of x so far, which the backward pass of the norm adds to its own dx. */
static int norm_addend(struct flow *flow, int x) {
    return has_gradient(flow, x) ? gradient_of(flow, x) : TENSOR_NONE;
}

static void rmsnorm_backward(struct flow *flow, const struct op *op) {
    const int *of = op->operands;
    int dadd = norm_addend(flow, of[RMSNORM_X]);
    int dx = norm_input_gradient(flow, of[RMSNORM_X]);
    const int operands[] = {[RMSNORM_BACKWARD_DOUT] = gradient_of(flow, of[RMSNORM_OUT]),
                            [RMSNORM_BACKWARD_X] = of[RMSNORM_X],
                            [RMSNORM_BACKWARD_WEIGHT] = of[RMSNORM_WEIGHT],
                            [RMSNORM_BACKWARD_RMS_INV] = of[RMSNORM_RMS_INV],
                            [RMSNORM_BACKWARD_DADD] = dadd,
                            [RMSNORM_BACKWARD_DX] = dx,
                            [RMSNORM_BACKWARD_DWEIGHT] = param_gradient(flow, of[RMSNORM_WEIGHT])};
    graph_op(flow->graph, OP_RMSNORM_BACKWARD, op->layer, operands, RMSNORM_BACKWARD_OPERANDS)
        ->heads = op->heads;
}

static void layernorm_backward(struct flow *flow, const struct op *op) {
    const int *of = op->operands;
    int dadd = norm_addend(flow, of[LAYERNORM_X]);
    int dx = norm_input_gradient(flow, of[LAYERNORM_X]);
    const int operands[] = {[LAYERNORM_BACKWARD_DOUT] = gradient_of(flow, of[LAYERNORM_OUT]),
                            [LAYERNORM_BACKWARD_X] = of[LAYERNORM_X],
                            [LAYERNORM_BACKWARD_WEIGHT] = of[LAYERNORM_WEIGHT],
                            [LAYERNORM_BACKWARD_MEAN] = of[LAYERNORM_MEAN],
                            [LAYERNORM_BACKWARD_STD_INV] = of[LAYERNORM_STD_INV],
                            [LAYERNORM_BACKWARD_DADD] = dadd,
                            [LAYERNORM_BACKWARD_DX] = dx,
                            [LAYERNORM_BACKWARD_DWEIGHT] =
                                param_gradient(flow, of[LAYERNORM_WEIGHT]),
                            [LAYERNORM_BACKWARD_DBIAS] = param_gradient(flow, of[LAYERNORM_BIAS])};
    graph_op(flow->graph, OP_LAYERNORM_BACKWARD, op->layer, operands, LAYERNORM_BACKWARD_OPERANDS)
        ->heads = op->heads;
}

/* One op computes all three gradients, and one that is not needed is dropped after it. SwiGLU does
 * the same with its two. */
static void attention_backward(struct flow *flow, const struct op *op) {
    const int *of = op->operands;
    int dout = gradient_of(flow, of[ATTENTION_OUT]);
    int dq = new_gradient(flow, of[ATTENTION_Q]);
    int dk = new_gradient(flow, of[ATTENTION_K]);
    int dv = new_gradient(flow, of[ATTENTION_V]);
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
    struct op *added = graph_op(flow->graph, OP_ATTENTION_BACKWARD, op->layer, operands,
                                ATTENTION_BACKWARD_OPERANDS);
    added->heads = op->heads;
    added->window = op->window;
}

/* Undo the rotation in place, in the gradient that attention has just computed. */
static void rope_backward(struct flow *flow, const struct op *op) {
    int x = op->operands[ROPE_X];
    ASSERT(flow->owned[graph_base(flow->graph, x)]);
    const int operands[] = {[ROPE_TABLE] = op->operands[ROPE_TABLE],
                            [ROPE_POSITIONS] = op->operands[ROPE_POSITIONS],
                            [ROPE_X] = gradient_of(flow, x)};
    struct op *added = graph_op(flow->graph, OP_ROPE, op->layer, operands, ROPE_OPERANDS);
    added->heads = op->heads;
    added->inverse = !op->inverse;
}

static void embedding_backward(struct flow *flow, const struct op *op) {
    const int *of = op->operands;
    int positions = of[EMBEDDING_POSITION_TABLE];
    int dout = gradient_of(flow, of[EMBEDDING_OUT]);
    int dtable = param_gradient(flow, of[EMBEDDING_TABLE]);
    int dpositions = positions == TENSOR_NONE ? TENSOR_NONE : param_gradient(flow, positions);
    const int operands[] = {[EMBEDDING_BACKWARD_IDS] = of[EMBEDDING_IDS],
                            [EMBEDDING_BACKWARD_POSITIONS] = of[EMBEDDING_POSITIONS],
                            [EMBEDDING_BACKWARD_DOUT] = dout,
                            [EMBEDDING_BACKWARD_DTABLE] = dtable,
                            [EMBEDDING_BACKWARD_DPOSITION_TABLE] = dpositions};
    graph_op(flow->graph, OP_EMBEDDING_BACKWARD, op->layer, operands, EMBEDDING_BACKWARD_OPERANDS);
}

static void swiglu_backward(struct flow *flow, const struct op *op) {
    const int *of = op->operands;
    int dout = gradient_of(flow, of[SWIGLU_OUT]);
    int dgate = new_gradient(flow, of[SWIGLU_GATE]);
    int dup = new_gradient(flow, of[SWIGLU_UP]);
    const int operands[] = {[SWIGLU_BACKWARD_DOUT] = dout,
                            [SWIGLU_BACKWARD_GATE] = of[SWIGLU_GATE],
                            [SWIGLU_BACKWARD_UP] = of[SWIGLU_UP],
                            [SWIGLU_BACKWARD_DGATE] = dgate,
                            [SWIGLU_BACKWARD_DUP] = dup};
    graph_op(flow->graph, OP_SWIGLU_BACKWARD, op->layer, operands, SWIGLU_BACKWARD_OPERANDS);
}

static void gelu_backward(struct flow *flow, const struct op *op) {
    int dout = gradient_of(flow, op->operands[GELU_OUT]);
    int dx = new_gradient(flow, op->operands[GELU_X]);
    const int operands[] = {[GELU_BACKWARD_DOUT] = dout,
                            [GELU_BACKWARD_X] = op->operands[GELU_X],
                            [GELU_BACKWARD_DX] = dx};
    graph_op(flow->graph, OP_GELU_BACKWARD, op->layer, operands, GELU_BACKWARD_OPERANDS);
}

static void add_backward(struct flow *flow, const struct op *op) {
    int dout = gradient_of(flow, op->operands[ADD_OUT]);
    add_gradient(flow, op->layer, op->operands[ADD_A], dout, false);
    add_gradient(flow, op->layer, op->operands[ADD_B], dout, false);
}

/* One rule for each op of a forward pass that trains. `op` is a copy: a rule appends to the graph,
 * which may move its ops. */
typedef void backward_rule(struct flow *flow, const struct op *op);

static backward_rule *const RULES[OP_KIND_COUNT] = {
    [OP_EMBEDDING] = embedding_backward,
    [OP_RMSNORM] = rmsnorm_backward,
    [OP_LAYERNORM] = layernorm_backward,
    [OP_LINEAR] = linear_backward,
    [OP_ROPE] = rope_backward,
    [OP_ATTENTION] = attention_backward,
    [OP_SWIGLU] = swiglu_backward,
    [OP_GELU] = gelu_backward,
    [OP_ADD] = add_backward,
};

static void op_backward(struct flow *flow, struct op op) {
    ASSERT(RULES[op.kind] != NULL);
    RULES[op.kind](flow, &op);
}

static void loss_backward(struct flow *flow) {
    struct graph *graph = flow->graph;
    const struct blueprint *blueprint = graph->blueprint;
    enum param_kind kind = blueprint->tied ? PARAM_EMBEDDING : PARAM_HEAD;
    int weight = graph_param(graph, kind, PARAM_NO_LAYER);
    int hidden = graph->final_hidden;
    int dhidden = needs_gradient(flow, hidden) ? new_gradient(flow, hidden) : TENSOR_NONE;
    int dweight = param_gradient(flow, weight);
    ASSERT(dhidden != TENSOR_NONE || dweight != TENSOR_NONE);
    const int operands[] = {
        [HEAD_LOSS_GRADIENT_HIDDEN] = hidden,        [HEAD_LOSS_GRADIENT_WEIGHT] = weight,
        [HEAD_LOSS_GRADIENT_LABELS] = graph->labels, [HEAD_LOSS_GRADIENT_SCALARS] = graph->scalars,
        [HEAD_LOSS_GRADIENT_DHIDDEN] = dhidden,      [HEAD_LOSS_GRADIENT_DWEIGHT] = dweight};
    graph_op(graph, OP_HEAD_LOSS_GRADIENT, PARAM_NO_LAYER, operands, HEAD_LOSS_GRADIENT_OPERANDS);
}

/* Whether `op` reads a trainable parameter, or a tensor that depends on one. */
static bool reads_needed(const struct flow *flow, const struct op *op) {
    const struct graph *graph = flow->graph;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int tensor = op->operands[k];
        if ((op_access(op, k) & ACCESS_READ) == 0) {
            continue;
        }
        bool param = graph->tensors[tensor].kind == TENSOR_PARAM;
        if (param ? !graph_tensor_is_frozen(graph, tensor) : needs_gradient(flow, tensor)) {
            return true;
        }
    }
    return false;
}

static bool writes_needed(const struct flow *flow, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if ((op_access(op, k) & ACCESS_WRITE) && needs_gradient(flow, op->operands[k])) {
            return true;
        }
    }
    return false;
}

static void find_needed(struct flow *flow) {
    const struct graph *graph = flow->graph;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct op *op = &graph->ops[i];
        bool needed = reads_needed(flow, op);
        for (int k = 0; needed && k < OPERANDS_MAX; k++) {
            if (op_access(op, k) & ACCESS_WRITE) {
                flow->needed[graph_base(graph, op->operands[k])] = true;
            }
        }
    }
}

void backward_build(struct graph *graph) {
    ASSERT(graph->shape.mode == GRAPH_TRAIN && graph->forward_count == 0);
    graph->forward_count = graph->op_count;
    size_t count = (size_t)graph->tensor_count + 1; /* one more: the head weight may be new */
    struct flow flow = {.graph = graph,
                        .needed = region_alloc(graph->region, count, sizeof(bool)),
                        .gradient = region_alloc(graph->region, count, sizeof(int)),
                        .owned = region_alloc(graph->region, count, sizeof(bool))};
    memset(flow.gradient, 0xff, count * sizeof(int)); /* TENSOR_NONE is -1 */
    find_needed(&flow);
    loss_backward(&flow);
    for (int i = graph->forward_count - 1; i >= 0; i--) {
        if (writes_needed(&flow, &graph->ops[i])) {
            op_backward(&flow, graph->ops[i]);
        }
    }
}
