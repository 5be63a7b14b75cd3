/* line_share: how much of the own line each peer's connections may take, so that all peers are done
 * at about the same time. Left alone, TCP gives one connection twice what it gives another, and at
 * the end of an exchange the slow ones go on alone on a line that stands half idle.
 *
 *     peer 0   |=========|           bytes that it is still to get, and so its share of
 *     peer 1   |===============|     the line's rate: behind by more, faster by more
 *     peer 2   |============|
 *
 * The shares come to a bit more than the line is known to carry, so that it can turn out to carry
 * more. While much of it stands idle, as when a peer is too slow for its share, they grow. */
#ifndef SKEP_SWARM_MEMBER_LINE_SHARE_H
#define SKEP_SWARM_MEMBER_LINE_SHARE_H

#include <stdint.h>

enum {
    UPLINK_SHARE_MIN_PERCENT = 102,  /* percent of the line's rate that all shares come to */
    UPLINK_SHARE_MAX_PERCENT = 1600, /* .. when they have long not filled it */
    UPLINK_SHARE_FLOOR_DIVISOR = 4,  /* no peer has less than this part of an equal share */
};

struct uplink_share {
    uint32_t percent; /* of the line's rate that all shares come to */
    uint32_t used;    /* percent of it that went out of late */
};

/* uplink_share_begin: of an exchange: the line counts as used. */
void uplink_share_begin(struct uplink_share *share);

/* uplink_share_update: `recent`, bytes a second, is what went out since the last look, with more to
 * send. A quarter of the new and three of the old make what is used: below three fifths of the
 * line's rate shares grow by a quarter, and else they shrink by a fifth.
 * limits  uplink_share_begin was called; rate > 0 */
void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent);

/* What a peer and all peers together are still to get, and how many are to get anything. */
struct uplink_backlog {
    uint64_t own, all;
    uint32_t peers;
};

/* uplink_share_of: bytes a second of a line of `rate` for a peer.
 * limits  uplink_share_begin was called; 0 < rest.own <= rest.all; rest.peers > 0 */
uint64_t uplink_share_of(const struct uplink_share *share, uint64_t rate,
                         struct uplink_backlog rest);

#endif
