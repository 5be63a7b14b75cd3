/* inproc: contract A among the threads of one process, written for plainness: every step is a
 * meeting of all members under one lock, every sum one element at a time. The measure by which
 * faster implementations are tested. */
#ifndef SKEP_TESTS_SUPPORT_INPROC_H
#define SKEP_TESTS_SUPPORT_INPROC_H

#include "base/limits.h"
#include "base/region.h"
#include "transport/collectives/collectives.h"

#include <pthread.h>

struct inproc;

/* Where the threads meet; it must outlive their communicators. */
struct inproc_hub {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int world;
    struct inproc *members[RANKS_MAX]; /* by rank; NULL until it has opened */
};

struct inproc_args {
    struct inproc_hub *hub;
    int rank;
    const struct collective_group *groups; /* they and their ranks outlive the communicator */
    int group_count;
};

/* inproc_hub_init, inproc_hub_finish: a place for `world` threads. */
void inproc_hub_init(struct inproc_hub *hub, int world);
void inproc_hub_finish(struct inproc_hub *hub);

/* inproc_open_communicator: take rank args->rank. Waits for nobody; a call waits for its members.
 * memory  in `region`, which must outlive the hub's last call; *communicator must not move */
void inproc_open_communicator(const struct inproc_args *args, struct region *region,
                              struct communicator *communicator);

/* inproc_register: this rank's memory of a space; the same bytes on all ranks. */
void inproc_register(struct communicator *communicator, enum space space, void *address,
                     uint64_t bytes);

#endif
