/* nccl: NCCL, emulated: the same table of functions, between processes that have an emulated device
 * each. What is enqueued is work of the emulated driver's streams, which capture captures and
 * graphs replay; it runs when all ranks of the group have come as far.
 *
 * As odd as allowed: calls say that they are in progress and enqueue later, when they are asked
 * after; joining takes a number of questions; sums of its own go round the ranks from a place that
 * is not the first. Stricter than NCCL: a call while another is in progress, other calls or sizes
 * on other ranks, communicators that are aborted one by one, or one that is destroyed or aborted
 * before the graphs that captured its calls end the process with a message. Ranks with one device
 * are refused unless each has an NCCL_HOSTID of its own, as by NCCL. A group is left when all of
 * its ranks have said so. Bytes travel by memory without a name, so a rank that is killed leaves
 * nothing behind. */
#ifndef SKEP_TESTS_EMULATED_NCCL_H
#define SKEP_TESTS_EMULATED_NCCL_H

#include "transport/collectives/nccl_library.h"

#include <stdbool.h>
#include <stdint.h>

/* What it takes of the device, as late as NCCL may: code with the first group that a process joins,
 * the rest with each group's first calls. */
enum {
    EMULATED_NCCL_CODE_BYTES = 3 << 20,
    EMULATED_NCCL_GROUP_BYTES = 1 << 20, /* of a group */
    EMULATED_NCCL_RING_BYTES = 1 << 20,  /* with its first collective */
    EMULATED_NCCL_PEER_BYTES = 2 << 20,  /* for each other rank, with its first send or receive */
};

/* What goes wrong, for one process. */
struct emulated_nccl_plan {
    uint64_t seed;
    int error_at;        /* this transfer (1: the first) fails, as if a link broke; 0: none */
    int slow_init;       /* questions more until a group has joined */
    bool refuse_joining; /* of groups, by an error in the middle of it */
    bool refuse_memory;  /* to be registered */
    bool finalize_waits; /* in the call itself, for ever if a rank does not take leave */
};

/* emulated_nccl_open: fill the table. */
void emulated_nccl_open(const struct emulated_nccl_plan *plan, struct nccl_library *library);

/* emulated_nccl_live: communicators and registrations that are held at present. */
int emulated_nccl_live(void);

#endif
