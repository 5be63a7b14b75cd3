#include "runtime/model/graph.h"

#include <stdio.h>
#include <string.h>

#define R ACCESS_READ
#define W ACCESS_WRITE
#define U ACCESS_UPDATE

static const struct op_row ROWS[OP_KIND_COUNT] = {
    [OP_EMBEDDING] = {"embedding", 5, {R, R, R, R, W}},
    [OP_EMBEDDING_BACKWARD] = {"embedding_backward", 5, {R, R, R, U, U}},
    [OP_RMSNORM] = {"rmsnorm", 4, {R, R, W, W}},
    [OP_RMSNORM_BACKWARD] = {"rmsnorm_backward", 7, {R, R, R, R, R, W, U}},
    [OP_LAYERNORM] = {"layernorm", 6, {R, R, R, W, W, W}},
    [OP_LAYERNORM_BACKWARD] = {"layernorm_backward", 9, {R, R, R, R, R, R, W, U, U}},
    [OP_LINEAR] = {"linear", 4, {R, R, R, W}},
    [OP_LINEAR_DX] = {"linear_dx", 3, {R, R, W}},
    [OP_LINEAR_DW] = {"linear_dw", 3, {R, R, U}},
    [OP_COLUMN_SUM] = {"column_sum", 2, {R, U}},
    [OP_ROPE] = {"rope", 3, {R, R, U}},
    [OP_ATTENTION] = {"attention", 6, {R, R, R, R, W, W}},
    [OP_ATTENTION_BACKWARD] = {"attention_backward", 10, {R, R, R, R, R, R, R, W, W, W}},
    [OP_CACHE_APPEND] = {"cache_append", 3, {R, R, U}},
    [OP_ATTENTION_CACHED] = {"attention_cached", 5, {R, R, R, R, W}},
    [OP_SWIGLU] = {"swiglu", 3, {R, R, W}},
    [OP_SWIGLU_BACKWARD] = {"swiglu_backward", 5, {R, R, R, W, W}},
    [OP_GELU] = {"gelu", 2, {R, W}},
    [OP_GELU_BACKWARD] = {"gelu_backward", 3, {R, R, W}},
    [OP_ADD] = {"add", 3, {R, R, W}},
    [OP_SELECT_LAST] = {"select_last", 3, {R, R, W}},
    [OP_HEAD_LOSS] = {"head_loss", 4, {R, R, R, U}},
    [OP_HEAD_LOSS_GRADIENT] = {"head_loss_gradient", 6, {R, R, R, U, W, U}},
    [OP_ZERO] = {"zero", 1, {W}},
    [OP_GRADIENT_NORM] = {"gradient_norm", 2, {R, U}},
    [OP_CLIP] = {"clip", 1, {U}},
    [OP_ADAMW] = {"adamw", 6, {R, R, U, U, U, W}},
    [OP_CAST] = {"cast", 2, {R, W}},
    [OP_COPY] = {"copy", 2, {R, W}},
    [OP_HOST] = {"host", 1, {U}},
    [OP_ALL_GATHER] = {"all_gather", 1, {U}},
    [OP_REDUCE_SCATTER] = {"reduce_scatter", 2, {R, U}},
    [OP_ACCUMULATE] = {"accumulate", 2, {R, U}},
    [OP_TALLY_OUT] = {"tally_out", 2, {R, W}},
    [OP_TALLY_IN] = {"tally_in", 2, {R, U}},
    [OP_RELEASE] = {"release", 1, {U}},
};

#undef R
#undef W
#undef U

const struct op_row *op_row(enum op_kind kind) {
    ASSERT(kind < OP_KIND_COUNT);
    return &ROWS[kind];
}

enum access op_access(const struct op *op, int index) {
    const struct op_row *row = op_row(op->kind);
    if (index >= row->operand_count || op->operands[index] == TENSOR_NONE) {
        return (enum access)0;
    }
    if (op->kind == OP_LINEAR_DX && index == 2 && op->accumulate) {
        return ACCESS_UPDATE;
    }
    return row->access[index];
}

int64_t graph_tokens(const struct graph *graph) {
    return graph->shape.rows * graph->shape.time;
}

static void *grown(struct graph *graph, const void *old, int count, int *capacity, size_t size) {
    int wanted = *capacity == 0 ? 256 : 2 * *capacity;
    void *bigger = region_alloc(graph->region, (size_t)wanted, size);
    if (count > 0) {
        memcpy(bigger, old, (size_t)count * size);
    }
    *capacity = wanted;
    return bigger;
}

int graph_tensor(struct graph *graph, struct tensor tensor) {
    ASSERT(tensor.rows > 0 && tensor.columns > 0 && tensor.stride >= tensor.columns);
    if (graph->tensor_count == graph->tensor_capacity) {
        graph->tensors = grown(graph, graph->tensors, graph->tensor_count, &graph->tensor_capacity,
                               sizeof *graph->tensors);
    }
    graph->tensors[graph->tensor_count] = tensor;
    return graph->tensor_count++;
}

