#include "kernels/cuda/launch/products.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "kernels/cuda/launch/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* maximum alignment in bytes; maximum number of algorithms that cuBLASLt proposes */
enum { ALIGNMENT_MAX = 256, PROPOSALS_MAX = 16 };

/* The operands of a product, in the order of struct cuda_product.alignment. */
enum { OPERAND_A, OPERAND_B, OPERAND_BIAS, OPERAND_C };

static enum status set_fault(const struct cublas_lt *library, cublasStatus_t result,
                             const char *action, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, "cuBLASLt",
                     "check that the driver supports this libcublasLt and that the device has free "
                     "memory; without it, slower built-in kernels compute matrix products",
                     "cannot %s: %s", action, library->cublasLtGetStatusName(result));
}

enum status cuda_products_init(const struct cublas_lt *library, const struct target *target,
                               struct region *region, struct cuda_products *products,
                               struct fault *fault) {
    cublasLtHandle_t handle;
    cublasStatus_t result = library->cublasLtCreate(&handle);
    if (result != CUBLAS_STATUS_SUCCESS) {
        return set_fault(library, result, "create a handle", fault);
    }
    *products = (struct cuda_products){
        .lt = *library, .handle = handle, .target = target, .region = region};
    return OK;
}

static enum status open_library(const char *path, const struct target *target,
                                struct region *region, struct cuda_products *products,
                                struct fault *fault) {
    struct cublas_lt library;
    TRY(cublas_lt_load(path, &library, fault));
    enum status status = cuda_products_init(&library, target, region, products, fault);
    if (status != OK) {
        cublas_lt_unload(&library);
        log_line(LOG_INFO, "%s is not used: %s", path, fault->reason);
    } else {
        log_line(LOG_DEBUG, "cuBLASLt is loaded from %s", path);
    }
    return status;
}

/* A library that is present but fails explains more than one that is absent. */
static bool explains_more(const struct fault *fault, const struct fault *than) {
    return than->status == STATUS_INPUT && fault->status != STATUS_INPUT;
}

enum status cuda_products_open_first(const char *const *paths, int count,
                                     const struct target *target, struct region *region,
                                     struct cuda_products *products, struct fault *fault) {
    for (int i = 0; i < count; i++) {
        struct fault failure;
        if (open_library(paths[i], target, region, products, &failure) == OK) {
            return OK;
        }
        if (i == 0 || explains_more(&failure, fault)) {
            *fault = failure;
        }
    }
    return fault->status;
}

enum status cuda_products_open(const struct target *target, struct region *region,
                               struct cuda_products *products, struct fault *fault) {
    const struct cublas_lt_library_search search = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"),
                                                    getenv("HOME")};
    const char *paths[CUBLAS_LT_PATHS_MAX];
    int count = cublas_lt_list_libraries(&search, region, paths);
    return cuda_products_open_first(paths, count, target, region, products, fault);
}

