/* uplink_share: how much of the uplink each peer's connections may use, so that all peers have
 * received everything at about the same time. Without it, TCP may give one connection twice the
 * rate of another, and at the end of an exchange the slow ones continue alone on a half idle
 * uplink.
 *
 *     peer 0   |=========|           bytes that the peer still has to receive: its share of the
 *     peer 1   |===============|     rate is in proportion, so the one that lags most is fastest
 *     peer 2   |============|
 *
 * Together the shares are slightly more than the rate that the uplink is known to carry, so that a
 * higher rate can show. While much of the uplink is idle, as when a peer is slower than its share,
 * they grow. */
#ifndef SKEP_SWARM_MEMBER_UPLINK_SHARE_H
#define SKEP_SWARM_MEMBER_UPLINK_SHARE_H

#include <stdint.h>

enum {
    UPLINK_SHARE_MIN_PERCENT = 102,  /* all shares together, in percent of the uplink's rate ... */
    UPLINK_SHARE_MAX_PERCENT = 1600, /* ... and when they have left much of it idle for long */
    UPLINK_SHARE_FLOOR_DIVISOR = 4,  /* every peer has at least this part of an equal share */
};

struct uplink_share {
    uint32_t percent; /* all shares together, in percent of the uplink's rate */
    uint32_t used;    /* percent of the rate that was used recently */
};

/* uplink_share_begin: an exchange begins; the uplink counts as fully used. */
void uplink_share_begin(struct uplink_share *share);

/* uplink_share_update: `recent` bytes a second were sent since the last call, while more was
 * queued. The use is averaged: three quarters old, one quarter new. Below three fifths of the rate
 * the shares grow by a quarter, else they shrink by a fifth.
 * limits  uplink_share_begin was called; rate > 0 */
void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent);

/* Bytes that one peer and all peers still have to receive, and how many peers those are. */
struct uplink_backlog {
    uint64_t own, all;
    uint32_t peers;
};

/* uplink_share_of: bytes a second for one peer, of an uplink that carries `rate`.
 * limits  uplink_share_begin was called; 0 < backlog.own <= backlog.all; backlog.peers > 0 */
uint64_t uplink_share_of(const struct uplink_share *share, uint64_t rate,
                         struct uplink_backlog backlog);

#endif
