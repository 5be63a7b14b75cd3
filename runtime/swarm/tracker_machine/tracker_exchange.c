/* tracker_exchange: records which seats have which results, recovers lost results, and sends the
 * proposal once no result is missing. */
#include "runtime/swarm/tracker_machine/tracker_accusation.h"

enum { GENERAL_FACTOR = 4 }; /* factor on the waits for owners while most owners are late */

/* Starts the waits for all owners now: after a restart, those of an open exchange begin again. */
void exchange_init(struct tracker_exchange *exchange, char **memory, uint32_t slice_count,
                   uint32_t incarnation, int64_t now_ms) {
    ASSERT(!exchange->is_poll_open);
    exchange->holders = carve(memory, slice_count * sizeof *exchange->holders);
    exchange->planned = carve(memory, slice_count * sizeof *exchange->planned);
    exchange->awaited = carve(memory, slice_count * sizeof *exchange->awaited);
    exchange->table_ms = now_ms;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        exchange->assigned_ms[seat] = now_ms;
    }
    /* Poll numbers start above those of every earlier incarnation. */
    exchange->poll = incarnation << 16;
}

void exchange_stop_poll(struct tracker_exchange *exchange) {
    exchange->is_poll_open = false;
    exchange->ends_training = false;
}

void exchange_request_training_end(struct tracker_exchange *exchange) {
    exchange->poll += !exchange->ends_training;
    exchange->ends_training = true;
}

void exchange_shift_times(struct tracker_exchange *exchange, int64_t gap_ms) {
    ASSERT(gap_ms >= 0);
    exchange->table_ms += gap_ms;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        exchange->assigned_ms[seat] += gap_ms;
    }
}

void exchange_mark_lying_owner(struct tracker_exchange *exchange, uint32_t seat) {
    exchange->lying_owners |= seat_bit(seat);
}

void exchange_set_undeclared_seats(struct tracker_exchange *exchange, uint64_t seats) {
    exchange->undeclared_seats = seats;
}

void tracker_begin_exchange(struct tracker *tracker, int64_t now_ms) {
    struct tracker_exchange *exchange = &tracker->exchange;
    const struct round_table *table = &tracker->record.table;
    ASSERT(table->version == 1);
    exchange->table_ms = now_ms;
    exchange->expected_seats = 0;
    exchange->late_seats = 0;
    exchange->lost_seats = 0;
    exchange->failed_owners = 0;
    exchange->lying_owners = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        exchange->assigned_ms[seat] = now_ms;
        exchange->result_ms[seat] = 0;
        exchange->missed_by[seat] = 0;
    }
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        const struct slice_plan *plan = &table->slices[s];
        exchange->planned[s] = plan->expected_seats | plan->optional_seats;
        exchange->awaited[s] = plan->expected_seats;
        exchange->expected_seats |= plan->expected_seats & ~seat_bit(plan->owner);
    }
}

/* Counts which contributions of the first table are in the newest commit. A restarted tracker
 * counts none, because it does not know the first table. Silent members are left out. */
void tracker_count_deliveries(struct tracker *tracker) {
    struct tracker_exchange *exchange = &tracker->exchange;
    const struct entry *commit = &tracker->record.commit;
    uint64_t receivers[SWARM_MEMBERS_MAX] = {0};
    uint64_t missing[SWARM_MEMBERS_MAX] = {0};
    uint64_t rejecting[SWARM_MEMBERS_MAX] = {0}, repeating[SWARM_MEMBERS_MAX] = {0};
    struct tracker_links links;
    tracker_find_links(tracker, tracker_live_seats(tracker), &links);
    memset(exchange->deliveries, 0, sizeof exchange->deliveries);
    for (uint32_t s = 0; s < commit->slice_count; s++) {
        const struct entry_slice *slice = &commit->slices[s];
        const uint64_t owner = seat_bit(slice->owner);
        const struct slice_report *report = tracker_find_slice_report(tracker, slice->owner, s);
        SEATS_EACH(seat, exchange->planned[s] & tracker_live_seats(tracker) &
                             ~seat_bit(slice->owner) & ~links.unreachable[slice->owner]) {
            bool is_delivered = seats_contain(slice->contributors, seat);
            exchange->deliveries[seat].planned += 1;
            exchange->deliveries[seat].delivered += is_delivered;
            receivers[seat] |= owner;
            missing[seat] |= is_delivered ? 0 : owner;
            if (report != NULL && seats_contain(report->rejected_seats, seat)) {
                rejecting[seat] |= owner;
                repeating[seat] |= seats_contain(report->repeated_seats, seat) ? owner : 0;
            }
        }
        exchange->planned[s] = 0;
    }
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        uint32_t owners = seats_count(receivers[seat]);
        exchange->deliveries[seat].is_late = 3 * seats_count(missing[seat]) > owners;
        exchange->deliveries[seat].is_rejected = 3 * seats_count(rejecting[seat]) > owners;
        exchange->deliveries[seat].is_repeated =
            2 * seats_count(repeating[seat]) > seats_count(rejecting[seat]);
    }
}

