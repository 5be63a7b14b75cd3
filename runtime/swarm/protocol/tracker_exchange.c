/* tracker_exchange: records which seats have which results, recovers lost results, and sends the
 * proposal once no result is missing. */
#include "runtime/swarm/protocol/tracker_state.h"

void exchange_init(struct tracker_exchange *exchange, uint64_t *holders, uint32_t incarnation) {
    ASSERT(!exchange->is_poll_open);
    exchange->holders = holders;
    /* Poll numbers start above those of every earlier incarnation. */
    exchange->poll = incarnation << 16;
}

void exchange_stop_poll(struct tracker_exchange *exchange) {
    exchange->is_poll_open = false;
}

const struct slice_report *tracker_find_slice_report(const struct tracker *tracker, uint32_t seat,
                                                     uint32_t slice) {
    ASSERT(seat < SWARM_MEMBERS_MAX && slice < tracker->settings.slice_count);
    int row = tracker->seats.row_of_seat[seat];
    const struct tracker_report *report = row != NO_SEAT ? &tracker->members[row].report : NULL;
    bool is_of_round = report != NULL && report->round == tracker->record.head.round;
    return is_of_round ? &report->slices[slice] : NULL;
}

static uint64_t holder_bit(const struct tracker *tracker, uint32_t seat, uint32_t slice) {
    const struct slice_report *report = tracker_find_slice_report(tracker, seat, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    ASSERT(epoch <= SWARM_EPOCH_MAX && seat < tracker->record.head.seat_count);
    return report != NULL && report->has_result && report->epoch == epoch ? seat_bit(seat) : 0;
}

/* Returns the live seats that have the result of a slice according to their reports. While the
 * owner is live and does not have the result, no other seat can have it. */
static uint64_t find_holders(const struct tracker *tracker, uint64_t live, uint32_t slice) {
    uint64_t holders = tracker->exchange.holders[slice] & live;
    uint64_t owner = seat_bit(tracker->record.table.slices[slice].owner);
    ASSERT((holders & ~live) == 0);
    return (live & owner) != 0 && (holders & owner) == 0 ? 0 : holders;
}

void tracker_clear_holder(struct tracker *tracker, uint32_t seat) {
    ASSERT(seat < tracker->record.head.seat_count);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker->exchange.holders[s] &= ~seat_bit(seat);
    }
}

void tracker_update_holders(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_report *report = &tracker->members[row].report;
    int seat = tracker->seats.seat_of_row[row];
    uint64_t reported = 0;
    if (seat == NO_SEAT || tracker->stage.kind < STAGE_EXCHANGE) {
        return;
    }
    ASSERT(tracker->record.table.round == tracker->record.head.round);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker->exchange.holders[s] &= ~seat_bit((uint32_t)seat);
        tracker->exchange.holders[s] |= holder_bit(tracker, (uint32_t)seat, s);
        reported += seats_count(report->slices[s].received_seats) + report->slices[s].has_result;
    }
    tracker_update_progress(report, reported, now_ms);
}

void tracker_clear_stale_holders(struct tracker *tracker) {
    const struct slice_plan *before = tracker->writer.spare_plans;
    const struct round_table *table = &tracker->record.table;
    ASSERT(table->version > 0 && before != table->slices);
    bool is_first = table->version == 1;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        ASSERT(is_first || table->slices[s].epoch >= before[s].epoch);
        if (!is_first && before[s].epoch == table->slices[s].epoch) {
            continue;
        }
        tracker->exchange.holders[s] = 0;
        for (uint32_t seat = 0; !is_first && seat < tracker->record.head.seat_count; seat++) {
            tracker->exchange.holders[s] |= holder_bit(tracker, seat, s);
        }
    }
}

static bool have_all_answered(struct tracker *tracker, uint64_t live) {
    ASSERT(tracker->exchange.is_poll_open);
    bool has_all = true;
    SEATS_EACH(seat, live) {
        has_all &=
            tracker_member_in_seat(tracker, (uint32_t)seat)->report.poll == tracker->exchange.poll;
    }
    return has_all;
}

/* The state of one recovery pass over all slices without a result. */
struct recovery {               /* state of one pass that assigns missing results to new owners */
    uint64_t live;              /* seats of the open round that are not silent */
    bool has_answers;           /* All live seats have answered the newest poll. */
    uint64_t checked_owners;    /* Owners whose progress was checked in this pass. */
    uint64_t replaced_owners;   /* Checked owners whose slices get a different owner. */
    struct tracker_links links; /* seats that cannot connect to each other */
    uint64_t blocked[SWARM_MEMBERS_MAX]; /* Seats that each owner waits for without progress. */
    bool has_loads;                      /* `loads` and `rates` are set */
    uint32_t loads[SWARM_MEMBERS_MAX];   /* Number of slices without a result of each owner. */
    uint64_t rates[SWARM_MEMBERS_MAX];   /* upload rate of each seat */
};

