/* graph_decoder: the block of llama, mistral, qwen2 and qwen3: RMSNorm, rotary attention with
 * grouped queries, SwiGLU. Flags of the blueprint select their differences. */
#include "runtime/model/families/family.h"

static int add_rmsnorm(struct graph *graph, int layer, int x, int weight, int64_t heads,
                       const char *name) {
    struct tensor shape = graph->tensors[x];
    int out = graph_add_activation(graph, name, layer, shape.rows, shape.columns);
    int rms_inv = graph_add_statistic(graph, "rms_inv", layer, shape.rows, heads);
    const int operands[] = {[RMSNORM_X] = x,
                            [RMSNORM_WEIGHT] = weight,
                            [RMSNORM_OUT] = out,
                            [RMSNORM_RMS_INV] = rms_inv};
    struct op *op = graph_add_op(graph, OP_RMSNORM, layer, operands, RMSNORM_OPERANDS);
    op->heads = heads;
    return out;
}

static void add_rope(struct graph *graph, int layer, int x, int64_t heads) {
    const int operands[] = {
        [ROPE_TABLE] = graph->rope_table, [ROPE_POSITIONS] = graph->positions, [ROPE_X] = x};
    struct op *op = graph_add_op(graph, OP_ROPE, layer, operands, ROPE_OPERANDS);
    op->heads = heads;
}

static bool have_same_frozen_flag(const struct graph *graph, int layer,
                                  const enum param_kind kinds[3]) {
    const struct blueprint *blueprint = graph->blueprint;
    const bool *frozen = graph->shape.frozen;
    bool flags[3];
    for (int i = 0; i < 3; i++) {
        const struct param *param = blueprint_param(blueprint, kinds[i], layer);
        flags[i] = frozen != NULL && param != NULL && frozen[param - blueprint->params];
    }
    return flags[0] == flags[1] && flags[1] == flags[2];
}

/* Return whether one matrix product can compute q, k and v. Their weights (and biases) must be
 * adjacent in one unit, and no op may be between the product and the rotation. */
static bool can_fuse_qkv(const struct graph *graph, int layer) {
    static const enum param_kind WEIGHTS[3] = {PARAM_Q, PARAM_K, PARAM_V};
    static const enum param_kind BIASES[3] = {PARAM_Q_BIAS, PARAM_K_BIAS, PARAM_V_BIAS};
    const struct blueprint *blueprint = graph->blueprint;
    int64_t q = blueprint->heads * blueprint->head_dim;
    int64_t kv = blueprint->kv_heads * blueprint->head_dim;
    bool weights_are_adjacent = q * blueprint->hidden % GRANULE_ELEMENTS == 0 &&
                                kv * blueprint->hidden % GRANULE_ELEMENTS == 0;
    bool biases_are_adjacent = q % GRANULE_ELEMENTS == 0 && kv % GRANULE_ELEMENTS == 0;
    return weights_are_adjacent && (!blueprint->qkv_bias || biases_are_adjacent) &&
           !blueprint->qk_norm && have_same_frozen_flag(graph, layer, WEIGHTS) &&
           have_same_frozen_flag(graph, layer, BIASES);
}

static struct qkv add_fused_qkv(struct graph *graph, int layer, int x) {
    const struct blueprint *blueprint = graph->blueprint;
    int64_t q = blueprint->heads * blueprint->head_dim;
    int64_t kv = blueprint->kv_heads * blueprint->head_dim;
    int weight = graph_param_span_tensor(graph, PARAM_Q, layer, q + 2 * kv);
    int bias = TENSOR_NONE;
    if (blueprint->qkv_bias) {
        bias = graph_param_tensor(graph, PARAM_Q_BIAS, layer);
        graph->tensors[bias].columns = graph->tensors[bias].stride = q + 2 * kv;
    }
    int out = graph_add_activation(graph, "qkv", layer, graph_token_count(graph), q + 2 * kv);
    const int operands[] = {
        [LINEAR_X] = x, [LINEAR_WEIGHT] = weight, [LINEAR_BIAS] = bias, [LINEAR_OUT] = out};
    graph_add_op(graph, OP_LINEAR, layer, operands, LINEAR_OPERANDS);
    return (struct qkv){graph_add_view(graph, out, "q", 0, q),
                        graph_add_view(graph, out, "k", q, kv),
                        graph_add_view(graph, out, "v", q + kv, kv)};
}

