/* swarm_memory: the memory that a member needs for the swarm, as resident extents of its plan. */
#ifndef SKEP_SWARM_SETUP_SWARM_MEMORY_H
#define SKEP_SWARM_SETUP_SWARM_MEMORY_H

#include "runtime/schedule/schedule.h"
#include "runtime/swarm/member/member.h"
#include "runtime/swarm_setup/swarm_setup.h"
#include "targets/targets.h"

/* Limits of a member's connections, which determine the memory of ZeroMQ. */
enum {
    SWARM_BULK_CONNECTIONS = 2, /* number of bulk connections to each peer */
    SWARM_QUEUED_FRAMES = 4,    /* maximum number of frames queued per connection */
};

/* The resident extents for the swarm, in their order in the schedule. */
enum swarm_extent {
    SWARM_EXTENT_PARAMS,             /* parameters of the outer state */
    SWARM_EXTENT_MOMENTUM,           /* momentum of the outer state */
    SWARM_EXTENT_FEEDBACK,           /* error feedback of this member's contributions */
    SWARM_EXTENT_RESIDUAL,           /* errors of re-encoding the means of this member's slices */
    SWARM_EXTENT_RESIDUAL_SOURCES,   /* the table that assigns residuals to results */
    SWARM_EXTENT_LEAF_HASHES,        /* leaf hashes of the current and of the voted state */
    SWARM_EXTENT_CONTRIBUTION,       /* this member's encoded contribution */
    SWARM_EXTENT_DECLARED,           /* Merkle tree and norms of the contribution's slices */
    SWARM_EXTENT_RESULTS,            /* encoded results of recent rounds */
    SWARM_EXTENT_CONTRIBUTION_SLOTS, /* encoded contributions of other members */
    SWARM_EXTENT_OUTER_SCRATCH,      /* buffers of the outer step */
    SWARM_EXTENT_DEVICE_SLOTS,       /* buffers of a device that computes on the replica */
    SWARM_EXTENT_INNER_WEIGHTS, /* weights gathered from several ranks, for encoding on rank 0 */
    SWARM_EXTENT_RECORDED_CONTRIBUTION, /* own decoded contribution, if rounds are recorded */
    SWARM_EXTENT_NETWORK_TABLES,        /* tables and messages of the network thread */
    SWARM_EXTENT_COUNT                  /* number of extents */
};

/* swarm_device_computes_on_replica: whether the target's device computes on the replica. */
bool swarm_device_computes_on_replica(const struct target *target);

/* The properties of a member that determine the memory that the member needs. */
struct swarm_member_kind {
    bool is_site;        /* the member has several ranks */
    bool records_rounds; /* true if swarm.record is set */
};

/* swarm_memory_list_extents: fills in the extents that replica_memory_of lists, each in a space of
 * this target. An extent that is not needed has 0 bytes. The extents are in host memory. If the
 * device has separate memory, the extents that the device copies are in pinned memory, and its
 * working buffers are in device memory. */
void swarm_memory_list_extents(const struct swarm_terms *terms, const struct target *target,
                               struct swarm_member_kind kind,
                               struct resident_extent extents[static SWARM_EXTENT_COUNT]);

/* swarm_memory_declare_queues: returns a copy of the target that declares ZeroMQ's queues as used
 * host memory.
 * memory  the copy is in `region` */
const struct target *swarm_memory_declare_queues(const struct swarm_terms *terms,
                                                 const struct target *target,
                                                 struct region *region);

/* swarm_loop_options: returns member_loop_options with only the fields that determine the memory of
 * the loop: members_max, bulk_connections, queued_frames and replica. The caller sets the others,
 * which are zero.
 * replica  has the shape of `terms`; kept by reference */
struct member_loop_options swarm_loop_options(const struct swarm_terms *terms,
                                              struct replica *replica);

#endif