static uint64_t received_contribution_seats(const struct tracker *tracker, uint32_t owner,
                                            uint32_t slice) {
    const struct slice_report *report = tracker_find_slice_report(tracker, owner, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    ASSERT(owner < tracker->record.head.seat_count && epoch <= SWARM_EPOCH_MAX);
    return report != NULL && report->epoch == epoch ? report->received_seats : 0;
}

/* Checks the progress of a live owner in its lowest slice without a sum. Nothing changes until
 * it has made no progress for longer than the exchange deadline. Then the owner no longer waits for
 * any seat that did not send that slice. If it has no contribution, or all of them, its slices get
 * other owners. */
static void check_owner_progress(struct tracker *tracker, struct recovery *recovery, uint32_t slice,
                                 int64_t now_ms) {
    const struct slice_plan *plan = &tracker->record.table.slices[slice];
    ASSERT(seats_contain(recovery->live, plan->owner) &&
           !seats_contain(recovery->checked_owners, plan->owner));
    int64_t since_ms = tracker_member_in_seat(tracker, plan->owner)->report.progress_ms;
    since_ms = since_ms > tracker->stage.stage_began_ms ? since_ms : tracker->stage.stage_began_ms;
    recovery->checked_owners |= seat_bit(plan->owner);
    if (now_ms - since_ms < tracker->deadlines.timing.exchange_ms) {
        return;
    }
    uint64_t received = received_contribution_seats(tracker, plan->owner, slice);
    uint64_t missing = plan->expected_seats & recovery->live & ~received;
    if (received == 0 || missing == 0) {
        recovery->replaced_owners |= seat_bit(plan->owner);
    } else {
        recovery->blocked[plan->owner] = missing;
    }
}

static void count_owner_loads(const struct tracker *tracker, struct recovery *recovery) {
    ASSERT(!recovery->has_loads && recovery->live != 0);
    tracker_fill_upload_rates(tracker, recovery->live, recovery->rates);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        bool is_missing = find_holders(tracker, recovery->live, s) == 0;
        recovery->loads[tracker->record.table.slices[s].owner] += is_missing;
    }
    recovery->has_loads = true;
}

/* Returns the candidate that would finish one more slice first, but not `current` if there is any
 * other candidate. */
static uint32_t choose_owner(const struct tracker *tracker, struct recovery *recovery,
                             uint32_t current) {
    if (!recovery->has_loads) {
        count_owner_loads(tracker, recovery);
    }
    uint32_t best = current;
    SEATS_EACH(seat, recovery->links.owner_candidates & ~seat_bit(current)) {
        uint64_t cost = recovery->rates[best] * (recovery->loads[seat] + UINT64_C(1));
        uint64_t best_cost = recovery->rates[seat] * (recovery->loads[best] + UINT64_C(1));
        best = best == current || cost < best_cost ? (uint32_t)seat : best;
    }
    ASSERT(best == current || seats_contain(recovery->live, best));
    recovery->loads[best] += 1;
    return best;
}

/* Returns the new plan of a slice without a result. The owner no longer waits for a contributor
 * that is lost or that it cannot connect to. The slice of a lost owner gets a new owner and a
 * new epoch once all live seats have reported that they do not have the result. The slice of a
 * badly connected owner gets them at once. */
static struct slice_plan replan_slice(struct tracker *tracker, struct recovery *recovery,
                                      uint32_t slice, int64_t now_ms) {
    const struct round_table *table = &tracker->record.table;
    struct slice_plan plan = table->slices[slice];
    bool is_owner_live = seats_contain(recovery->live, plan.owner);
    if (is_owner_live && !seats_contain(recovery->checked_owners, plan.owner)) {
        check_owner_progress(tracker, recovery, slice, now_ms);
    }
    uint64_t replaceable =
        recovery->replaced_owners | (recovery->live & ~recovery->links.well_connected);
    bool needs_owner =
        is_owner_live ? seats_contain(replaceable, plan.owner) : recovery->has_answers;
    if (needs_owner && plan.epoch < SWARM_EPOCH_MAX) { /* at the maximum the round is aborted */
        plan.owner = choose_owner(tracker, recovery, plan.owner);
        plan.epoch += 1;
        plan.expected_seats =
            tracker_weighted_seats(table, table->declared_seats & recovery->live) &
            ~recovery->links.unreachable[plan.owner];
    } else if (is_owner_live) {
        uint64_t received = received_contribution_seats(tracker, plan.owner, slice);
        uint64_t lost = recovery->blocked[plan.owner] | recovery->links.unreachable[plan.owner];
        plan.expected_seats &= received | (recovery->live & ~lost);
    }
    ASSERT((plan.expected_seats & ~table->declared_seats) == 0);
    ASSERT(plan.epoch >= table->slices[slice].epoch && plan.epoch <= SWARM_EPOCH_MAX);
    return plan;
}

