/* trial: what a session's program would be with other settings: planned, looked at, thrown away. */
#ifndef SKEP_SESSION_TRIAL_H
#define SKEP_SESSION_TRIAL_H

#include "runtime/schedule/estimate.h"
#include "runtime/session/session.h"

/* The same model and target; `run` is to be changed. */
struct what_if {
    struct session session;
    enum purpose purpose;
};

struct what_if_outcome {
    bool fits; /* the memory of the target; disk is not asked */
    uint64_t peak_bytes[SPACE_COUNT];
    /* Of a program that trains: a step, the bytes that it receives from other ranks, and those of
     * them that are tallies. */
    struct segment_estimate step;
    uint64_t received_bytes, tally_bytes;
};

/* what_if_outcome_of: the outcome of a session that has been compiled. */
struct what_if_outcome what_if_outcome_of(const struct session *session);

/* what_if_init: a copy of the session's settings, with layer_recompute of its own.
 * memory  in the trial's region until what_if_finish */
void what_if_init(struct what_if *trial, const struct session *session, enum purpose purpose);

/* trial_plan: compile what trial->session.run says by now. May be called again and again.
 * memory  scratch of its own, given back
 * errors  STATUS_INPUT when the settings contradict each other (sharding_settings_read);
 *         STATUS_FAILED when a proof of the plan fails; *outcome untouched */
MUST_CHECK enum status trial_plan(struct what_if *trial, struct what_if_outcome *outcome,
                                  struct fault *fault);

void what_if_finish(struct what_if *trial);

#endif
