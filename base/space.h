/* space: the kinds of memory that plans, profiles and memory ports distinguish. */
#ifndef SKEP_BASE_SPACE_H
#define SKEP_BASE_SPACE_H

enum space {
    SPACE_DEVICE, /* memory that kernels use: GPU memory, or host memory on a CPU target */
    SPACE_PINNED, /* host memory that the device can read and write directly */
    SPACE_HOST,   /* other host memory */
    SPACE_COUNT
};

#endif
