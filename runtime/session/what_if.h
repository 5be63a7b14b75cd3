/* what_if: plans the program that a session would have with different settings, to determine its
 * costs. */
#ifndef SKEP_SESSION_WHAT_IF_H
#define SKEP_SESSION_WHAT_IF_H

#include "runtime/schedule/estimate.h"
#include "runtime/session/session.h"

/* A copy of a session with the same model and target, whose settings the caller changes. */
struct what_if {
    struct session session;
    enum purpose purpose; /* what the planned program is for */
};

struct what_if_outcome {
    bool fits; /* the plan fits in the memory of the target; disk is not checked */
    uint64_t peak_bytes[SPACE_COUNT]; /* peak of each arena in bytes */
    struct segment_estimate step;     /* time estimate of one step of a program that trains */
    /* bytes that one rank receives in one step of training: all, and those of tallies */
    uint64_t received_bytes, tally_bytes;
};

/* what_if_outcome_of: returns the outcome of a compiled session. */
struct what_if_outcome what_if_outcome_of(const struct session *session);

/* what_if_init: copies the session's settings, including the layer_recompute array.
 * memory  in a separate region until what_if_finish */
void what_if_init(struct what_if *what_if, const struct session *session, enum purpose purpose);

/* what_if_plan: compiles the program with the present values of what_if->session.settings. May be
 * called repeatedly.
 * memory  allocates scratch memory and frees it
 * errors  STATUS_INPUT when the settings contradict each other (sharding_settings_read);
 *         STATUS_FAILED when a proof of the plan fails; *outcome is then unchanged */
MUST_CHECK enum status what_if_plan(struct what_if *what_if, struct what_if_outcome *outcome,
                                    struct fault *fault);

void what_if_finish(struct what_if *what_if);

#endif
