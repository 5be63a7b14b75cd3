
#include "kernels/cuda/launch/wire_sum.h"

#include "kernels/cuda/device/wire_sum_params.h"
#include "kernels/cuda/launch/table.h"

static const int64_t COUNT_MAX = (int64_t)1 << 38; /* 2^28 blocks */

CUDA_FAMILY(wire_sum, {"wire_sum_f32", &kernels->f32, 0}, {"wire_sum_bf16", &kernels->bf16, 0})

void cuda_wire_sum_run(const struct cuda_compute *compute, const struct cuda_wire_sum_args *args) {
    ASSERT(args->wire == DTYPE_F32 || args->wire == DTYPE_BF16);
    ASSERT(args->index >= 0 && args->index < args->size);
    ASSERT(args->count >= 0 && args->count <= COUNT_MAX);
    uint64_t run_bytes = WIRE_SUM_ELEMENTS_PER_THREAD * (uint64_t)dtype_bytes(args->wire);
    uint64_t addresses = (uint64_t)(uintptr_t)args->own | (uint64_t)(uintptr_t)args->others;
    bool aligned = addresses % run_bytes == 0 &&
                   args->others_stride % WIRE_SUM_ELEMENTS_PER_THREAD == 0 &&
                   (uintptr_t)args->to % (WIRE_SUM_ELEMENTS_PER_THREAD * sizeof(float)) == 0;
    struct wire_sum_params params = {.own = args->own,
                                     .others = args->others,
                                     .others_stride = args->others_stride,
                                     .to = args->to,
                                     .count = args->count,
                                     .size = args->size,
                                     .index = args->index,
                                     .aligned = aligned};
    struct cuda_shape shape = {
        .grid = {(unsigned)items_count(args->count,
                                       WIRE_SUM_THREADS * WIRE_SUM_ELEMENTS_PER_THREAD),
                 1, 1},
        .threads = WIRE_SUM_THREADS};
    const struct cuda_wire_sum_kernels *kernels = &compute->table->wire_sum;
    cuda_launch(compute, args->wire == DTYPE_F32 ? kernels->f32 : kernels->bf16, &shape, &params);
}
