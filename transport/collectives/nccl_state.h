/* nccl_state: the state of an nccl communicator. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H
#define SKEP_TRANSPORT_COLLECTIVES_NCCL_STATE_H

#include "transport/collectives/nccl.h"
#include "transport/collectives/nccl_library.h"

#include <stdatomic.h>
#include <stdbool.h>

/* An NCCL communicator, which all groups with the same ranks share. */
struct nccl_shared_comm {
    struct ncclComm *comm; /* NULL: aborted, or not opened yet */
    void *registered;      /* handle of the registered device space; NULL: none */
};

struct nccl {
    struct communicator *communicator;
    struct nccl_library library;
    struct nccl_args args;    /* as passed to nccl_open */
    struct group_setup setup; /* how the ranks exchange data in nccl_open */
    struct nccl_shared_comm comms[COLLECTIVE_GROUPS_MAX]; /* [comm_count] */
    int comm_count;
    /* [group] index in `comms`; -1: the group has one rank, or lacks this rank */
    int comm_index[COLLECTIVE_GROUPS_MAX];
    char *space_addresses[SPACE_COUNT]; /* address of this rank's memory of each space */
    CUstream stream;                    /* stream for calls of collective_run */
    int64_t operation_timeout_ms;       /* timeout of asynchronous NCCL operations */
    bool has_failed;                    /* `failure` contains the first error */
    struct fault failure;               /* the first error, if has_failed */
    _Atomic bool is_aborted;            /* communicator_abort was called */
    _Atomic bool is_waiting;            /* a thread is in nccl_wait and will abort running calls */
};

/* nccl_run: make one call and wait for its end; `self` is a struct nccl. */
void nccl_run(void *self, const struct collective_call *call);

/* nccl_await_operation: wait until an asynchronous operation of NCCL has completed.
 * errors  STATUS_FAILED, STATUS_LOST; stored as the failure of the communicator */
MUST_CHECK enum status nccl_await_operation(struct nccl *nccl, struct ncclComm *comm,
                                            const char *action);

/* nccl_check: check the result of an NCCL function, and wait if it is still in progress. */
MUST_CHECK enum status nccl_check(struct nccl *nccl, struct ncclComm *comm, unsigned result,
                                  const char *action);

/* nccl_request_abort: implement communicator_abort, from any thread. nccl_abort_calls: abort
 * running calls, from the thread that makes them. */
void nccl_request_abort(void *self);
void nccl_abort_calls(struct nccl *nccl);

/* nccl_pause: pause between two polls. The first POLLS_BEFORE_SLEEP polls do not sleep. */
void nccl_pause(unsigned polls);

#endif
