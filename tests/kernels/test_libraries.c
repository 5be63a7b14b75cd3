/* What of NVIDIA's libraries is called or declared here, against those libraries and their own
 * headers, where this machine has them: that they are found at run time must not mean that a
 * misspelt name or a struct of another layout is found on somebody else's GPU. */
#include "base/check.h"
#include "kernels/cuda/launch/products.h"
#include "targets/ports/nvml.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if HAS_NVML
#include <nvml.h>

/* What is passed is of the same size. */
#define SAME_ARGUMENT(a, b) _Static_assert(sizeof(a) == sizeof(b), #a " and " #b)

SAME_ARGUMENT(struct nvml_memory, nvmlMemory_t);
_Static_assert(offsetof(struct nvml_memory, total) == offsetof(nvmlMemory_t, total), "");
_Static_assert(offsetof(struct nvml_memory, free) == offsetof(nvmlMemory_t, free), "");
_Static_assert(offsetof(struct nvml_memory, used) == offsetof(nvmlMemory_t, used), "");
SAME_ARGUMENT(struct nvml_process, nvmlProcessInfo_t);
_Static_assert(offsetof(struct nvml_process, pid) == offsetof(nvmlProcessInfo_t, pid), "");
_Static_assert(offsetof(struct nvml_process, bytes) == offsetof(nvmlProcessInfo_t, usedGpuMemory),
               "");
SAME_ARGUMENT(int, nvmlReturn_t);
SAME_ARGUMENT(int, nvmlTemperatureSensors_t);
SAME_ARGUMENT(int, nvmlMemoryErrorType_t);
SAME_ARGUMENT(int, nvmlEccCounterType_t);
SAME_ARGUMENT(void *, nvmlDevice_t);
/* The numbers of targets/ports/nvml.c. */
_Static_assert(NVML_SUCCESS == 0 && NVML_TEMPERATURE_GPU == 0, "");
_Static_assert(NVML_MEMORY_ERROR_TYPE_UNCORRECTED == 1 && NVML_VOLATILE_ECC == 0, "");
_Static_assert(nvmlClocksThrottleReasonApplicationsClocksSetting == 0x2, "");
_Static_assert(nvmlClocksThrottleReasonSwPowerCap == 0x4, "");
_Static_assert(nvmlClocksThrottleReasonHwSlowdown == 0x8, "");
_Static_assert(nvmlClocksThrottleReasonSwThermalSlowdown == 0x20, "");
_Static_assert(nvmlClocksThrottleReasonHwThermalSlowdown == 0x40, "");
_Static_assert(nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80, "");
#endif

#define NAME_OF(name) #name
/* The macros of cuda.h have made of each name that of its version. */
#define LISTED(name) NAME_OF(name),
static const char *const DRIVER_SYMBOLS[] = {CUDA_DRIVER_FUNCTIONS(LISTED)
                                                 CUDA_DRIVER_OPTIONAL_FUNCTIONS(LISTED)};

static void *open_first(const char *const *paths, size_t count) {
    void *library = NULL;
    for (size_t i = 0; i < count && library == NULL; i++) {
        library = dlopen(paths[i], RTLD_LAZY | RTLD_LOCAL);
    }
    return library;
}

/* The toolkit has a library to link with that is as the driver of its version, but empty. */
static void driver_has_every_function_that_is_called(void **state) {
    (void)state;
    static const char *const PATHS[] = {TOOLKIT "/lib64/stubs/libcuda.so",
                                        TOOLKIT "/lib/stubs/libcuda.so",
                                        TOOLKIT "/targets/x86_64-linux/lib/stubs/libcuda.so"};
    void *library = open_first(PATHS, ARRAY_COUNT(PATHS));
    if (library == NULL) {
        skip();
    }
    for (size_t i = 0; i < ARRAY_COUNT(DRIVER_SYMBOLS); i++) {
        if (dlsym(library, DRIVER_SYMBOLS[i]) == NULL) {
            fail_msg("the driver has no %s", DRIVER_SYMBOLS[i]);
        }
    }
    dlclose(library);
}

/* The first that is found, of all places that are searched. */
static enum status load_cublas_lt(struct cublas_lt *library, struct fault *fault) {
    struct region region = {0};
    const struct cublas_lt_library_search search = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"),
                                                    getenv("HOME")};
    const char *paths[CUBLAS_LT_PATHS_MAX];
    int count = cublas_lt_list_libraries(&search, &region, paths);
    enum status status = STATUS_INPUT;
    for (int i = 0; i < count && status != OK; i++) {
        status = cublas_lt_load(paths[i], library, fault);
    }
    region_finish(&region);
    return status;
}

static void cublas_lt_has_every_function_that_is_called(void **state) {
    (void)state;
    struct cublas_lt library;
    struct fault fault;
    if (load_cublas_lt(&library, &fault) != OK) {
        assert_null(strstr(fault.reason, "lacks"));
        skip();
    }
    /* Major x 10000 + minor x 100 + patch, of the headers' major version or of the one before. */
    size_t major = library.cublasLtGetVersion() / 10000;
    assert_true(major == CUBLAS_VER_MAJOR || major == CUBLAS_VER_MAJOR - 1);
    assert_string_equal(library.cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED),
                        "CUBLAS_STATUS_NOT_SUPPORTED");
}

/* What needs no device: descriptors take every attribute that products.c sets, in its size. */
static void cublas_lt_takes_the_attributes_that_are_set(void **state) {
    (void)state;
    struct cublas_lt library;
    struct fault fault;
    if (load_cublas_lt(&library, &fault) != OK) {
        skip();
    }
    cublasLtMatmulDesc_t operation;
    cublasLtMatmulPreference_t preference;
    cublasLtMatrixLayout_t layout;
    const int32_t transpose = CUBLAS_OP_T;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *bias = &epilogue;
    const uint64_t bytes = 32 << 20;
    const uint64_t ways = ~(uint64_t)CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const unsigned alignment = 16;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t bytes;
    } ours[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose},
                {CUBLASLT_MATMUL_DESC_TRANSB, &transpose, sizeof transpose},
                {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
                {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias}};
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } preferred[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
                     {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
                     {CUBLASLT_MATMUL_PREF_IMPL_MASK, &ways, sizeof ways},
                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment},
                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment}};
    assert_int_equal(library.cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                     CUBLAS_STATUS_SUCCESS);
    for (size_t i = 0; i < ARRAY_COUNT(ours); i++) {
        assert_int_equal(library.cublasLtMatmulDescSetAttribute(operation, ours[i].attribute,
                                                                ours[i].value, ours[i].bytes),
                         CUBLAS_STATUS_SUCCESS);
    }
    assert_int_equal(library.cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    for (size_t i = 0; i < ARRAY_COUNT(preferred); i++) {
        assert_int_equal(
            library.cublasLtMatmulPreferenceSetAttribute(preference, preferred[i].attribute,
                                                         preferred[i].value, preferred[i].bytes),
            CUBLAS_STATUS_SUCCESS);
    }
    assert_int_equal(library.cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 768, 2048, 768),
                     CUBLAS_STATUS_SUCCESS);
    assert_int_equal(library.cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(library.cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(library.cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_has_every_function_that_is_called),
        cmocka_unit_test(cublas_lt_has_every_function_that_is_called),
        cmocka_unit_test(cublas_lt_takes_the_attributes_that_are_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
