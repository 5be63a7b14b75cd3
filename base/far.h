/* far: memory whose bytes the processor reaches only by copies: a device's own. Addresses in it are
 * kept like any others, and must not be followed. */
#ifndef SKEP_BASE_FAR_H
#define SKEP_BASE_FAR_H

#include "base/fault.h"

#include <string.h>

struct device_memory {
    /* Bytes from and to it; both come back when the copy is done, and never allocate.
     * errors  STATUS_FAILED when the device fails; what was to be filled is then undefined */
    MUST_CHECK enum status (*read)(void *context, const void *far, void *near, size_t bytes,
                                   struct fault *fault);
    MUST_CHECK enum status (*write)(void *context, void *far, const void *near, size_t bytes,
                                    struct fault *fault);
    void *context;
};

/* device_read, device_write: by `memory`; where that is NULL, `far` is an address like any
 * other. */
MUST_CHECK static inline enum status device_read(const struct device_memory *memory,
                                                 const void *far, void *near, size_t bytes,
                                                 struct fault *fault) {
    if (memory != NULL) {
        return memory->read(memory->context, far, near, bytes, fault);
    }
    memcpy(near, far, bytes);
    return OK;
}

MUST_CHECK static inline enum status device_write(const struct device_memory *memory, void *far,
                                                  const void *near, size_t bytes,
                                                  struct fault *fault) {
    if (memory != NULL) {
        return memory->write(memory->context, far, near, bytes, fault);
    }
    memcpy(far, near, bytes);
    return OK;
}

#endif
