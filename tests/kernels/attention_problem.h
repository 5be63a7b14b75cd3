/* attention problem: one call of attention, with its tensors and what must come of it, as the tests
 * of attention share it. */
#ifndef SKEP_TESTS_KERNELS_ATTENTION_PROBLEM_H
#define SKEP_TESTS_KERNELS_ATTENTION_PROBLEM_H

#include "tests/kernels/attention_reference.h"
#include "tests/kernels/harness.h"

enum documents {
    DOCUMENTS_ONE,    /* positions 0, 1, 2, ... */
    DOCUMENTS_PACKED, /* random lengths; the first row starts inside a document */
    DOCUMENTS_SINGLE, /* every token is its own document */
};

/* q, k and v lie interleaved in one buffer: a token is heads, kv_heads, kv_heads, then `gap`. */
struct shape {
    int64_t rows, time, heads, kv_heads, head_dim;
    int64_t window;
    enum documents documents;
    enum pattern pattern;
    double logit; /* factor on the usual scale head_dim^-0.5 */
    int64_t gap;
};

struct problem {
    struct attention_args args;
    struct tensor qkv, positions, dout, out, lse, dqkv, workspace; /* of up to 3 threads */
    double *expected_out, *expected_lse, *expected_dqkv;
};

/* problem_init: inputs at random; problem_expect: the reference's results. */
void problem_init(struct problem *problem, const struct shape *shape, enum dtype dtype);
void problem_expect(struct problem *problem);
void problem_finish(struct problem *problem);

/* problem_element: the address of an element on the processor. */
char *problem_element(const struct tensor *tensor, int64_t index);

/* For struct operation: the context is a problem. */
void problem_forward(const struct compute *compute, void *context);
void problem_backward(const struct compute *compute, void *context);
void problem_both(const struct compute *compute, void *context);
void problem_forward_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context);
void problem_backward_cuda(const struct cuda_compute *compute, struct device_run *device,
                           void *context);
void problem_both_cuda(const struct cuda_compute *compute, struct device_run *device,
                       void *context);

/* problem_operation_name: the row of the tolerance table: one for CUDA, one for the processor. */
const char *problem_operation_name(void);

void problem_describe(struct operation *operation, const struct shape *shape, enum dtype dtype);

/* problem_is_left_out: whether to pass over case `i` of a list: on an emulated device, which is
 * slow, two of three, unless SKEP_LONG is set. */
bool problem_is_left_out(size_t i);

#endif
