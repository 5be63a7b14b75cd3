/* tracker_status: the tracker's state as one JSON document, and the reasons of its deadlines. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_STATUS_H
#define SKEP_SWARM_TRACKER_TRACKER_STATUS_H

#include "base/text.h"
#include "runtime/swarm/protocol/timing.h"

struct tracker_loop;

/* tracker_status_write: what `skep status` shows: format, name, manifest, since, incarnation,
 * round, stage, commits, root, head, entries, cursor, deadlines, members, who waits to be let in.
 * limits  WIRE_STATUS_MAX bytes hold any */
void tracker_status_write(const struct tracker_loop *loop, struct text *text);

#endif