const struct slice_report *tracker_find_slice_report(const struct tracker *tracker, uint32_t seat,
                                                     uint32_t slice) {
    ASSERT(seat < SWARM_MEMBERS_MAX && slice < tracker->settings.slice_count);
    int row = tracker->seats.row_of_seat[seat];
    const struct tracker_report *report = row != NO_SEAT ? &tracker->members[row].report : NULL;
    bool is_of_round = report != NULL && report->round == tracker->record.head.round;
    return is_of_round ? &report->slices[slice] : NULL;
}

/* The bit of a seat that reports the result of a slice in its current epoch; 0 for any other. */
static uint64_t holder_bit(const struct tracker *tracker, uint32_t seat, uint32_t slice) {
    const struct slice_report *report = tracker_find_slice_report(tracker, seat, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    ASSERT(epoch <= SWARM_EPOCH_MAX && seat < tracker->record.head.seat_count);
    ASSERT(tracker->record.head.seats[seat].is_guest == 0);
    return report != NULL && report->has_result && report->epoch == epoch &&
                   tracker_allows_result(tracker, seat, slice, report)
               ? seat_bit(seat)
               : 0;
}

/* Returns the live voters that have the result of a slice according to their reports. While the
 * owner is live and does not have the result, no other seat can have it. */
static uint64_t find_holders(const struct tracker *tracker, uint64_t voters, uint32_t slice) {
    uint64_t holders = tracker->exchange.holders[slice] & voters;
    uint64_t owner = seat_bit(tracker->record.table.slices[slice].owner);
    ASSERT((holders & ~voters) == 0);
    return (voters & owner) != 0 && (holders & owner) == 0 ? 0 : holders;
}

void tracker_clear_holder(struct tracker *tracker, uint32_t seat) {
    ASSERT(seat < tracker->record.head.seat_count);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker->exchange.holders[s] &= ~seat_bit(seat);
    }
}

/* Records the results that a row reports, and the time of an owner that reports all its results for
 * the first time. Guests are ignored, because members fetch results only from voters. */
void tracker_update_holders(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_exchange *exchange = &tracker->exchange;
    int seat = tracker->seats.seat_of_row[row];
    uint32_t owned = 0;
    uint32_t missing = 0;
    if (seat == NO_SEAT || tracker->record.head.seats[seat].is_guest == 1 ||
        tracker->stage.kind < STAGE_EXCHANGE) {
        return;
    }
    ASSERT(tracker->record.table.round == tracker->record.head.round);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        uint64_t held = holder_bit(tracker, (uint32_t)seat, s);
        bool is_owner = tracker->record.table.slices[s].owner == (uint32_t)seat;
        exchange->holders[s] &= ~seat_bit((uint32_t)seat);
        exchange->holders[s] |= held;
        owned += is_owner;
        missing += is_owner && held == 0;
    }
    if (owned > 0 && missing == 0 && exchange->result_ms[seat] == 0) {
        int64_t passed_ms = now_ms - tracker_owner_began_ms(tracker, (uint32_t)seat);
        exchange->result_ms[seat] =
            (uint32_t)min_u64(passed_ms < 1 ? 1 : (uint64_t)passed_ms, UINT32_MAX);
    }
}

