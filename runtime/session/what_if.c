#include "runtime/session/what_if.h"

void what_if_init(struct what_if *what_if, const struct session *session, enum purpose purpose) {
    memset(what_if, 0, sizeof *what_if);
    what_if->session.settings = session->settings;
    what_if->session.blueprint = session->blueprint;
    what_if->session.target = session->target;
    what_if->session.misfit = session->misfit;
    what_if->session.ranks = session->ranks;
    what_if->session.sharding_settings = session->sharding_settings;
    what_if->session.shared_settings_fixed = session->shared_settings_fixed;
    what_if->session.resident = session->resident;
    what_if->session.resident_count = session->resident_count;
    what_if->purpose = purpose;
    size_t layers = (size_t)session->blueprint.layers;
    enum recompute *kinds = region_alloc(&what_if->session.region, layers, sizeof *kinds);
    memcpy(kinds, session->settings.layer_recompute, layers * sizeof *kinds);
    what_if->session.settings.layer_recompute = kinds;
}

/* Adds the bytes that a rank receives in a segment to outcome->received_bytes and, for tallies,
 * also to outcome->tally_bytes. In an all-gather and in a reduce-scatter, a rank receives
 * slot_bytes from every other rank of its group. */
static void add_received_bytes(const struct schedule *schedule, enum segment_kind kind,
                               struct what_if_outcome *outcome) {
    const struct segment *segment = &schedule->segments[kind];
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct collective_args *args = &instruction->args.collective;
        if (op_work(instruction->op) != OP_WORK_COLLECTIVE) {
            continue;
        }
        uint64_t others = (uint64_t)schedule_rank_count(schedule, args->axis) - 1;
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
        add_received_bytes(schedule, SEGMENT_BEGIN, &outcome);
        add_received_bytes(schedule, SEGMENT_MICROBATCH, &outcome);
        add_received_bytes(schedule, SEGMENT_FINISH, &outcome);
    }
    return outcome;
}

static enum status compile_what_if(struct what_if *what_if, struct what_if_outcome *outcome,
                                   struct fault *fault) {
    struct session *session = &what_if->session;
    TRY(sharding_settings_read(&session->settings, &session->blueprint, &session->region,
                               &session->sharding_settings, fault));
    TRY(session_compile(session, what_if->purpose, fault));
    *outcome = what_if_outcome_of(session);
    return OK;
}

enum status what_if_plan(struct what_if *what_if, struct what_if_outcome *outcome,
                         struct fault *fault) {
    struct session *session = &what_if->session;
    struct sharding_settings saved = session->sharding_settings;
    struct region region = session->region;
    session->region = (struct region){0};
    enum status status = compile_what_if(what_if, outcome, fault);
    region_finish(&session->region);
    session->region = region;
    session->sharding_settings = saved;
    return status;
}

void what_if_finish(struct what_if *what_if) {
    region_finish(&what_if->session.region);
}
