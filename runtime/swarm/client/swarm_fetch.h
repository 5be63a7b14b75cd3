/* manifest_fetch: a swarm's manifest from its tracker, for who has nothing but the join string. */
#ifndef SKEP_SWARM_CLIENT_SWARM_FETCH_H
#define SKEP_SWARM_CLIENT_SWARM_FETCH_H

#include "runtime/swarm/ledger/manifest.h"

enum { SWARM_FETCH_MS = 10000 }; /* a tracker that runs answers in a few round-trips */

/* manifest_fetch: ask once, as a stranger. Before seal.
 * memory  *manifest and *place, the tracker's address, in `region`
 * errors  those of join_string_read, tracker_query and manifest_read; outputs are then untouched */
MUST_CHECK enum status manifest_fetch(const char *join_string, struct region *region,
                                      struct manifest *manifest, const char **place,
                                      struct fault *fault);

#endif