void tracker_clear_stale_holders(struct tracker *tracker) {
    const struct slice_plan *before = tracker->writer.spare_plans;
    const struct round_table *table = &tracker->record.table;
    ASSERT(table->version > 0 && before != table->slices);
    uint64_t voters = entry_voting_seats(&tracker->record.head);
    bool is_first = table->version == 1;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        ASSERT(is_first || table->slices[s].epoch >= before[s].epoch);
        if (!is_first && before[s].epoch == table->slices[s].epoch) {
            continue;
        }
        tracker->exchange.holders[s] = 0;
        SEATS_EACH(seat, is_first ? 0 : voters) {
            tracker->exchange.holders[s] |= holder_bit(tracker, (uint32_t)seat, s);
        }
    }
}

static bool have_all_answered(struct tracker *tracker, uint64_t voters) {
    ASSERT(tracker->exchange.is_poll_open);
    bool has_all = true;
    SEATS_EACH(seat, voters) {
        has_all &=
            tracker_member_in_seat(tracker, (uint32_t)seat)->report.poll == tracker->exchange.poll;
    }
    return has_all;
}

struct recovery {               /* state of one pass that assigns missing results to new owners */
    uint64_t live;              /* seats of the open round that are not silent */
    uint64_t voters;            /* of `live`, the voting seats */
    bool has_answers;           /* all live voters have answered the newest poll */
    uint64_t checked_owners;    /* owners whose progress was checked in this pass */
    uint64_t replaced_owners;   /* checked owners whose slices get a different owner */
    struct tracker_links links; /* seats that cannot connect to each other */
    uint64_t blocked[SWARM_MEMBERS_MAX]; /* by owner: seats that this owner no longer waits for */
    uint64_t owners;                     /* live owners of slices */
    uint64_t unfinished_owners;          /* of `owners`, those that lack a result */
    uint64_t lone_owners; /* of `owners`, those with a result that few other seats have */
    bool has_loads;       /* `loads` and `rates` are set */
    uint32_t loads[SWARM_MEMBERS_MAX]; /* by owner: number of its slices without a result */
    uint64_t rates[SWARM_MEMBERS_MAX]; /* by seat: upload rate, relative to those of other seats */
};

static uint64_t received_contribution_seats(const struct tracker *tracker, uint32_t owner,
                                            uint32_t slice) {
    const struct slice_report *report = tracker_find_slice_report(tracker, owner, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    ASSERT(owner < tracker->record.head.seat_count && epoch <= SWARM_EPOCH_MAX);
    return report != NULL && report->epoch == epoch ? report->received_seats : 0;
}

/* Counts the contributions that an owner has received of each seat, over all its slices. Returns
 * the seats that sent less than half as many as the fastest voter. */
static uint64_t find_slow_contributors(const struct tracker *tracker, uint32_t owner) {
    uint64_t voters = entry_voting_seats(&tracker->record.head);
    uint32_t received[SWARM_MEMBERS_MAX] = {0};
    uint32_t most = 0;
    uint64_t slow = 0;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        bool is_owned = tracker->record.table.slices[s].owner == owner;
        uint64_t seats = is_owned ? received_contribution_seats(tracker, owner, s) : 0;
        SEATS_EACH(seat, seats & ~seat_bit(owner)) {
            received[seat] += 1;
            bool is_most = seats_contain(voters, seat) && received[seat] > most;
            most = is_most ? received[seat] : most;
        }
    }
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        slow |= 2 * received[seat] < most ? seat_bit(seat) : 0;
    }
    return slow;
}

/* Records that an owner no longer waits for these seats. A seat that more than a third of the other
 * owners stopped waiting for is late: no owner waits for it any longer. */
static void mark_missed_seats(struct tracker_exchange *exchange, const struct recovery *recovery,
                              uint64_t seats, uint32_t owner) {
    SEATS_EACH(seat, seats) {
        uint64_t others = recovery->owners & ~seat_bit(seat);
        exchange->missed_by[seat] |= seat_bit(owner);
        if (3 * seats_count(exchange->missed_by[seat] & others) > seats_count(others)) {
            exchange->late_seats |= seat_bit(seat);
        }
    }
}

/* Whether the seats `left` include at least half of the live voters that the owner waited for by
 * the first table (none after a restart). Guests do not count, because all may be liars. */
static bool keeps_half(const struct tracker *tracker, uint32_t slice, uint64_t voters,
                       uint64_t left) {
    uint64_t first = tracker->exchange.awaited[slice] & voters;
    return 2 * seats_count(left & voters) >= seats_count(first);
}