static const char *layer_name(struct graph *graph, const char *name, int layer) {
    if (layer == PARAM_NO_LAYER) {
        return name;
    }
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "layers.%d.%s", layer, name);
    return region_text(graph->region, text);
}

static int plain_tensor(struct graph *graph, const char *name, int layer, int64_t rows,
                        int64_t columns) {
    return graph_tensor(graph, (struct tensor){.name = layer_name(graph, name, layer),
                                               .kind = TENSOR_ACTIVATION,
                                               .dtype = graph->shape.dtype,
                                               .rows = rows,
                                               .columns = columns,
                                               .stride = columns,
                                               .base = TENSOR_NONE,
                                               .param = -1,
                                               .layer = layer});
}

int graph_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                     int64_t columns) {
    return plain_tensor(graph, name, layer, rows, columns);
}

int graph_statistic(struct graph *graph, const char *name, int layer, int64_t rows,
                    int64_t columns) {
    int id = plain_tensor(graph, name, layer, rows, columns);
    graph->tensors[id].dtype = DTYPE_F32;
    return id;
}

static int host_tensor(struct graph *graph, const char *name, enum dtype dtype, int64_t rows,
                       int64_t columns) {
    int id = plain_tensor(graph, name, PARAM_NO_LAYER, rows, columns);
    graph->tensors[id].kind = TENSOR_INPUT;
    graph->tensors[id].dtype = dtype;
    return id;
}

int graph_view(struct graph *graph, int base, const char *name, int64_t column, int64_t columns) {
    struct tensor view = graph->tensors[base];
    ASSERT(view.base == TENSOR_NONE && column + columns <= view.columns);
    view.name = layer_name(graph, name, view.layer);
    view.base = base;
    view.offset = column;
    view.columns = columns;
    return graph_tensor(graph, view);
}

int graph_base(const struct graph *graph, int tensor) {
    int base = graph->tensors[tensor].base;
    return base == TENSOR_NONE ? tensor : base;
}

static int param_tensor(struct graph *graph, const struct param *param, int64_t rows) {
    int index = (int)(param - graph->blueprint->params);
    for (int id = 0; id < graph->tensor_count; id++) {
        const struct tensor *other = &graph->tensors[id];
        if (other->kind == TENSOR_PARAM && other->param == index && other->rows == rows) {
            return id;
        }
    }
    int64_t columns = param->rank == 2 ? param->shape[1] : param->shape[0] / rows;
    return graph_tensor(graph, (struct tensor){.name = param->name,
                                               .kind = TENSOR_PARAM,
                                               .dtype = graph->shape.dtype,
                                               .rows = rows,
                                               .columns = columns,
                                               .stride = columns,
                                               .base = TENSOR_NONE,
                                               .param = index,
                                               .layer = param->layer});
}

int graph_param(struct graph *graph, enum param_kind kind, int layer) {
    const struct param *param = blueprint_param(graph->blueprint, kind, layer);
    if (param == NULL) {
        return TENSOR_NONE;
    }
    return param_tensor(graph, param, param->rank == 2 ? param->shape[0] : 1);
}

int graph_param_span(struct graph *graph, enum param_kind kind, int layer, int64_t rows) {
    const struct param *param = blueprint_param(graph->blueprint, kind, layer);
    ASSERT(param != NULL && param->rank == 2 && rows > param->shape[0]);
    return param_tensor(graph, param, rows);
}

bool graph_frozen(const struct graph *graph, int tensor) {
    const struct tensor *of = &graph->tensors[tensor];
    ASSERT(of->kind == TENSOR_PARAM);
    return graph->shape.frozen != NULL && graph->shape.frozen[of->param];
}

int graph_param_gradient(struct graph *graph, int tensor) {
    struct tensor gradient = graph->tensors[tensor];
    ASSERT(gradient.kind == TENSOR_PARAM);
    for (int id = 0; id < graph->tensor_count; id++) {
        const struct tensor *other = &graph->tensors[id];
        if (other->kind == TENSOR_PARAM_GRADIENT && other->param == gradient.param &&
            other->rows == gradient.rows) {
            return id;
        }
    }
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "d.%s", gradient.name);
    gradient.name = region_text(graph->region, text);
    gradient.kind = TENSOR_PARAM_GRADIENT;
    gradient.dtype = DTYPE_F32;
    return graph_tensor(graph, gradient);
}

struct op *graph_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                    int operand_count) {
    ASSERT(operand_count == op_row(kind)->operand_count);
    if (graph->op_count == graph->op_capacity) {
        graph->ops =
            grown(graph, graph->ops, graph->op_count, &graph->op_capacity, sizeof *graph->ops);
    }
    struct op *op = &graph->ops[graph->op_count++];
    *op = (struct op){.kind = kind, .layer = layer};
    for (int i = 0; i < OPERANDS_MAX; i++) {
        op->operands[i] = i < operand_count ? operands[i] : TENSOR_NONE;
    }
    return op;
}

int graph_add(struct graph *graph, int layer, int a, int b, const char *name) {
    struct tensor shape = graph->tensors[a];
    int out = graph_activation(graph, name, layer, shape.rows, shape.columns);
    graph_op(graph, OP_ADD, layer, (int[]){a, b, out}, 3);
    return out;
}

