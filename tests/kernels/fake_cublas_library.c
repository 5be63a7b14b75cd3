/* fake_cublas_library: a shared library with the functions of cuBLASLt, of version VERSION, whose
 * cublasLtCreate returns CREATE. The others are never called. */
#include "kernels/cuda/launch/products.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    static int one;
    *handle = (cublasLtHandle_t)&one;
    return CREATE;
}

EXPORTED cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORTED size_t cublasLtGetVersion(void) {
    return VERSION;
}

EXPORTED const char *cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED" : "another";
}

/* Present under their names, of whatever type. */
#define PRESENT(name)                                                                              \
    __asm__(".globl " #name "\n.type " #name ", @function\n" #name " = cublasLtGetVersion\n")
PRESENT(cublasLtMatmulDescCreate);
PRESENT(cublasLtMatmulDescDestroy);
PRESENT(cublasLtMatmulDescSetAttribute);
PRESENT(cublasLtMatrixLayoutCreate);
PRESENT(cublasLtMatrixLayoutDestroy);
PRESENT(cublasLtMatmulPreferenceCreate);
PRESENT(cublasLtMatmulPreferenceDestroy);
PRESENT(cublasLtMatmulPreferenceSetAttribute);
PRESENT(cublasLtMatmulAlgoGetHeuristic);
PRESENT(cublasLtMatmulAlgoCapGetAttribute);
PRESENT(cublasLtMatmulAlgoConfigGetAttribute);
PRESENT(cublasLtMatmul);