/* Checks a live owner by its lowest slice without a sum. At the end of its wait for contributions,
 * the owner stops waiting for the seats that delay it, or is replaced if too few voters would be
 * left. An owner with all contributions is replaced at the end of its wait for results. */
static void check_owner(struct tracker *tracker, struct recovery *recovery, uint32_t slice,
                        int64_t now_ms) {
    struct tracker_exchange *exchange = &tracker->exchange;
    const struct slice_plan *plan = &tracker->record.table.slices[slice];
    uint32_t owner = plan->owner;
    const int64_t wait_ms = tracker_contribution_wait_ms(tracker, owner);
    ASSERT(seats_contain(recovery->live, owner) && !seats_contain(recovery->checked_owners, owner));
    recovery->checked_owners |= seat_bit(owner);
    int64_t passed_ms = now_ms - exchange->assigned_ms[owner];
    bool is_general = 2 * seats_count(recovery->unfinished_owners) > seats_count(recovery->owners);
    uint64_t received = received_contribution_seats(tracker, owner, slice);
    /* An owner always has its own contribution, whatever it reports. */
    uint64_t missing = plan->expected_seats & recovery->live & ~received & ~seat_bit(owner);
    if (missing == 0) {
        if (passed_ms >= (is_general ? GENERAL_FACTOR : 1) * tracker_result_wait_ms(tracker)) {
            exchange->failed_owners |= is_general ? 0 : seat_bit(owner);
            recovery->replaced_owners |= seat_bit(owner);
        }
        return;
    }
    if (passed_ms < wait_ms) {
        return;
    }
    uint64_t slow = missing & find_slow_contributors(tracker, owner);
    slow = slow == 0 && passed_ms >= 2 * wait_ms ? missing : slow;
    if (slow == 0) {
        return;
    }
    if (keeps_half(tracker, slice, recovery->voters, plan->expected_seats & ~slow)) {
        recovery->blocked[owner] = slow;
        mark_missed_seats(exchange, recovery, slow, owner);
    } else if (!is_general) {
        exchange->failed_owners |= seat_bit(owner);
        recovery->replaced_owners |= seat_bit(owner);
    }
}

static void count_owner_loads(const struct tracker *tracker, struct recovery *recovery) {
    ASSERT(!recovery->has_loads && recovery->voters != 0);
    tracker_fill_upload_rates(tracker, recovery->voters, recovery->rates);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        bool is_missing = find_holders(tracker, recovery->voters, s) == 0;
        recovery->loads[tracker->record.table.slices[s].owner] += is_missing;
    }
    recovery->has_loads = true;
}

/* Returns the candidate that could sum one more slice earliest, or `current` if there is none. */
static uint32_t choose_owner(const struct tracker *tracker, struct recovery *recovery,
                             uint32_t current) {
    if (!recovery->has_loads) {
        count_owner_loads(tracker, recovery);
    }
    uint32_t best = current;
    const uint64_t others = recovery->voters & ~tracker_lying_owners(tracker) & ~seat_bit(current);
    uint64_t honest = recovery->links.owner_candidates & others;
    honest = honest != 0 ? honest : others;
    uint64_t candidates = honest & ~tracker->exchange.failed_owners;
    candidates = tracker_owner_candidates(tracker, candidates != 0 ? candidates : honest);
    SEATS_EACH(seat, candidates) {
        uint64_t cost = recovery->rates[best] * (recovery->loads[seat] + UINT64_C(1));
        uint64_t best_cost = recovery->rates[seat] * (recovery->loads[best] + UINT64_C(1));
        best = best == current || cost < best_cost ? (uint32_t)seat : best;
    }
    ASSERT(best == current || seats_contain(recovery->voters, best));
    recovery->loads[best] += 1;
    return best;
}

/* Sets the seats that contribute to a new owner's slice; late ones only if others are too few. */
static void plan_seats_of_new_owner(const struct tracker *tracker, const struct recovery *recovery,
                                    uint32_t slice, struct slice_plan *plan) {
    const struct round_table *table = &tracker->record.table;
    uint64_t late = tracker->exchange.late_seats;
    uint64_t seats = recovery->live & ~recovery->links.unreachable[plan->owner];
    bool may_close =
        keeps_half(tracker, slice, recovery->voters, tracker->exchange.awaited[slice] & ~late);
    tracker_plan_seats(tracker, table, slice, seats & ~(may_close ? late : 0), plan);
}

