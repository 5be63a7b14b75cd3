/* space: the kinds of memory that plans, profiles and ports speak of. */
#ifndef SKEP_BASE_SPACE_H
#define SKEP_BASE_SPACE_H

enum space {
    SPACE_DEVICE, /* where kernels compute: the GPU's memory, or the process's on a cpu target */
    SPACE_PINNED, /* host memory that copies to the device can run from by themselves */
    SPACE_HOST,   /* ordinary host memory */
    SPACE_COUNT
};

#endif
