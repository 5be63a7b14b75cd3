/* space: the kinds of memory for which plans, profiles and ports have separate entries. */
#ifndef SKEP_BASE_SPACE_H
#define SKEP_BASE_SPACE_H

enum space {
    SPACE_DEVICE, /* the memory of kernels: the GPU's, or the process's on a CPU target */
    SPACE_PINNED, /* host memory that the device can read and write directly */
    SPACE_HOST,   /* other host memory */
    SPACE_COUNT
};

#endif