/* Returns the new plan of a slice without a result. A live owner no longer waits for a contributor
 * that is lost or that it cannot connect to. The slice of a lost owner gets a new owner and a new
 * epoch once all live voters have reported that they do not have the result. The slice of a live
 * owner that is badly connected or replaced, and of a liar, gets a new owner at once. */
static struct slice_plan replan_slice(struct tracker *tracker, struct recovery *recovery,
                                      uint32_t slice, int64_t now_ms) {
    const struct round_table *table = &tracker->record.table;
    struct slice_plan plan = table->slices[slice];
    bool is_owner_live = seats_contain(recovery->live, plan.owner);
    if (is_owner_live && !seats_contain(recovery->checked_owners, plan.owner)) {
        check_owner(tracker, recovery, slice, now_ms);
    }
    uint64_t replaceable =
        recovery->replaced_owners | (recovery->voters & ~recovery->links.well_connected);
    bool needs_owner = is_owner_live || seats_contain(tracker_lying_owners(tracker), plan.owner)
                           ? seats_contain(replaceable, plan.owner)
                           : recovery->has_answers;
    if (needs_owner && plan.epoch < SWARM_EPOCH_MAX) { /* at the maximum epoch, the round aborts */
        plan.owner = choose_owner(tracker, recovery, plan.owner);
        plan.epoch += 1;
        plan_seats_of_new_owner(tracker, recovery, slice, &plan);
    } else if (is_owner_live) {
        uint64_t received = received_contribution_seats(tracker, plan.owner, slice);
        uint64_t late = recovery->blocked[plan.owner] | tracker->exchange.late_seats;
        uint64_t left = received | (recovery->live & ~recovery->links.unreachable[plan.owner]);
        bool may_close =
            keeps_half(tracker, slice, recovery->voters, plan.expected_seats & (received | ~late));
        plan_drop_seats(&plan, ~(received | (left & ~(may_close ? late : 0))));
    }
    ASSERT((plan.expected_seats & ~table->declared_seats) == 0);
    ASSERT(plan.epoch >= table->slices[slice].epoch && plan.epoch <= SWARM_EPOCH_MAX);
    return plan;
}

static void send_poll(struct tracker *tracker, uint64_t voters, struct actions *actions) {
    ASSERT(!tracker->exchange.is_poll_open && tracker->exchange.poll < UINT32_MAX);
    tracker->exchange.is_poll_open = true;
    tracker->exchange.poll += 1;
    SEATS_EACH(seat, voters) {
        struct message message = {.kind = MESSAGE_POLL,
                                  .round = tracker->record.head.round,
                                  .poll.number = tracker->exchange.poll};
        tracker_send(tracker, (uint32_t)tracker->seats.row_of_seat[seat], message, actions);
    }
}

static void send_proposal(struct tracker *tracker, const struct recovery *recovery, int64_t now_ms,
                          struct actions *actions) {
    ASSERT(recovery->voters != 0 && tracker->stage.kind == STAGE_EXCHANGE);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker_fill_proposal_slice(tracker, s, find_holders(tracker, recovery->voters, s));
    }
    tracker_complete_proposal(tracker);
    tracker_enter_stage(tracker, STAGE_VOTE, now_ms);
    SEATS_EACH(seat, recovery->live) {
        tracker_send_missing_message(tracker, (uint32_t)tracker->seats.row_of_seat[seat], now_ms,
                                     actions);
    }
}

/* Whether at most a third of the live voters report a result, so that all reports may be false. */
static bool has_few_holders(uint64_t holders, uint64_t voters) {
    uint32_t count = seats_count(holders);
    return holders != voters && (count <= 1 || 3 * count <= seats_count(voters));
}

/* Finds the owners, which of them lack a result, and which have one that few other seats have. */
static void find_owners(const struct tracker *tracker, struct recovery *recovery) {
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        uint64_t owner = seat_bit(tracker->record.table.slices[s].owner) & recovery->voters;
        uint64_t holders = find_holders(tracker, recovery->voters, s);
        recovery->owners |= owner;
        recovery->unfinished_owners |= holders == 0 ? owner : 0;
        recovery->lone_owners |= has_few_holders(holders, recovery->voters) ? owner : 0;
    }
}

