/* products: matrix products by NVIDIA's cuBLASLt. The library is looked for when the program starts
 * (nothing of it is linked), and told at bind, once for each distinct product of the program, to
 * propose an algorithm: the first proposal that fits the workspace of the plan, adds in a fixed
 * order and rounds as the contract says is taken, written down, and used for as long as the program
 * lives. Nothing is timed, so every start of one version on one kind of device takes the same.
 * Whatever the library refuses is told, and made by our own kernels: it is never a reason to end.
 *
 * cuBLASLt thinks in columns: a row-major matrix [rows, columns] is to it a column-major one
 * [columns, rows]. So it is asked for C' = op(B)' op(A)', with B as its left operand:
 *
 *      ours                        cuBLASLt's
 *      A [m, k], stride lda        right operand [k, m], as it is      (transpose_a: [m, k], T)
 *      B [k, n], stride ldb        left operand  [n, k], as it is      (transpose_b: [k, n], T)
 *      C [m, n], stride ldc        result        [n, m]; a bias has a value for each of its rows */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_PRODUCTS_H
#define SKEP_KERNELS_CUDA_LAUNCH_PRODUCTS_H

#include "base/region.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/matmul.h"
#include "targets/targets.h"

#include <cublasLt.h>

#define CUBLAS_LT_FUNCTIONS(X)                                                                     \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtGetStatusName)                                                                       \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulAlgoCapGetAttribute)                                                           \
    X(cublasLtMatmulAlgoConfigGetAttribute)                                                        \
    X(cublasLtMatmul)

#define CUBLAS_LT_MEMBER(name) __typeof__(&name) name;
struct cublas_lt {
    CUBLAS_LT_FUNCTIONS(CUBLAS_LT_MEMBER)
};
#undef CUBLAS_LT_MEMBER

struct cuda_product_operands {
    const void *a, *b, *bias;
    void *c;
};

/* What is known of a chosen algorithm, in cuBLASLt's numbers. */
struct cuda_product_record {
    int id;
    unsigned tile, stages;
    int split_k;
    unsigned reduction;
    uint64_t workspace_bytes;
};

/* One distinct product: its arguments and how its operands are aligned. */
struct cuda_product {
    struct cuda_product *next;
    struct matmul_args args;
    unsigned alignment[4]; /* of a, b, bias and c, at most 256 bytes */
    bool own;              /* cuBLASLt has none that will do, or refused: our own kernel's */
    struct cuda_product_record record;
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, result;
};

struct cuda_products {
    struct cublas_lt lt;
    cublasLtHandle_t handle;
    const struct target *target;
    struct region *region;
    struct cuda_product *first; /* the newest */
};

/* cublas_lt_find: the library's functions.
 * errors  STATUS_INPUT: no libcublasLt.so.13 or .12, or one without a function that is needed;
 *         *library is then untouched */
MUST_CHECK enum status cublas_lt_find(struct cublas_lt *library, struct fault *fault);

/* cuda_products_init: a handle on the current context, and nothing chosen yet.
 * memory  what is chosen lives in `region`; the library allocates on the host, not on the device
 * errors  STATUS_FAILED when cuBLASLt refuses; *products is then untouched */
MUST_CHECK enum status cuda_products_init(const struct cublas_lt *library,
                                          const struct target *target, struct region *region,
                                          struct cuda_products *products, struct fault *fault);
void cuda_products_finish(struct cuda_products *products);

/* cuda_products_open: find the library, and cuda_products_init.
 * errors  those of both; *products is then untouched, and compute->products stays NULL */
MUST_CHECK enum status cuda_products_open(const struct target *target, struct region *region,
                                          struct cuda_products *products, struct fault *fault);

/* cuda_products_choose: choose for this product, unless it has been; at bind, with the addresses
 * that it will be run with. Where the library has no algorithm, or fails, which is told, our own
 * kernel takes the product. */
void cuda_products_choose(struct cuda_products *products, const struct matmul_args *args,
                          const struct cuda_product_operands *operands);

/* cuda_products_find: what was chosen for this product; NULL: our own kernel.
 * errors  a product that was never chosen for is a caller's bug */
struct cuda_product *cuda_products_find(const struct cuda_products *products,
                                        const struct matmul_args *args,
                                        const struct cuda_product_operands *operands);

/* cuda_product_run: enqueue it. False when the library refused, which is told: nothing was
 * enqueued, and from now on our own kernel takes the product. */
bool cuda_product_run(const struct cuda_compute *compute, struct cuda_product *product,
                      const struct cuda_product_operands *operands, void *workspace);

/* cuda_products_describe: one line of the log, with a checksum over all choices, by which two
 * starts are compared; with -v each product's choice, too. At bind. */
void cuda_products_describe(const struct cuda_products *products);

/* cuda_product_text: "m 2048 n 768 k 3072 bf16 to f32, b transposed: cuBLASLt algorithm 67, tile
 * 20, stages 35, split-k 1, workspace 0 B", for the log; cut where it does not fit. */
enum { CUDA_PRODUCT_TEXT_BYTES = 256 };
void cuda_product_text(const struct cuda_product *product, char text[CUDA_PRODUCT_TEXT_BYTES]);

#endif
