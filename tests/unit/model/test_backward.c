/* The backward graph under frozen parameters: which operations are left out, and that what stays is
 * what the whole backward graph holds. */
#include "runtime/model/graph.h"

#include "base/random.h"
#include "runtime/model/families/families.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DECODER                                                                                    \
    "\"vocab_size\": 97, \"hidden_size\": 64, \"intermediate_size\": 96,"                          \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"            \
    "\"max_position_embeddings\": 64, "

static const char LLAMA[] =
    "{\"model_type\": \"llama\", " DECODER "\"tie_word_embeddings\": false}";

static const char *const MODELS[] = {
    LLAMA,
    "{\"model_type\": \"llama\", " DECODER
    "\"tie_word_embeddings\": true, \"attention_bias\": true,"
    "\"mlp_bias\": true}",
    "{\"model_type\": \"qwen2\", " DECODER "\"tie_word_embeddings\": false}",
    "{\"model_type\": \"qwen3\", " DECODER "\"head_dim\": 16, \"tie_word_embeddings\": true}",
    "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 48, \"n_layer\": 3, \"n_head\": 3,"
    "\"n_positions\": 64}",
};

enum { PARAMS_MAX = 128, ROUNDS = 60 };

struct built {
    struct region region;
    struct blueprint blueprint;
    bool frozen[PARAMS_MAX];
    struct graph graph;
};

static void read_model(struct built *built, const char *config) {
    struct fault fault;
    *built = (struct built){.region = {0}};
    assert_int_equal(
        blueprint_read(config, strlen(config), "test", &built->region, &built->blueprint, &fault),
        OK);
    assert_in_range(built->blueprint.param_count, 1, PARAMS_MAX);
}

static void build(struct built *built) {
    struct graph_shape shape = {
        .mode = GRAPH_TRAIN, .rows = 2, .time = 8, .dtype = DTYPE_F32, .frozen = built->frozen};
    graph_build(&built->blueprint, &shape, &built->region, &built->graph);
    backward_build(&built->graph);
}

/* Freeze every parameter whose name begins with `prefix` (or, with `trainable`, all others). */
static void freeze(struct built *built, const char *prefix, bool trainable) {
    for (int i = 0; i < built->blueprint.param_count; i++) {
        bool matches = strncmp(built->blueprint.params[i].name, prefix, strlen(prefix)) == 0;
        built->frozen[i] = matches != trainable;
    }
}

static int count_ops(const struct graph *graph, enum op_kind kind) {
    int count = 0;
    for (int i = graph->forward_count; i < graph->op_count; i++) {
        count += graph->ops[i].kind == kind;
    }
    return count;
}

static const struct op *only_op(const struct graph *graph, enum op_kind kind) {
    assert_int_equal(count_ops(graph, kind), 1);
    int i = graph->forward_count;
    while (graph->ops[i].kind != kind) {
        i++;
    }
    return &graph->ops[i];
}

static int backward_ops(const struct graph *graph) {
    return graph->op_count - graph->forward_count;
}

static void nothing_disappears_when_nothing_is_frozen(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(MODELS); m++) {
        static struct built masked, plain;
        read_model(&masked, MODELS[m]);
        read_model(&plain, MODELS[m]);
        build(&masked);
        struct graph_shape shape = masked.graph.shape;
        shape.frozen = NULL;
        graph_build(&plain.blueprint, &shape, &plain.region, &plain.graph);
        backward_build(&plain.graph);
        assert_int_equal(masked.graph.op_count, plain.graph.op_count);
        for (int i = 0; i < plain.graph.op_count; i++) {
            const struct op *a = &masked.graph.ops[i];
            const struct op *b = &plain.graph.ops[i];
            assert_int_equal(a->kind, b->kind);
            assert_memory_equal(a->operands, b->operands, sizeof a->operands);
        }
        region_finish(&masked.region);
        region_finish(&plain.region);
    }
}

static void only_the_heads_product_remains_when_only_the_head_is_trained(void **state) {
    (void)state;
    static struct built built;
    read_model(&built, LLAMA);
    freeze(&built, "lm_head.", true);
    build(&built);
    assert_int_equal(backward_ops(&built.graph), 1);
    const struct op *head = only_op(&built.graph, OP_HEAD_LOSS_GRADIENT);
    assert_int_equal(head->operands[HEAD_LOSS_GRADIENT_DHIDDEN], TENSOR_NONE);
    assert_int_not_equal(head->operands[HEAD_LOSS_GRADIENT_DWEIGHT], TENSOR_NONE);
    region_finish(&built.region);
}