/* Whether the time to fetch results and vote is over, which is longer if few have the results. */
static bool is_vote_late(const struct tracker *tracker, const struct recovery *recovery,
                         int64_t now_ms) {
    bool is_general = 2 * seats_count(recovery->lone_owners) > seats_count(recovery->owners);
    int64_t wait_ms = (is_general ? GENERAL_FACTOR : 1) * tracker_vote_wait_ms(tracker);
    return tracker->stage.kind == STAGE_VOTE && now_ms - tracker->stage.stage_began_ms >= wait_ms;
}

struct recovery_outcome { /* what a recovery pass found */
    uint32_t missing;     /* number of slices whose results are missing */
    bool needs_answers;   /* recovery must wait for the answers to a poll */
    bool is_changed;      /* the plans in writer.next differ from the current plans */
};

static struct recovery_outcome recover_results(struct tracker *tracker, struct recovery *recovery,
                                               int64_t now_ms) {
    const struct slice_plan *plans = tracker->record.table.slices;
    struct recovery_outcome outcome = {0};
    find_owners(tracker, recovery);
    tracker_observe_result_spread(tracker, recovery->owners & ~recovery->lone_owners, now_ms);
    bool is_late = is_vote_late(tracker, recovery, now_ms);
    for (uint32_t s = 0; recovery->voters != 0 && s < tracker->settings.slice_count; s++) {
        uint64_t holders = find_holders(tracker, recovery->voters, s);
        bool is_wrong = seats_contain(tracker_lying_owners(tracker), plans[s].owner);
        if (holders != 0 && !is_wrong && !(is_late && has_few_holders(holders, recovery->voters))) {
            continue;
        }
        if (is_wrong) {
            recovery->checked_owners |= seat_bit(plans[s].owner);
            recovery->replaced_owners |= seat_bit(plans[s].owner);
        } else if (seats_contain(holders, plans[s].owner)) {
            /* Most seats could not fetch the result from its owner, which is therefore replaced. */
            recovery->checked_owners |= seat_bit(plans[s].owner);
            recovery->replaced_owners |= seat_bit(plans[s].owner);
            tracker->exchange.failed_owners |= seat_bit(plans[s].owner);
        }
        outcome.missing++;
        outcome.needs_answers |= !seats_contain(recovery->live, plans[s].owner);
        struct slice_plan plan = replan_slice(tracker, recovery, s, now_ms);
        if (memcmp(&plan, &plans[s], sizeof plan) == 0) {
            continue;
        }
        if (!outcome.is_changed) {
            tracker_begin_draft_with_plans(tracker);
        }
        outcome.is_changed = true;
        tracker->exchange.assigned_ms[plan.owner] = now_ms;
        tracker_change_plan(tracker, s, &plan);
    }
    ASSERT(outcome.missing <= tracker->settings.slice_count);
    ASSERT(outcome.missing > 0 || !(outcome.is_changed || outcome.needs_answers));
    return outcome;
}

void tracker_advance_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    struct tracker_exchange *exchange = &tracker->exchange;
    struct recovery recovery = {.live = tracker_live_seats(tracker),
                                .voters = tracker_live_voters(tracker)};
    ASSERT(tracker->stage.kind >= STAGE_EXCHANGE);
    const bool is_waiting = tracker->stage.kind == STAGE_EXCHANGE;
    exchange->lost_seats |= is_waiting ? exchange->expected_seats & ~recovery.live : 0;
    recovery.has_answers = exchange->is_poll_open && have_all_answered(tracker, recovery.voters);
    tracker_find_links(tracker, recovery.live, &recovery.links);
    const struct recovery_outcome outcome = recover_results(tracker, &recovery, now_ms);
    exchange->is_poll_open &= outcome.needs_answers; /* closes the poll if no answers are needed */
    if (outcome.is_changed) {
        tracker_write_draft(tracker, RECORD_PLANS, actions);
    } else if (outcome.needs_answers && !exchange->is_poll_open) {
        send_poll(tracker, recovery.voters, actions);
    } else if (outcome.missing == 0 && recovery.voters != 0 && is_waiting) {
        send_proposal(tracker, &recovery, now_ms, actions);
    }
}
