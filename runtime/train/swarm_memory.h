/* swarm_memory: what a member keeps in its arenas beside the program, one line of the plan each. */
#ifndef SKEP_TRAIN_SWARM_MEMORY_H
#define SKEP_TRAIN_SWARM_MEMORY_H

#include "runtime/schedule/schedule.h"
#include "runtime/train/swarm_run.h"
#include "targets/target.h"

/* The lines, in the order in which the schedule's `kept` has their extents. */
enum swarm_line {
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
    SWARM_LINE_TABLES, /* of the thread that talks */
    SWARM_LINE_RECORD, /* a contribution decoded, where rounds are recorded */
    SWARM_LINES
};

/* Of a member's sockets: what ZeroMQ may hold follows from them. */
enum { SWARM_BULK_CONNECTIONS = 2, SWARM_QUEUED_FRAMES = 4 };

/* swarm_memory_lines: replica_memory_of as extents of this target, and the tables of the thread
 * that talks: a line that is not needed has 0 bytes. All of it is host memory.
 * records  swarm.record is set */
void swarm_memory_lines(const struct swarm_terms *terms, const struct target *target, bool records,
                        struct kept_extent lines[static SWARM_LINES]);

/* swarm_memory_declare: the target with a declared line for what ZeroMQ may hold.
 * memory  in `region` */
const struct target *swarm_memory_declare(const struct swarm_terms *terms,
                                          const struct target *target, struct region *region);

#endif
