/* collectives: the interface by which a fixed set of ranks moves and sums parts of their arenas.
 * The module owns the communicators and their two implementations: shm, between processes of one
 * machine, and nccl, between GPUs. The collective lane of a program makes the calls; `skep comm`
 * and the probes measure them.
 *
 * public   groups.h nccl.h nccl_library.h shm.h
 *
 * Arenas are symmetric: each space is registered once, with equal bytes on all ranks, and a call
 * names its buffers by offsets in a space that are equal on all ranks of the group. Every rank
 * makes the same calls on a group in the same order; groups are independent of each other. A call
 * blocks its thread until the output of this rank is complete and its input may be overwritten.
 * Only one call runs at a time, and calls do not allocate. The ranks of a communicator never
 * change: the loss of a rank ends all calls, and the site reports which rank it was. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_COLLECTIVES_H
#define SKEP_TRANSPORT_COLLECTIVES_COLLECTIVES_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/space.h"

#include <stdint.h>

enum collective_kind {
    COLLECTIVE_ALL_GATHER,     /* each rank's slot of `to` is copied to all other ranks */
    COLLECTIVE_REDUCE_SCATTER, /* each rank gets the sum of its slot of `from` over all ranks */
    COLLECTIVE_ALL_REDUCE,     /* sums every slot over all ranks, in f32 */
    /* each rank sends a slot to every rank; slot i of `to` comes from rank i */
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_BROADCAST, /* copies the root's `to` to all ranks */
    COLLECTIVE_BARRIER,   /* waits until all ranks of the group make this call */
    COLLECTIVE_KIND_COUNT
};

enum { COLLECTIVE_GROUPS_MAX = 8 }; /* maximum number of groups of a communicator */

/* One call of a collective. A buffer has one slot of `slot_bytes` for each rank of the group, in
 * group order. If slot_bytes is 0, no data is moved, but all ranks still have to make the call. */
struct collective_call {
    enum collective_kind kind;
    int group;        /* index into the communicator's groups */
    enum space space; /* space of `from` and `to` */
    enum dtype wire;  /* element type of `from` in sums, f32 or bf16 */
    uint64_t from;    /* offset of source slot 0; unused by all-gather and broadcast */
    uint64_t to;      /* offset of destination slot 0; sums always write f32 */
    /* Slot size: in `from` for sums and all-to-all, else in `to`; for a broadcast, all of `to`. */
    uint64_t slot_bytes;
    int root; /* broadcast: index in the group of the rank that sends */
};

/* Sums add elements in fp32 in group order, ((x0 + x1) + x2) + ..., with the value of each rank,
 * including this one, as it is on the wire. The result has the same bits on every rank and with
 * every instruction set. A slot of `to` has as many elements as one of `from`, hence twice the
 * bytes if the wire is bf16. Offsets and slots are multiples of an element. A reduce-scatter writes
 * only its own slot of `to`. With f32 on the wire it may work in place (to == from); otherwise that
 * slot must not overlap `from`. An all-reduce requires f32 and to == from. The buffers of an
 * all-to-all must not overlap.
 * Bytes received per rank, with W ranks and N bytes on the wire: all-gather, reduce-scatter and
 * all-to-all N (W - 1) / W; all-reduce 2 N (W - 1) / W; broadcast N, and 0 at the root; barrier
 * 0. */

/* A group of ranks. Their order is the order of summation and of slots. */
struct collective_group {
    const int *ranks; /* [size]: ranks of the group in its order */
    int size;         /* number of ranks in the group */
    int index;        /* index of this rank; -1: not in the group */
};

/* The functions of an implementation; `self` is its state. */
struct communicator_methods {
    const char *name; /* name of the implementation: "shm", "in-process" or "nccl" */
    void (*run)(void *self, const struct collective_call *call);
    void (*abort)(void *self);
    void (*close)(void *self);
};

/* An open communicator must not move, because its `self` points to it. */
struct communicator {
    const struct communicator_methods *methods;
    void *self;
    int rank, world; /* rank of this process, and number of ranks */
    struct collective_group groups[COLLECTIVE_GROUPS_MAX]; /* [group_count] */
    int group_count;
    /* registered size of each space; 0: calls cannot use the space */
    uint64_t space_bytes[SPACE_COUNT];
    uint64_t received_bytes[COLLECTIVE_KIND_COUNT]; /* bytes since opening */
    uint64_t call_counts[COLLECTIVE_KIND_COUNT];    /* calls since opening */
};

/* collective_run: make one call and wait for its end. After communicator_abort it returns at once
 * and the output is undefined.
 * limits  this rank is in the group; buffers are inside the registered space and overlap only as
 *         the comment on struct collective_call permits (asserted) */
void collective_run(struct communicator *communicator, const struct collective_call *call);

/* collective_received_bytes: bytes that this rank receives in a call, computed from its
 * arguments. */
uint64_t collective_received_bytes(const struct collective_group *group,
                                   const struct collective_call *call);

/* collective_count_call: count a call that ran in a CUDA graph instead of collective_run. */
void collective_count_call(struct communicator *communicator, const struct collective_call *call);

/* communicator_abort: end all calls of this rank, now and later. A running call ends within 0.2 s,
 * on GPUs when the current kernel has ended. The other ranks wait until they are aborted too. May
 * be called from any thread. */
void communicator_abort(struct communicator *communicator);

/* communicator_close: release all resources. No call may be running. */
void communicator_close(struct communicator *communicator);

#endif
