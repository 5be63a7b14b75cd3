/* step_trace: records the execution times of some steps on every rank, and writes them into one
 * Chrome trace file. */
#ifndef SKEP_TRAIN_STEP_TRACE_H
#define SKEP_TRAIN_STEP_TRACE_H

#include "runtime/program/trace.h"
#include "runtime/session/session.h"

struct step_trace {
    int64_t first, last; /* first and last step to record, counted from 1; last 0: none */
    bool has_begun;      /* whether at least one step was recorded */
    struct trace trace;  /* times of the instructions of one step */
    /* [ranks]: overlap of communication and compute on each rank */
    struct trace_overlap *overlaps;
};

/* step_trace_plan: prepares the recording that the keys `trace` and `trace_steps` request; does
 * nothing if `trace` is unset.
 * memory  in the session's region
 * errors  STATUS_INPUT: when `trace_steps` is not FIRST:LAST with 1 <= FIRST <= LAST, or when the
 *         file cannot be created */
MUST_CHECK enum status step_trace_plan(struct session *session, struct step_trace *trace,
                                       struct fault *fault);

/* step_trace_begin_step: starts recording if step `step`, counted from 1, is one of the steps to
 * record. */
void step_trace_begin_step(struct session *session, struct step_trace *trace, int64_t step);

/* step_trace_end_step: called on every rank after each step; `ends` is true when no step follows.
 * After the last recorded step the ranks append their recordings to the file in turn, and rank 0
 * logs how much communication time overlapped with compute, and how long each rank waited. A failed
 * write is logged and does not end the run. Never allocates. */
void step_trace_end_step(struct session *session, struct step_trace *trace, int64_t step,
                         bool ends);

#endif
