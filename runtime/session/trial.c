#include "runtime/session/trial.h"

#include <string.h>

void what_if_init(struct what_if *trial, const struct session *session, enum purpose purpose) {
    memset(trial, 0, sizeof *trial);
    trial->session.run = session->run;
    trial->session.blueprint = session->blueprint;
    trial->session.target = session->target;
    trial->session.misfit = session->misfit;
    trial->session.ranks = session->ranks;
    trial->session.spread = session->spread;
    trial->session.swarm = session->swarm;
    trial->session.kept = session->kept;
    trial->session.kept_count = session->kept_count;
    trial->purpose = purpose;
    size_t layers = (size_t)session->blueprint.layers;
    enum recompute *kinds = region_alloc(&trial->session.region, layers, sizeof *kinds);
    memcpy(kinds, session->run.layer_recompute, layers * sizeof *kinds);
    trial->session.run.layer_recompute = kinds;
}

/* Both kinds of collectives receive a slot from every other rank of their group. */
static void count_received(const struct schedule *schedule, enum segment_kind kind,
                           struct what_if_outcome *outcome) {
    const struct segment *segment = &schedule->segments[kind];
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct collective_args *args = &instruction->args.collective;
        if (op_work(instruction->op) != OP_WORK_COLLECTIVE) {
            continue;
        }
        uint64_t others = (uint64_t)schedule_ranks(schedule, args->axis) - 1;
        uint64_t bytes = args->slot_bytes * others * (uint64_t)segment->repeat;
        outcome->received_bytes += bytes;
        if (op_collective_from(instruction)->extent == schedule->tallies) {
            outcome->tally_bytes += bytes;
        }
    }
}

struct what_if_outcome what_if_outcome_of(const struct session *session) {
    const struct schedule *schedule = &session->program.schedule;
    const uint64_t *peak_bytes = session->program.plan.peak_bytes;
    enum space space = SPACE_DEVICE;
    struct what_if_outcome outcome = {
        .fits = session->misfit.status == OK &&
                target_shortage(session->target, peak_bytes, &space) == 0};
    memcpy(outcome.peak_bytes, peak_bytes, sizeof outcome.peak_bytes);
    if (schedule->options.train) {
        outcome.step = estimate_step(schedule, session->target);
        count_received(schedule, SEGMENT_BEGIN, &outcome);
        count_received(schedule, SEGMENT_MICROBATCH, &outcome);
        count_received(schedule, SEGMENT_FINISH, &outcome);
    }
    return outcome;
}

static enum status compile(struct what_if *trial, struct what_if_outcome *outcome,
                           struct fault *fault) {
    struct session *session = &trial->session;
    enum status status = sharding_settings_read(&session->run, &session->blueprint,
                                                &session->region, &session->spread, fault);
    if (status == OK) {
        status = session_compile(session, trial->purpose, fault);
    }
    if (status == OK) {
        *outcome = what_if_outcome_of(session);
    }
    return status;
}

enum status trial_plan(struct what_if *trial, struct what_if_outcome *outcome,
                       struct fault *fault) {
    struct session *session = &trial->session;
    struct spread spread = session->spread;
    struct region kept = session->region;
    session->region = (struct region){0};
    enum status status = compile(trial, outcome, fault);
    region_finish(&session->region);
    session->region = kept;
    session->spread = spread;
    return status;
}

void what_if_finish(struct what_if *trial) {
    region_finish(&trial->session.region);
}
