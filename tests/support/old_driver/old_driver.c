/* old_driver: a libcuda.so.1 of CUDA 11.4, or of the version in OLD_DRIVER_CUDA, which lacks most
 * functions. cuInit ends the process: the version has to be checked before. */
#include <stdlib.h>

__attribute__((visibility("default"))) int cuDriverGetVersion(int *version);
__attribute__((visibility("default"))) int cuInit(unsigned flags);

int cuDriverGetVersion(int *version) {
    const char *wanted = getenv("OLD_DRIVER_CUDA");
    *version = wanted != NULL ? (int)strtol(wanted, NULL, 10) : 11040;
    return 0;
}

int cuInit(unsigned flags) {
    (void)flags;
    abort();
}
