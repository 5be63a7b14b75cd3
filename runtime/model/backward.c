#include "runtime/model/backward.h"

#include <stdio.h>
#include <string.h>

/* What is known of the gradient of each forward tensor, by its base's id. */
struct flow {
    struct graph *graph;
    bool *wanted;  /* made from something trainable, so that its gradient matters */
    int *gradient; /* tensor id, TENSOR_NONE until something flowed in */
    bool *owned;   /* no other tensor's gradient lies in the same bytes: may be updated in place */
};

static int gradient_tensor(struct flow *flow, int tensor) {
    struct graph *graph = flow->graph;
    struct tensor gradient = graph->tensors[graph_base(graph, tensor)];
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "d.%s", gradient.name);
    gradient.name = region_text(graph->region, name);
    gradient.kind = TENSOR_ACTIVATION_GRADIENT;
    return graph_tensor(graph, gradient);
}

/* A gradient in the shape of `tensor`: the whole of `base_gradient`, or the matching view of it. */
static int seen_as(struct flow *flow, int tensor, int base_gradient) {
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
    return seen_as(flow, tensor, base_gradient);
}

static bool has_gradient(const struct flow *flow, int tensor) {
    return flow->gradient[graph_base(flow->graph, tensor)] != TENSOR_NONE;
}

static bool wants_gradient(const struct flow *flow, int tensor) {
    return flow->wanted[graph_base(flow->graph, tensor)];
}

/* The gradient tensor of parameter `tensor`, TENSOR_NONE when it is frozen. */
static int param_gradient(struct flow *flow, int tensor) {
    return graph_frozen(flow->graph, tensor) ? TENSOR_NONE
                                             : graph_param_gradient(flow->graph, tensor);
}

static void set_gradient(struct flow *flow, int tensor, int gradient, bool owned) {
    int base = graph_base(flow->graph, tensor);
    flow->gradient[base] = gradient;
    flow->owned[base] = owned;
}

/* A new gradient for `tensor`, which an op is about to write. Views of one base share one. */
static int new_gradient(struct flow *flow, int tensor) {
    if (flow->graph->tensors[tensor].base == TENSOR_NONE) {
        ASSERT(!has_gradient(flow, tensor));
    }
    if (!has_gradient(flow, tensor)) {
        set_gradient(flow, tensor, gradient_tensor(flow, tensor), true);
    }
    return gradient_of(flow, tensor);
}

/* Adds `gradient`, which stays readable for others, to the gradient of `tensor`. */
static void add_gradient(struct flow *flow, int layer, int tensor, int gradient, bool owned) {
    if (!wants_gradient(flow, tensor)) {
        return;
    }
    if (!has_gradient(flow, tensor)) {
        set_gradient(flow, tensor, gradient, owned);
        return;
    }
    int sum = gradient_tensor(flow, tensor);
    graph_op(flow->graph, OP_ADD, layer, (int[]){gradient_of(flow, tensor), gradient, sum}, 3);
    set_gradient(flow, tensor, sum, true);
}

static void linear_input_backward(struct flow *flow, struct op op, int dout) {
    struct graph *graph = flow->graph;
    int x = op.operands[0];
    int weight = op.operands[1];
    /* In f32 a further contribution is added inside the product. In bf16 it is rounded first and
     * then added, as every other sum of activations is. */
    bool inside = has_gradient(flow, x) && flow->owned[graph_base(graph, x)] &&
                  graph->shape.dtype == DTYPE_F32;
    int dx = inside ? gradient_of(flow, x) : gradient_tensor(flow, x);
    struct op *product = graph_op(graph, OP_LINEAR_DX, op.layer, (int[]){dout, weight, dx}, 3);
    product->transposed = op.transposed;
    product->accumulate = inside;
    if (!inside) {
        add_gradient(flow, op.layer, x, dx, true);
    }
}

