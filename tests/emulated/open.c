/* open: what a program finds for a driver that is linked with -Wl,--wrap=cuda_driver_open: the
 * emulated one, and, with --wrap=cublas_lt_find, no cuBLASLt, which knows real ones only. A test
 * that opened it says what the device is like; else the environment does: SKEP_EMULATED_SEED,
 * SKEP_EMULATED_MIB (of device memory), SKEP_EMULATED_DEVICES, and SKEP_EMULATED_LOSE_AT, the piece
 * of work at which the device is lost. */
#include "tests/emulated/device.h"

#include <stdlib.h>

MUST_CHECK enum status __wrap_cuda_driver_open(struct cuda_driver *driver, struct fault *fault);

static uint64_t number_of(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

enum status __wrap_cuda_driver_open(struct cuda_driver *driver, struct fault *fault) {
    (void)fault;
    if (!emulated_driver_table(driver)) {
        emulated_driver_open(
            &(struct emulated_options){.seed = number_of("SKEP_EMULATED_SEED"),
                                       .memory_bytes = number_of("SKEP_EMULATED_MIB") << 20,
                                       .devices = (int)number_of("SKEP_EMULATED_DEVICES"),
                                       .find = emulated_device_find},
            driver);
        if (number_of("SKEP_EMULATED_LOSE_AT") > 0) {
            emulated_driver_fail_work((int)number_of("SKEP_EMULATED_LOSE_AT"),
                                      CUDA_ERROR_LAUNCH_FAILED);
        }
    }
    return OK;
}

struct cublas_lt;
MUST_CHECK enum status __wrap_cublas_lt_find(struct cublas_lt *library, struct fault *fault);

enum status __wrap_cublas_lt_find(struct cublas_lt *library, struct fault *fault) {
    (void)library;
    return fault_set(fault, STATUS_INPUT, "cuBLASLt", NULL, "is not for an emulated device");
}