static void release_product(const struct cublas_lt *library, const struct cuda_product *product) {
    if (product->operation != NULL) {
        (void)library->cublasLtMatmulDescDestroy(product->operation);
    }
    const cublasLtMatrixLayout_t layouts[] = {product->left, product->right, product->result};
    for (int i = 0; i < 3; i++) {
        if (layouts[i] != NULL) {
            (void)library->cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
}

void cuda_products_finish(struct cuda_products *products) {
    for (const struct cuda_product *i = products->newest; i != NULL; i = i->next) {
        release_product(&products->lt, i);
    }
    (void)products->lt.cublasLtDestroy(products->handle);
    *products = (struct cuda_products){.handle = NULL};
}

/* ---- finding ---- */

static unsigned address_alignment(const void *address) {
    uintptr_t bits = (uintptr_t)address | ALIGNMENT_MAX;
    return (unsigned)(bits & -bits);
}

static void read_alignments(const struct cuda_product_operands *operands, unsigned alignment[4]) {
    alignment[OPERAND_A] = address_alignment(operands->a);
    alignment[OPERAND_B] = address_alignment(operands->b);
    alignment[OPERAND_BIAS] = address_alignment(operands->bias);
    alignment[OPERAND_C] = address_alignment(operands->c);
}

static bool are_args_equal(const struct matmul_args *a, const struct matmul_args *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->dtype_in == b->dtype_in && a->dtype_out == b->dtype_out &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->accumulate == b->accumulate && a->bias == b->bias;
}

static struct cuda_product *find_product(const struct cuda_products *products,
                                         const struct matmul_args *args,
                                         const struct cuda_product_operands *operands) {
    unsigned alignment[4];
    read_alignments(operands, alignment);
    for (struct cuda_product *i = products->newest; i != NULL; i = i->next) {
        if (are_args_equal(&i->args, args) &&
            memcmp(i->alignment, alignment, sizeof alignment) == 0) {
            return i;
        }
    }
    return NULL;
}

struct cuda_product *cuda_products_find(const struct cuda_products *products,
                                        const struct matmul_args *args,
                                        const struct cuda_product_operands *operands) {
    struct cuda_product *product = find_product(products, args, operands);
    ASSERT(product != NULL);
    return product->uses_builtin ? NULL : product;
}

/* ---- describing a product to cuBLASLt ---- */

static cudaDataType_t cuda_type(enum dtype dtype) {
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cuBLASLt has no f32 product that rounds to bf16, and requires a bias of the result's type. */
static bool is_supported(const struct matmul_args *args) {
    return args->dtype_in == args->dtype_out || (args->dtype_in == DTYPE_BF16 && !args->bias);
}

static cublasStatus_t set_attribute(const struct cublas_lt *library, cublasLtMatmulDesc_t operation,
                                    cublasLtMatmulDescAttributes_t attribute, const void *value,
                                    size_t bytes) {
    return library->cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes);
}

/* Describe a product with full f32 precision (no TF32) and f32 sums. */
static cublasStatus_t describe_operation(const struct cublas_lt *library,
                                         const struct matmul_args *args, const void *bias,
                                         cublasLtMatmulDesc_t *operation) {
    int32_t left = args->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t right = args->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t epilogue = args->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t result =
        library->cublasLtMatmulDescCreate(operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (result == CUBLAS_STATUS_SUCCESS) {
        result =
            set_attribute(library, *operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
        result =
            set_attribute(library, *operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
        result = set_attribute(library, *operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                               sizeof epilogue);
    }
    if (result == CUBLAS_STATUS_SUCCESS && args->bias) {
        result = set_attribute(library, *operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                               sizeof bias);
    }
    return result;
}

/* Describe a row-major matrix [rows, columns] with `stride` elements from one row to the next. */
static cublasStatus_t describe_matrix(const struct cublas_lt *library, enum dtype dtype,
                                      int64_t rows, int64_t columns, int64_t stride,
                                      cublasLtMatrixLayout_t *layout) {
    return library->cublasLtMatrixLayoutCreate(layout, cuda_type(dtype), (uint64_t)columns,
                                               (uint64_t)rows, stride);
}

static cublasStatus_t describe_product(const struct cublas_lt *library,
                                       struct cuda_product *product, const void *bias) {
    const struct matmul_args *args = &product->args;
    int64_t a_rows = args->transpose_a ? args->k : args->m;
    int64_t a_columns = args->transpose_a ? args->m : args->k;
    int64_t b_rows = args->transpose_b ? args->n : args->k;
    int64_t b_columns = args->transpose_b ? args->k : args->n;
    cublasStatus_t result = describe_operation(library, args, bias, &product->operation);
    if (result == CUBLAS_STATUS_SUCCESS) {
        result =
            describe_matrix(library, args->dtype_in, b_rows, b_columns, args->ldb, &product->left);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
        result =
            describe_matrix(library, args->dtype_in, a_rows, a_columns, args->lda, &product->right);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
        result = describe_matrix(library, args->dtype_out, args->m, args->n, args->ldc,
                                 &product->result);
    }
    return result;
}

/* ---- proposals ---- */

/* The permitted way to split a sum over k: the parts are stored in f32 and a separate kernel adds
 * them. They are never added to C in arbitrary order, nor rounded to the type of C in between. */
static const uint32_t REDUCTIONS = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

/* The numerical modes of cuBLASLt that a product of this type must not use. */
static uint64_t banned_numerical_modes(const struct matmul_args *args) {
    uint64_t banned = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F;
    if (args->dtype_in == DTYPE_F32) {
        banned |= CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 |
                  CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF |
                  CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F;
    }
    return banned;
}

struct preference {
    cublasLtMatmulPreferenceAttributes_t attribute;
    const void *value; /* value to set */
    size_t bytes;      /* size of the value */
};

static cublasStatus_t set_preferences(const struct cuda_products *products,
                                      const struct cuda_product *product,
                                      cublasLtMatmulPreference_t preference) {
    uint64_t workspace = cuda_matmul_workspace_bytes(&product->args, products->target);
    uint64_t modes = ~banned_numerical_modes(&product->args);
    const unsigned *alignment = product->alignment;
    const struct preference settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &REDUCTIONS, sizeof REDUCTIONS},
        {CUBLASLT_MATMUL_PREF_IMPL_MASK, &modes, sizeof modes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment[OPERAND_B], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment[OPERAND_A], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment[OPERAND_C], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment[OPERAND_C], sizeof *alignment},
    };
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (result == CUBLAS_STATUS_SUCCESS) {
            result = products->lt.cublasLtMatmulPreferenceSetAttribute(
                preference, settings[i].attribute, settings[i].value, settings[i].bytes);
        }
    }
    return result;
}

/* Read the properties of a proposal. Properties that the library does not report stay 0. */
static struct cuda_product_record read_record(const struct cublas_lt *library,
                                              const cublasLtMatmulHeuristicResult_t *proposal) {
    struct cuda_product_record record = {.workspace_bytes = proposal->workspaceSize};
    const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        void *value;
    } fields[] = {
        {CUBLASLT_ALGO_CONFIG_ID, &record.id},
        {CUBLASLT_ALGO_CONFIG_TILE_ID, &record.tile},
        {CUBLASLT_ALGO_CONFIG_STAGES_ID, &record.stages},
        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &record.split_k},
        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &record.reduction},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        size_t written;
        (void)library->cublasLtMatmulAlgoConfigGetAttribute(
            &proposal->algo, fields[i].attribute, fields[i].value, sizeof(int32_t), &written);
    }
    return record;
}

