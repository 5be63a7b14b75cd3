#include "kernels/cuda/launch/launch.h"

#include "build_config.h"

#include <stdio.h>

void cuda_record_result(const struct cuda_compute *compute, CUresult result, const char *action) {
    if (result != CUDA_SUCCESS && compute->failure->result == CUDA_SUCCESS) {
        *compute->failure = (struct cuda_failure){result, action};
    }
}

void cuda_launch(const struct cuda_compute *compute, CUfunction function,
                 const struct cuda_shape *shape, const void *params) {
    ASSERT(shape->threads > 0 && shape->threads % 32 == 0 && shape->threads <= 1024);
    const unsigned *grid = shape->grid;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || compute->failure->result != CUDA_SUCCESS) {
        return;
    }
    /* The driver copies the struct during the call and never writes to it. */
    void *arguments[] = {(void *)(uintptr_t)params};
    cuda_record_result(compute,
                       compute->driver->cuLaunchKernel(function, grid[0], grid[1], grid[2],
                                                       shape->threads, 1, 1, shape->shared_bytes,
                                                       compute->stream, arguments, NULL),
                       "launch a kernel");
}

/* Drivers before CUDA 12.4 lack cuFuncLoad. They load a kernel when its function is found, or, at
 * the latest, when a property of the function's code is read. */
static CUresult load_function(const struct cuda_driver *driver, CUfunction function) {
    int registers;
    return driver->cuFuncLoad != NULL
               ? driver->cuFuncLoad(function)
               : driver->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
}

static CUresult load_entry(const struct cuda_driver *driver, CUlibrary library,
                           const struct cuda_entry *entry) {
    CUkernel kernel;
    TRY_CUDA(driver->cuLibraryGetKernel(&kernel, library, entry->name));
    TRY_CUDA(driver->cuKernelGetFunction(entry->function, kernel));
    TRY_CUDA(load_function(driver, *entry->function));
    return entry->shared_bytes == 0
               ? CUDA_SUCCESS
               : driver->cuFuncSetAttribute(*entry->function,
                                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            (int)entry->shared_bytes);
}

static enum status set_load_fault(const struct cuda_driver *driver, CUresult result,
                                  const char *family, const char *kernel, struct fault *fault) {
    char subject[sizeof fault->subject];
    snprintf(subject, sizeof subject, "kernels of %s%s%s", family, kernel[0] != 0 ? ", " : "",
             kernel);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        return fault_set(
            fault, STATUS_INPUT, subject,
            "use a GPU that has one of these architectures or a later one, or use a CPU target",
            "this build has no code for this GPU; it has code for " CUDA_ARCHITECTURES
            " and, as PTX, for all later architectures");
    }
    if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
        return fault_set(fault, STATUS_INPUT, subject,
                         "install a newer NVIDIA driver, or name this GPU's architecture in the "
                         "build option gpu_architectures",
                         "this build has only PTX for this GPU (machine code: " CUDA_ARCHITECTURES
                         "), which the driver is too old to compile");
    }
    bool full = result == CUDA_ERROR_OUT_OF_MEMORY;
    return cuda_fault(driver, result, full ? STATUS_FIT : STATUS_FAILED, subject, "load them",
                      fault);
}

enum status cuda_load_family(const struct cuda_driver *driver, const char *family,
                             const void *fatbin, const struct cuda_entry *entries, int count,
                             struct fault *fault) {
    CUlibrary library;
    CUresult result = driver->cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS) {
        return set_load_fault(driver, result, family, "", fault);
    }
    for (int i = 0; i < count; i++) {
        result = load_entry(driver, library, &entries[i]);
        if (result != CUDA_SUCCESS) {
            (void)driver->cuLibraryUnload(library);
            return set_load_fault(driver, result, family, entries[i].name, fault);
        }
    }
    return OK;
}
