/* kernels: the contracts of the operations that compute on tensors, one header for each family.
 *
 * Each header declares the CPU's functions and states shapes, types, limits, memory, errors,
 * accuracy and sources for the CPU and CUDA implementations alike. A kernel allocates nothing: its
 * caller passes all buffers, and a workspace of NAME_workspace_bytes(). kernels/cpu implements the
 * functions on the thread pool with the innermost loops of kernels/loops, and kernels/cuda/launch
 * declares the same functions with device addresses. runtime/ops calls both for the instructions of
 * a program, and runtime/swarm/replica calls the codec, the outer step and the sketches.
 *
 * public   attention.h codec.h cpu_level.h elementwise.h embedding.h generation.h head_loss.h
 *          head_loss_chunk.h items.h matmul.h norm.h optimizer.h outer.h
 *          random_normals.h scalars.h sketch.h sparse.h tally.h */
#ifndef SKEP_KERNELS_KERNELS_H
#define SKEP_KERNELS_KERNELS_H

#include "targets/os/pool.h"

struct kernel_table;

/* The context of every CPU kernel call: the selected kernels and the thread pool. */
struct compute {
    const struct kernel_table *table; /* initialized by kernel_table_init */
    struct pool *pool;
};

#endif
