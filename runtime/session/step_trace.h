/* step_trace: some steps of a run, recorded on every rank and written into one Chrome trace. */
#ifndef SKEP_SESSION_STEP_TRACE_H
#define SKEP_SESSION_STEP_TRACE_H

#include "runtime/program/trace.h"
#include "runtime/session/session.h"

struct step_trace {
    int64_t first, last; /* steps, counted from 1; none when last is 0 */
    bool begun;          /* one of them was recorded */
    struct trace trace;
    struct trace_overlap *overlaps; /* [ranks] */
};

/* step_trace_plan: what run.trace and run.trace_steps ask for; nothing when run.trace is unset.
 * memory  in the session's region
 * errors  STATUS_INPUT: no "FIRST:LAST" with 1 <= FIRST <= LAST; a file that cannot be made */
MUST_CHECK enum status step_trace_plan(struct session *session, struct step_trace *trace,
                                       struct fault *fault);

/* step_trace_before: record step `step`, counted from 1, if it is one of them. */
void step_trace_before(struct session *session, struct step_trace *trace, int64_t step);

/* step_trace_after: once the last of them is done, or `ends` says that no further step comes:
 * ranks append their recordings in turn, and rank 0 logs how much communication was hidden behind
 * compute and how long each rank waited. Every rank calls it. A file that cannot be written is
 * logged and ends no run. Never allocates. */
void step_trace_after(struct session *session, struct step_trace *trace, int64_t step, bool ends);

#endif
