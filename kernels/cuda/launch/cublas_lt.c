/* Loads the functions of cuBLASLt at run time. */
#include "kernels/cuda/launch/products.h"

#include <dlfcn.h>
#include <stddef.h>

static const char *const LIBRARIES[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        "/usr/local/cuda/lib64/libcublasLt.so.13"};
enum { LIBRARY_COUNT = sizeof LIBRARIES / sizeof LIBRARIES[0] };

#define NAME_OF(name)          #name
#define CUBLAS_LT_SYMBOL(name) {NAME_OF(name), offsetof(struct cublas_lt, name)},
static const struct {
    const char *name;
    size_t at;
} SYMBOLS[] = {CUBLAS_LT_FUNCTIONS(CUBLAS_LT_SYMBOL)};

static enum status set_fault(const char *reason, const char *detail, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, LIBRARIES[0],
                     "install cuBLAS of CUDA 13 or 12, or add its folder to LD_LIBRARY_PATH; "
                     "without it, slower built-in kernels compute matrix products",
                     "%s: %s", reason, detail);
}

enum status cublas_lt_load(struct cublas_lt *library, struct fault *fault) {
    void *opened = NULL;
    for (int i = 0; i < LIBRARY_COUNT && opened == NULL; i++) {
        opened = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (opened == NULL) {
        return set_fault("cuBLASLt is not installed", dlerror(), fault);
    }
    struct cublas_lt found;
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof SYMBOLS[0]; i++) {
        void *symbol = dlsym(opened, SYMBOLS[i].name);
        if (symbol == NULL) {
            dlclose(opened);
            return set_fault("the installed cuBLASLt lacks a required function", SYMBOLS[i].name,
                             fault);
        }
        *(void **)((char *)&found + SYMBOLS[i].at) = symbol;
    }
    *library = found;
    return OK;
}
