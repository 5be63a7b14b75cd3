/* cuda_program_state: a program on a GPU, for the files that make it run. */
#ifndef SKEP_PROGRAM_CUDA_PROGRAM_STATE_H
#define SKEP_PROGRAM_CUDA_PROGRAM_STATE_H

#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"
#include "runtime/program/program.h"
#include "targets/ports/cuda_device.h"

/* An instruction that the host's threads run at its place in a stream. */
struct host_call {
    const struct bound_program *bound;
    uint32_t index;
};

struct cuda_program {
    struct device device; /* first: what the bound program knows of it */
    struct bound_program *bound;
    const struct cuda_device *gpu;
    struct cuda_kernel_table kernels;
    struct cuda_products products;
    bool has_products;
    struct cuda_failure failure;
    bool ranks_failed;           /* the communicator: it tells why */
    struct cuda_compute compute; /* its stream is that of the lane at work */
    CUstream streams[LANE_COUNT];
    CUevent *events;                   /* of the schedule, [event_count + 1] */
    CUevent fork, join[LANE_COUNT];    /* a segment's beginning, and the end of each lane */
    CUgraphExec graphs[SEGMENT_COUNT]; /* NULL: nothing to run */
    struct host_call *host_calls;      /* [instruction_count] */
};

/* ---- cuda_trial.c: instructions on arenas that are all zeros ---- */

/* warm_up_scalars: scalars of a step with which any segment may run on them. */
void warm_up_scalars(const struct cuda_program *program);

/* warm_up_run: every instruction that is no collective, one after the other; the log names the
 * one at which the device fails. Leaves the arenas as they come. */
void warm_up_run(struct cuda_program *program);

/* ---- cuda_ranks.c: collectives of a program, where it has a communicator ---- */

/* cuda_ranks_enqueue: instruction `index`, a collective; a failure is kept. */
void cuda_ranks_enqueue(struct cuda_program *program, uint32_t index, CUstream stream);

/* cuda_ranks_wait: until the stream's work is done or can never be; a failure of the ranks is kept,
 * one of the device given back. */
CUresult cuda_ranks_wait(struct cuda_program *program, CUstream stream);

/* cuda_ranks_count: the collectives of a segment that was run. */
void cuda_ranks_count(const struct cuda_program *program, enum segment_kind kind);

MUST_CHECK enum status cuda_ranks_failure(const struct cuda_program *program, struct fault *fault);

#endif
