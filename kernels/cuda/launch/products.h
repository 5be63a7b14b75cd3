/* products: matrix products by NVIDIA's cuBLASLt. The library is loaded at run time, not linked. At
 * bind, it proposes algorithms for each distinct product of the program. The first proposal that
 * fits the workspace of the plan, adds in a fixed order and rounds as the contract states is
 * recorded and used until the program ends. Nothing is timed, so every start with one version on
 * one kind of device makes the same choices. When the library fails, the failure is logged,
 * built-in kernels compute the product, and the program continues.
 *
 * cuBLASLt uses column-major matrices: our row-major matrix [rows, columns] is to it a column-major
 * one [columns, rows]. So it computes C' = op(B)' op(A)', with B as its left operand:
 *
 *      ours                        cuBLASLt's
 *      A [m, k], stride lda        right operand [k, m], not transposed (transpose_a: [m, k], T)
 *      B [k, n], stride ldb        left operand  [n, k], not transposed (transpose_b: [k, n], T)
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
    void *opened; /* handle of the loaded library */
};
#undef CUBLAS_LT_MEMBER

struct cuda_product_operands {
    const void *a, *b, *bias; /* inputs of the product */
    void *c;                  /* result of the product */
};

/* The properties of a chosen algorithm, with the numbers that cuBLASLt uses for them. */
struct cuda_product_record {
    int id;                /* number of the algorithm */
    unsigned tile, stages; /* ids of the tile shape and of the stages */
    int split_k;           /* number of parts into which sums over k are split */
    unsigned reduction;    /* id of the method that adds these parts */
    uint64_t workspace_bytes;
};

/* One distinct product: its arguments and the alignment of its operands. */
struct cuda_product {
    struct cuda_product *next; /* the product that was added before this one */
    struct matmul_args args;
    unsigned alignment[4]; /* alignment of a, b, bias and c in bytes, at most 256 */
    bool uses_builtin; /* a built-in kernel computes it, as cuBLASLt has no algorithm or failed */
    struct cuda_product_record record;          /* properties of the chosen algorithm */
    cublasLtMatmulAlgo_t algorithm;             /* algorithm chosen for the product */
    cublasLtMatmulDesc_t operation;             /* cuBLASLt's description of the product */
    cublasLtMatrixLayout_t left, right, result; /* layouts of the matrices */
};

struct cuda_products {
    struct cublas_lt lt;     /* functions of the loaded cuBLASLt library */
    cublasLtHandle_t handle; /* open handle of the cuBLASLt library */
    const struct target *target;
    struct region *region;       /* memory of the product records */
    struct cuda_product *newest; /* head of the list of products */
};

/* cublas_lt_list_libraries: list the libraries to try, in order: libcublasLt.so.13 and .12 on the
 * search path of the loader, then those that exist in the Python packages of a virtual environment
 * or of conda, in CUDA's folder, and in the Python packages of the user and of the machine.
 * returns  the number of paths
 * memory   in `region`; uses the heap meanwhile, so call it before the seal */
struct cublas_lt_library_search {
    const char *virtual_env;  /* value of VIRTUAL_ENV; NULL: not set */
    const char *conda_prefix; /* value of CONDA_PREFIX; NULL: not set */
    const char *home;         /* value of HOME; NULL: not set */
};
enum { CUBLAS_LT_PATHS_MAX = 66 }; /* maximum number of libraries to try */
int cublas_lt_list_libraries(const struct cublas_lt_library_search *search, struct region *region,
                             const char *paths[static CUBLAS_LT_PATHS_MAX]);

/* cublas_lt_load: load the library's functions. `path` is a file, or a name for the loader.
 * errors  STATUS_INPUT: no such library, or one without a needed function; *library is then
 *         unchanged */
MUST_CHECK enum status cublas_lt_load(const char *path, struct cublas_lt *library,
                                      struct fault *fault);
void cublas_lt_unload(struct cublas_lt *library);

/* cuda_products_init: create a handle on the current context. No product is chosen yet.
 * memory  choices are stored in `region`; the library allocates host memory, but no device memory
 * errors  STATUS_FAILED when cuBLASLt fails; *products is then unchanged */
MUST_CHECK enum status cuda_products_init(const struct cublas_lt *library,
                                          const struct target *target, struct region *region,
                                          struct cuda_products *products, struct fault *fault);
void cuda_products_finish(struct cuda_products *products);

/* cuda_products_open: load the first library of cublas_lt_list_libraries that creates a handle. One
 * that creates none, because it needs a newer driver for example, is logged.
 * errors  those of cublas_lt_load and cuda_products_init: that of the first library that is
 *         present, else that of the first one; *products is then unchanged */
MUST_CHECK enum status cuda_products_open(const struct target *target, struct region *region,
                                          struct cuda_products *products, struct fault *fault);

/* cuda_products_open_first: cuda_products_open with the libraries paths[count], count > 0. */
MUST_CHECK enum status cuda_products_open_first(const char *const *paths, int count,
                                                const struct target *target, struct region *region,
                                                struct cuda_products *products,
                                                struct fault *fault);

/* cuda_products_choose: choose an algorithm for this product, unless that was done before. Call it
 * at bind, with the addresses that the execution uses. If the library has no algorithm, or fails,
 * which is logged, a built-in kernel computes the product. */
void cuda_products_choose(struct cuda_products *products, const struct matmul_args *args,
                          const struct cuda_product_operands *operands);

/* cuda_products_find: the choice for this product; NULL: a built-in kernel computes it.
 * errors  none; cuda_products_choose must have been called for the product */
struct cuda_product *cuda_products_find(const struct cuda_products *products,
                                        const struct matmul_args *args,
                                        const struct cuda_product_operands *operands);

/* cuda_product_run: enqueue the product. Return false if the library failed, which is logged: then
 * nothing was enqueued, and from now on a built-in kernel computes the product. */
bool cuda_product_run(const struct cuda_compute *compute, struct cuda_product *product,
                      const struct cuda_product_operands *operands, void *workspace);

/* cuda_products_log: log one line with a checksum of all choices, so that two starts can be
 * compared; with -v, also log the choice for each product. */
void cuda_products_log(const struct cuda_products *products);

/* cuda_product_text: "m 2048 n 768 k 3072 bf16 to f32, b transposed: cuBLASLt algorithm 67, tile
 * 20, stages 35, split-k 1, workspace 0 B", for the log; truncated if it does not fit. */
enum { CUDA_PRODUCT_TEXT_BYTES = 256 };
void cuda_product_text(const struct cuda_product *product, char text[CUDA_PRODUCT_TEXT_BYTES]);

#endif
