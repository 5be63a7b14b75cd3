/* open: what a program finds for a driver that is linked with -Wl,--wrap=cuda_driver_open: the
 * emulated one; with --wrap=nccl_library_find the emulated NCCL; and, with --wrap=cublas_lt_load,
 * no cuBLASLt, which knows real ones only, unless a test sets emulated_cublas_lt. A test that
 * opened the driver says what the device is like; else the environment does: SKEP_EMULATED_SEED,
 * SKEP_EMULATED_MIB (of device memory), SKEP_EMULATED_DEVICES, SKEP_EMULATED_DISPLAY (1: each
 * drives one), SKEP_EMULATED_CUDA (the driver's version, such as 12040),
 * SKEP_EMULATED_LACKS=cuFuncLoad, and SKEP_EMULATED_LOSE_AT, the piece of work at which the device
 * is lost (with SKEP_EMULATED_LOSE_RANK only that rank's). Of NCCL: SKEP_EMULATED_NCCL, one of
 * "absent", "refuse_memory", "refuse_joining", "slow", "finalize_waits" and "error_at=N"; with
 * SKEP_EMULATED_NCCL_RANK only for that rank. */
#include "kernels/cuda/launch/products.h"
#include "tests/emulated/device.h"
#include "tests/emulated/nccl.h"

#include <stdlib.h>
#include <string.h>

MUST_CHECK enum status __wrap_cuda_driver_open(struct cuda_driver *driver, struct fault *fault);

static uint64_t number_of(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

/* Whether this rank is the one that a variable names; not set it names all. */
static bool is_meant(const char *variable) {
    const char *whose = getenv(variable);
    const char *rank = getenv("RANK");
    return whose == NULL || (rank != NULL && strcmp(whose, rank) == 0);
}

static bool lacks_func_load(void) {
    const char *function = getenv("SKEP_EMULATED_LACKS");
    return function != NULL && strcmp(function, "cuFuncLoad") == 0;
}

enum status __wrap_cuda_driver_open(struct cuda_driver *driver, struct fault *fault) {
    int version = 0;
    if (!emulated_driver_table(driver)) {
        emulated_driver_open(
            &(struct emulated_options){.seed = number_of("SKEP_EMULATED_SEED"),
                                       .memory_bytes = number_of("SKEP_EMULATED_MIB") << 20,
                                       .devices = (int)number_of("SKEP_EMULATED_DEVICES"),
                                       .has_display = number_of("SKEP_EMULATED_DISPLAY") != 0,
                                       .cuda_version = (int)number_of("SKEP_EMULATED_CUDA"),
                                       .without_func_load = lacks_func_load(),
                                       .find = emulated_device_find},
            driver);
        if (number_of("SKEP_EMULATED_LOSE_AT") > 0 && is_meant("SKEP_EMULATED_LOSE_RANK")) {
            emulated_driver_fail_work((int)number_of("SKEP_EMULATED_LOSE_AT"),
                                      CUDA_ERROR_LAUNCH_FAILED);
        }
    }
    CUresult result = driver->cuDriverGetVersion(&version);
    return result == CUDA_SUCCESS ? cuda_driver_check_version(version, fault)
                                  : cuda_fault(driver, result, STATUS_INPUT, "libcuda.so.1",
                                               "read its version", fault);
}

const struct cublas_lt *emulated_cublas_lt;

MUST_CHECK enum status __wrap_cublas_lt_load(const char *path, struct cublas_lt *library,
                                             struct fault *fault);

enum status __wrap_cublas_lt_load(const char *path, struct cublas_lt *library,
                                  struct fault *fault) {
    (void)path;
    if (emulated_cublas_lt != NULL) {
        *library = *emulated_cublas_lt;
        return OK;
    }
    return fault_set(fault, STATUS_INPUT, "cuBLASLt", NULL, "is not for an emulated device");
}

MUST_CHECK enum status __wrap_nccl_library_find(struct nccl_library *library, struct fault *fault);

/* What is planned for this rank; "": nothing. */
static const char *nccl_wish(void) {
    const char *wish = getenv("SKEP_EMULATED_NCCL");
    return wish != NULL && is_meant("SKEP_EMULATED_NCCL_RANK") ? wish : "";
}

enum status __wrap_nccl_library_find(struct nccl_library *library, struct fault *fault) {
    static const char ERROR_AT[] = "error_at=";
    const char *wish = nccl_wish();
    bool error = strncmp(wish, ERROR_AT, sizeof ERROR_AT - 1) == 0;
    if (strcmp(wish, "absent") == 0) {
        return fault_set(fault, STATUS_INPUT, "libnccl.so.2", "install it", "is not here");
    }
    emulated_nccl_open(
        &(struct emulated_nccl_plan){
            .seed = number_of("SKEP_EMULATED_SEED") + 1000 * number_of("RANK"),
            .error_at = error ? (int)strtol(wish + sizeof ERROR_AT - 1, NULL, 10) : 0,
            .slow_init = strcmp(wish, "slow") == 0 ? 2000 : 0,
            .refuse_joining = strcmp(wish, "refuse_joining") == 0,
            .refuse_memory = strcmp(wish, "refuse_memory") == 0,
            .finalize_waits = strcmp(wish, "finalize_waits") == 0},
        library);
    return OK;
}