static void a_frozen_embedding_takes_the_lowest_gradients_with_it(void **state) {
    (void)state;
    static struct built built;
    read_model(&built, LLAMA);
    freeze(&built, "model.embed_tokens.", false);
    build(&built);
    assert_int_equal(count_ops(&built.graph, OP_EMBEDDING_BACKWARD), 0);
    /* 5 products a layer: qkv in one, o, gate, up, down. */
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DW), 3 * 5);
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DX), 3 * 5);
    /* The lowest norm still makes its weight's gradient, and none for the embedded tokens. */
    const struct op *lowest = &built.graph.ops[built.graph.op_count - 1];
    assert_int_equal(lowest->kind, OP_RMSNORM_BACKWARD);
    assert_int_equal(lowest->operands[RMSNORM_BACKWARD_DADD], TENSOR_NONE);
    assert_int_equal(lowest->operands[RMSNORM_BACKWARD_DX], TENSOR_NONE);
    assert_int_not_equal(lowest->operands[RMSNORM_BACKWARD_DWEIGHT], TENSOR_NONE);
    region_finish(&built.region);
}

static void layers_below_the_lowest_trainable_one_have_no_backward_ops(void **state) {
    (void)state;
    static struct built built;
    read_model(&built, LLAMA);
    freeze(&built, "model.layers.2.", true);
    build(&built);
    for (int i = built.graph.forward_count; i < built.graph.op_count; i++) {
        int layer = built.graph.ops[i].layer;
        assert_true(layer == 2 || layer == PARAM_NO_LAYER);
    }
    /* The head's op, the final norm, and those of one block. */
    const struct op *head = only_op(&built.graph, OP_HEAD_LOSS_GRADIENT);
    assert_int_not_equal(head->operands[HEAD_LOSS_GRADIENT_DHIDDEN], TENSOR_NONE);
    assert_int_equal(head->operands[HEAD_LOSS_GRADIENT_DWEIGHT], TENSOR_NONE);
    assert_int_equal(count_ops(&built.graph, OP_RMSNORM_BACKWARD), 3);
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DW), 5);
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DX), 5);
    region_finish(&built.region);
}

static void only_sums_of_columns_remain_when_only_biases_are_trained(void **state) {
    (void)state;
    static struct built built;
    read_model(&built, MODELS[2]);
    for (int i = 0; i < built.blueprint.param_count; i++) {
        built.frozen[i] = strstr(built.blueprint.params[i].name, ".bias") == NULL;
    }
    build(&built);
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DW), 0);
    assert_int_equal(count_ops(&built.graph, OP_COLUMN_SUM), 3); /* q, k and v in one, a layer */
    /* Nothing below the lowest layer's biases: neither dx of its qkv, nor its norm. */
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DX), 3 * 5 - 1);
    assert_int_equal(count_ops(&built.graph, OP_RMSNORM_BACKWARD), 3 * 2 + 1 - 1);
    region_finish(&built.region);
}

static void one_frozen_part_of_qkv_takes_the_product_apart(void **state) {
    (void)state;
    static struct built built;
    read_model(&built, LLAMA);
    freeze(&built, "model.layers.1.self_attn.k_proj.", false);
    build(&built);
    /* Layers 0 and 2: one product for q, k and v; layer 1: three, and no dW for k. */
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DX), 3 * 5 + 2);
    assert_int_equal(count_ops(&built.graph, OP_LINEAR_DW), 3 * 5 + 1);
    region_finish(&built.region);
}

/* ---- any mask ---- */

static bool is_gradient(enum tensor_kind kind) {
    return kind == TENSOR_PARAM_GRADIENT || kind == TENSOR_ACTIVATION_GRADIENT;
}

/* How many elements of each parameter some op adds a gradient to. A range may cover several. */
static void check_param_gradients(const struct built *built) {
    bool made[PARAMS_MAX] = {false};
    const struct graph *graph = &built->graph;
    for (int i = graph->forward_count; i < graph->op_count; i++) {
        for (int k = 0; k < OPERANDS_MAX; k++) {
            int id = graph->ops[i].operands[k];
            if (id == TENSOR_NONE || graph->tensors[id].kind != TENSOR_PARAM_GRADIENT) {
                continue;
            }
            int64_t left = graph->tensors[id].rows * graph->tensors[id].columns;
            for (int p = graph->tensors[id].param; left > 0; p++) {
                assert_in_range(p, 0, built->blueprint.param_count - 1);
                left -= param_elements(&built->blueprint.params[p]);
                made[p] = true;
            }
            assert_int_equal(left, 0);
        }
    }
    for (int p = 0; p < built->blueprint.param_count; p++) {
        if (made[p] == built->frozen[p]) {
            fail_msg("%s is %s and has %s gradient", built->blueprint.params[p].name,
                     built->frozen[p] ? "frozen" : "trainable", made[p] ? "a" : "no");
        }
    }
}

