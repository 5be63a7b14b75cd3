#ifndef SKEP_KERNELS_MATMUL_H
#define SKEP_KERNELS_MATMUL_H

#include "base/dtype.h"
#include "kernels/compute.h"

/* C[m, n] = op(A)[m, k] * op(B)[k, n] (+ bias[n]) (+ C). Row-major; transpose_a: A is stored [k, m];
 * transpose_b: B is stored [n, k]. Leading dimensions are the stored row's stride in elements. */
struct matmul_args {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    enum dtype dtype_in;  /* of A, B and bias: f32 or bf16 */
    enum dtype dtype_out; /* f32 or bf16 */
    bool transpose_a, transpose_b;
    bool accumulate; /* add to what C holds; dtype_out must be f32, no bias */
    bool bias;
};

uint64_t matmul_workspace_bytes(const struct matmul_args *args, int threads);
void matmul_run(const struct compute *compute, const struct matmul_args *args, const void *a,
                const void *b, const void *bias, void *c, void *workspace);

#endif
