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

enum { ASSIGNMENT_TRAINED_MAX = 2 * SWARM_SEAT_RANGES_MAX };

/* Zero-initialised: nothing is given, nothing trained. */
struct sample_assignment {
    struct sample_range given[SWARM_SEAT_RANGES_MAX];
    uint32_t given_count;
    struct sample_range trained[ASSIGNMENT_TRAINED_MAX]; /* ascending, apart */
    uint32_t trained_count;
    int64_t tokens; /* valid labels in `trained` */
};

/* Where a walk over a share is. Zero-initialised: before the first sample. */
struct assignment_position {
    uint32_t range;
    uint64_t sample; /* at or behind the range's beginning, or 0 for it */
};

/* assignment_set: replace the assigned ranges.
 * returns false when a range that was trained is no longer assigned: the caller must then discard
 *         what was trained (assignment_clear_trained) and the weights that resulted */
MUST_CHECK bool assignment_set(struct sample_assignment *share, const struct sample_range *ranges,
                               uint32_t count);

/* assignment_clear_trained: nothing is trained; what is given stays. */
void assignment_clear_trained(struct sample_assignment *share);

/* assignment_next: the window of the next sample that was not trained, behind *place, which moves
 * on behind it. False when there is none left. */
MUST_CHECK bool assignment_next(const struct sample_assignment *share, struct sample_order *order,
                                struct assignment_position *place, int64_t *window);

/* assignment_mark_trained: all that is given between two places was trained, `tokens` labels of
 * it. */
void assignment_mark_trained(struct sample_assignment *share,
                             const struct assignment_position *from,
                             const struct assignment_position *to, int64_t tokens);

#endif
