/* runs: elements that one thread moves at once, 16 bytes a time, for the memory-bound kernels. A
 * run is whole when all its elements are there and its address is aligned to 16 bytes, or to its
 * size where that is less. */
#ifndef SKEP_KERNELS_CUDA_RUNS_H
#define SKEP_KERNELS_CUDA_RUNS_H

#include "kernels/cuda/device.h"

constexpr size_t run_alignment(size_t bytes) {
    return bytes < 16 ? bytes : 16;
}
template <typename T, int width> struct alignas(run_alignment(sizeof(T) * width)) run {
    T element[width];
};

/* load_run: the run at `at` as floats. Where it is not whole, of `count` elements one after the
 * other; those beyond are 0. */
template <typename T, int width>
DEVICE void load_run(const T *at, bool whole, int64_t count, float values[width]) {
    if (whole) {
        run<T, width> loaded = *reinterpret_cast<const run<T, width> *>(at);
        for (int i = 0; i < width; i++) {
            values[i] = to_float(loaded.element[i]);
        }
        return;
    }
    for (int i = 0; i < width; i++) {
        values[i] = i < count ? to_float(at[i]) : 0;
    }
}

/* store_run: back again, each rounded once. */
template <typename T, int width>
DEVICE void store_run(T *at, bool whole, int64_t count, const float values[width]) {
    if (whole) {
        run<T, width> stored;
        for (int i = 0; i < width; i++) {
            stored.element[i] = from_float<T>(values[i]);
        }
        *reinterpret_cast<run<T, width> *>(at) = stored;
        return;
    }
    for (int i = 0; i < width; i++) {
        if (i < count) {
            at[i] = from_float<T>(values[i]);
        }
    }
}

#endif
