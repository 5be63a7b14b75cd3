/* The operation that docs/PORTING.md adds as its example: it is in the graph and its backward pass,
 * its kernels are called on named operands, and its gradient is the slope of its values. */
#include "runtime/model/families/families.h"
#include "runtime/model/graph.h"
#include "runtime/ops/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 20000 }; /* more than one item of the pool */

static const char GPT2[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 48,"
                           "\"n_layer\": 3, \"n_head\": 3, \"n_positions\": 64}";

static const struct op *only_op_of_layer(const struct graph *graph, enum op_kind kind, int layer) {
    const struct op *found = NULL;
    for (int i = 0; i < graph->op_count; i++) {
        if (graph->ops[i].kind == kind && graph->ops[i].layer == layer) {
            assert_null(found);
            found = &graph->ops[i];
        }
    }
    assert_non_null(found);
    return found;
}

static void build(struct region *region, struct blueprint *blueprint, struct graph *graph) {
    struct fault fault;
    assert_int_equal(blueprint_read(GPT2, strlen(GPT2), "test", region, blueprint, &fault), OK);
    struct graph_shape shape = {.mode = GRAPH_TRAIN, .rows = 2, .time = 8, .dtype = DTYPE_F32};
    graph_build(blueprint, &shape, region, graph);
    backward_build(graph);
}

static void the_graph_and_its_backward_pass_have_the_operation(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint blueprint;
    struct graph graph;
    build(&region, &blueprint, &graph);
    for (int layer = 0; layer < 3; layer++) {
        const struct op *forward = only_op_of_layer(&graph, OP_SQUARED_RELU, layer);
        const struct op *backward = only_op_of_layer(&graph, OP_SQUARED_RELU_BACKWARD, layer);
        assert_int_equal(backward->operands[SQUARED_RELU_BACKWARD_X],
                         forward->operands[SQUARED_RELU_X]);
        union kernel_args args = op_args(&graph, backward, NULL);
        assert_int_equal(args.elementwise.count, 2 * 8 * 4 * 48);
        assert_int_equal(args.elementwise.dtype, DTYPE_F32);
    }
    region_finish(&region);
}

static void the_listing_and_the_plan_know_the_operation(void **state) {
    (void)state;
    struct instruction instruction = {.op = OP_SQUARED_RELU};
    instruction.args.elementwise = (struct elementwise_args){.count = 7, .dtype = DTYPE_BF16};
    char buffer[64];
    struct text line = text_over(buffer, sizeof buffer);
    op_append_text(&instruction, &line);
    assert_string_equal(buffer, " 7 bf16");
    assert_string_equal(op_row(OP_SQUARED_RELU)->name, "squared_relu");
    assert_int_equal(op_work(OP_SQUARED_RELU_BACKWARD), OP_WORK_KERNEL);
    struct op_hardware machine = {.threads = 2};
    assert_int_equal(op_workspace_bytes(&instruction, &machine), 0);
}

static void run(struct pool *pool, enum op_kind kind, void *const *at) {
    struct compute compute = {.pool = pool};
    struct instruction instruction = {.op = kind};
    instruction.args.elementwise = (struct elementwise_args){.count = COUNT, .dtype = DTYPE_F32};
    struct op_call call = {.instruction = &instruction, .args = &instruction.args, .addresses = at};
    op_run(&compute, &call);
}

static void its_gradient_is_the_slope_of_its_values(void **state) {
    (void)state;
    static float x[COUNT], above[COUNT], below[COUNT], high[COUNT], low[COUNT], dout[COUNT],
        dx[COUNT];
    const float step = 1.0f / 1024;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - COUNT / 2) / 4096;
        above[i] = x[i] + step;
        below[i] = x[i] - step;
        dout[i] = (float)(i % 7) - 3;
    }
    static struct pool pool;
    struct fault fault;
    assert_int_equal(pool_init(&pool, 2, &fault), OK);
    run(&pool, OP_SQUARED_RELU,
        (void * [OPERANDS_MAX + 1]){[SQUARED_RELU_X] = above, [SQUARED_RELU_OUT] = high});
    run(&pool, OP_SQUARED_RELU,
        (void * [OPERANDS_MAX + 1]){[SQUARED_RELU_X] = below, [SQUARED_RELU_OUT] = low});
    run(&pool, OP_SQUARED_RELU_BACKWARD,
        (void * [OPERANDS_MAX + 1]){[SQUARED_RELU_BACKWARD_DOUT] = dout,
                                    [SQUARED_RELU_BACKWARD_X] = x,
                                    [SQUARED_RELU_BACKWARD_DX] = dx});
    for (int i = 0; i < COUNT; i++) {
        double slope = ((double)high[i] - (double)low[i]) / (2 * (double)step);
        assert_true(fabs(dx[i] - dout[i] * slope) < 4e-3);
        assert_true(x[i] > 0 || dx[i] == 0);
    }
    pool_finish(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graph_and_its_backward_pass_have_the_operation),
        cmocka_unit_test(the_listing_and_the_plan_know_the_operation),
        cmocka_unit_test(its_gradient_is_the_slope_of_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
