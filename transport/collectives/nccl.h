/* nccl: contract A between GPUs, by NCCL. Calls are work of a stream: enqueued, captured in a graph
 * with what is around them, and waited for by polling, so that a wait ends when a rank is lost.
 *
 * A sum that must have the bits of every other implementation cannot be NCCL's own, whose order
 * follows its rings: the slots travel as they are on the wire, all-to-all into a staging buffer, in
 * pieces that fit it, and a kernel adds them in the order of the group.
 *
 *   from      [ 0 | own | 2 ]      staging   [ 0's own slot | 2's own slot ]     to [   | sum |   ]
 *               |         |                        ^              ^
 *               +---------+--- to ranks 0 and 2    +--------------+--- from ranks 0 and 2
 *
 * One NCCL communicator for each group of ranks, groups of the same ranks sharing theirs. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_H

#include "base/fault.h"
#include "base/region.h"
#include "targets/ports/cuda_device.h"
#include "transport/collectives/collective.h"
#include "transport/collectives/groups.h"

enum {
    NCCL_OPEN_S = 60,     /* for all ranks of a group to join; also for a call to be accepted */
    NCCL_ABORT_MS = 500,  /* for what is under way to end */
    NCCL_LEAVE_MS = 2000, /* for the others to take leave, too */
};

/* The slots of one place, to be added in the order of the group. */
struct nccl_sum {
    enum dtype wire;    /* of the slots: f32 or bf16 */
    int size, index;    /* of the group */
    const void *own;    /* this rank's */
    const void *others; /* the others', without the own one, `apart` bytes from each other */
    uint64_t apart;
    float *to; /* may be `own` where that is f32 */
    uint64_t elements;
    CUstream stream;
};

/* Enqueues the sum. */
typedef CUresult nccl_add(void *context, const struct nccl_sum *sum);

/* Destroys every graph that captured a call, though it may be under way: NCCL's communicators end
 * after the last of them. */
typedef void nccl_forget(void *context);

struct nccl_args {
    int rank, world;
    const struct collective_group *groups; /* copied, with their ranks */
    int group_count;                       /* the same on all ranks */
    groups_exchange *exchange;             /* used while opening */
    void *context;
    const struct cuda_device *device; /* the calling thread's */
    nccl_add *add;
    nccl_forget *forget; /* NULL: no graph outlives its last wait */
    void *program;       /* the context of both */
    bool ring;     /* sums of f32 are NCCL's own; of bf16 they never are: it rounds at every hop */
    void *staging; /* device memory; of nccl_staging_min bytes or more */
    uint64_t staging_bytes; /* 0: only calls that need none: no sums but the ring's, no barrier */
};

/* nccl_staging_min: a group of `size` ranks can sum with that much. */
uint64_t nccl_staging_min(int size);

/* nccl_open: join the ranks that call this together. Two exchanges.
 * memory  in `region`, which must outlive the communicator; *communicator must not move. NCCL takes
 *         device memory and threads of its own
 * limits  group_count <= COLLECTIVE_GROUPS_MAX, world <= RANKS_MAX; in a group each rank once
 * errors  STATUS_INPUT as nccl_library_find, or when the members of a group disagree on it;
 *         STATUS_FAILED what NCCL refuses, or when it takes longer than NCCL_OPEN_S; what
 *         `exchange` reports. When one rank fails, all do */
MUST_CHECK enum status nccl_open(const struct nccl_args *args, struct region *region,
                                 struct communicator *communicator, struct fault *fault);

/* communicator_close takes leave of the other ranks in an orderly way, which needs all of them:
 * within NCCL_LEAVE_MS, or it ends what there is without them. After a failure or
 * communicator_abort it takes no leave at all. */

/* nccl_register: this rank's memory of a space; the same bytes on all ranks, which is the caller's
 * to know. Device memory is made known to NCCL, so that peers and network adapters reach it without
 * copies; where NCCL refuses that, a line of the log says so, and calls go on by copies.
 * errors  STATUS_FAILED when NCCL failed over it */
MUST_CHECK enum status nccl_register(struct communicator *communicator, enum space space,
                                     void *address, uint64_t bytes, struct fault *fault);

/* nccl_enqueue: a call as the next work of `stream`, which may be capturing. All ranks of a group
 * enqueue, and launch what they captured, in the same order. Not counted: see
 * collective_count_bytes.
 * errors  kept: see nccl_failure */
void nccl_enqueue(struct communicator *communicator, const struct collective_call *call,
                  CUstream stream);

/* nccl_wait: until the stream's work is done, NCCL reports an error or communicator_abort is called
 * by any thread. In the latter two cases graphs are forgotten and everything under way is ended
 * first, within NCCL_ABORT_MS of the graph's own last kernel, and no call is accepted any more.
 * Never allocates.
 * result  what the stream's work came to; an error of the device is not this communicator's
 * errors  as nccl_failure */
MUST_CHECK enum status nccl_wait(struct communicator *communicator, CUstream stream,
                                 CUresult *result, struct fault *fault);

/* nccl_failure: what went wrong since it was opened; STATUS_LOST after communicator_abort. */
MUST_CHECK enum status nccl_failure(const struct communicator *communicator, struct fault *fault);

#endif
