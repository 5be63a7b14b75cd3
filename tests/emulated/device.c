#include "tests/emulated/device.h"

#include "tests/emulated/launch.h"

static void run(const struct emulated_code *code, const unsigned grid[3], unsigned threads,
                unsigned shared_bytes, const void *params) {
    emulated_launch(code->kernel, grid, threads, shared_bytes, params);
}

static void allow_shared(const struct emulated_code *code, unsigned shared_bytes) {
    emulated_allow_shared(code->kernel, shared_bytes);
}

bool emulated_device_find(const char *name, struct emulated_code *code) {
    struct emulated_kernel *kernel = emulated_find(name);
    if (kernel == NULL) {
        return false;
    }
    *code = (struct emulated_code){.params_bytes = kernel->params_bytes,
                                   .threads_max = kernel->threads_max,
                                   .kernel = kernel,
                                   .run = run,
                                   .allow_shared = allow_shared};
    return true;
}
