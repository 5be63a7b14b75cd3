/* driver_kernel: libraries, kernels and launches of the emulated driver. A library's contents are
 * not read: kernels are found by their names among those that the options give. */
#include "tests/emulated/driver_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlib_st {
    struct CUlib_st *next;
    bool live;
    int device;
};

/* A CUfunction is the address of one of these too. */
struct CUkern_st {
    struct CUkern_st *next;
    char name[128];
    struct emulated_code code;
    const struct CUlib_st *library;
    bool loaded;
    unsigned dynamic_max_bytes;
};

enum { GRID_YZ_MAX = 65535, THREADS_PER_BLOCK_MAX = 1024 };

static struct CUlib_st *libraries;
static struct CUkern_st *kernels;

static CUresult library_load(CUlibrary *library, const void *code, CUjit_option *options,
                             void **values, unsigned count, CUlibraryOption *library_options,
                             void **library_values, unsigned library_count) {
    (void)options, (void)values, (void)library_options, (void)library_values;
    CUresult result = driver_enter("cuLibraryLoadData", ENTRY_CONTEXT | ENTRY_UNSAFE);
    if (result == CUDA_SUCCESS && (code == NULL || count != 0 || library_count != 0)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "a library without code, or with options");
    }
    if (result == CUDA_SUCCESS) {
        result = driver_take(driver_context()->device, emulated.options.code_bytes);
    }
    if (result == CUDA_SUCCESS) {
        struct CUlib_st *made = calloc(1, sizeof *made);
        ASSERT(made != NULL);
        *made = (struct CUlib_st){libraries, true, driver_context()->device};
        libraries = made;
        emulated.live++;
        *library = made;
    }
    return driver_leave(result);
}

static CUresult library_of(CUlibrary handle, struct CUlib_st **library) {
    for (struct CUlib_st *at = libraries; at != NULL; at = at->next) {
        if (at == handle && at->live) {
            *library = at;
            return CUDA_SUCCESS;
        }
    }
    return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no library, or one that was unloaded");
}

static void unload(struct CUlib_st *library) {
    library->live = false;
    driver_give(library->device, emulated.options.code_bytes);
    emulated.live--;
}

void kernel_unload_all(int device) {
    for (struct CUlib_st *at = libraries; at != NULL; at = at->next) {
        if (at->live && at->device == device) {
            unload(at);
        }
    }
}

static CUresult library_unload(CUlibrary handle) {
    struct CUlib_st *library = NULL;
    CUresult result = driver_enter("cuLibraryUnload", ENTRY_CONTEXT | ENTRY_UNSAFE);
    result = result == CUDA_SUCCESS ? library_of(handle, &library) : result;
    if (result == CUDA_SUCCESS && work_queued()) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "unloaded while work is queued");
    }
    if (result == CUDA_SUCCESS) {
        unload(library);
    }
    return driver_leave(result);
}

static CUresult get_kernel(CUkernel *kernel, CUlibrary handle, const char *name) {
    struct CUlib_st *library = NULL;
    CUresult result = driver_enter("cuLibraryGetKernel", ENTRY_PLAIN);
    result = result == CUDA_SUCCESS ? library_of(handle, &library) : result;
    struct emulated_code code;
    if (result == CUDA_SUCCESS && !emulated.options.find(name, &code)) {
        result = driver_refuse(CUDA_ERROR_NOT_FOUND, "there is no kernel %s", name);
    }
    if (result == CUDA_SUCCESS) {
        struct CUkern_st *made = calloc(1, sizeof *made);
        ASSERT(made != NULL && code.params_bytes <= PARAM_BYTES_MAX);
        snprintf(made->name, sizeof made->name, "%s", name);
        made->next = kernels;
        made->code = code;
        made->library = library;
        made->dynamic_max_bytes = SHARED_DEFAULT_BYTES - code.static_shared_bytes;
        kernels = made;
        *kernel = made;
    }
    return driver_leave(result);
}

static CUresult kernel_of(const void *handle, struct CUkern_st **kernel) {
    for (struct CUkern_st *at = kernels; at != NULL; at = at->next) {
        if (at == handle && at->library->live) {
            *kernel = at;
            return CUDA_SUCCESS;
        }
    }
    return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no kernel, or one that was unloaded");
}

static CUresult get_function(CUfunction *function, CUkernel handle) {
    struct CUkern_st *kernel = NULL;
    CUresult result = driver_enter("cuKernelGetFunction", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? kernel_of(handle, &kernel) : result;
    *function = result == CUDA_SUCCESS ? (CUfunction)(void *)kernel : *function;
    return driver_leave(result);
}

static CUresult function_load(CUfunction function) {
    struct CUkern_st *kernel = NULL;
    CUresult result = driver_enter("cuFuncLoad", ENTRY_CONTEXT | ENTRY_UNSAFE);
    result = result == CUDA_SUCCESS ? kernel_of(function, &kernel) : result;
    if (result == CUDA_SUCCESS) {
        kernel->loaded = true;
    }
    return driver_leave(result);
}

/* Only drivers without cuFuncLoad load a function here. */
static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    struct CUkern_st *kernel = NULL;
    CUresult result = driver_enter("cuFuncGetAttribute", ENTRY_CONTEXT | ENTRY_UNSAFE);
    result = result == CUDA_SUCCESS ? kernel_of(function, &kernel) : result;
    if (result == CUDA_SUCCESS && attribute != CU_FUNC_ATTRIBUTE_NUM_REGS) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not emulated", attribute);
    }
    if (result == CUDA_SUCCESS) {
        *value = 32;
        kernel->loaded = kernel->loaded || emulated.options.without_func_load;
    }
    return driver_leave(result);
}