static void check_access(const struct graph *graph, const struct op *op, int index,
                         enum access access, bool *written) {
    if ((op_access(op, index) & access) == 0) {
        return;
    }
    int base = graph_base_tensor(graph, op->operands[index]);
    if (graph->tensors[base].kind == TENSOR_ACTIVATION_GRADIENT) {
        assert_true(access == ACCESS_WRITE || written[base]);
        written[base] = true;
    }
}

/* Each activation gradient is written before it is read. */
static void check_flow(struct built *built) {
    const struct graph *graph = &built->graph;
    bool *written = region_alloc(&built->region, (size_t)graph->tensor_count, sizeof(bool));
    for (int i = graph->forward_count; i < graph->op_count; i++) {
        const struct op *op = &graph->ops[i];
        for (int pass = ACCESS_READ; pass <= ACCESS_WRITE; pass++) {
            for (int k = 0; k < OPERANDS_MAX; k++) {
                check_access(graph, op, k, (enum access)pass, written);
            }
        }
    }
}

/* Whether `part` is `whole` with some of its gradients left out. Ids differ, names do not. */
static bool is_less_of(const struct graph *graph, const struct op *part, const struct graph *full,
                       const struct op *whole) {
    if (part->kind != whole->kind || part->layer != whole->layer ||
        part->accumulate != whole->accumulate) {
        return false;
    }
    for (int k = 0; k < OPERANDS_MAX; k++) {
        int a = part->operands[k];
        int b = whole->operands[k];
        if (a == TENSOR_NONE && (b == TENSOR_NONE || is_gradient(full->tensors[b].kind))) {
            continue;
        }
        if (a == TENSOR_NONE || b == TENSOR_NONE ||
            strcmp(graph->tensors[a].name, full->tensors[b].name) != 0) {
            return false;
        }
    }
    return true;
}

static void check_is_less_of(const struct graph *graph, const struct graph *full) {
    int at = full->forward_count;
    for (int i = graph->forward_count; i < graph->op_count; i++) {
        while (at < full->op_count && !is_less_of(graph, &graph->ops[i], full, &full->ops[at])) {
            at++;
        }
        if (at == full->op_count) {
            fail_msg("op %d, %s of layer %d, is not in the whole graph", i,
                     op_row(graph->ops[i].kind)->name, graph->ops[i].layer);
        }
        at++;
    }
}

/* Masks by kind and layer, so that the parts of q, k and v are alike and the forward graphs too. */
static void freeze_at_random(struct built *built, uint64_t key) {
    int last = built->blueprint.param_count - 1;
    for (int i = 0; i <= last; i++) {
        enum param_kind kind = built->blueprint.params[i].kind;
        bool as_before =
            kind == PARAM_K || kind == PARAM_V || kind == PARAM_K_BIAS || kind == PARAM_V_BIAS;
        built->frozen[i] =
            as_before ? built->frozen[i - 1] : random_uniform(key, (uint64_t)i) < 0.7;
    }
    built->frozen[random_uniform(key, PARAMS_MAX) < 0.5 ? 0 : last] = false;
}

static void every_mask_leaves_the_gradients_of_what_is_trained(void **state) {
    (void)state;
    for (size_t m = 0; m < ARRAY_COUNT(MODELS); m++) {
        static struct built whole, built;
        read_model(&whole, MODELS[m]);
        build(&whole);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            read_model(&built, MODELS[m]);
            freeze_at_random(&built, random_key(round, "masks"));
            build(&built);
            check_param_gradients(&built);
            check_flow(&built);
            check_is_less_of(&built.graph, &whole.graph);
            region_finish(&built.region);
        }
        region_finish(&whole.region);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_disappears_when_nothing_is_frozen),
        cmocka_unit_test(only_the_heads_product_remains_when_only_the_head_is_trained),
        cmocka_unit_test(a_frozen_embedding_takes_the_lowest_gradients_with_it),
        cmocka_unit_test(layers_below_the_lowest_trainable_one_have_no_backward_ops),
        cmocka_unit_test(only_sums_of_columns_remain_when_only_biases_are_trained),
        cmocka_unit_test(one_frozen_part_of_qkv_takes_the_product_apart),
        cmocka_unit_test(every_mask_leaves_the_gradients_of_what_is_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
