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
    LINE_SHARE_LEAST = 102, /* percent of the line's rate that all shares come to */
    LINE_SHARE_MOST = 1600, /* .. when they have long not filled it */
    LINE_SHARE_FLOOR = 4,   /* no peer has less than this part of an equal share */
};

struct line_share {
    uint32_t percent; /* of the line's rate that all shares come to */
    uint32_t used;    /* percent of it that went out of late */
};

/* line_share_begin: of an exchange: the line counts as used. */
void line_share_begin(struct line_share *share);

/* line_share_look: `recent`, bytes a second, is what went out since the last look, with more to
 * send. A quarter of the new and three of the old make what is used: below three fifths of the
 * line's rate shares grow by a quarter, and else they shrink by a fifth.
 * limits  line_share_begin was called; rate > 0 */
void line_share_look(struct line_share *share, uint64_t rate, uint64_t recent);

/* What a peer and all peers together are still to get, and how many are to get anything. */
struct line_rest {
    uint64_t own, all;
    uint32_t peers;
};

/* line_share_of: bytes a second of a line of `rate` for a peer.
 * limits  line_share_begin was called; 0 < rest.own <= rest.all; rest.peers > 0 */
uint64_t line_share_of(const struct line_share *share, uint64_t rate, struct line_rest rest);

#endif