static void send_poll(struct tracker *tracker, uint64_t live, struct actions *actions) {
    ASSERT(!tracker->exchange.is_poll_open && tracker->exchange.poll < UINT32_MAX);
    tracker->exchange.is_poll_open = true;
    tracker->exchange.poll += 1;
    SEATS_EACH(seat, live) {
        struct message message = {.kind = MESSAGE_POLL,
                                  .round = tracker->record.head.round,
                                  .poll = tracker->exchange.poll};
        int row = tracker->seats.row_of_seat[seat];
        tracker_send(tracker, (uint32_t)row, message, actions);
    }
}

static void send_proposal(struct tracker *tracker, uint64_t live, int64_t now_ms,
                          struct actions *actions) {
    ASSERT(live != 0 && tracker->stage.kind == STAGE_EXCHANGE);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker_fill_proposal_slice(tracker, s, find_holders(tracker, live, s));
    }
    tracker_complete_proposal(tracker);
    tracker_enter_stage(tracker, STAGE_VOTE, now_ms);
    SEATS_EACH(seat, live) {
        tracker_send_missing(tracker, (uint32_t)tracker->seats.row_of_seat[seat], now_ms, actions);
    }
}

/* Whether no live seat has made progress towards its vote for too long. */
static bool is_vote_stalled(struct tracker *tracker, uint64_t live, int64_t now_ms) {
    ASSERT(tracker->stage.kind >= STAGE_EXCHANGE);
    int64_t since_ms = tracker->stage.stage_began_ms;
    SEATS_EACH(seat, live) {
        int64_t progress_ms = tracker_member_in_seat(tracker, (uint32_t)seat)->report.progress_ms;
        since_ms = progress_ms > since_ms ? progress_ms : since_ms;
    }
    return tracker->stage.kind == STAGE_VOTE &&
           now_ms - since_ms >= tracker->deadlines.timing.exchange_ms;
}

/* At most one live seat has the result, so the others may be unable to get it. */
static bool has_single_holder(uint64_t holders, uint64_t live) {
    return seats_count(holders) <= 1 && holders != live;
}

/* The outcome of computing new plans for all slices without a result. */
struct recovery_outcome { /* what a recovery pass found */
    uint32_t missing;     /* Number of slices whose results are missing. */
    bool needs_answers;   /* recovery must wait for the answers to a poll */
    bool is_changed;      /* The plans in writer.next differ from the current plans. */
};

static struct recovery_outcome recover_results(struct tracker *tracker, struct recovery *recovery,
                                               int64_t now_ms) {
    const struct slice_plan *plans = tracker->record.table.slices;
    struct recovery_outcome outcome = {0};
    bool is_stalled = is_vote_stalled(tracker, recovery->live, now_ms);
    for (uint32_t s = 0; recovery->live != 0 && s < tracker->settings.slice_count; s++) {
        uint64_t holders = find_holders(tracker, recovery->live, s);
        if (holders != 0 && !(is_stalled && has_single_holder(holders, recovery->live))) {
            continue;
        }
        if (holders == seat_bit(plans[s].owner)) {
            recovery->checked_owners |=
                /* No other seat can fetch the result from this seat, so the slice gets a
                 * different owner. */
                holders;
            recovery->replaced_owners |= holders;
        }
        outcome.missing++;
        outcome.needs_answers |= !seats_contain(recovery->live, plans[s].owner);
        struct slice_plan plan = replan_slice(tracker, recovery, s, now_ms);
        if (memcmp(&plan, &plans[s], sizeof plan) == 0) {
            continue;
        }
        if (!outcome.is_changed) {
            tracker_draft_plans(tracker);
        }
        outcome.is_changed = true;
        tracker_change_plan(tracker, s, &plan);
    }
    ASSERT(outcome.missing <= tracker->settings.slice_count);
    ASSERT(outcome.missing > 0 || !(outcome.is_changed || outcome.needs_answers));
    return outcome;
}

void tracker_advance_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    struct tracker_exchange *exchange = &tracker->exchange;
    struct recovery recovery = {.live = tracker_live_seats(tracker)};
    ASSERT(tracker->stage.kind >= STAGE_EXCHANGE);
    ASSERT((recovery.live & ~roster_seats(&tracker->record.head)) == 0);
    recovery.has_answers = exchange->is_poll_open && have_all_answered(tracker, recovery.live);
    tracker_find_links(tracker, recovery.live, &recovery.links);
    const struct recovery_outcome outcome = recover_results(tracker, &recovery, now_ms);
    exchange->is_poll_open &= outcome.needs_answers; /* The next lost owner requires a new poll. */
    if (outcome.is_changed) {
        tracker_write_draft(tracker, RECORD_PLANS, actions);
    } else if (outcome.needs_answers && !exchange->is_poll_open) {
        send_poll(tracker, recovery.live, actions);
    } else if (outcome.missing == 0 && recovery.live != 0 &&
               tracker->stage.kind == STAGE_EXCHANGE) {
        send_proposal(tracker, recovery.live, now_ms, actions);
    }
}
