/* open: what a program finds for a driver that is linked with -Wl,--wrap=cuda_driver_open: the
 * emulated one. A test that opened it says what the device is like; else the environment does:
 * SKEP_EMULATED_SEED, SKEP_EMULATED_MIB (of device memory) and SKEP_EMULATED_DEVICES. */
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
    }
    return OK;
}
