/* first_driver: a libcuda.so.1 of the oldest version that this build accepts. It exports every
 * function that the program requires, under its exported name, and none of the optional ones. The
 * functions do nothing and succeed. */
#include "targets/ports/cuda_driver.h"

#include "build_config.h"

#include <string.h>

#define NAME_OF(name) #name

static int answer(const char *name, int *first) {
    if (strcmp(name, "cuDriverGetVersion") == 0) {
        *first = CUDA_DRIVER_VERSION_MIN;
    } else if (strcmp(name, "cuDeviceGetCount") == 0) {
        *first = 1;
    }
    return 0;
}

/* The assembler's name is that of the driver. Callers that pass more arguments, or others, do no
 * harm. */
#define EXPORT(name)                                                                               \
    __attribute__((visibility("default"))) int first_##name(int *first) __asm__(NAME_OF(name));    \
    int first_##name(int *first) {                                                                 \
        return answer(NAME_OF(name), first);                                                       \
    }
CUDA_DRIVER_FUNCTIONS(EXPORT)