int graph_attention(struct graph *graph, int layer, int q, int k, int v) {
    struct tensor shape = graph->tensors[q];
    int out = graph_activation(graph, "attended", layer, shape.rows, shape.columns);
    struct op *op;
    if (graph->shape.mode == GRAPH_GENERATE) {
        int keys = graph->caches[2 * layer];
        int values = graph->caches[2 * layer + 1];
        graph_op(graph, OP_CACHE_APPEND, layer, (int[]){k, graph->scalars, keys}, 3);
        graph_op(graph, OP_CACHE_APPEND, layer, (int[]){v, graph->scalars, values}, 3);
        op = graph_op(graph, OP_ATTENTION_CACHED, layer,
                      (int[]){q, keys, values, graph->scalars, out}, 5);
    } else {
        int lse = graph_statistic(graph, "lse", layer, shape.rows, graph->blueprint->heads);
        op = graph_op(graph, OP_ATTENTION, layer, (int[]){q, k, v, graph->positions, out, lse}, 6);
    }
    op->heads = graph->blueprint->heads;
    op->window = graph->blueprint->layer_window[layer];
    return out;
}

/* Scalars are a struct of the kernels; the graph needs an id for them, their size is the
 * schedule's. */
static void add_inputs(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int64_t tokens = graph_tokens(graph);
    graph->ids = host_tensor(graph, "batch.ids", DTYPE_I32, 1, tokens);
    graph->positions = host_tensor(graph, "batch.positions", DTYPE_I32, 1, tokens);
    graph->scalars = host_tensor(graph, "scalars", DTYPE_F32, 1, 1);
    graph->labels = TENSOR_NONE;
    graph->rope_table = TENSOR_NONE;
    graph->logits = TENSOR_NONE;
    if (graph->shape.mode != GRAPH_GENERATE) {
        graph->labels = host_tensor(graph, "batch.labels", DTYPE_I32, 1, tokens);
    }
    if (blueprint->rope != ROPE_NONE) {
        int64_t positions =
            graph->shape.mode == GRAPH_GENERATE ? graph->shape.context : graph->shape.time;
        graph->rope_table =
            host_tensor(graph, "rope_table", DTYPE_F32, positions, blueprint->head_dim);
    }
}

static void add_caches(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int64_t width = blueprint->kv_heads * blueprint->head_dim;
    graph->caches = region_alloc(graph->region, (size_t)(2 * blueprint->layers), sizeof(int));
    for (int i = 0; i < 2 * blueprint->layers; i++) {
        const char *name = i % 2 == 0 ? "key_cache" : "value_cache";
        graph->caches[i] = plain_tensor(graph, name, i / 2, graph->shape.context, width);
        graph->tensors[graph->caches[i]].kind = TENSOR_CACHE;
    }
}

static void add_logits(struct graph *graph, int hidden, int weight, int64_t rows) {
    graph->logits = graph_statistic(graph, "logits", PARAM_NO_LAYER, rows, graph->blueprint->vocab);
    graph->tensors[graph->logits].kind = TENSOR_OUTPUT;
    int operands[] = {hidden, weight, TENSOR_NONE, graph->logits};
    graph_op(graph, OP_LINEAR, PARAM_NO_LAYER, operands, 4);
}

static void add_head(struct graph *graph, int hidden) {
    const struct blueprint *blueprint = graph->blueprint;
    int weight = graph_param(graph, blueprint->tied ? PARAM_EMBEDDING : PARAM_HEAD, PARAM_NO_LAYER);
    if (graph->shape.mode == GRAPH_GENERATE) {
        int last = graph_activation(graph, "last", PARAM_NO_LAYER, 1, blueprint->hidden);
        int operands[] = {hidden, graph->scalars, last};
        graph_op(graph, OP_SELECT_LAST, PARAM_NO_LAYER, operands, 3);
        add_logits(graph, last, weight, 1);
        return;
    }
    if (graph->shape.mode == GRAPH_LOGITS) {
        add_logits(graph, hidden, weight, graph_tokens(graph));
    }
    if (graph->shape.mode == GRAPH_TRAIN) {
        return; /* loss and gradient are one op, which backward adds */
    }
    int operands[] = {hidden, weight, graph->labels, graph->scalars};
    graph_op(graph, OP_HEAD_LOSS, PARAM_NO_LAYER, operands, 4);
}

void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph) {
    ASSERT(shape->rows > 0 && shape->time > 0);
    ASSERT(shape->dtype == DTYPE_F32 || shape->dtype == DTYPE_BF16);
    *graph = (struct graph){.blueprint = blueprint, .shape = *shape, .region = region};
    add_inputs(graph);
    if (shape->mode == GRAPH_GENERATE) {
        add_caches(graph);
    }
    int hidden = blueprint->family == FAMILY_GPT2 ? graph_gpt2(graph) : graph_decoder(graph);
    graph->final_hidden = hidden;
    add_head(graph, hidden);
}
