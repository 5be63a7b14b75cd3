/* swarm_memory: the resident extents that a member plans beside its program. */
#ifndef SKEP_SWARM_SETUP_SWARM_MEMORY_H
#define SKEP_SWARM_SETUP_SWARM_MEMORY_H

#include "runtime/schedule/schedule.h"
#include "runtime/swarm/member/member.h"
#include "runtime/swarm_setup/swarm_setup.h"
#include "targets/targets.h"

/* A member's connections to each other process; ZeroMQ's memory follows from them. */
enum { SWARM_BULK_CONNECTIONS = 2, SWARM_QUEUED_FRAMES = 4 };

/* The extents, in the order of the schedule's resident extents. */
enum swarm_extent {
    SWARM_EXTENT_PARAMS,
    SWARM_EXTENT_MOMENTUM,
    SWARM_EXTENT_FEEDBACK,
    SWARM_EXTENT_RESIDUAL,
    SWARM_EXTENT_MARKS,
    SWARM_EXTENT_NAMES,
    SWARM_EXTENT_CONTRIBUTION,
    SWARM_EXTENT_RESULTS,
    SWARM_EXTENT_SLOTS,
    SWARM_EXTENT_SCRATCH,
    SWARM_EXTENT_STRETCHES, /* of a device that computes on the replica */
    SWARM_EXTENT_INNER,     /* trained by several ranks, for rank 0 to encode */
    SWARM_EXTENT_RECORD,    /* a decoded contribution, if rounds are recorded */
    SWARM_EXTENT_TABLES,    /* of the network thread */
    SWARM_EXTENTS
};

/* swarm_memory_on_device: whether the target's device computes on the replica. */
bool swarm_memory_on_device(const struct target *target);

/* The properties of a member that its memory depends on. */
struct swarm_member_kind {
    bool is_site; /* of several ranks */
    bool records; /* swarm.record is set */
};

/* swarm_memory_extents: replica_memory_of as extents of this target; one that is not needed has 0
 * bytes. All are in host memory, except that with a device that has memory of its own the extents
 * it copies are pinned, and the parts it computes on are in device memory. */
void swarm_memory_extents(const struct swarm_terms *terms, const struct target *target,
                          struct swarm_member_kind kind,
                          struct resident_extent lines[static SWARM_EXTENTS]);

/* swarm_memory_declared: the target with ZeroMQ's queues as declared use of host memory.
 * memory  the copy in `region` */
const struct target *swarm_memory_declared(const struct swarm_terms *terms,
                                           const struct target *target, struct region *region);

/* swarm_loop_options: the member_loop_options that its memory depends on: members_max,
 * bulk_connections, queued_frames and replica. The others are zero, for the caller to fill in.
 * replica  of these terms; kept by reference */
struct member_loop_options swarm_loop_options(const struct swarm_terms *terms,
                                              struct replica *replica);

#endif
