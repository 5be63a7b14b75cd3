#include "runtime/model/graph.h"

#include <string.h>

#define READ(operand)            [operand] = {ACCESS_READ, false},
#define WRITE(operand)           [operand] = {ACCESS_WRITE, false},
#define UPDATE(operand)          [operand] = {ACCESS_UPDATE, false},
#define MAY_READ(operand)        [operand] = {ACCESS_READ, true},
#define MAY_WRITE(operand)       [operand] = {ACCESS_WRITE, true},
#define MAY_UPDATE(operand)      [operand] = {ACCESS_UPDATE, true},
#define OP(kind, name, operands) [OP_##kind] = {#name, kind##_OPERANDS, {operands}},
static const struct op_row ROWS[OP_KIND_COUNT] = {OP_LIST(OP)};
#undef OP
#undef READ
#undef WRITE
#undef UPDATE
#undef MAY_READ
#undef MAY_WRITE
#undef MAY_UPDATE

const struct op_row *op_row(enum op_kind kind) {
    ASSERT(kind < OP_KIND_COUNT);
    return &ROWS[kind];
}

enum access op_access(const struct op *op, int index) {
    const struct op_row *row = op_row(op->kind);
    if (index >= row->operand_count || op->operands[index] == TENSOR_NONE) {
        return (enum access)0;
    }
    if (op->kind == OP_LINEAR_DX && index == LINEAR_DX_DX && op->accumulate) {
        return ACCESS_UPDATE;
    }
    return row->operands[index].access;
}

int64_t graph_token_count(const struct graph *graph) {
    return graph->shape.rows * graph->shape.time;
}

int graph_add_tensor(struct graph *graph, struct tensor tensor) {
    ASSERT(tensor.rows > 0 && tensor.columns > 0 && tensor.stride >= tensor.columns);
    if (graph->tensor_count == graph->tensor_capacity) {
        graph->tensors = region_grow(graph->region, graph->tensors, graph->tensor_count,
                                     &graph->tensor_capacity, sizeof *graph->tensors);
    }
    graph->tensors[graph->tensor_count] = tensor;
    return graph->tensor_count++;
}

static const char *format_layer_name(struct graph *graph, const char *name, int layer) {
    if (layer == PARAM_NO_LAYER) {
        return name;
    }
    return region_format(graph->region, "layers.%d.%s", layer, name);
}

static int append_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                             int64_t columns) {
    return graph_add_tensor(graph, (struct tensor){.name = format_layer_name(graph, name, layer),
                                                   .kind = TENSOR_ACTIVATION,
                                                   .dtype = graph->shape.dtype,
                                                   .rows = rows,
                                                   .columns = columns,
                                                   .stride = columns,
                                                   .base = TENSOR_NONE,
                                                   .param = -1,
                                                   .layer = layer});
}

int graph_add_activation(struct graph *graph, const char *name, int layer, int64_t rows,
                         int64_t columns) {
    return append_activation(graph, name, layer, rows, columns);
}

int graph_add_statistic(struct graph *graph, const char *name, int layer, int64_t rows,
                        int64_t columns) {
    int id = append_activation(graph, name, layer, rows, columns);
    graph->tensors[id].dtype = DTYPE_F32;
    return id;
}

static int append_input(struct graph *graph, const char *name, enum dtype dtype, int64_t rows,
                        int64_t columns) {
    int id = append_activation(graph, name, PARAM_NO_LAYER, rows, columns);
    graph->tensors[id].kind = TENSOR_INPUT;
    graph->tensors[id].dtype = dtype;
    return id;
}

int graph_add_view(struct graph *graph, int base, const char *name, int64_t column,
                   int64_t columns) {
    struct tensor view = graph->tensors[base];
    ASSERT(view.base == TENSOR_NONE && column + columns <= view.columns);
    view.name = format_layer_name(graph, name, view.layer);
    view.base = base;
    view.offset = column;
    view.columns = columns;
    return graph_add_tensor(graph, view);
}

int graph_base_tensor(const struct graph *graph, int tensor) {
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
    return graph_add_tensor(graph, (struct tensor){.name = param->name,
                                                   .kind = TENSOR_PARAM,
                                                   .dtype = graph->shape.dtype,
                                                   .rows = rows,
                                                   .columns = columns,
                                                   .stride = columns,
                                                   .base = TENSOR_NONE,
                                                   .param = index,
                                                   .layer = param->layer});
}

int graph_param_tensor(struct graph *graph, enum param_kind kind, int layer) {
    const struct param *param = blueprint_param(graph->blueprint, kind, layer);
    if (param == NULL) {
        return TENSOR_NONE;
    }
    return param_tensor(graph, param, param->rank == 2 ? param->shape[0] : 1);
}

