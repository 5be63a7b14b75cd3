/* launch: kernels of kernels/cuda, run by this processor as a GPU might.
 *
 * A block's threads are fibers. The order of blocks, of warps between barriers and of the threads
 * of a warp between its common steps is drawn from a seed, so a kernel that needs one order fails
 * sooner or later. What a GPU leaves undefined ends the process, with the kernel, block and thread
 * on stderr: barriers and shuffles that not all threads reach, accesses that are not aligned,
 * shared memory overrun, more of it than was allowed. Shared memory is full of NaN when a block
 * starts, and copy_async() leaves NaN behind until copy_wait(). */
#ifndef SKEP_TESTS_EMULATED_LAUNCH_H
#define SKEP_TESTS_EMULATED_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    EMULATED_THREADS_MAX = 1024,
    EMULATED_SHARED_DEFAULT = 48 * 1024, /* of a block, static and dynamic together */
    EMULATED_SHARED_MAX = 99 * 1024,     /* the same, for a kernel that asked: a GeForce's */
};

/* A kernel, as KERNEL() of device.h leaves it behind in a program that was linked with it. */
struct emulated_kernel {
    const char *name;
    void (*body)(const void *params);
    size_t params_bytes;
    unsigned threads_max;    /* 0: as many as a block may have */
    unsigned shared_allowed; /* dynamic bytes that emulated_allow_shared() granted */
    struct emulated_kernel *next;
};

/* emulated_find: NULL when no kernel has this name. */
struct emulated_kernel *emulated_find(const char *name);

/* emulated_allow_shared: what the driver's attribute for dynamic shared memory does. */
void emulated_allow_shared(struct emulated_kernel *kernel, unsigned shared_bytes);

/* emulated_launch: run a grid to its end, on the calling thread; launches of several threads wait
 * for each other. `params` is the kernel's one struct, kernel->params_bytes of it. */
void emulated_launch(const struct emulated_kernel *kernel, const unsigned grid[3], unsigned threads,
                     unsigned shared_bytes, const void *params);

/* emulated_seed: what the orders of later launches are drawn from. */
void emulated_seed(uint64_t seed);

#endif
