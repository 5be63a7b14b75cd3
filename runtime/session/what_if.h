/* what_if: the program that a session would have with other settings, planned only to read its
 * costs. */
#ifndef SKEP_SESSION_WHAT_IF_H
#define SKEP_SESSION_WHAT_IF_H

#include "runtime/schedule/estimate.h"
#include "runtime/session/session.h"

/* A copy of a session with the same model and target, whose `run` the caller changes. */
struct what_if {
    struct session session;
    enum purpose purpose;
};

struct what_if_outcome {
    bool fits; /* in the memory of the target; disk is not considered */
    uint64_t peak_bytes[SPACE_COUNT];
    /* Of a program that trains: the estimate of a step, the bytes that a rank receives in it, and
     * the part of these that are tallies. */
    struct segment_estimate step;
    uint64_t received_bytes, tally_bytes;
};

/* what_if_outcome_of: the outcome of a session that has been compiled. */
struct what_if_outcome what_if_outcome_of(const struct session *session);

/* what_if_init: a copy of the session's settings, with layer_recompute of its own.
 * memory  in a region of its own until what_if_finish */
void what_if_init(struct what_if *what_if, const struct session *session, enum purpose purpose);

/* what_if_plan: compiles what_if->session.run as it is now. May be called repeatedly.
 * memory  scratch of its own, freed again
 * errors  STATUS_INPUT when the settings contradict each other (sharding_settings_read);
 *         STATUS_FAILED when a proof of the plan fails; *outcome untouched */
MUST_CHECK enum status what_if_plan(struct what_if *what_if, struct what_if_outcome *outcome,
                                    struct fault *fault);

void what_if_finish(struct what_if *what_if);

#endif
