/* tracker_status: the swarm status as one JSON document. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_STATUS_H
#define SKEP_SWARM_TRACKER_TRACKER_STATUS_H

#include "base/text.h"
#include "runtime/swarm/protocol/timing.h"

struct tracker_loop;

/* tracker_status_write: what `skep status` shows: format, name, manifest, since, incarnation,
 * round, stage, commits, root, head, entries, cursor, deadlines with their derivation, members, and
 * the processes that wait to be admitted.
 * limits  every status fits WIRE_STATUS_MAX bytes */
void tracker_status_write(const struct tracker_loop *loop, struct text *text);

#endif
