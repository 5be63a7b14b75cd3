/* nccl_state: the state of the nccl communicator. Only transport/nccl*.c include it. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H

#include "transport/collectives/nccl.h"
#include "transport/collectives/nccl_library.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One of NCCL's communicators: that of some group, and of all others with the same ranks. */
struct nccl_ring {
    struct ncclComm *comm; /* NULL: aborted, or not there yet */
    void *registered;      /* handle of the device space; NULL: none */
};

struct nccl {
    struct communicator *communicator;
    struct nccl_library library;
    const struct cuda_device *device;
    struct group_setup meeting;
    nccl_add *add;
    nccl_forget *forget;
    void *program;
    bool in_rings;
    char *staging;
    uint64_t staging_bytes;
    struct nccl_ring rings[COLLECTIVE_GROUPS_MAX];
    int ring_count;
    int ring_of[COLLECTIVE_GROUPS_MAX]; /* by group; -1: alone in it, or not in it */
    char *spaces[SPACE_COUNT];
    CUstream stream;   /* of calls that are waited for one by one */
    int64_t settle_ms; /* how long what is in progress may take */
    bool failed;
    struct fault trouble;
    _Atomic bool ended;   /* by communicator_abort */
    _Atomic bool waiting; /* a thread is in a wait, and would end what is under way */
};

/* nccl_run: one call, to its end; `self` is a struct nccl (struct communicator_methods). */
void nccl_run(void *self, const struct collective_call *call);

/* nccl_settle: until NCCL has done what it said to be in progress.
 * errors  STATUS_FAILED, STATUS_LOST; kept as the communicator's failure */
MUST_CHECK enum status nccl_settle(struct nccl *nccl, struct ncclComm *comm, const char *action);

/* nccl_check: a call's result; what is in progress is settled. */
MUST_CHECK enum status nccl_check(struct nccl *nccl, struct ncclComm *comm, unsigned result,
                                  const char *action);

/* nccl_end: communicator_abort, from any thread; nccl_abandon: end what is under way, by the thread
 * that makes the calls. */
void nccl_end(void *self);
void nccl_abandon(struct nccl *nccl);

/* nccl_pause: between two looks. */
void nccl_pause(unsigned looks);

#endif