static void linear_backward(struct flow *flow, struct op op) {
    struct graph *graph = flow->graph;
    int x = op.operands[0];
    int weight = op.operands[1];
    int bias = op.operands[2];
    int dout = gradient_of(flow, op.operands[3]);
    if (bias != TENSOR_NONE && !graph_frozen(graph, bias)) {
        int dbias = graph_param_gradient(graph, bias);
        graph_op(graph, OP_COLUMN_SUM, op.layer, (int[]){dout, dbias}, 2);
    }
    if (!graph_frozen(graph, weight)) {
        int dweight = graph_param_gradient(graph, weight);
        graph_op(graph, OP_LINEAR_DW, op.layer, (int[]){dout, x, dweight}, 3)->transposed =
            op.transposed;
    }
    if (wants_gradient(flow, x)) {
        linear_input_backward(flow, op, dout);
    }
}

/* The sum of what has flowed into x and what the norm gives it: takes the place of the former. */
static int norm_input_gradient(struct flow *flow, int x) {
    if (!wants_gradient(flow, x)) {
        return TENSOR_NONE;
    }
    int dx = gradient_tensor(flow, x);
    set_gradient(flow, x, dx, true);
    return dx;
}

static void rmsnorm_backward(struct flow *flow, struct op op) {
    struct graph *graph = flow->graph;
    int x = op.operands[0];
    int dadd = has_gradient(flow, x) ? gradient_of(flow, x) : TENSOR_NONE;
    int dx = norm_input_gradient(flow, x);
    int operands[] = {
        gradient_of(flow, op.operands[2]),   x, op.operands[1], op.operands[3], dadd, dx,
        param_gradient(flow, op.operands[1])};
    graph_op(graph, OP_RMSNORM_BACKWARD, op.layer, operands, 7)->heads = op.heads;
}

static void layernorm_backward(struct flow *flow, struct op op) {
    struct graph *graph = flow->graph;
    int x = op.operands[0];
    int dadd = has_gradient(flow, x) ? gradient_of(flow, x) : TENSOR_NONE;
    int dx = norm_input_gradient(flow, x);
    int operands[] = {gradient_of(flow, op.operands[3]),
                      x,
                      op.operands[1],
                      op.operands[4],
                      op.operands[5],
                      dadd,
                      dx,
                      param_gradient(flow, op.operands[1]),
                      param_gradient(flow, op.operands[2])};
    graph_op(graph, OP_LAYERNORM_BACKWARD, op.layer, operands, 9)->heads = op.heads;
}

/* One op makes all three: a gradient that nobody wants is dropped behind it. So is it with the two
 * of SwiGLU. */
static void attention_backward(struct flow *flow, struct op op) {
    const int *in = op.operands;
    int dout = gradient_of(flow, in[4]);
    int dq = new_gradient(flow, in[0]);
    int dk = new_gradient(flow, in[1]);
    int dv = new_gradient(flow, in[2]);
    int operands[] = {in[0], in[1], in[2], in[4], in[5], dout, in[3], dq, dk, dv};
    struct op *added = graph_op(flow->graph, OP_ATTENTION_BACKWARD, op.layer, operands, 10);
    added->heads = op.heads;
    added->window = op.window;
}

/* The rotation is undone in place, in the gradient that attention has just made. */
static void rope_backward(struct flow *flow, struct op op) {
    int x = op.operands[2];
    ASSERT(flow->owned[graph_base(flow->graph, x)]);
    int operands[] = {op.operands[0], op.operands[1], gradient_of(flow, x)};
    struct op *added = graph_op(flow->graph, OP_ROPE, op.layer, operands, 3);
    added->heads = op.heads;
    added->inverse = !op.inverse;
}

static void embedding_backward(struct flow *flow, struct op op) {
    struct graph *graph = flow->graph;
    int table = op.operands[3];
    int operands[] = {op.operands[0], op.operands[1], gradient_of(flow, op.operands[4]),
                      param_gradient(flow, op.operands[2]),
                      table == TENSOR_NONE ? TENSOR_NONE : param_gradient(flow, table)};
    graph_op(graph, OP_EMBEDDING_BACKWARD, op.layer, operands, 5);
}