int graph_param_span_tensor(struct graph *graph, enum param_kind kind, int layer, int64_t rows) {
    const struct param *param = blueprint_param(graph->blueprint, kind, layer);
    ASSERT(param != NULL && param->rank == 2 && rows > param->shape[0]);
    return param_tensor(graph, param, rows);
}

bool graph_tensor_is_frozen(const struct graph *graph, int tensor) {
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
    gradient.name = region_format(graph->region, "d.%s", gradient.name);
    gradient.kind = TENSOR_PARAM_GRADIENT;
    gradient.dtype = DTYPE_F32;
    return graph_add_tensor(graph, gradient);
}

struct op *graph_add_op(struct graph *graph, enum op_kind kind, int layer, const int *operands,
                        int operand_count) {
    const struct op_row *row = op_row(kind);
    ASSERT(operand_count == row->operand_count);
    if (graph->op_count == graph->op_capacity) {
        graph->ops = region_grow(graph->region, graph->ops, graph->op_count, &graph->op_capacity,
                                 sizeof *graph->ops);
    }
    struct op *op = &graph->ops[graph->op_count++];
    *op = (struct op){.kind = kind, .layer = layer};
    for (int i = 0; i < OPERANDS_MAX; i++) {
        op->operands[i] = i < operand_count ? operands[i] : TENSOR_NONE;
        ASSERT(i >= operand_count || row->operands[i].optional || operands[i] != TENSOR_NONE);
    }
    return op;
}

static void add_linear(struct graph *graph, int layer, int x, int weight, int bias, int out) {
    const int operands[] = {
        [LINEAR_X] = x, [LINEAR_WEIGHT] = weight, [LINEAR_BIAS] = bias, [LINEAR_OUT] = out};
    graph_add_op(graph, OP_LINEAR, layer, operands, LINEAR_OPERANDS);
}

int graph_add_linear(struct graph *graph, int layer, int x, enum param_kind weight_kind,
                     enum param_kind bias_kind, const char *name) {
    int weight = graph_param_tensor(graph, weight_kind, layer);
    int bias = graph_param_tensor(graph, bias_kind, layer);
    struct tensor shape = graph->tensors[weight];
    bool transposed = graph->blueprint->params[shape.param].transposed;
    int out = graph_add_activation(graph, name, layer, graph->tensors[x].rows,
                                   transposed ? shape.columns : shape.rows);
    add_linear(graph, layer, x, weight, bias, out);
    graph->ops[graph->op_count - 1].transposed = transposed;
    return out;
}

int graph_add_sum(struct graph *graph, int layer, int a, int b, const char *name) {
    struct tensor shape = graph->tensors[a];
    int out = graph_add_activation(graph, name, layer, shape.rows, shape.columns);
    const int operands[] = {[ADD_A] = a, [ADD_B] = b, [ADD_OUT] = out};
    graph_add_op(graph, OP_ADD, layer, operands, ADD_OPERANDS);
    return out;
}

static void append_to_cache(struct graph *graph, int layer, int rows, int cache) {
    const int operands[] = {[CACHE_APPEND_ROWS] = rows,
                            [CACHE_APPEND_SCALARS] = graph->scalars,
                            [CACHE_APPEND_CACHE] = cache};
    graph_add_op(graph, OP_CACHE_APPEND, layer, operands, CACHE_APPEND_OPERANDS);
}

static struct op *add_cached_attention(struct graph *graph, int layer, const struct qkv *qkv,
                                       int out) {
    int keys = graph->caches[2 * layer];
    int values = graph->caches[2 * layer + 1];
    append_to_cache(graph, layer, qkv->k, keys);
    append_to_cache(graph, layer, qkv->v, values);
    const int operands[] = {[ATTENTION_CACHED_Q] = qkv->q,
                            [ATTENTION_CACHED_KEY_CACHE] = keys,
                            [ATTENTION_CACHED_VALUE_CACHE] = values,
                            [ATTENTION_CACHED_SCALARS] = graph->scalars,
                            [ATTENTION_CACHED_OUT] = out};
    return graph_add_op(graph, OP_ATTENTION_CACHED, layer, operands, ATTENTION_CACHED_OPERANDS);
}

static struct op *add_attention(struct graph *graph, int layer, const struct qkv *qkv, int out) {
    int64_t tokens = graph->tensors[qkv->q].rows;
    int lse = graph_add_statistic(graph, "lse", layer, tokens, graph->blueprint->heads);
    const int operands[] = {[ATTENTION_Q] = qkv->q, [ATTENTION_K] = qkv->k,
                            [ATTENTION_V] = qkv->v, [ATTENTION_POSITIONS] = graph->positions,
                            [ATTENTION_OUT] = out,  [ATTENTION_LSE] = lse};
    return graph_add_op(graph, OP_ATTENTION, layer, operands, ATTENTION_OPERANDS);
}

