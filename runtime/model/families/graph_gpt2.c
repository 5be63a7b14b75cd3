/* graph_gpt2: LayerNorm with bias, learned positions, one product for q, k and v, tanh GELU;
 * weights stored as [in, out]. */
#include "runtime/model/families/family.h"

static int add_layernorm(struct graph *graph, int layer, int x, enum param_kind weight_kind,
                         enum param_kind bias_kind, const char *name) {
    struct tensor shape = graph->tensors[x];
    int weight = graph_param_tensor(graph, weight_kind, layer);
    int bias = graph_param_tensor(graph, bias_kind, layer);
    int out = graph_add_activation(graph, name, layer, shape.rows, shape.columns);
    int mean = graph_add_statistic(graph, "mean", layer, shape.rows, 1);
    int inverse = graph_add_statistic(graph, "std_inv", layer, shape.rows, 1);
    const int operands[] = {
        [LAYERNORM_X] = x,     [LAYERNORM_WEIGHT] = weight, [LAYERNORM_BIAS] = bias,
        [LAYERNORM_OUT] = out, [LAYERNORM_MEAN] = mean,     [LAYERNORM_STD_INV] = inverse};
    struct op *op = graph_add_op(graph, OP_LAYERNORM, layer, operands, LAYERNORM_OPERANDS);
    op->heads = 1;
    return out;
}

static int add_attention(struct graph *graph, int layer, int x) {
    int64_t hidden = graph->blueprint->hidden;
    int qkv = graph_add_linear(graph, layer, x, PARAM_QKV, PARAM_QKV_BIAS, "qkv");
    struct qkv views;
    views.q = graph_add_view(graph, qkv, "q", 0, hidden);
    views.k = graph_add_view(graph, qkv, "k", hidden, hidden);
    views.v = graph_add_view(graph, qkv, "v", 2 * hidden, hidden);
    return graph_add_attention(graph, layer, &views);
}

static int add_block(struct graph *graph, int layer, int x) {
    int normed = add_layernorm(graph, layer, x, PARAM_ATTENTION_NORM, PARAM_ATTENTION_NORM_BIAS,
                               "attention_norm");
    int attended = add_attention(graph, layer, normed);
    int projected = graph_add_linear(graph, layer, attended, PARAM_O, PARAM_O_BIAS, "projected");
    int middle = graph_add_sum(graph, layer, x, projected, "middle");
    normed = add_layernorm(graph, layer, middle, PARAM_MLP_NORM, PARAM_MLP_NORM_BIAS, "mlp_norm");
    int up = graph_add_linear(graph, layer, normed, PARAM_UP, PARAM_UP_BIAS, "up");
    struct tensor shape = graph->tensors[up];
    int active = graph_add_activation(graph, "gelu", layer, shape.rows, shape.columns);
    graph_add_op(graph, OP_GELU, layer, (int[]){[GELU_X] = up, [GELU_OUT] = active}, GELU_OPERANDS);
    int down = graph_add_linear(graph, layer, active, PARAM_DOWN, PARAM_DOWN_BIAS, "down");
    return graph_add_sum(graph, layer, middle, down, "out");
}

int graph_build_gpt2(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int table = graph_param_tensor(graph, PARAM_EMBEDDING, PARAM_NO_LAYER);
    int positions = graph_param_tensor(graph, PARAM_POSITIONS, PARAM_NO_LAYER);
    int x = graph_add_activation(graph, "embedded", PARAM_NO_LAYER, graph_token_count(graph),
                                 blueprint->hidden);
    const int operands[] = {[EMBEDDING_IDS] = graph->ids,
                            [EMBEDDING_POSITIONS] = graph->positions,
                            [EMBEDDING_TABLE] = table,
                            [EMBEDDING_POSITION_TABLE] = positions,
                            [EMBEDDING_OUT] = x};
    graph_add_op(graph, OP_EMBEDDING, PARAM_NO_LAYER, operands, EMBEDDING_OPERANDS);
    for (int layer = 0; layer < (int)blueprint->layers; layer++) {
        x = add_block(graph, layer, x);
    }
    return add_layernorm(graph, PARAM_NO_LAYER, x, PARAM_FINAL_NORM, PARAM_FINAL_NORM_BIAS,
                         "final_norm");
}
