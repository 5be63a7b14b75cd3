/* matmul: matrix products. On the CPU, they are computed in tiles, from panels that are packed into
 * the caller's workspace. */
#ifndef SKEP_KERNELS_MATMUL_H
#define SKEP_KERNELS_MATMUL_H

#include "base/dtype.h"
#include "kernels/kernels.h"

/* C[m, n] = op(A)[m, k] * op(B)[k, n] (+ bias[n]) (+ C). Row-major.
 * transpose_a: A is stored [k, m]; transpose_b: B is stored [n, k]. Leading dimensions are the
 * stored row's stride in elements. */
struct matmul_args {
    int64_t m, n, k;               /* C is [m, n]; k: number of products in each sum */
    int64_t lda, ldb, ldc;         /* elements from one stored row to the next */
    enum dtype dtype_in;           /* type of A, B and bias: f32 or bf16 */
    enum dtype dtype_out;          /* type of C: f32 or bf16 */
    bool transpose_a, transpose_b; /* true: the operand is stored transposed */
    bool accumulate;               /* true: add to C; requires an f32 C and no bias */
    bool bias;                     /* true: add a bias to each row of C */
};

/* matmul_workspace_bytes: the workspace of matmul_run for `args` on a pool of `threads`: a pure
 * function of both, equal at every CPU level, of at most 8 MiB plus 256 KiB per thread. */
uint64_t matmul_workspace_bytes(const struct matmul_args *args, int threads);

/* matmul_run: C = op(A) op(B), as struct matmul_args describes.
 * shapes    a [m, k] or [k, m]; b [k, n] or [n, k]; bias [n], NULL without args->bias; c [m, n]
 * dtypes    sums in f32, in the order of k; rounded to dtype_out once, at the end
 * limits    m, n, k >= 1; leading dimensions at least the stored row; c overlaps neither a nor b
 * memory    caller owns all; workspace 64-byte aligned, undefined afterwards
 * errors    none (a bad shape is a caller's bug)
 * accuracy  |error| <= k * 2^-24 * sum |a b| (f32 out); the same bits for any number of threads,
 *           but not at every CPU level. CPU_AVX512_BF16 treats subnormal bf16 inputs as zero
 * source    Goto and van de Geijn 2008, doi:10.1145/1356052.1356053 */
void matmul_run(const struct compute *compute, const struct matmul_args *args, const void *a,
                const void *b, const void *bias, void *c, void *workspace);

#endif
