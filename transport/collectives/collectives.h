/* collectives: the interface by which a fixed set of ranks moves and sums parts of their arenas.
 * The room owns the communicators and their two implementations: shm, between processes of one
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
    COLLECTIVE_ALL_GATHER,     /* every slot of `to`: from the rank that owns it */
    COLLECTIVE_REDUCE_SCATTER, /* own slot of `to`: the sum of that slot of `from` of all ranks */
    COLLECTIVE_ALL_REDUCE,     /* every slot of `to`: the sum over all ranks, f32 */
    COLLECTIVE_ALL_TO_ALL,     /* slot i of `to`: rank i's slot [own index] of `from` */
    COLLECTIVE_BROADCAST,      /* `to` of every rank: a copy of the root's */
    COLLECTIVE_BARRIER,        /* wait until all ranks of the group make this call */
    COLLECTIVE_KIND_COUNT
};

enum { COLLECTIVE_GROUPS_MAX = 8 };

/* A buffer has one slot of `slot_bytes` for each rank of the group, in group order. With 0 bytes
 * nothing is moved, but all ranks still have to make the call. */
struct collective_call {
    enum collective_kind kind;
    int group;        /* index into the communicator's groups */
    enum space space; /* of both buffers */
    enum dtype wire;  /* sums: element type of `from`, f32 or bf16; unused otherwise */
    uint64_t from;    /* offset of slot 0; unused by all-gather and broadcast, which work in `to` */
    uint64_t to;      /* offset of slot 0; sums always write f32 */
    uint64_t slot_bytes; /* in `from` for sums and all-to-all, else in `to`; broadcast: all bytes */
    int root;            /* broadcast: index in the group */
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

/* Some ranks of the world. Their order is the order of summation and of slots. */
struct collective_group {
    const int *ranks;
    int size;
    int index; /* of this rank; -1: it is not in the group and makes no calls on it */
};

/* The functions of an implementation; `self` is its state. */
struct communicator_methods {
    const char *name; /* "shm", "in-process", "nccl" */
    void (*run)(void *self, const struct collective_call *call);
    void (*abort)(void *self);
    void (*close)(void *self);
};

/* Must not move after it was opened, because `self` points to it. */
struct communicator {
    const struct communicator_methods *methods;
    void *self;
    int rank, world;
    struct collective_group groups[COLLECTIVE_GROUPS_MAX];
    int group_count;
    uint64_t space_bytes[SPACE_COUNT];              /* registered; 0: not usable in calls */
    uint64_t received_bytes[COLLECTIVE_KIND_COUNT]; /* so far */
    uint64_t calls[COLLECTIVE_KIND_COUNT];
};

/* collective_run: make one call and wait for its end. After communicator_abort it returns at once
 * and the output is undefined.
 * limits  this rank is in the group; buffers are inside the registered space and overlap only as
 *         stated above (asserted) */
void collective_run(struct communicator *communicator, const struct collective_call *call);

/* collective_received: bytes that this rank receives in a call, by the formulas above. */
uint64_t collective_received(const struct collective_group *group,
                             const struct collective_call *call);

/* collective_count_bytes: count a call that was not made by collective_run but as a part of a CUDA
 * graph. */
void collective_count_bytes(struct communicator *communicator, const struct collective_call *call);

/* communicator_abort: end all calls of this rank, now and later. A running call ends within 0.2 s,
 * on GPUs when the current kernel has ended. The other ranks wait until they are aborted too. May
 * be called from any thread. */
void communicator_abort(struct communicator *communicator);

/* communicator_close: release all resources. No call may be running. */
void communicator_close(struct communicator *communicator);

#endif