static struct qkv add_separate_qkv(struct graph *graph, int layer, int x) {
    const struct blueprint *blueprint = graph->blueprint;
    struct qkv qkv = {graph_add_linear(graph, layer, x, PARAM_Q, PARAM_Q_BIAS, "q"),
                      graph_add_linear(graph, layer, x, PARAM_K, PARAM_K_BIAS, "k"),
                      graph_add_linear(graph, layer, x, PARAM_V, PARAM_V_BIAS, "v")};
    if (blueprint->qk_norm) {
        int q_weight = graph_param_tensor(graph, PARAM_Q_NORM, layer);
        int k_weight = graph_param_tensor(graph, PARAM_K_NORM, layer);
        qkv.q = add_rmsnorm(graph, layer, qkv.q, q_weight, blueprint->heads, "q_normed");
        qkv.k = add_rmsnorm(graph, layer, qkv.k, k_weight, blueprint->kv_heads, "k_normed");
    }
    return qkv;
}

static int add_mlp(struct graph *graph, int layer, int x) {
    int gate = graph_add_linear(graph, layer, x, PARAM_GATE, PARAM_GATE_BIAS, "gate");
    int up = graph_add_linear(graph, layer, x, PARAM_UP, PARAM_UP_BIAS, "up");
    struct tensor shape = graph->tensors[up];
    int product = graph_add_activation(graph, "swiglu", layer, shape.rows, shape.columns);
    const int operands[] = {[SWIGLU_GATE] = gate, [SWIGLU_UP] = up, [SWIGLU_OUT] = product};
    graph_add_op(graph, OP_SWIGLU, layer, operands, SWIGLU_OPERANDS);
    return graph_add_linear(graph, layer, product, PARAM_DOWN, PARAM_DOWN_BIAS, "down");
}

static int add_block(struct graph *graph, int layer, int x) {
    const struct blueprint *blueprint = graph->blueprint;
    int weight = graph_param_tensor(graph, PARAM_ATTENTION_NORM, layer);
    int normed = add_rmsnorm(graph, layer, x, weight, 1, "attention_norm");
    struct qkv qkv = can_fuse_qkv(graph, layer) ? add_fused_qkv(graph, layer, normed)
                                                : add_separate_qkv(graph, layer, normed);
    add_rope(graph, layer, qkv.q, blueprint->heads);
    add_rope(graph, layer, qkv.k, blueprint->kv_heads);
    int attended = graph_add_attention(graph, layer, &qkv);
    int projected = graph_add_linear(graph, layer, attended, PARAM_O, PARAM_O_BIAS, "projected");
    int middle = graph_add_sum(graph, layer, x, projected, "middle");
    weight = graph_param_tensor(graph, PARAM_MLP_NORM, layer);
    normed = add_rmsnorm(graph, layer, middle, weight, 1, "mlp_norm");
    return graph_add_sum(graph, layer, middle, add_mlp(graph, layer, normed), "out");
}

int graph_build_decoder(struct graph *graph) {
    const struct blueprint *blueprint = graph->blueprint;
    int table = graph_param_tensor(graph, PARAM_EMBEDDING, PARAM_NO_LAYER);
    int x = graph_add_activation(graph, "embedded", PARAM_NO_LAYER, graph_token_count(graph),
                                 blueprint->hidden);
    const int operands[] = {[EMBEDDING_IDS] = graph->ids,
                            [EMBEDDING_POSITIONS] = TENSOR_NONE,
                            [EMBEDDING_TABLE] = table,
                            [EMBEDDING_POSITION_TABLE] = TENSOR_NONE,
                            [EMBEDDING_OUT] = x};
    graph_add_op(graph, OP_EMBEDDING, PARAM_NO_LAYER, operands, EMBEDDING_OPERANDS);
    for (int layer = 0; layer < (int)blueprint->layers; layer++) {
        x = add_block(graph, layer, x);
    }
    int weight = graph_param_tensor(graph, PARAM_FINAL_NORM, PARAM_NO_LAYER);
    return add_rmsnorm(graph, PARAM_NO_LAYER, x, weight, 1, "final_norm");
}
