#include "runtime/model/model.h"

static const char *const KIND_NAMES[PARAM_KIND_COUNT] = {
    [PARAM_EMBEDDING] = "embedding",
    [PARAM_POSITIONS] = "positions",
    [PARAM_ATTENTION_NORM] = "attention_norm",
    [PARAM_ATTENTION_NORM_BIAS] = "attention_norm_bias",
    [PARAM_Q] = "q",
    [PARAM_K] = "k",
    [PARAM_V] = "v",
    [PARAM_O] = "o",
    [PARAM_Q_BIAS] = "q_bias",
    [PARAM_K_BIAS] = "k_bias",
    [PARAM_V_BIAS] = "v_bias",
    [PARAM_O_BIAS] = "o_bias",
    [PARAM_Q_NORM] = "q_norm",
    [PARAM_K_NORM] = "k_norm",
    [PARAM_QKV] = "qkv",
    [PARAM_QKV_BIAS] = "qkv_bias",
    [PARAM_MLP_NORM] = "mlp_norm",
    [PARAM_MLP_NORM_BIAS] = "mlp_norm_bias",
    [PARAM_GATE] = "gate",
    [PARAM_UP] = "up",
    [PARAM_DOWN] = "down",
    [PARAM_GATE_BIAS] = "gate_bias",
    [PARAM_UP_BIAS] = "up_bias",
    [PARAM_DOWN_BIAS] = "down_bias",
    [PARAM_FINAL_NORM] = "final_norm",
    [PARAM_FINAL_NORM_BIAS] = "final_norm_bias",
    [PARAM_HEAD] = "head",
};
_Static_assert(PARAM_KIND_COUNT == 27, "KIND_NAMES needs a row for each kind of parameter");

const char *param_kind_name(enum param_kind kind) {
    ASSERT(kind < PARAM_KIND_COUNT);
    return KIND_NAMES[kind];
}

struct param_counts counts_params(const struct blueprint *blueprint) {
    struct param_counts counts = {0};
    for (int i = 0; i < blueprint->param_count; i++) {
        const struct param *param = &blueprint->params[i];
        int64_t elements = param_elements(param);
        bool looked_up = param->kind == PARAM_EMBEDDING || param->kind == PARAM_POSITIONS;
        counts.total += elements;
        counts.by_kind[param->kind] += elements;
        counts.one_layer += param->layer == 0 ? elements : 0;
        counts.outside_layers += param->layer == PARAM_NO_LAYER ? elements : 0;
        counts.matrix_params += param->rank == 2 && !looked_up ? elements : 0;
    }
    counts.matrix_params += blueprint->tied ? counts.by_kind[PARAM_EMBEDDING] : 0;
    return counts;
}

/* Return the mean of min(position + 1, window) over positions 0 .. sequence - 1. */
static double mean_visible_keys(int64_t sequence, int64_t window) {
    double length = (double)sequence;
    if (window == 0 || window >= sequence) {
        return (length + 1) / 2;
    }
    double seen = (double)window;
    return (seen * (seen + 1) / 2 + (length - seen) * seen) / length;
}

struct token_flops counts_flops_per_token(const struct blueprint *blueprint, int64_t sequence) {
    ASSERT(sequence >= 1 && sequence <= POSITIONS_MAX);
    struct token_flops flops = {0};
    double per_key = 4.0 * (double)(blueprint->heads * blueprint->head_dim);
    for (int64_t layer = 0; layer < blueprint->layers; layer++) {
        flops.attention += per_key * mean_visible_keys(sequence, blueprint->layer_window[layer]);
    }
    flops.attention_unmasked = per_key * (double)sequence * (double)blueprint->layers;
    flops.matrix_products = 2.0 * (double)counts_params(blueprint).matrix_params;
    flops.forward = flops.matrix_products + flops.attention;
    flops.training = 3 * flops.forward;
    return flops;
}

int64_t counts_param_bytes(const struct blueprint *blueprint, enum dtype dtype) {
    return blueprint_elements(blueprint) * dtype_bytes(dtype);
}

int64_t counts_cache_bytes_per_token(const struct blueprint *blueprint, enum dtype dtype) {
    return 2 * blueprint->layers * blueprint->kv_heads * blueprint->head_dim * dtype_bytes(dtype);
}
