/* cuda_program_state: the state of a program on a GPU, shared by the cuda_*.c files of
 * runtime/program. */
#ifndef SKEP_PROGRAM_CUDA_PROGRAM_STATE_H
#define SKEP_PROGRAM_CUDA_PROGRAM_STATE_H

#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"
#include "runtime/program/program.h"
#include "targets/ports/cuda_device.h"

/* Without this flag, every node of a graph gets the priority of the stream that launches the graph,
 * and collectives wait behind the blocks of the compute lane. */
enum { KEEP_PRIORITIES = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY };

/* An instruction that CPU threads execute in stream order. */
struct cpu_call {
    const struct bound_program *bound;
    uint32_t index; /* index of the instruction */
};

struct cuda_program {
    struct device device; /* must be first: bound->device points to it */
    struct bound_program *bound;
    const struct cuda_device *gpu; /* device that executes the program */
    struct cuda_kernel_table kernels;
    struct cuda_products products; /* matrix products, with the algorithm chosen for each */
    bool has_products;             /* `products` was initialized */
    struct cuda_failure failure;   /* first CUDA error, if any */
    bool ranks_failed;             /* the communicator failed and reports the reason */
    /* arguments of kernel launches; `compute.stream` is the stream of the current lane */
    struct cuda_compute compute;
    CUstream streams[LANE_COUNT]; /* [lane] */
    /* [event_count + 1]: CUDA events, by the schedule's event numbers */
    CUevent *events;
    CUevent fork_event,
        join_events[LANE_COUNT]; /* events at the start of a segment and at the end of each lane */
    /* graph captured from each segment; NULL: the segment is empty */
    CUgraphExec graphs[SEGMENT_COUNT];
    struct cpu_call *cpu_calls; /* [instruction_count] */
};

/* ---- cuda_trial.c: executing instructions before the capture ---- */

/* choose_product_algorithms: load cuBLASLt, and choose an algorithm for each distinct product.
 * Without cuBLASLt, which is logged, the kernels of this project compute all products. cuBLASLt
 * loads the code of an algorithm at its first execution, which may fail. Each distinct product is
 * therefore executed once before the capture, which loading could invalidate. Does not restore the
 * arenas. */
void choose_product_algorithms(struct cuda_program *program, struct region *region);

/* warm_up_scalars: set scalars with which any segment can execute on zeroed arenas. */
void warm_up_scalars(const struct cuda_program *program);

/* warm_up_instructions: execute all instructions except collectives, one at a time. If the device
 * fails, the log names the instruction. Does not restore the arenas. */
void warm_up_instructions(struct cuda_program *program);

/* ---- cuda_ranks.c: collectives of a program with a communicator ---- */

/* cuda_ranks_enqueue: enqueue the collective of instruction `index`. Records a failure. */
void cuda_ranks_enqueue(struct cuda_program *program, uint32_t index, CUstream stream);

/* cuda_ranks_wait_for_stream: wait until the stream's work is done or another rank failed. Records
 * a failure of another rank, and returns the result of the device. */
CUresult cuda_ranks_wait_for_stream(struct cuda_program *program, CUstream stream);

/* cuda_ranks_count_collectives: count the collectives of an executed segment. */
void cuda_ranks_count_collectives(const struct cuda_program *program, enum segment_kind kind);

MUST_CHECK enum status cuda_ranks_failure(const struct cuda_program *program, struct fault *fault);

#endif