static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
    struct CUkern_st *kernel = NULL;
    CUresult result = driver_enter("cuFuncSetAttribute", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? kernel_of(function, &kernel) : result;
    if (result == CUDA_SUCCESS && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        unsigned most = SHARED_MAX_BYTES - kernel->code.static_shared_bytes;
        if (value < 0 || (unsigned)value > most) {
            result = driver_refuse(CUDA_ERROR_INVALID_VALUE,
                                   "%s: %d bytes of shared memory, a block has %u", kernel->name,
                                   value, most);
        } else {
            kernel->dynamic_max_bytes = (unsigned)value;
            if (kernel->code.allow_shared != NULL) {
                kernel->code.allow_shared(&kernel->code, (unsigned)value);
            }
        }
    }
    return driver_leave(result);
}

static CUresult check_launch(const struct CUkern_st *kernel, const unsigned grid[3],
                             const unsigned block[3], unsigned shared_bytes) {
    const char *name = kernel->name;
    unsigned most = kernel->code.threads_max;
    if (!kernel->loaded) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "%s: launched before cuFuncLoad", name);
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > INT32_MAX ||
        grid[1] > GRID_YZ_MAX || grid[2] > GRID_YZ_MAX) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a grid of %u x %u x %u blocks", name,
                             grid[0], grid[1], grid[2]);
    }
    if (block[0] == 0 || block[1] != 1 || block[2] != 1 || block[0] > THREADS_PER_BLOCK_MAX ||
        (most > 0 && block[0] > most)) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "%s: a block of %u x %u x %u threads", name,
                             block[0], block[1], block[2]);
    }
    if (shared_bytes > kernel->dynamic_max_bytes) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE,
                             "%s: %u bytes of shared memory, it was given %u", name, shared_bytes,
                             kernel->dynamic_max_bytes);
    }
    return CUDA_SUCCESS;
}

static CUresult enqueue(const struct CUkern_st *kernel, const unsigned grid[3], unsigned threads,
                        unsigned shared_bytes, struct CUstream_st *stream, const void *params) {
    struct work *piece;
    CUresult result = stream_piece(stream, &piece);
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_KERNEL;
        piece->as.launch.code = &kernel->code;
        memcpy(piece->as.launch.grid, grid, sizeof piece->as.launch.grid);
        piece->as.launch.threads = threads;
        piece->as.launch.shared_bytes = shared_bytes;
        memcpy(piece->as.launch.params, params, kernel->code.params_bytes);
        stream_issued(stream);
    }
    return result;
}

static CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream on, void **params, void **extra) {
    struct CUkern_st *kernel = NULL;
    struct CUstream_st *stream = NULL;
    const unsigned grid[3] = {grid_x, grid_y, grid_z};
    const unsigned block[3] = {block_x, block_y, block_z};
    CUresult result = driver_enter("cuLaunchKernel", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? kernel_of(function, &kernel) : result;
    result = result == CUDA_SUCCESS ? stream_of(on, &stream) : result;
    result = result == CUDA_SUCCESS ? check_launch(kernel, grid, block, shared_bytes) : result;
    if (result == CUDA_SUCCESS && (extra != NULL || params == NULL || params[0] == NULL)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "%s: launched without its params",
                               kernel->name);
    }
    if (result == CUDA_SUCCESS) {
        result = enqueue(kernel, grid, block_x, shared_bytes, stream, params[0]);
    }
    return driver_leave(result);
}

/* ---- what libraries take ---- */

CUresult emulated_driver_take(uint64_t bytes) {
    CUresult result = driver_enter("emulated_driver_take", ENTRY_CONTEXT);
    return driver_leave(result == CUDA_SUCCESS ? driver_take(driver_context()->device, bytes)
                                               : result);
}

/* A device that failed takes back, too. */
void emulated_driver_give(uint64_t bytes) {
    (void)driver_enter("emulated_driver_give", ENTRY_PLAIN);
    if (driver_context() != NULL) {
        driver_give(driver_context()->device, bytes);
    }
    (void)driver_leave(CUDA_SUCCESS);
}

void kernel_fill_table(struct cuda_driver *driver) {
    driver->cuLibraryLoadData = library_load;
    driver->cuLibraryUnload = library_unload;
    driver->cuLibraryGetKernel = get_kernel;
    driver->cuKernelGetFunction = get_function;
    driver->cuFuncLoad = function_load;
    driver->cuFuncGetAttribute = get_attribute;
    driver->cuFuncSetAttribute = set_attribute;
    driver->cuLaunchKernel = launch;
}

void kernel_forget(void) {
    while (libraries != NULL) {
        struct CUlib_st *next = libraries->next;
        free(libraries);
        libraries = next;
    }
    while (kernels != NULL) {
        struct CUkern_st *next = kernels->next;
        free(kernels);
        kernels = next;
    }
}