/* Whether a proposed algorithm meets the contract of cuda_matmul_run. The preferences ask the
 * library for the same, but it may ignore them. */
static bool is_algorithm_acceptable(const struct cuda_products *products,
                                    const struct matmul_args *args,
                                    const cublasLtMatmulHeuristicResult_t *proposal) {
    struct cuda_product_record record = read_record(&products->lt, proposal);
    uint64_t modes = 0;
    size_t written;
    cublasStatus_t query_result = products->lt.cublasLtMatmulAlgoCapGetAttribute(
        &proposal->algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &modes, sizeof modes, &written);
    bool fits = proposal->workspaceSize <= cuda_matmul_workspace_bytes(args, products->target);
    bool ordered = record.split_k <= 1 || record.reduction == CUBLASLT_REDUCTION_SCHEME_NONE ||
                   record.reduction == REDUCTIONS;
    bool exact =
        query_result != CUBLAS_STATUS_SUCCESS || (modes & banned_numerical_modes(args)) == 0;
    return proposal->state == CUBLAS_STATUS_SUCCESS && fits && ordered && exact;
}

/* Choose the first acceptable proposal. If there is none, a built-in kernel computes the
 * product. */
static cublasStatus_t choose_proposal(const struct cuda_products *products,
                                      struct cuda_product *product,
                                      cublasLtMatmulPreference_t preference) {
    const struct cublas_lt *library = &products->lt;
    cublasLtMatmulHeuristicResult_t proposals[PROPOSALS_MAX];
    int count = 0;
    cublasStatus_t result = set_preferences(products, product, preference);
    if (result != CUBLAS_STATUS_SUCCESS) {
        return result;
    }
    result = library->cublasLtMatmulAlgoGetHeuristic(
        products->handle, product->operation, product->left, product->right, product->result,
        product->result, preference, PROPOSALS_MAX, proposals, &count);
    product->uses_builtin = true;
    for (int i = 0; result == CUBLAS_STATUS_SUCCESS && product->uses_builtin && i < count; i++) {
        if (is_algorithm_acceptable(products, &product->args, &proposals[i])) {
            product->uses_builtin = false;
            product->algorithm = proposals[i].algo;
            product->record = read_record(library, &proposals[i]);
        }
    }
    bool none = result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_INVALID_VALUE;
    return none ? CUBLAS_STATUS_SUCCESS : result;
}

static cublasStatus_t choose_algorithm(const struct cuda_products *products,
                                       struct cuda_product *product, const void *bias) {
    const struct cublas_lt *library = &products->lt;
    cublasLtMatmulPreference_t preference;
    cublasStatus_t result = describe_product(library, product, bias);
    if (result != CUBLAS_STATUS_SUCCESS) {
        return result;
    }
    result = library->cublasLtMatmulPreferenceCreate(&preference);
    if (result != CUBLAS_STATUS_SUCCESS) {
        return result;
    }
    result = choose_proposal(products, product, preference);
    (void)library->cublasLtMatmulPreferenceDestroy(preference);
    return result;
}

