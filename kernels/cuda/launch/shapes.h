/* shapes: launch shapes and alignment checks that several kernel families use. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_SHAPES_H
#define SKEP_KERNELS_CUDA_LAUNCH_SHAPES_H

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/cuda/device/partials_params.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/items.h"

#include <stdbool.h>

enum {
    CUDA_DTYPE_COUNT = 2, /* each such kernel exists twice: for f32 and for bf16 */
    CUDA_WARP = 32,       /* threads of a warp */
    CUDA_ACCESS_BYTES =
        16, /* bytes of one memory access of a thread, see kernels/cuda/device/element_spans.h */
};

/* Table entries for kernels without dynamic shared memory: one kernel, or the pair for f32 and
 * bf16. */
#define CUDA_ENTRY(kernel, slot)                                                                   \
    { #kernel, &(slot), 0 }
#define CUDA_ENTRY_PAIR(kernel, slots)                                                             \
    CUDA_ENTRY(kernel##_f32, (slots)[DTYPE_F32]), CUDA_ENTRY(kernel##_bf16, (slots)[DTYPE_BF16])

static inline bool cuda_is_float(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16;
}

/* cuda_is_aligned: whether the address is aligned to CUDA_ACCESS_BYTES; true for NULL. */
static inline bool cuda_is_aligned(const void *address) {
    return (uintptr_t)address % CUDA_ACCESS_BYTES == 0;
}

/* cuda_elements_per_access: the number of elements that one access of a thread reads or writes. */
static inline int64_t cuda_elements_per_access(enum dtype dtype) {
    return CUDA_ACCESS_BYTES / dtype_bytes(dtype);
}

/* cuda_shape_for_elements: the launch shape with one thread for every `width` of `count`
 * elements. */
static inline struct cuda_shape cuda_shape_for_elements(int64_t count, int64_t width,
                                                        unsigned threads) {
    return (struct cuda_shape){
        .grid = {(unsigned)items_count(count, width * threads), 1, 1},
        .threads = threads,
    };
}

/* cuda_partials_add: launch a kernel that calls add_partial_sums(). */
static inline void cuda_partials_add(const struct cuda_compute *compute, CUfunction function,
                                     const struct cuda_partials_params *params) {
    struct cuda_shape shape = {
        .grid = {(unsigned)items_count(params->columns, CUDA_PARTIALS_COLUMNS), 1, 1},
        .threads = CUDA_PARTIALS_THREADS,
    };
    cuda_launch(compute, function, &shape, params);
}

#endif
