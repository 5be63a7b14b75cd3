/* trial: what a session's program would be with other settings: planned, looked at, thrown away. */
#ifndef SKEP_SESSION_TRIAL_H
#define SKEP_SESSION_TRIAL_H

#include "runtime/schedule/estimate.h"
#include "runtime/session/session.h"

/* The same model and target; `run` is to be changed. */
struct trial {
    struct session session;
    enum purpose purpose;
};

struct trial_outcome {
    bool fits; /* the memory of the target; disk is not asked */
    uint64_t peak_bytes[SPACE_COUNT];
    /* Of a program that trains: a step, the bytes that it receives from other ranks, and those of
     * them that are tallies. */
    struct segment_estimate step;
    uint64_t received_bytes, tally_bytes;
};

/* trial_look: the outcome of a session that has been compiled. */
struct trial_outcome trial_look(const struct session *session);

/* trial_init: a copy of the session's settings, with layer_recompute of its own.
 * memory  in the trial's region until trial_finish */
void trial_init(struct trial *trial, const struct session *session, enum purpose purpose);

/* trial_plan: compile what trial->session.run says by now. May be called again and again.
 * memory  scratch of its own, given back
 * errors  STATUS_INPUT when the settings contradict each other (spread_read); STATUS_FAILED when a
 *         proof of the plan fails; *outcome untouched */
MUST_CHECK enum status trial_plan(struct trial *trial, struct trial_outcome *outcome,
                                  struct fault *fault);

void trial_finish(struct trial *trial);

#endif
