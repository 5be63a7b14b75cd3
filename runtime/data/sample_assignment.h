/* sample_assignment: the samples that a member is assigned in a round, and those that it has
 * trained on. Training takes the samples (sample_order.h) in the order of the ranges:
 *
 *     assigned   |--------- range ---------|      |------ range ------|
 *     trained    |#######|                                                ► next
 *
 * After an aborted round the member is assigned the same ranges and new ones. Samples that it has
 * trained on count. */
#ifndef SKEP_DATA_SAMPLE_ASSIGNMENT_H
#define SKEP_DATA_SAMPLE_ASSIGNMENT_H

#include "runtime/data/sample_order.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

enum { ASSIGNMENT_TRAINED_MAX = 2 * SWARM_SEAT_RANGES_MAX };

/* All zeros: no sample is assigned or trained. */
struct sample_assignment {
    struct sample_range assigned[SWARM_SEAT_RANGES_MAX];
    uint32_t assigned_count;
    struct sample_range trained[ASSIGNMENT_TRAINED_MAX]; /* ascending, not adjacent */
    uint32_t trained_count;
    int64_t tokens; /* valid labels of the samples in `trained` */
};

/* A position in the assigned ranges. All zeros: before the first sample. */
struct assignment_position {
    uint32_t range;
    uint64_t sample; /* at or after the beginning of the range; 0: the beginning */
};

/* assignment_set: replace the assigned ranges.
 * returns false when a range that was trained is no longer assigned: the caller must then discard
 *         what was trained (assignment_clear_trained) and the weights that resulted */
MUST_CHECK bool assignment_set(struct sample_assignment *assignment,
                               const struct sample_range *ranges, uint32_t count);

/* assignment_clear_trained: mark all samples as not trained; the assigned ranges stay. */
void assignment_clear_trained(struct sample_assignment *assignment);

/* assignment_next: the window of the next sample at or after *position that is not trained;
 * advances *position past it. Returns false when no sample is left. */
MUST_CHECK bool assignment_next(const struct sample_assignment *assignment,
                                struct sample_order *order, struct assignment_position *position,
                                int64_t *window);

/* assignment_mark_trained: mark the assigned samples from `from` to before `to` as trained; they
 * have `tokens` valid labels. */
void assignment_mark_trained(struct sample_assignment *assignment,
                             const struct assignment_position *from,
                             const struct assignment_position *to, int64_t tokens);

#endif
