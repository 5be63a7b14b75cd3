#include "tests/kernels/fake_cublas_lt.h"

#include "base/check.h"
#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 4096 }; /* products given to streams */

struct fake_cublas_lt fake_cublas_lt;

struct layout {
    cudaDataType type;
    int64_t rows, columns, stride;
};

struct operation {
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    const void *bias;
};

static void *make(size_t bytes) {
    void *made = calloc(1, bytes);
    ASSERT(made != NULL);
    fake_cublas_lt.objects++;
    return made;
}

static cublasStatus_t destroy(void *object) {
    free(object);
    fake_cublas_lt.objects--;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- objects ---- */

static cublasStatus_t create(cublasLtHandle_t *handle) {
    if (fake_cublas_lt.create == CUBLAS_STATUS_SUCCESS) {
        *handle = make(1);
    }
    return fake_cublas_lt.create;
}

static cublasStatus_t destroy_handle(cublasLtHandle_t handle) {
    return destroy(handle);
}

static size_t version(void) {
    return 130000;
}

static const char *status_name(cublasStatus_t status) {
    return status == CUBLAS_STATUS_INTERNAL_ERROR ? "CUBLAS_STATUS_INTERNAL_ERROR" : "another";
}

static cublasStatus_t create_operation(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                       cudaDataType_t scale) {
    ASSERT(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F);
    struct operation *made = make(sizeof *made);
    made->transpose_a = CUBLAS_OP_N;
    made->transpose_b = CUBLAS_OP_N;
    made->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *operation = (cublasLtMatmulDesc_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy_operation(cublasLtMatmulDesc_t operation) {
    return destroy(operation);
}

static cublasStatus_t take(void *field, size_t field_bytes, const void *value, size_t bytes) {
    if (bytes != field_bytes) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_operation(cublasLtMatmulDesc_t handle,
                                    cublasLtMatmulDescAttributes_t attribute, const void *value,
                                    size_t bytes) {
    struct operation *operation = (struct operation *)(void *)handle;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&operation->transpose_a, sizeof operation->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&operation->transpose_b, sizeof operation->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&operation->epilogue, sizeof operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take((void *)&operation->bias, sizeof operation->bias, value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

static cublasStatus_t create_layout(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                    uint64_t rows, uint64_t columns, int64_t stride) {
    if (rows == 0 || columns == 0 || stride < (int64_t)rows) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct layout *made = make(sizeof *made);
    *made = (struct layout){type, (int64_t)rows, (int64_t)columns, stride};
    *layout = (cublasLtMatrixLayout_t)(void *)made;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy_layout(cublasLtMatrixLayout_t layout) {
    return destroy(layout);
}

static cublasStatus_t create_preference(cublasLtMatmulPreference_t *preference) {
    *preference = make(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy_preference(cublasLtMatmulPreference_t preference) {
    return destroy(preference);
}

static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes) {
    struct fake_cublas_lt *fake = &fake_cublas_lt;
    ASSERT(preference != NULL);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(&fake->workspace_limit, sizeof fake->workspace_limit, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(&fake->reductions_allowed, sizeof fake->reductions_allowed, value, bytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
        return take(&fake->ways_allowed, sizeof fake->ways_allowed, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&fake->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                    sizeof fake->alignment[0], value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- algorithms: the first word holds the proposal's index ---- */

static cublasStatus_t propose(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              cublasLtMatmulPreference_t preference, int wanted,
                              cublasLtMatmulHeuristicResult_t results[], int *count) {
    struct fake_cublas_lt *fake = &fake_cublas_lt;
    ASSERT(handle != NULL && operation != NULL && preference != NULL && wanted > 0);
    ASSERT(a != NULL && b != NULL && c != NULL && c == d);
    fake->heuristic_calls++;
    *count = 0;
    for (int i = 0; fake->heuristic == CUBLAS_STATUS_SUCCESS && i < fake->proposal_count; i++) {
        results[i] = (cublasLtMatmulHeuristicResult_t){
            .algo = {{(uint64_t)i}},
            .workspaceSize = fake->proposals[i].workspace_bytes,
            .state = fake->proposals[i].state,
        };
        *count = i + 1;
    }
    return fake->heuristic;
}

static cublasStatus_t capability(const cublasLtMatmulAlgo_t *algorithm,
                                 cublasLtMatmulAlgoCapAttributes_t attribute, void *value,
                                 size_t bytes, size_t *written) {
    const struct fake_proposal *proposal = &fake_cublas_lt.proposals[algorithm->data[0]];
    ASSERT(attribute == CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS);
    *written = bytes;
    return take(value, sizeof proposal->ways, &proposal->ways, bytes);
}

static cublasStatus_t configuration(const cublasLtMatmulAlgo_t *algorithm,
                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                    size_t bytes, size_t *written) {
    const struct fake_proposal *proposal = &fake_cublas_lt.proposals[algorithm->data[0]];
    uint32_t tile = CUBLASLT_MATMUL_TILE_128x128;
    *written = bytes;
    switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
        return take(value, sizeof proposal->id, &proposal->id, bytes);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
        return take(value, sizeof tile, &tile, bytes);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        return take(value, sizeof proposal->split_k, &proposal->split_k, bytes);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
        return take(value, sizeof proposal->reduction, &proposal->reduction, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* ---- the product ---- */

static double value_at(const void *matrix, const struct layout *layout, int64_t row,
                       int64_t column) {
    int64_t at = column * layout->stride + row;
    return layout->type == CUDA_R_16BF ? (double)bf16_to_f32(((const uint16_t *)matrix)[at])
                                       : (double)((const float *)matrix)[at];
}

static void put_value(void *matrix, const struct layout *layout, int64_t row, int64_t column,
                      double value) {
    int64_t at = column * layout->stride + row;
    if (layout->type == CUDA_R_16BF) {
        ((uint16_t *)matrix)[at] = bf16_from_f32((float)value);
    } else {
        ((float *)matrix)[at] = (float)value;
    }
}

/* op(A) is [m, k], op(B) [k, n], D [m, n]; a bias has m values of D's type. */
static double element(const struct operation *operation, const void *a,
                      const struct layout *a_layout, const void *b, const struct layout *b_layout,
                      const int64_t place[3]) {
    double sum = 0;
    for (int64_t k = 0; k < place[2]; k++) {
        bool turn_a = operation->transpose_a == CUBLAS_OP_T;
        bool turn_b = operation->transpose_b == CUBLAS_OP_T;
        sum += value_at(a, a_layout, turn_a ? k : place[0], turn_a ? place[0] : k) *
               value_at(b, b_layout, turn_b ? place[1] : k, turn_b ? k : place[1]);
    }
    return sum;
}

static bool fits(const struct operation *operation, const struct layout *a, const struct layout *b,
                 const struct layout *d) {
    int64_t m = operation->transpose_a == CUBLAS_OP_T ? a->columns : a->rows;
    int64_t a_k = operation->transpose_a == CUBLAS_OP_T ? a->rows : a->columns;
    int64_t b_k = operation->transpose_b == CUBLAS_OP_T ? b->columns : b->rows;
    int64_t n = operation->transpose_b == CUBLAS_OP_T ? b->rows : b->columns;
    bool types = a->type == b->type && (d->type == a->type || a->type == CUDA_R_16BF);
    return m == d->rows && n == d->columns && a_k == b_k && types;
}

/* All that a product needs once it runs, which may be again and again in a graph. */
struct call {
    struct operation operation;
    struct layout a_layout, b_layout, d_layout;
    const void *a, *b;
    void *d;
    double alpha, beta;
};
static struct call calls[CALLS_MAX];
static int call_count;

static void compute(void *context) {
    const struct call *call = context;
    const struct layout *d_layout = &call->d_layout;
    const struct layout vector = {d_layout->type, d_layout->rows, 1, d_layout->rows};
    bool turned = call->operation.transpose_a == CUBLAS_OP_T;
    int64_t depth = turned ? call->a_layout.rows : call->a_layout.columns;
    for (int64_t i = 0; i < d_layout->rows * d_layout->columns; i++) {
        int64_t place[3] = {i % d_layout->rows, i / d_layout->rows, depth};
        double sum = call->alpha * element(&call->operation, call->a, &call->a_layout, call->b,
                                           &call->b_layout, place);
        if (call->beta != 0) {
            sum += call->beta * value_at(call->d, d_layout, place[0], place[1]);
        }
        if (call->operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
            sum += value_at(call->operation.bias, &vector, place[0], 0);
        }
        put_value(call->d, d_layout, place[0], place[1], sum);
    }
}

static cublasStatus_t multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                               const void *alpha, const void *a, cublasLtMatrixLayout_t a_handle,
                               const void *b, cublasLtMatrixLayout_t b_handle, const void *beta,
                               const void *c, cublasLtMatrixLayout_t c_handle, void *d,
                               cublasLtMatrixLayout_t d_handle,
                               const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
    const struct fake_proposal *proposal = &fake_cublas_lt.proposals[algorithm->data[0]];
    struct call call = {.operation = *(const struct operation *)(void *)description,
                        .a_layout = *(const struct layout *)(void *)a_handle,
                        .b_layout = *(const struct layout *)(void *)b_handle,
                        .d_layout = *(const struct layout *)(void *)d_handle,
                        .a = a,
                        .b = b,
                        .d = d,
                        .alpha = *(const float *)alpha,
                        .beta = *(const float *)beta};
    ASSERT(handle != NULL && c == d && c_handle == d_handle);
    ASSERT(workspace != NULL && workspace_bytes >= proposal->workspace_bytes);
    fake_cublas_lt.runs++;
    fake_cublas_lt.last_id = proposal->id;
    if (fake_cublas_lt.run != CUBLAS_STATUS_SUCCESS ||
        !fits(&call.operation, &call.a_layout, &call.b_layout, &call.d_layout)) {
        return fake_cublas_lt.run != CUBLAS_STATUS_SUCCESS ? fake_cublas_lt.run
                                                           : CUBLAS_STATUS_INVALID_VALUE;
    }
    if (fake_cublas_lt.enqueue == NULL) {
        compute(&call);
    } else {
        ASSERT(call_count < CALLS_MAX);
        calls[call_count] = call;
        fake_cublas_lt.enqueue(stream, compute, &calls[call_count++]);
    }
    return CUBLAS_STATUS_SUCCESS;
}

struct cublas_lt fake_cublas_lt_table(void) {
    return (struct cublas_lt){
        .cublasLtCreate = create,
        .cublasLtDestroy = destroy_handle,
        .cublasLtGetVersion = version,
        .cublasLtGetStatusName = status_name,
        .cublasLtMatmulDescCreate = create_operation,
        .cublasLtMatmulDescDestroy = destroy_operation,
        .cublasLtMatmulDescSetAttribute = set_operation,
        .cublasLtMatrixLayoutCreate = create_layout,
        .cublasLtMatrixLayoutDestroy = destroy_layout,
        .cublasLtMatmulPreferenceCreate = create_preference,
        .cublasLtMatmulPreferenceDestroy = destroy_preference,
        .cublasLtMatmulPreferenceSetAttribute = set_preference,
        .cublasLtMatmulAlgoGetHeuristic = propose,
        .cublasLtMatmulAlgoCapGetAttribute = capability,
        .cublasLtMatmulAlgoConfigGetAttribute = configuration,
        .cublasLtMatmul = multiply,
    };
}
