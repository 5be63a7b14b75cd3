/* swarm_memory: what a member keeps in its arenas beside the program, one line of the plan each. */
#ifndef SKEP_SWARM_SETUP_SWARM_MEMORY_H
#define SKEP_SWARM_SETUP_SWARM_MEMORY_H

#include "runtime/schedule/schedule.h"
#include "runtime/swarm/member/member.h"
#include "runtime/swarm_setup/swarm_run.h"
#include "targets/targets.h"

/* A member's sockets to each other process; ZeroMQ's memory follows from them. */
enum { SWARM_BULK_CONNECTIONS = 2, SWARM_QUEUED_FRAMES = 4 };

/* The lines, in the order in which the schedule's `kept` has their extents. */
enum swarm_extent {
    SWARM_LINE_PARAMS,
    SWARM_LINE_MOMENTUM,
    SWARM_LINE_FEEDBACK,
    SWARM_LINE_RESIDUAL,
    SWARM_LINE_MARKS,
    SWARM_LINE_NAMES,
    SWARM_LINE_CONTRIBUTION,
    SWARM_LINE_RESULTS,
    SWARM_LINE_SLOTS,
    SWARM_LINE_SCRATCH,
    SWARM_LINE_STRETCHES, /* of a device that does the replica's arithmetic */
    SWARM_LINE_INNER,     /* what the ranks of a site train, for rank 0 to encode */
    SWARM_LINE_RECORD,    /* a contribution decoded, where rounds are recorded */
    SWARM_LINE_TABLES,    /* of the thread that talks */
    SWARM_LINES
};

/* swarm_memory_on_device: whether the target's device does a replica's arithmetic. */
bool swarm_memory_on_device(const struct target *target);

/* What kind of member it is, as far as its memory follows from that. */
struct swarm_member_kind {
    bool is_site; /* of several ranks */
    bool records; /* swarm.record is set */
};

/* swarm_memory_extents: replica_memory_of as extents of this target: a line that is not needed has
 * 0 bytes. All of it is host memory; on a device that has memory of its own what its copies touch
 * is pinned, and the stretches that it works on are its own. */
void swarm_memory_extents(const struct swarm_terms *terms, const struct target *target,
                          struct swarm_member_kind kind,
                          struct resident_extent lines[static SWARM_LINES]);

/* swarm_memory_declared: the target with a line for what ZeroMQ may hold, in host memory.
 * memory  the copy in `region` */
const struct target *swarm_memory_declared(const struct swarm_terms *terms,
                                           const struct target *target, struct region *region);

/* swarm_loop_options: of member_loop's options those that its memory follows from: members_max,
 * bulk_connections, queued_frames, replica. The rest is zero, for the caller to fill in.
 * replica  kept; of these terms */
struct member_loop_options swarm_loop_options(const struct swarm_terms *terms,
                                              struct replica *replica);

#endif
