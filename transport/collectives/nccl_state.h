/* nccl_state: the state of an nccl communicator. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H

#include "transport/collectives/nccl.h"
#include "transport/collectives/nccl_library.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One of NCCL's communicators, used by all groups with the same ranks. */
struct nccl_ring {
    struct ncclComm *comm; /* NULL: aborted, or not opened yet */
    void *registered;      /* handle of the registered device space; NULL: none */
};

struct nccl {
    struct communicator *communicator;
    struct nccl_library library;
    struct nccl_args args;
    struct group_setup setup;
    struct nccl_ring rings[COLLECTIVE_GROUPS_MAX];
    int ring_count;
    int ring_of
        [COLLECTIVE_GROUPS_MAX]; /* by group; -1: a group of one rank, or without this rank */
    char *spaces[SPACE_COUNT];
    CUstream stream;   /* of calls by collective_run */
    int64_t settle_ms; /* timeout of asynchronous operations of NCCL */
    bool failed;
    struct fault cause;
    _Atomic bool ended;   /* communicator_abort was called */
    _Atomic bool waiting; /* a thread is in nccl_wait and will abort running calls */
};

/* nccl_run: make one call and wait for its end; `self` is a struct nccl. */
void nccl_run(void *self, const struct collective_call *call);

/* nccl_settle: wait until an asynchronous operation of NCCL has completed.
 * errors  STATUS_FAILED, STATUS_LOST; stored as the failure of the communicator */
MUST_CHECK enum status nccl_settle(struct nccl *nccl, struct ncclComm *comm, const char *action);

/* nccl_check: check the result of an NCCL function, and wait if it is still in progress. */
MUST_CHECK enum status nccl_check(struct nccl *nccl, struct ncclComm *comm, unsigned result,
                                  const char *action);

/* nccl_end: communicator_abort, from any thread. nccl_abandon: abort running calls, from the thread
 * that makes them. */
void nccl_end(void *self);
void nccl_abandon(struct nccl *nccl);

/* nccl_pause: sleep between two polls, after the first polls. */
void nccl_pause(unsigned polls);

#endif
