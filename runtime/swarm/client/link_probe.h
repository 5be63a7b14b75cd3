/* link_probe: the way to a tracker, measured by who is not a member yet. */
#ifndef SKEP_SWARM_CLIENT_LINK_PROBE_H
#define SKEP_SWARM_CLIENT_LINK_PROBE_H

#include "transport/identity/join_string.h"

#include <stdbool.h>

enum { LINK_PROBE_PINGS = 7, LINK_PROBE_MS = 2000 };

/* link_probe: the median round-trip of LINK_PROBE_PINGS pings, one behind the other on a connection
 * of its own, with keys made for the occasion. Before seal.
 * errors  false when they have not all come back within LINK_PROBE_MS, whatever the reason;
 *         *round_trip_s is then untouched */
MUST_CHECK bool link_probe(const struct join_string *tracker, double *round_trip_s);

#endif
