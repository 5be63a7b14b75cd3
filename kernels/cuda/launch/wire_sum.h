/* wire_sum on CUDA: adds the values that the ranks sent for one slot of a collective, in rank order
 * and as received. The result has the same bits as that of transport/collectives/shm_sum.h. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_WIRE_SUM_H
#define SKEP_KERNELS_CUDA_LAUNCH_WIRE_SUM_H

#include "base/dtype.h"
#include "kernels/cuda/launch/launch.h"

#include <stdint.h>

struct cuda_wire_sum_kernels {
    /* kernels that add what the ranks sent, by the type of these values */
    CUfunction f32, bf16;
};

/* cuda_wire_sum_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_wire_sum_kernels_init(const struct cuda_driver *driver,
                                                  struct cuda_wire_sum_kernels *kernels,
                                                  struct fault *fault);

/* cuda_wire_sum_run: to[i] = ((x0[i] + x1[i]) + x2[i]) + ..., one rounding each.
 * shapes    own, to [count]; others: size - 1 of [count], of the other ranks in order,
 *           `others_stride` elements from each other
 * dtypes    own, others `wire`, f32 or bf16; to f32
 * limits    0 <= index < size; count < 2^38; `to` may be `own` when the wire is f32
 * memory    caller owns all; no workspace
 * errors    none; a failed launch is recorded in compute->failure
 * accuracy  exact: the bits of the same sum on a CPU, except for NaN */
struct cuda_wire_sum_args {
    enum dtype wire; /* type of the received values: f32 or bf16 */
    int size, index; /* number of ranks; index of this rank */
    /* elements from one rank's values to the next; number of elements */
    int64_t others_stride, count;
    const void *own, *others; /* values of this rank; values of the other ranks */
    float *to;                /* [count] result */
};
void cuda_wire_sum_run(const struct cuda_compute *compute, const struct cuda_wire_sum_args *args);

#endif
