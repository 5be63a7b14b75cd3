/* nccl: collectives between GPUs, by NCCL. Calls are enqueued on a stream or captured in a CUDA
 * graph. Waits poll, so that they end when a rank is lost.
 *
 * NCCL adds in the order of its rings, which would give different bits than other implementations.
 * Exact sums therefore send the slots all-to-all into a staging buffer, in pieces that fit it, and
 * a kernel adds them in group order.
 *
 *   from      [ 0 | own | 2 ]      staging   [ 0's own slot | 2's own slot ]     to [   | sum |   ]
 *               |         |                        ^              ^
 *               +---------+--- to ranks 0 and 2    +--------------+--- from ranks 0 and 2
 *
 * Groups of the same ranks share one NCCL communicator. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_H

#include "base/fault.h"
#include "base/region.h"
#include "targets/ports/cuda_device.h"
#include "transport/collectives/collectives.h"
#include "transport/collectives/groups.h"

enum {
    NCCL_OPEN_S = 60,     /* timeout of connecting the ranks of a group, and of enqueueing a call */
    NCCL_ABORT_MS = 500,  /* time for aborted calls to end */
    NCCL_LEAVE_MS = 2000, /* timeout for all ranks to close in order */
};

/* The slots of all ranks for one sum, to be added in group order. */
struct nccl_sum {
    enum dtype wire;       /* element type of the slots: f32 or bf16 */
    int size, index;       /* ranks in the group, and index of this rank */
    const void *own;       /* slot of this rank */
    const void *others;    /* slots of the other ranks, at intervals of `stride_bytes` */
    uint64_t stride_bytes; /* distance in bytes between the slots in `others` */
    float *to;             /* output: the sum; may be `own` if the slots are f32 */
    uint64_t elements;     /* number of elements of each slot */
    CUstream stream;       /* stream on which the sum is enqueued */
};

/* Enqueue the kernel that adds the slots of *sum. */
typedef CUresult nccl_add(void *context, const struct nccl_sum *sum);

/* Destroy every graph that captured a call, even if it is running. NCCL can destroy its
 * communicators only after that. */
typedef void nccl_release_graphs(void *context);

struct nccl_args {
    int rank, world;                       /* rank of this process, and number of ranks */
    const struct collective_group *groups; /* copied by nccl_open, with their ranks */
    int group_count;                       /* number of groups, equal on all ranks */
    groups_exchange *exchange;             /* exchanges data of the ranks in nccl_open */
    void *context;                         /* context of `exchange` */
    const struct cuda_device *device;      /* device of the calling thread */
    nccl_add *add;                         /* adds the slots of a sum */
    nccl_release_graphs *release_graphs;   /* destroys captured graphs; NULL: there are none */
    void *callback_context;                /* context of `add` and `release_graphs` */
    /* Let NCCL sum f32 in the order of its rings. Never used for bf16, which NCCL rounds at
     * every hop. */
    bool sum_in_rings;
    void *staging;          /* device memory of at least nccl_staging_bytes_min bytes */
    uint64_t staging_bytes; /* size of `staging`; 0: exact sums and barriers cannot be used */
};

/* nccl_staging_bytes_min: minimum staging size for a group of `size` ranks. */
uint64_t nccl_staging_bytes_min(int size);

/* nccl_open: open a communicator together with all ranks. Two exchanges.
 * memory  in `region`, which must outlive the communicator; *communicator must not move. NCCL
 *         uses its own device memory and threads
 * limits  group_count <= COLLECTIVE_GROUPS_MAX, world <= RANKS_MAX; in a group each rank once
 * errors  STATUS_INPUT as nccl_library_find, or two ranks passed different groups; STATUS_FAILED:
 *         NCCL failed or took longer than NCCL_OPEN_S; errors of `exchange`. If one rank fails, all
 *         do */
MUST_CHECK enum status nccl_open(const struct nccl_args *args, struct region *region,
                                 struct communicator *communicator, struct fault *fault);

/* communicator_close waits up to NCCL_LEAVE_MS for all ranks to close too, and then aborts. After a
 * failure or communicator_abort it does not wait. */

/* nccl_register: register this rank's memory of a space. Device memory is registered with NCCL, so
 * that peers and network adapters access it without copies. If NCCL rejects that, this is logged
 * and calls copy the data.
 * limits  `bytes` is equal on all ranks (not checked)
 * errors  STATUS_FAILED: NCCL failed */
MUST_CHECK enum status nccl_register(struct communicator *communicator, enum space space,
                                     void *address, uint64_t bytes, struct fault *fault);

/* nccl_enqueue: enqueue a call on `stream`, which may be capturing. All ranks of a group enqueue
 * calls, and launch captured graphs, in the same order. The call is not counted; see
 * collective_count_call.
 * errors  stored, and returned by nccl_failure */
void nccl_enqueue(struct communicator *communicator, const struct collective_call *call,
                  CUstream stream);

/* nccl_wait: wait until the stream is idle, NCCL reports an error, or any thread calls
 * communicator_abort. In the last two cases graphs are destroyed and running calls are aborted,
 * within NCCL_ABORT_MS of the last kernel of a graph, and no further call is accepted. Never
 * allocates.
 * result  the state of the stream; a device error is not an error of this communicator
 * errors  as nccl_failure */
MUST_CHECK enum status nccl_wait(struct communicator *communicator, CUstream stream,
                                 CUresult *result, struct fault *fault);

/* nccl_failure: the first error since the communicator was opened; STATUS_LOST after
 * communicator_abort. */
MUST_CHECK enum status nccl_failure(const struct communicator *communicator, struct fault *fault);

#endif
