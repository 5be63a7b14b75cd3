/* Rows out of a table and their gradients back into it. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/embedding.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/embedding.h"
#include "tests/kernels/device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { POSITIONS = 19 };

struct embedding_context {
    struct embedding_args args;
    bool positioned;
    bool table_frozen; /* backward is given no dtable */
    struct tensor ids, positions, table, position_table;
    struct tensor out, dtable, dposition_table;
};

static void run_forward(const struct compute *compute, void *context) {
    struct embedding_context *e = context;
    embedding_forward(compute, &e->args, e->ids.data, e->positions.data, e->table.data,
                      e->positioned ? e->position_table.data : NULL, e->out.data);
}

static void run_backward(const struct compute *compute, void *context) {
    struct embedding_context *e = context;
    embedding_backward(compute, &e->args, e->ids.data, e->positions.data, e->out.data,
                       e->table_frozen ? NULL : e->dtable.data,
                       e->positioned ? e->dposition_table.data : NULL);
}

#if SKEP_CUDA
static void run_forward_cuda(const struct cuda_compute *compute, struct device_run *device,
                             void *context) {
    struct embedding_context *e = context;
    cuda_embedding_forward(compute, &e->args, device_of(device, &e->ids),
                           device_of(device, &e->positions), device_of(device, &e->table),
                           e->positioned ? device_of(device, &e->position_table) : NULL,
                           device_of(device, &e->out));
}

static void run_backward_cuda(const struct cuda_compute *compute, struct device_run *device,
                              void *context) {
    struct embedding_context *e = context;
    cuda_embedding_backward(compute, &e->args, device_of(device, &e->ids),
                            device_of(device, &e->positions), device_of(device, &e->out),
                            e->table_frozen ? NULL : device_of(device, &e->dtable),
                            e->positioned ? device_of(device, &e->dposition_table) : NULL);
}
#endif

static struct embedding_context context_of(int64_t tokens, int64_t dim, int64_t vocab,
                                           enum dtype dtype, bool positioned) {
    uint64_t seed = harness_seed();
    return (struct embedding_context){
        /* in every other table one of the ids is the padding */
        .args = {tokens, dim, vocab, vocab % 2 == 0 ? vocab / 2 : -1, dtype},
        .positioned = positioned,
        .ids = tensor_integers(tokens, (int32_t)vocab, seed),
        .positions = tensor_integers(tokens, POSITIONS, seed + 1),
        .table = tensor_random(dtype, vocab * dim, PATTERN_NORMAL, seed + 2),
        .position_table = tensor_random(dtype, POSITIONS * dim, PATTERN_MIXED, seed + 3),
        .out = tensor_random(dtype, tokens * dim, PATTERN_NORMAL, seed + 4),
        .dtable = tensor_random(DTYPE_F32, vocab * dim, PATTERN_NORMAL, seed + 5),
        .dposition_table = tensor_random(DTYPE_F32, POSITIONS * dim, PATTERN_NORMAL, seed + 6),
    };
}

static void context_finish(struct embedding_context *e) {
    struct tensor *tensors[] = {&e->ids, &e->positions, &e->table,          &e->position_table,
                                &e->out, &e->dtable,    &e->dposition_table};
    for (size_t i = 0; i < ARRAY_COUNT(tensors); i++) {
        tensor_free(tensors[i]);
    }
}

static void reference_forward(struct embedding_context *e) {
    int64_t dim = e->args.dim;
    for (int64_t t = 0; t < e->args.tokens; t++) {
        int64_t row = (int64_t)e->ids.exact[t] * dim;
        int64_t position = (int64_t)e->positions.exact[t] * dim;
        for (int64_t i = 0; i < dim; i++) {
            double added = e->positioned ? e->position_table.exact[position + i] : 0;
            e->out.exact[t * dim + i] = e->table.exact[row + i] + added;
        }
    }
}

