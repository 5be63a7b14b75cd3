/* member_job: starts, abandons and ends the only job of the compute thread. */
#include "runtime/swarm/member_machine/member_state.h"

static const enum action_kind ACTION_OF_JOB[] = {
    [JOB_SUM] = ACTION_SUM,     [JOB_ROOT] = ACTION_ROOT,       [JOB_STORE] = ACTION_STORE,
    [JOB_APPLY] = ACTION_APPLY, [JOB_ADOPT] = ACTION_ADOPT,     [JOB_SKETCH] = ACTION_SKETCH,
    [JOB_CHECK] = ACTION_CHECK, [JOB_RECHECK] = ACTION_RECHECK, [JOB_RESIGN] = ACTION_RESIGN};

static const enum event_kind EVENT_OF_JOB[] = {
    [JOB_SUM] = EVENT_SUMMED,    [JOB_ROOT] = EVENT_ROOT_COMPUTED, [JOB_STORE] = EVENT_STORED,
    [JOB_APPLY] = EVENT_APPLIED, [JOB_ADOPT] = EVENT_APPLIED,      [JOB_SKETCH] = EVENT_SKETCHED,
    [JOB_CHECK] = EVENT_CHECKED, [JOB_RECHECK] = EVENT_RECHECKED,  [JOB_RESIGN] = EVENT_RESIGNED};

struct action *job_start(struct member_job *job, enum job_kind kind, struct actions *actions) {
    ASSERT(job->kind == JOB_NONE && kind != JOB_NONE);
    ASSERT(!job->is_backing_off);
    ASSERT(job->id < UINT32_MAX);
    job->kind = kind;
    job->id += 1;
    job->is_abandoned = false;
    struct action *action = actions_add(actions, ACTION_OF_JOB[kind]);
    action->job = job->id;
    return action;
}

struct action *job_start_sum(struct member_job *job, const struct member_job *sum,
                             struct actions *actions) {
    struct action *action = job_start(job, JOB_SUM, actions);
    job->slice = sum->slice;
    job->contributors = sum->contributors;
    memcpy(job->slots, sum->slots, sizeof job->slots);
    action->slice = job->slice;
    action->contributors = job->contributors;
    action->slots = job->slots;
    return action;
}

void job_abandon(struct member_job *job) {
    if (job->kind == JOB_ADOPT) {
        job->kind = JOB_NONE;
    }
    job->is_abandoned = true;
}

void job_end(struct member_job *job, enum event_kind event, bool has_failed) {
    ASSERT(job->kind != JOB_NONE && EVENT_OF_JOB[job->kind] == event);
    ASSERT(!has_failed || event == EVENT_STORED || event == EVENT_APPLIED ||
           event == EVENT_RESIGNED);
    job->kind = JOB_NONE;
    job->is_backing_off = has_failed;
}

/* Allows jobs again after a write that failed. */
void job_clear_backoff(struct member_job *job) {
    ASSERT(!job->is_backing_off || job->kind == JOB_NONE);
    job->is_backing_off = false;
}

bool job_reads_slice(const struct member_job *job, uint32_t slice) {
    ASSERT(slice < SWARM_SLICES_MAX);
    return job->kind == JOB_SUM && job->slice == slice;
}
