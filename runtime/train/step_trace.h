/* step_trace: records some steps of a run on every rank and writes them into one Chrome trace. */
#ifndef SKEP_TRAIN_STEP_TRACE_H
#define SKEP_TRAIN_STEP_TRACE_H

#include "runtime/program/trace.h"
#include "runtime/session/session.h"

struct step_trace {
    int64_t first, last; /* steps to record, counted from 1; none when last is 0 */
    bool begun;          /* at least one step was recorded */
    struct trace trace;
    struct trace_overlap *overlaps; /* [ranks] */
};

/* step_trace_plan: prepares the recording that the keys `trace` and `trace_steps` request; does
 * nothing if `trace` is unset.
 * memory  in the session's region
 * errors  STATUS_INPUT: not "FIRST:LAST" with 1 <= FIRST <= LAST; a file that cannot be created */
MUST_CHECK enum status step_trace_plan(struct session *session, struct step_trace *trace,
                                       struct fault *fault);

/* step_trace_before: starts recording if step `step`, counted from 1, is one of the steps to
 * record. */
void step_trace_before(struct session *session, struct step_trace *trace, int64_t step);

/* step_trace_after: called on every rank after each step; `ends` means that no step follows. After
 * the last recorded step the ranks append their recordings to the file in turn, and rank 0 logs how
 * much communication time overlapped with compute, and how long each rank waited. A failed write is
 * logged and does not end the run. Never allocates. */
void step_trace_after(struct session *session, struct step_trace *trace, int64_t step, bool ends);

#endif
