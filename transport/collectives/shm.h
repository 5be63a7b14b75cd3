/* shm: contract A among processes of one machine, over memory that they map from each other.
 *
 *   rank 0's arena   [ slot 0 | slot 1 | slot 2 ] <--reads--+
 *   rank 1's arena   [ slot 0 | slot 1 | slot 2 ] <--reads--+-- rank 2, and writes only its own
 *   rank 2's arena   [ slot 0 | slot 1 | slot 2 ] <--writes-+
 *   rank 0's board   how far each rank is in each group: one cache line a rank, with a futex
 *
 * A call: post "ready", await each peer before its slots are read, post "done", await all. No name
 * exists anywhere: what processes share vanishes with the last of them, however they end. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_H

#include "base/fault.h"
#include "base/region.h"
#include "transport/collectives/collective.h"
#include "transport/collectives/groups.h"

struct shm_args {
    int rank, world;
    const struct collective_group *groups; /* copied, with their ranks */
    int group_count;                       /* the same on all ranks */
    groups_exchange *exchange;             /* used while opening and registering */
    void *context;
};

/* shm_open_communicator: join the ranks that call this together. Two exchanges.
 * memory  in `region`, which must outlive the communicator; *communicator must not move
 * limits  group_count <= COLLECTIVE_GROUPS_MAX, world <= RANKS_MAX; in a group each rank once
 * errors  STATUS_INPUT when the members of a group disagree on it, naming both ranks; STATUS_FAILED
 *         when rank 0's memory cannot be made or mapped; what `exchange` reports. When one rank
 *         fails, all do */
MUST_CHECK enum status shm_open_communicator(const struct shm_args *args, struct region *region,
                                             struct communicator *communicator,
                                             struct fault *fault);

/* shm_open_site: the same for all ranks of a site, by its exchanges. */
MUST_CHECK enum status shm_open_site(struct site *site, const struct collective_group *groups,
                                     int group_count, struct region *region,
                                     struct communicator *communicator, struct fault *fault);

/* shm_register: give a space's memory to the others and map theirs, to be read. Two exchanges; all
 * ranks register the same spaces in the same order. Later calls may name it.
 * fd       memory without a name, sealed against being made shorter (port_reserve_shared); the
 *          caller may close it afterwards
 * address  this rank's own mapping of it, page aligned; outlives the communicator
 * bytes    equal on all ranks, above 0; a space is registered once
 * memory   one mapping of address space for each peer, no pages of its own
 * errors   STATUS_INPUT when ranks disagree on `bytes`, naming both; STATUS_FAILED when memory
 *          cannot be mapped or is not what was said; what `exchange` reports. When one rank fails,
 *          all do, and nothing is registered */
MUST_CHECK enum status shm_register(struct communicator *communicator, enum space space, int fd,
                                    void *address, uint64_t bytes, struct fault *fault);

#endif
