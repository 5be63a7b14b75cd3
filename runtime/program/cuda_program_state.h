/* cuda_program_state: the state of a program on a GPU, shared by the cuda_*.c files of this
 * room. */
#ifndef SKEP_PROGRAM_CUDA_PROGRAM_STATE_H
#define SKEP_PROGRAM_CUDA_PROGRAM_STATE_H

#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"
#include "runtime/program/program.h"
#include "targets/ports/cuda_device.h"

/* An instruction that CPU threads execute in stream order. */
struct host_call {
    const struct bound_program *bound;
    uint32_t index;
};

struct cuda_program {
    struct device device; /* must be first: bound->device points to it */
    struct bound_program *bound;
    const struct cuda_device *gpu;
    struct cuda_kernel_table kernels;
    struct cuda_products products;
    bool has_products;
    struct cuda_failure failure;
    bool ranks_failed;           /* the communicator failed and has the reason */
    struct cuda_compute compute; /* its stream is that of the lane being enqueued */
    CUstream streams[LANE_COUNT];
    CUevent *events;                   /* [event_count + 1], by the schedule's event numbers */
    CUevent fork, join[LANE_COUNT];    /* the start of a segment, and the end of each lane */
    CUgraphExec graphs[SEGMENT_COUNT]; /* NULL: an empty segment */
    struct host_call *host_calls;      /* [instruction_count] */
};

/* ---- cuda_trial.c: executing instructions on zeroed arenas ---- */

/* warm_up_scalars: scalars with which any segment can execute on zeroed arenas. */
void warm_up_scalars(const struct cuda_program *program);

/* warm_up_run: execute all instructions except collectives, one after the other. If the device
 * fails, the log names the instruction. Does not restore the arenas. */
void warm_up_run(struct cuda_program *program);

/* ---- cuda_ranks.c: collectives of a program with a communicator ---- */

/* cuda_ranks_enqueue: enqueue instruction `index`, a collective. Records a failure. */
void cuda_ranks_enqueue(struct cuda_program *program, uint32_t index, CUstream stream);

/* cuda_ranks_wait: wait until the stream's work is done or another rank failed. Records a failure
 * of the ranks, and returns one of the device. */
CUresult cuda_ranks_wait(struct cuda_program *program, CUstream stream);

/* cuda_ranks_count: count the collectives of an executed segment. */
void cuda_ranks_count(const struct cuda_program *program, enum segment_kind kind);

MUST_CHECK enum status cuda_ranks_failure(const struct cuda_program *program, struct fault *fault);

#endif
