/* fake cublas_lt: a cuBLASLt that multiplies on the processor as NVIDIA documents it: everything is
 * column-major. What it is asked is checked as strictly as the documents are; what its heuristic
 * proposes is the test's to say. */
#ifndef SKEP_TESTS_KERNELS_FAKE_CUBLAS_LT_H
#define SKEP_TESTS_KERNELS_FAKE_CUBLAS_LT_H

#include "kernels/cuda/launch/products.h"

enum { FAKE_PROPOSALS_MAX = 4 };

/* One proposal of the heuristic. */
struct fake_proposal {
    int id, split_k;
    uint32_t reduction;
    uint64_t ways; /* CUBLASLT_NUMERICAL_IMPL_FLAGS_* */
    uint64_t workspace_bytes;
    cublasStatus_t state;
};

struct fake_cublas_lt {
    struct fake_proposal proposals[FAKE_PROPOSALS_MAX];
    int proposal_count;
    cublasStatus_t create;    /* what making a handle answers */
    cublasStatus_t heuristic; /* what the heuristic answers */
    cublasStatus_t run;       /* what a product answers */
    /* gives a product to its stream; NULL: it is computed at once */
    void (*enqueue)(cudaStream_t stream, void (*run)(void *context), void *context);
    /* what it was asked */
    int heuristic_calls, runs, last_id, objects; /* objects: made and not yet destroyed */
    uint64_t workspace_limit, ways_allowed;
    uint32_t reductions_allowed;
    uint32_t alignment[4]; /* of A, B, C, D */
};

/* The one fake; a test sets it before each use. */
extern struct fake_cublas_lt fake_cublas_lt;

/* fake_cublas_lt_table: its functions. */
struct cublas_lt fake_cublas_lt_table(void);

#endif
