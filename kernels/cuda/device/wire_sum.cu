/* Sums over the ranks of a group, in rank order. */

#include "kernels/cuda/device/element_spans.h"
#include "kernels/cuda/device/wire_sum_params.h"

template <typename T> DEVICE const T *part_of(const wire_sum_params &p, int rank) {
    if (rank == p.index) {
        return static_cast<const T *>(p.own);
    }
    int slot = rank < p.index ? rank : rank - 1;
    return static_cast<const T *>(p.others) + slot * p.others_stride;
}

template <typename T> DEVICE void sum_ranks(const wire_sum_params &p) {
    int64_t first =
        ((int64_t)blockIdx.x * WIRE_SUM_THREADS + threadIdx.x) * WIRE_SUM_ELEMENTS_PER_THREAD;
    if (first >= p.count) {
        return;
    }
    int64_t count = p.count - first;
    bool whole = p.aligned && count >= WIRE_SUM_ELEMENTS_PER_THREAD;
    float sum[WIRE_SUM_ELEMENTS_PER_THREAD];
    load_span<T, WIRE_SUM_ELEMENTS_PER_THREAD>(part_of<T>(p, 0) + first, whole, count, sum);
    for (int rank = 1; rank < p.size; rank++) {
        float next[WIRE_SUM_ELEMENTS_PER_THREAD];
        load_span<T, WIRE_SUM_ELEMENTS_PER_THREAD>(part_of<T>(p, rank) + first, whole, count, next);
        for (int i = 0; i < WIRE_SUM_ELEMENTS_PER_THREAD; i++) {
            sum[i] = add_exact(sum[i], next[i]);
        }
    }
    store_span<float, WIRE_SUM_ELEMENTS_PER_THREAD>(p.to + first, whole, count, sum);
}

BOUNDED_KERNEL(wire_sum_f32, wire_sum_params, WIRE_SUM_THREADS, 4) {
    sum_ranks<float>(p);
}
BOUNDED_KERNEL(wire_sum_bf16, wire_sum_params, WIRE_SUM_THREADS, 4) {
    sum_ranks<bf16>(p);
}