static void reference_backward(struct embedding_context *e) {
    int64_t dim = e->args.dim;
    for (int64_t t = 0; t < e->args.tokens; t++) {
        int64_t row = (int64_t)e->ids.exact[t] * dim;
        int64_t position = (int64_t)e->positions.exact[t] * dim;
        for (int64_t i = 0; i < dim; i++) {
            bool counts = !e->table_frozen && (int64_t)e->ids.exact[t] != e->args.padding;
            e->dtable.exact[row + i] += counts ? e->out.exact[t * dim + i] : 0;
            e->dposition_table.exact[position + i] += e->positioned ? e->out.exact[t * dim + i] : 0;
        }
    }
}

static struct operation operation_of(struct embedding_context *e, bool backward) {
    struct operation forward_operation = {.run = run_forward,
                                          .run_cuda = ON_CUDA(run_forward_cuda),
                                          .output_count = 1,
                                          .outputs = {{"out", &e->out, e->out.exact}}};
    struct operation backward_operation = {
        .run = run_backward,
        .run_cuda = ON_CUDA(run_backward_cuda),
        .output_count = 2,
        .outputs = {{"dtable", &e->dtable, e->dtable.exact},
                    {"dposition_table", &e->dposition_table, e->dposition_table.exact}}};
    struct operation operation = backward ? backward_operation : forward_operation;
    operation.name = "embedding";
    operation.context = e;
    operation_describe(&operation, "%s %s tokens %lld dim %lld vocab %lld%s seed %llu",
                       backward ? "backward" : "forward", dtype_name(e->args.dtype),
                       (long long)e->args.tokens, (long long)e->args.dim, (long long)e->args.vocab,
                       e->positioned ? " positions" : "", (unsigned long long)harness_seed());
    return operation;
}

static void check(int64_t tokens, int64_t dim, int64_t vocab, enum dtype dtype, bool positioned,
                  bool backward) {
    struct embedding_context e = context_of(tokens, dim, vocab, dtype, positioned);
    if (backward) {
        reference_backward(&e);
    } else {
        reference_forward(&e);
    }
    struct operation operation = operation_of(&e, backward);
    operation_check(&operation);
    context_finish(&e);
}

static void check_both_ways(int64_t tokens, int64_t dim, int64_t vocab, bool positioned) {
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        check(tokens, dim, vocab, (enum dtype)dtype, positioned, false);
        check(tokens, dim, vocab, (enum dtype)dtype, positioned, true);
    }
}

static void embedding_equals_its_formula_for_any_dim(void **state) {
    (void)state;
    for (int i = 0; i < EDGE_SIZE_COUNT; i++) {
        check_both_ways(3 + 20 * i, EDGE_SIZES[i], 1 + 5 * i, i % 2 == 0);
    }
    check_both_ways(700, 320, 50, true);
}

static void embedding_backward_adds_every_token_of_one_row(void **state) {
    (void)state;
    check_both_ways(900, 65, 1, false);
    check(1030, 516, 5, DTYPE_BF16, false, true);
}

static void embedding_backward_leaves_a_frozen_table_alone(void **state) {
    (void)state;
    struct embedding_context e = context_of(100, 70, 20, DTYPE_F32, true);
    e.table_frozen = true;
    reference_backward(&e);
    struct operation operation = operation_of(&e, true);
    operation_check(&operation);
    context_finish(&e);
}

static void bench(enum dtype dtype, int64_t vocab) {
    struct embedding_context e = context_of(4096, 768, vocab, dtype, true);
    double bytes = (double)(4096 * 768 * dtype_bytes(dtype));
    struct operation forward = operation_of(&e, false);
    operation_bench(&forward, 3 * bytes, 0);
    struct operation backward = operation_of(&e, true);
    operation_bench(&backward, bytes + 4 * 4096 * 768 * 4.0, 0);
    context_finish(&e);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench(DTYPE_F32, 50257);
        bench(DTYPE_BF16, 50257);
        bench(DTYPE_BF16, 1); /* all gradients go to one row */
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_equals_its_formula_for_any_dim),
        cmocka_unit_test(embedding_backward_adds_every_token_of_one_row),
        cmocka_unit_test(embedding_backward_leaves_a_frozen_table_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
