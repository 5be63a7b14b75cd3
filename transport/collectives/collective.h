/* collective: contract A. A fixed set of ranks moves and sums ranges of their arenas.
 *
 * Arenas are symmetric: each space is registered once, with equal bytes on all ranks, and a call
 * names its buffers by offsets from the beginning of a space, equal on all ranks of the group.
 * Every rank makes the same calls on a group in the same order; groups are independent of each
 * other. One call at a time: it blocks the thread that makes it, the program's collective lane,
 * until this rank's output is complete and its input may be written again; nothing is allocated.
 * The members never change: a rank that is lost ends all calls (site.h says who was lost). */
#ifndef SKEP_TRANSPORT_COLLECTIVES_COLLECTIVE_H
#define SKEP_TRANSPORT_COLLECTIVES_COLLECTIVE_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/space.h"

#include <stdint.h>

enum collective_kind {
    COLLECTIVE_ALL_GATHER,     /* every slot of `to` from the rank that owns it */
    COLLECTIVE_REDUCE_SCATTER, /* own slot of `to`: the sum of all ranks' slot in `from` */
    COLLECTIVE_ALL_REDUCE,     /* every slot of `to`: the sum of all ranks' slots, f32 */
    COLLECTIVE_ALL_TO_ALL,     /* slot i of `to`: rank i's slot [own index] of `from` */
    COLLECTIVE_BROADCAST,      /* `to` of every rank: the root's */
    COLLECTIVE_BARRIER,        /* all ranks of the group are here */
    COLLECTIVE_KIND_COUNT
};

enum { COLLECTIVE_GROUPS_MAX = 8 };

/* A buffer has one slot for each rank of the group, in group order, `slot_bytes` apart. A slot may
 * be of any size: nothing of 0 bytes is moved, but the call is made by all as any other. */
struct collective_call {
    enum collective_kind kind;
    int group;        /* index into the communicator's groups */
    enum space space; /* of both buffers */
    enum dtype wire;  /* sums: element type of `from`, f32 or bf16; else bytes move as they are */
    uint64_t from;    /* offset of slot 0; all-gather, broadcast: not used (in place in `to`) */
    uint64_t to;      /* offset of slot 0; sums write f32, also when the wire is bf16 */
    uint64_t slot_bytes; /* of `from` for sums, all-to-all; of `to` otherwise (broadcast: all) */
    int root;            /* broadcast: index in the group */
};

/* Sums: elements are added in fp32 in the order of the group, ((x0 + x1) + x2) + ..., each rank's
 * value as it is on the wire, the own one too: the same bits wherever a slot is summed, and at
 * every instruction set. A slot of `to` has as many elements as one of `from`, so with bf16 on the
 * wire twice the bytes; offsets and slots are whole elements. A reduce-scatter writes nothing but
 * its own slot of `to`, which with f32 on the wire may be that of `from` (to == from), else lies
 * outside of `from`. An all-reduce has f32 on the wire and to == from; an all-to-all's buffers lie
 * apart.
 * Received bytes a rank, W ranks in the group, N bytes on the wire: all-gather, reduce-scatter,
 * all-to-all N (W - 1) / W; all-reduce 2 N (W - 1) / W; broadcast N but at the root; barrier 0. */

/* Ranks of the world, in the order in which they are summed and own slots. */
struct collective_group {
    const int *ranks;
    int size;
    int index; /* own place in it; -1: this rank is not in it, and makes no calls on it */
};

/* One implementation's functions; `self` is its own state. */
struct communicator_methods {
    const char *name; /* "shm", "in-process", "nccl" */
    void (*run)(void *self, const struct collective_call *call);
    void (*abort)(void *self);
    void (*close)(void *self);
};

/* Stays where it was opened: `self` points back at it. */
struct communicator {
    const struct communicator_methods *methods;
    void *self;
    int rank, world;
    struct collective_group groups[COLLECTIVE_GROUPS_MAX];
    int group_count;
    uint64_t space_bytes[SPACE_COUNT];              /* registered; 0: calls cannot name it */
    uint64_t received_bytes[COLLECTIVE_KIND_COUNT]; /* counted as they are moved */
    uint64_t calls[COLLECTIVE_KIND_COUNT];
};

/* collective_run: one call, to its end. A caller's mistake (a group this rank is not in, a buffer
 * beyond the registered space, buffers that overlap) is an assertion. After communicator_abort it
 * returns at once and the output is undefined. */
void collective_run(struct communicator *communicator, const struct collective_call *call);

/* collective_received: what this rank receives in a call, by the formulas above. */
uint64_t collective_received(const struct collective_group *group,
                             const struct collective_call *call);

/* collective_count_bytes: a call that was made by other means than collective_run, as a part of a
 * graph, counts like any. */
void collective_count_bytes(struct communicator *communicator, const struct collective_call *call);

/* communicator_abort: end all calls, those under way within 0.2 s (on GPUs when the kernel at work
 * has ended) and those to come, of this rank; the other ranks wait until they are aborted too. From
 * any thread. */
void communicator_abort(struct communicator *communicator);

/* communicator_close: give back what was taken. No call may be under way. */
void communicator_close(struct communicator *communicator);

const char *collective_name(enum collective_kind kind); /* "all-gather", "reduce-scatter", ... */

#endif