int graph_add_attention(struct graph *graph, int layer, const struct qkv *qkv) {
    struct tensor shape = graph->tensors[qkv->q];
    int out = graph_add_activation(graph, "attended", layer, shape.rows, shape.columns);
    struct op *op = graph->shape.mode == GRAPH_GENERATE
                        ? add_cached_attention(graph, layer, qkv, out)
                        : add_attention(graph, layer, qkv, out);
    op->heads = graph->blueprint->heads;
    op->window = graph->blueprint->layer_window[layer];
    return out;
}

/* Adds the input tensors. The scalars are a struct that the kernels define. The graph only needs a
 * tensor id for it; runtime/schedule sets its size. */
static void add_inputs(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int64_t tokens = graph_token_count(graph);
    graph->ids = append_input(graph, "batch.ids", DTYPE_I32, 1, tokens);
    graph->positions = append_input(graph, "batch.positions", DTYPE_I32, 1, tokens);
    graph->scalars = append_input(graph, "scalars", DTYPE_F32, 1, 1);
    graph->labels = TENSOR_NONE;
    graph->rope_table = TENSOR_NONE;
    graph->logits = TENSOR_NONE;
    if (graph->shape.mode != GRAPH_GENERATE) {
        graph->labels = append_input(graph, "batch.labels", DTYPE_I32, 1, tokens);
    }
    if (blueprint->rope.kind != ROPE_NONE) {
        int64_t positions =
            graph->shape.mode == GRAPH_GENERATE ? graph->shape.context : graph->shape.time;
        graph->rope_table =
            append_input(graph, "rope_table", DTYPE_F32, positions, blueprint->head_dim);
    }
}

static void add_caches(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int64_t width = blueprint->kv_heads * blueprint->head_dim;
    graph->caches = region_alloc(graph->region, (size_t)(2 * blueprint->layers), sizeof(int));
    for (int i = 0; i < 2 * blueprint->layers; i++) {
        const char *name = i % 2 == 0 ? "key_cache" : "value_cache";
        graph->caches[i] = append_activation(graph, name, i / 2, graph->shape.context, width);
        graph->tensors[graph->caches[i]].kind = TENSOR_CACHE;
    }
}

static void add_logits(struct graph *graph, int hidden, int weight, int64_t rows) {
    graph->logits =
        graph_add_statistic(graph, "logits", PARAM_NO_LAYER, rows, graph->blueprint->vocab);
    graph->tensors[graph->logits].kind = TENSOR_OUTPUT;
    add_linear(graph, PARAM_NO_LAYER, hidden, weight, TENSOR_NONE, graph->logits);
}

static void add_head(struct graph *graph, int hidden) {
    const struct blueprint *blueprint = graph->blueprint;
    int weight =
        graph_param_tensor(graph, blueprint->tied ? PARAM_EMBEDDING : PARAM_HEAD, PARAM_NO_LAYER);
    if (graph->shape.mode == GRAPH_GENERATE) {
        int last = graph_add_activation(graph, "last", PARAM_NO_LAYER, 1, blueprint->hidden);
        const int operands[] = {[SELECT_LAST_X] = hidden,
                                [SELECT_LAST_SCALARS] = graph->scalars,
                                [SELECT_LAST_OUT] = last};
        graph_add_op(graph, OP_SELECT_LAST, PARAM_NO_LAYER, operands, SELECT_LAST_OPERANDS);
        add_logits(graph, last, weight, 1);
        return;
    }
    if (graph->shape.mode == GRAPH_LOGITS) {
        add_logits(graph, hidden, weight, graph_token_count(graph));
    }
    if (graph->shape.mode == GRAPH_TRAIN) {
        return; /* backward_build adds one op for the loss and its gradient */
    }
    const int operands[] = {[HEAD_LOSS_HIDDEN] = hidden,
                            [HEAD_LOSS_WEIGHT] = weight,
                            [HEAD_LOSS_LABELS] = graph->labels,
                            [HEAD_LOSS_SCALARS] = graph->scalars};
    graph_add_op(graph, OP_HEAD_LOSS, PARAM_NO_LAYER, operands, HEAD_LOSS_OPERANDS);
}

void graph_begin(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph) {
    ASSERT(shape->rows > 0 && shape->time > 0);
    ASSERT(shape->dtype == DTYPE_F32 || shape->dtype == DTYPE_BF16);
    *graph = (struct graph){.blueprint = blueprint, .shape = *shape, .region = region};
    add_inputs(graph);
    if (shape->mode == GRAPH_GENERATE) {
        add_caches(graph);
    }
}

void graph_end(struct graph *graph, int final_hidden) {
    graph->final_hidden = final_hidden;
    add_head(graph, final_hidden);
}