static void op_backward(struct flow *flow, struct op op) {
    struct graph *graph = flow->graph;
    const int *in = op.operands;
    switch (op.kind) {
    case OP_EMBEDDING:
        embedding_backward(flow, op);
        return;
    case OP_RMSNORM:
        rmsnorm_backward(flow, op);
        return;
    case OP_LAYERNORM:
        layernorm_backward(flow, op);
        return;
    case OP_LINEAR:
        linear_backward(flow, op);
        return;
    case OP_ROPE:
        rope_backward(flow, op);
        return;
    case OP_ATTENTION:
        attention_backward(flow, op);
        return;
    case OP_SWIGLU: {
        int dout = gradient_of(flow, in[2]);
        int dgate = new_gradient(flow, in[0]);
        int dup = new_gradient(flow, in[1]);
        graph_op(graph, OP_SWIGLU_BACKWARD, op.layer, (int[]){dout, in[0], in[1], dgate, dup}, 5);
        return;
    }
    case OP_GELU: {
        int dout = gradient_of(flow, in[1]);
        int dx = new_gradient(flow, in[0]);
        graph_op(graph, OP_GELU_BACKWARD, op.layer, (int[]){dout, in[0], dx}, 3);
        return;
    }
    case OP_ADD: {
        int dout = gradient_of(flow, in[2]);
        add_gradient(flow, op.layer, in[0], dout, false);
        add_gradient(flow, op.layer, in[1], dout, false);
        return;
    }
    default:
        ASSERT(false && "an op without a backward rule in a training graph");
    }
}

static void loss_backward(struct flow *flow) {
    struct graph *graph = flow->graph;
    const struct blueprint *blueprint = graph->blueprint;
    enum param_kind kind = blueprint->tied ? PARAM_EMBEDDING : PARAM_HEAD;
    int weight = graph_param(graph, kind, PARAM_NO_LAYER);
    int hidden = graph->final_hidden;
    int dhidden = wants_gradient(flow, hidden) ? new_gradient(flow, hidden) : TENSOR_NONE;
    int dweight = param_gradient(flow, weight);
    ASSERT(dhidden != TENSOR_NONE || dweight != TENSOR_NONE);
    int operands[] = {hidden, weight, graph->labels, graph->scalars, dhidden, dweight};
    graph_op(graph, OP_HEAD_LOSS_GRADIENT, PARAM_NO_LAYER, operands, 6);
}

/* Whether `op` reads something trainable, or something made from it. */
static bool reads_wanted(const struct flow *flow, const struct op *op) {
    const struct graph *graph = flow->graph;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int tensor = op->operands[k];
        if ((op_access(op, k) & ACCESS_READ) == 0) {
            continue;
        }
        bool param = graph->tensors[tensor].kind == TENSOR_PARAM;
        if (param ? !graph_frozen(graph, tensor) : wants_gradient(flow, tensor)) {
            return true;
        }
    }
    return false;
}

static bool writes_wanted(const struct flow *flow, const struct op *op) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if ((op_access(op, k) & ACCESS_WRITE) && wants_gradient(flow, op->operands[k])) {
            return true;
        }
    }
    return false;
}

static void find_wanted(struct flow *flow) {
    const struct graph *graph = flow->graph;
    for (int i = 0; i < graph->forward_count; i++) {
        const struct op *op = &graph->ops[i];
        bool wanted = reads_wanted(flow, op);
        for (int k = 0; wanted && k < OPERANDS_MAX; k++) {
            if (op_access(op, k) & ACCESS_WRITE) {
                flow->wanted[graph_base(graph, op->operands[k])] = true;
            }
        }
    }
}

void backward_build(struct graph *graph) {
    ASSERT(graph->shape.mode == GRAPH_TRAIN && graph->forward_count == 0);
    graph->forward_count = graph->op_count;
    size_t count = (size_t)graph->tensor_count + 1; /* one more: the head's weight, if new */
    struct flow flow = {.graph = graph,
                        .wanted = region_alloc(graph->region, count, sizeof(bool)),
                        .gradient = region_alloc(graph->region, count, sizeof(int)),
                        .owned = region_alloc(graph->region, count, sizeof(bool))};
    memset(flow.gradient, 0xff, count * sizeof(int)); /* TENSOR_NONE is -1 */
    find_wanted(&flow);
    loss_backward(&flow);
    for (int i = graph->forward_count - 1; i >= 0; i--) {
        if (writes_wanted(&flow, &graph->ops[i])) {
            op_backward(&flow, graph->ops[i]);
        }
    }
}
