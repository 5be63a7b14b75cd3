/* sample_share: a member's samples of a round, and which of them its inner weights have seen.
 *
 * Samples (sample_order.h) go in the order of the ranges:
 *
 *     given      |--------- range ---------|      |------ range ------|
 *     trained    |#######|                                                ► next
 *
 * After a round that was aborted the ranges come again, with new ones; what was trained counts. */
#ifndef SKEP_DATA_SAMPLE_SHARE_H
#define SKEP_DATA_SAMPLE_SHARE_H

#include "runtime/data/sample_order.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

enum { SHARE_TRAINED_MAX = 2 * SWARM_SEAT_RANGES_MAX };

/* Zero-initialised: nothing is given, nothing trained. */
struct sample_share {
    struct sample_range given[SWARM_SEAT_RANGES_MAX];
    uint32_t given_count;
    struct sample_range trained[SHARE_TRAINED_MAX]; /* ascending, apart */
    uint32_t trained_count;
    int64_t tokens; /* valid labels in `trained` */
};

/* Where a walk over a share is. Zero-initialised: before the first sample. */
struct share_place {
    uint32_t range;
    uint64_t sample; /* at or behind the range's beginning, or 0 for it */
};

/* share_take: what is given now.
 * returns false when something was trained that is not given any more: whoever trained it must
 *         forget it (share_forget), and the weights with it */
MUST_CHECK bool share_take(struct sample_share *share, const struct sample_range *ranges,
                           uint32_t count);

/* share_forget: nothing is trained; what is given stays. */
void share_forget(struct sample_share *share);

/* share_next: the window of the next sample that was not trained, behind *place, which moves on
 * behind it. False when there is none left. */
MUST_CHECK bool share_next(const struct sample_share *share, struct sample_order *order,
                           struct share_place *place, int64_t *window);

/* share_mark: all that is given between two places was trained, `tokens` labels of it. */
void share_mark(struct sample_share *share, const struct share_place *from,
                const struct share_place *to, int64_t tokens);

#endif
