/* sample_assignment: the samples that are assigned to a member in a round, and the samples that it
 * has trained on. Training takes the samples (sample_order.h) in the order of the ranges:
 *
 *     assigned   |--------- range ---------|      |------ range ------|
 *     trained    |#######|                                                ► next
 *
 * After an aborted round the member keeps its ranges and may receive further ones. Samples that the
 * member has already trained on are not repeated. */
#ifndef SKEP_DATA_SAMPLE_ASSIGNMENT_H
#define SKEP_DATA_SAMPLE_ASSIGNMENT_H

#include "runtime/data/sample_order.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>

enum { ASSIGNMENT_TRAINED_MAX = 2 * SWARM_SEAT_RANGES_MAX }; /* ranges in `trained` */

/* The assigned and the trained samples of a member. A struct of zeros has none of either. */
struct sample_assignment {
    struct sample_range assigned[SWARM_SEAT_RANGES_MAX]; /* ranges of samples to train on */
    uint32_t assigned_count;                             /* number of ranges in `assigned` */
    struct sample_range trained[ASSIGNMENT_TRAINED_MAX]; /* ascending, not adjacent */
    uint32_t trained_count;                              /* number of ranges in `trained` */
    int64_t tokens; /* Number of valid labels of the samples in `trained`. */
};

/* A position in the assigned ranges. A struct of zeros is before the first sample. */
struct assignment_position {
    uint32_t range;  /* Index of an assigned range. */
    uint64_t sample; /* Sample in the range, or 0 for the first sample of the range. */
};

/* assignment_set_ranges: replace the assigned ranges.
 * returns false when a trained range is no longer assigned: the caller must then call
 * assignment_clear_trained and discard the trained weights */
MUST_CHECK bool assignment_set_ranges(struct sample_assignment *assignment,
                                      const struct sample_range *ranges, uint32_t count);

/* assignment_clear_trained: mark all samples as not trained; the assigned ranges remain. */
void assignment_clear_trained(struct sample_assignment *assignment);

/* assignment_next_window: find the next untrained sample at or after *position, set *window to that
 * sample's window, and advance *position past the sample. Returns false when no sample is left. */
MUST_CHECK bool assignment_next_window(const struct sample_assignment *assignment,
                                       struct sample_order *order,
                                       struct assignment_position *position, int64_t *window);

/* assignment_trained_samples: the number of trained samples. They are the first samples of the
 * assigned ranges, in the order of the ranges. */
uint64_t assignment_trained_samples(const struct sample_assignment *assignment);

/* assignment_mark_trained: mark the assigned samples [from, to) as trained; they have `tokens`
 * valid labels. */
void assignment_mark_trained(struct sample_assignment *assignment,
                             const struct assignment_position *from,
                             const struct assignment_position *to, int64_t tokens);

#endif
