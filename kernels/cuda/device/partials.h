/* partials: the second step of sums over the rows of a matrix. It adds the sums of
 * the chunks of rows, which other kernels wrote to a workspace, in a fixed order. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_PARTIALS_H
#define SKEP_KERNELS_CUDA_DEVICE_PARTIALS_H

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/partials_params.h"

/* add_partial_sums: add the sums of the chunks to p.sums, in fp64 and rounded once. A block sums
 * WARP columns: each warp sums every eighth chunk. The sums of the warps are added in order
 * afterwards. */
DEVICE void add_partial_sums(const cuda_partials_params &p) {
    SHARED(double, totals, CUDA_PARTIALS_THREADS);
    int warp = (int)threadIdx.x / WARP;
    int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x % WARP;
    double total = 0;
    for (int64_t chunk = warp; chunk < p.chunks && column < p.columns;
         chunk += CUDA_PARTIALS_THREADS / WARP) {
        total += (double)p.partials[chunk * p.columns + column];
    }
    totals[threadIdx.x] = total;
    __syncthreads();
    if (warp > 0 || column >= p.columns) {
        return;
    }
    total = (double)p.sums[column];
    for (int i = (int)threadIdx.x; i < CUDA_PARTIALS_THREADS; i += WARP) {
        total += totals[i];
    }
    p.sums[column] = (float)total;
}

#endif
