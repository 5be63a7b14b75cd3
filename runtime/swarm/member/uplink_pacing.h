/* uplink_pacing: limit the rate of each peer's bulk connections during an exchange, so that all
 * peers have received their slices at about the same time (uplink_share.h). */
#ifndef SKEP_SWARM_MEMBER_UPLINK_PACING_H
#define SKEP_SWARM_MEMBER_UPLINK_PACING_H

#include "runtime/swarm/member/outbox.h"
#include "runtime/swarm/member/peers.h"
#include "runtime/swarm/member/uplink_measure.h"
#include "runtime/swarm/member/uplink_share.h"

struct uplink_pacing {
    struct uplink_share share;
    bool is_paced;
    int64_t updated_ns;
    int64_t used_ns; /* begin of the measured window after the last one that `share` used */
};

/* Queued bytes, and the peers that they are for. */
struct uplink_traffic {
    struct messenger *messenger;
    const struct peers *peers;
    const struct outbox *contributions;
    const struct outbox *results; /* NULL while they are deferred */
    uint64_t slice_bytes;         /* of the longest slice */
};

/* uplink_pacing_begin: an exchange begins. */
void uplink_pacing_begin(struct uplink_pacing *pacing);

/* uplink_pacing_update: set new rates if it is time for it. Outside of exchanges, and in those that
 * are not paced, the rates are unlimited. */
void uplink_pacing_update(struct uplink_pacing *pacing, const struct uplink_traffic *traffic,
                          const struct uplink_measures *measures, int64_t now_ns);

#endif
