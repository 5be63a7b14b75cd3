/* device_memory: access to memory that the CPU can only read and write through copies, such as GPU
 * memory. Pointers into it are ordinary pointer values that the CPU must not dereference. */
#ifndef SKEP_BASE_DEVICE_MEMORY_H
#define SKEP_BASE_DEVICE_MEMORY_H

#include "base/fault.h"

#include <string.h>

/* The functions that access one device's memory. */
struct device_memory {
    /* read, write: copy `bytes` bytes between device memory and host memory, and return when the
     * copy is complete. Neither function allocates.
     * errors  STATUS_FAILED when the device fails; the destination is then undefined */
    MUST_CHECK enum status (*read)(void *context, const void *device, void *host, size_t bytes,
                                   struct fault *fault);
    MUST_CHECK enum status (*write)(void *context, void *device, const void *host, size_t bytes,
                                    struct fault *fault);
    void *context;
};

/* device_read, device_write: copy through `memory`. NULL means that `device` points to host memory,
 * which is copied directly. */
MUST_CHECK static inline enum status device_read(const struct device_memory *memory,
                                                 const void *device, void *host, size_t bytes,
                                                 struct fault *fault) {
    if (memory != NULL) {
        return memory->read(memory->context, device, host, bytes, fault);
    }
    memcpy(host, device, bytes);
    return OK;
}

MUST_CHECK static inline enum status device_write(const struct device_memory *memory, void *device,
                                                  const void *host, size_t bytes,
                                                  struct fault *fault) {
    if (memory != NULL) {
        return memory->write(memory->context, device, host, bytes, fault);
    }
    memcpy(device, host, bytes);
    return OK;
}

#endif