/* Let a built-in kernel compute the product, because the library failed. */
static void use_builtin_kernel(const struct cublas_lt *library, struct cuda_product *product,
                               cublasStatus_t result) {
    char text[CUDA_PRODUCT_TEXT_BYTES];
    product->uses_builtin = true;
    cuda_product_text(product, text);
    log_line(LOG_WARNING, "cuBLASLt failed with %s for matrix product %s",
             library->cublasLtGetStatusName(result), text);
}

void cuda_products_choose(struct cuda_products *products, const struct matmul_args *args,
                          const struct cuda_product_operands *operands) {
    if (find_product(products, args, operands) != NULL) {
        return;
    }
    struct cuda_product *product = region_alloc(products->region, 1, sizeof *product);
    product->args = *args;
    product->uses_builtin = !is_supported(args);
    read_alignments(operands, product->alignment);
    if (!product->uses_builtin) {
        cublasStatus_t result = choose_algorithm(products, product, operands->bias);
        if (result != CUBLAS_STATUS_SUCCESS) {
            use_builtin_kernel(&products->lt, product, result);
        }
    }
    product->next = products->newest;
    products->newest = product;
}

/* ---- running ---- */

bool cuda_product_run(const struct cuda_compute *compute, struct cuda_product *product,
                      const struct cuda_product_operands *operands, void *workspace) {
    const struct cuda_products *products = compute->products;
    const float one = 1;
    const float before = product->args.accumulate ? 1 : 0;
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    if (compute->failure->result != CUDA_SUCCESS) {
        return true;
    }
    if (product->args.bias) {
        result = set_attribute(&products->lt, product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                               &operands->bias, sizeof operands->bias);
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
        result = products->lt.cublasLtMatmul(
            products->handle, product->operation, &one, operands->b, product->left, operands->a,
            product->right, &before, operands->c, product->result, operands->c, product->result,
            &product->algorithm, workspace, product->record.workspace_bytes, compute->stream);
    }
    if (result != CUBLAS_STATUS_SUCCESS) {
        use_builtin_kernel(&products->lt, product, result);
    }
    return result == CUBLAS_STATUS_SUCCESS;
}

/* ---- logging ---- */

void cuda_product_text(const struct cuda_product *product, char text[CUDA_PRODUCT_TEXT_BYTES]) {
    const struct matmul_args *args = &product->args;
    const struct cuda_product_record *record = &product->record;
    char executor[CUDA_PRODUCT_TEXT_BYTES / 2];
    if (product->uses_builtin) {
        snprintf(executor, sizeof executor, "built-in kernel");
    } else {
        snprintf(executor, sizeof executor,
                 "cuBLASLt algorithm %d, tile %u, stages %u, split-k %d, workspace %llu B",
                 record->id, record->tile, record->stages, record->split_k,
                 (unsigned long long)record->workspace_bytes);
    }
    snprintf(text, CUDA_PRODUCT_TEXT_BYTES, "m %lld n %lld k %lld %s to %s%s%s%s%s: %s",
             (long long)args->m, (long long)args->n, (long long)args->k, dtype_name(args->dtype_in),
             dtype_name(args->dtype_out), args->transpose_a ? ", a transposed" : "",
             args->transpose_b ? ", b transposed" : "", args->accumulate ? ", accumulate" : "",
             args->bias ? ", bias" : "", executor);
}

void cuda_products_log(const struct cuda_products *products) {
    size_t version = products->lt.cublasLtGetVersion();
    int chosen = 0;
    int own = 0;
    struct hash_state state;
    char hex[HASH_HEX_BYTES];
    char text[CUDA_PRODUCT_TEXT_BYTES];
    hash_begin(&state);
    for (const struct cuda_product *i = products->newest; i != NULL; i = i->next) {
        cuda_product_text(i, text);
        log_line(LOG_DEBUG, "product %s", text);
        hash_add(&state, text, strlen(text));
        chosen += !i->uses_builtin;
        own += i->uses_builtin;
    }
    struct hash hash = hash_end(&state);
    log_line(LOG_INFO,
             "cuBLASLt %zu.%zu.%zu computes %d matrix products, built-in kernels %d; checksum of "
             "the choices: %.12s",
             version / 10000, version / 100 % 100, version % 100, chosen, own,
             hash_hex(&hash, hex));
}
