/* shm: collectives between processes of one machine, which map the memory of each other.
 *
 *   rank 0's arena   [ slot 0 | slot 1 | slot 2 ] <--reads--+
 *   rank 1's arena   [ slot 0 | slot 1 | slot 2 ] <--reads--+-- rank 2, and writes only its own
 *   rank 2's arena   [ slot 0 | slot 1 | slot 2 ] <--writes-+
 *   rank 0's board   progress of each rank in each group: one cache line per rank, with a futex
 *
 * A call publishes "ready", waits for each peer before it reads its slots, publishes "done" and
 * waits for all. The shared memory has no name in the file system, so it is freed when the last
 * process ends, however that happens. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_H

#include "base/fault.h"
#include "base/region.h"
#include "transport/collectives/collectives.h"
#include "transport/collectives/groups.h"

struct shm_args {
    int rank, world;                       /* rank of this process, and number of ranks */
    const struct collective_group *groups; /* copied by shm_open_communicator, with their ranks */
    int group_count;                       /* number of groups, equal on all ranks */
    groups_exchange *exchange;             /* exchanges data while opening and registering */
    void *context;                         /* context of `exchange` */
};

/* shm_open_communicator: open a communicator together with all ranks. Two exchanges.
 * memory  in `region`, which must outlive the communicator; *communicator must not move
 * limits  group_count <= COLLECTIVE_GROUPS_MAX, world <= RANKS_MAX; in a group each rank once
 * errors  STATUS_INPUT: two ranks passed different groups; STATUS_FAILED: rank 0's memory cannot be
 *         created or mapped; errors of `exchange`. If one rank fails, all do */
MUST_CHECK enum status shm_open_communicator(const struct shm_args *args, struct region *region,
                                             struct communicator *communicator,
                                             struct fault *fault);

/* shm_open_site: shm_open_communicator for all ranks of a site. */
MUST_CHECK enum status shm_open_site(struct site *site, const struct collective_group *groups,
                                     int group_count, struct region *region,
                                     struct communicator *communicator, struct fault *fault);

/* shm_register: share the memory of a space with the other ranks, and map theirs for reading. Later
 * calls may use it. Two exchanges; all ranks register the same spaces in the same order.
 * fd       an anonymous memory file, sealed against shrinking (port_reserve_shared); the caller may
 *          close it afterwards
 * address  this rank's own mapping of it, page aligned; outlives the communicator
 * bytes    equal on all ranks, greater than 0; each space is registered once
 * memory   one mapping per peer, without pages of its own
 * errors   STATUS_INPUT: two ranks have different `bytes`; STATUS_FAILED: memory cannot be mapped
 *          or is not what its owner announced; errors of `exchange`. If one rank fails, all do, and
 *          nothing is registered */
MUST_CHECK enum status shm_register(struct communicator *communicator, enum space space, int fd,
                                    void *address, uint64_t bytes, struct fault *fault);

#endif
