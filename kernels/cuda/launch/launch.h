/* launch: the kernels of kernels/, enqueued on a CUDA stream.
 *
 * cuda_NAME() takes the same arguments, with the same meanings and limits, as NAME() in kernels/,
 * but with device addresses. It enqueues on compute->stream and returns at once. A family consists
 * of these files, here for norm:
 *
 *   launch/norm.h          the functions and the CUfunctions that they launch
 *   launch/norm.c          grid and block by the shape; one launch or a few
 *   device/norm.cu         the device code, written with device/device.h
 *   device/norm_params.h   the arguments of each kernel, one plain struct each
 *
 * launch/workspace.h computes the workspace bytes in plain C, so that every build can plan for a
 * GPU. All functions are loaded at bind; a call decides, allocates and looks up nothing. Sums have
 * a fixed order that depends on the shape alone (no floating-point atomics), so that one kind of
 * device always gives the same bits. runtime/ops and runtime/swarm/replica call these functions,
 * and runtime/program owns the tables.
 *
 * public   attention.h codec.h elementwise.h embedding.h generation.h head_loss.h matmul.h norm.h
 *          optimizer.h outer.h products.h table.h workspace.h */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_LAUNCH_H
#define SKEP_KERNELS_CUDA_LAUNCH_LAUNCH_H

#include "targets/ports/cuda_driver.h"

struct cuda_kernel_table; /* one struct of CUfunctions for each family, in launch/table.h */
struct cuda_products;     /* matrix products chosen at bind, in launch/products.h */

/* The first CUDA error since this struct was cleared. After an error, nothing more is enqueued. The
 * executor reads it after it has enqueued a segment. */
struct cuda_failure {
    CUresult result;    /* CUDA_SUCCESS: no error */
    const char *action; /* the call that failed, for the fault */
};

struct cuda_compute {
    const struct cuda_driver *driver;
    const struct cuda_kernel_table *table; /* the loaded kernels */
    struct cuda_products *products;        /* matrix products, with the algorithm chosen for each */
    struct cuda_failure *failure;          /* first CUDA error, if any */
    CUstream stream;                       /* stream on which kernels are enqueued */
    int multiprocessors;                   /* number of multiprocessors of the device */
};

/* The launch shape of a kernel: a grid of blocks of threads. */
struct cuda_shape {
    unsigned grid[3];      /* blocks in x, y and z */
    unsigned threads;      /* threads of a block, a multiple of 32 */
    unsigned shared_bytes; /* dynamic shared memory of a block */
};

/* cuda_launch: enqueue a kernel with its only argument, the struct `params`. A grid of 0 blocks
 * enqueues nothing. */
void cuda_launch(const struct cuda_compute *compute, CUfunction function,
                 const struct cuda_shape *shape, const void *params);

/* cuda_record_result: record a result that is not CUDA_SUCCESS, unless an earlier one is
 * recorded. */
void cuda_record_result(const struct cuda_compute *compute, CUresult result, const char *action);

/* One entry of a family's fatbin: the kernel's name in its .cu, the address to store its function
 * at, and the maximum dynamic shared memory of its launches. */
struct cuda_entry {
    const char *name;     /* symbol of the kernel in its library */
    CUfunction *function; /* where the loaded kernel is stored */
    unsigned shared_bytes;
};

/* cuda_load_family: load a fatbin onto the current context and resolve all its kernels, so that no
 * later launch loads anything.
 * errors  STATUS_INPUT when it has no code for this device (naming the architectures it has);
 *         STATUS_FIT when the device has no memory left for it */
MUST_CHECK enum status cuda_load_family(const struct cuda_driver *driver, const char *family,
                                        const void *fatbin, const struct cuda_entry *entries,
                                        int count, struct fault *fault);

/* CUDA_FAMILY(name, entries...): define cuda_NAME_kernels_init, which loads these entries of the
 * family's fatbin into *kernels. */
#define CUDA_FAMILY(name, ...)                                                                     \
    extern const char cuda_##name##_fatbin[];                                                      \
    enum status cuda_##name##_kernels_init(const struct cuda_driver *driver,                       \
                                           struct cuda_##name##_kernels *kernels,                  \
                                           struct fault *fault) {                                  \
        *kernels = (struct cuda_##name##_kernels){0};                                              \
        const struct cuda_entry entries[] = {__VA_ARGS__};                                         \
        return cuda_load_family(driver, #name, cuda_##name##_fatbin, entries,                      \
                                ARRAY_COUNT(entries), fault);                                      \
    }

#endif
