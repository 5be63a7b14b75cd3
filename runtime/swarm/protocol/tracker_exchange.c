/* tracker_advance_exchange: who holds which result, what a death or a stall changes, when all is
 * there. */
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

static uint64_t seat_bit(uint32_t seat) {
    return UINT64_C(1) << seat;
}

/* A seat's report of one slice, if it is about the open round; else NULL. */
static const struct slice_report *report_of(const struct tracker *tracker, uint32_t seat,
                                            uint32_t slice) {
    int row = tracker->row_of_seat[seat];
    int is_present = row != NO_SEAT && tracker->members[row].round == tracker->record.head.round;
    return is_present ? &tracker->members[row].reports[slice] : NULL;
}

static uint64_t held_bit(const struct tracker *tracker, uint32_t seat, uint32_t slice) {
    const struct slice_report *report = report_of(tracker, seat, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    return report != NULL && report->held && report->epoch == epoch ? seat_bit(seat) : 0;
}

/* Live seats that hold a slice's result, as far as that is believed: while its owner lives and does
 * not hold it, nobody can have it. */
static uint64_t holders_of(const struct tracker *tracker, uint64_t live, uint32_t slice) {
    uint64_t holders = tracker->holders[slice] & live;
    uint64_t owner = seat_bit(tracker->record.table.slices[slice].owner);
    return (live & owner) != 0 && (holders & owner) == 0 ? 0 : holders;
}

void tracker_note_report(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_member *member = &tracker->members[row];
    uint64_t known = 0;
    if (tracker->seat_of_row[row] == NO_SEAT || tracker->stage < STAGE_EXCHANGE) {
        return;
    }
    uint32_t seat = (uint32_t)tracker->seat_of_row[row];
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        tracker->holders[s] &= ~seat_bit(seat);
        tracker->holders[s] |= held_bit(tracker, seat, s);
        known += (uint64_t)__builtin_popcountll(member->reports[s].received);
        known += member->reports[s].held;
    }
    if (known != member->known) {
        member->known = known;
        member->progress_ms = now_ms;
    }
}

void tracker_clear_stale_holders(struct tracker *tracker) {
    const struct slice_plan *before = tracker->spare_plans;
    int is_first = tracker->record.table.version == 1;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        if (!is_first && before[s].epoch == tracker->record.table.slices[s].epoch) {
            continue;
        }
        tracker->holders[s] = 0;
        for (uint32_t seat = 0; !is_first && seat < tracker->record.head.seat_count; seat++) {
            tracker->holders[s] |= held_bit(tracker, seat, s);
        }
    }
}

static int has_answers(const struct tracker *tracker, uint64_t live) {
    int answered = 1;
    for (; live != 0; live &= live - 1) {
        int row = tracker->row_of_seat[__builtin_ctzll(live)];
        answered &= tracker->members[row].ask == tracker->ask;
    }
    return answered;
}

/* One look at all slices that have no result. */
struct salvage {
    uint64_t live;
    int has_answers;   /* to the newest ask: nobody holds what is missing */
    uint64_t seen;     /* owners that a decision was made about */
    uint64_t replaced; /* of these, whose slices go to others */
    struct tracker_links links;
    uint64_t blocked[SWARM_MEMBERS_MAX]; /* by owner: whom it waits for in vain */
    int has_loads;
    uint32_t loads[SWARM_MEMBERS_MAX]; /* slices without a result, by owner */
    uint64_t shares[SWARM_MEMBERS_MAX];
};

static uint64_t received_by(const struct tracker *tracker, uint32_t owner, uint32_t slice) {
    const struct slice_report *report = report_of(tracker, owner, slice);
    uint32_t epoch = tracker->record.table.slices[slice].epoch;
    return report != NULL && report->epoch == epoch ? report->received : 0;
}

/* About a live owner, at the lowest slice that it has not summed: nothing of its exchange went on
 * for too long. Whoever did not send that slice is not waited for in any of its slices. If it has
 * nothing or everything, others are to try. */
static void decide(const struct tracker *tracker, struct salvage *salvage, uint32_t slice,
                   int64_t now_ms) {
    const struct slice_plan *plan = &tracker->record.table.slices[slice];
    const struct tracker_member *owner = &tracker->members[tracker->row_of_seat[plan->owner]];
    int64_t since_ms =
        owner->progress_ms > tracker->stage_ms ? owner->progress_ms : tracker->stage_ms;
    salvage->seen |= seat_bit(plan->owner);
    if (now_ms - since_ms < tracker->timing.exchange_ms) {
        return;
    }
    uint64_t received = received_by(tracker, plan->owner, slice);
    uint64_t missing = plan->expected & salvage->live & ~received;
    if (received == 0 || missing == 0) {
        salvage->replaced |= seat_bit(plan->owner);
    } else {
        salvage->blocked[plan->owner] = missing;
    }
}

static void count_loads(const struct tracker *tracker, struct salvage *salvage) {
    tracker_upload_rates(tracker, salvage->live, salvage->shares);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        int is_missing = holders_of(tracker, salvage->live, s) == 0;
        salvage->loads[tracker->record.table.slices[s].owner] += (uint32_t)is_missing;
    }
    salvage->has_loads = 1;
}

/* The live seat that is done soonest with one slice more, of those that reach the others; not
 * `besides` while there is another. */
static uint32_t choose_owner(const struct tracker *tracker, struct salvage *salvage,
                             uint32_t besides) {
    if (!salvage->has_loads) {
        count_loads(tracker, salvage);
    }
    uint32_t best = besides;
    uint64_t left = salvage->links.owners & ~seat_bit(besides);
    for (; left != 0; left &= left - 1) {
        uint32_t seat = (uint32_t)__builtin_ctzll(left);
        uint64_t cost = salvage->shares[best] * (salvage->loads[seat] + UINT64_C(1));
        uint64_t least = salvage->shares[seat] * (salvage->loads[best] + UINT64_C(1));
        best = best == besides || cost < least ? seat : best;
    }
    salvage->loads[best] += 1;
    return best;
}

/* One slice without a result: the plan that it needs now. A contributor that is dead, or that the
 * owner does not reach, is no longer waited for; a dead owner's slice goes to another, with a new
 * epoch, once everybody has said that nobody holds its result; that of one who does not reach the
 * others at once. */
static struct slice_plan plan_again(struct tracker *tracker, struct salvage *salvage,
                                    uint32_t slice, int64_t now_ms) {
    const struct round_table *table = &tracker->record.table;
    struct slice_plan plan = table->slices[slice];
    int is_owned = (salvage->live & seat_bit(plan.owner)) != 0;
    if (is_owned && (salvage->seen & seat_bit(plan.owner)) == 0) {
        decide(tracker, salvage, slice, now_ms);
    }
    uint64_t unfit = salvage->replaced | (salvage->live & ~salvage->links.fit);
    int is_lost = is_owned ? (unfit & seat_bit(plan.owner)) != 0 : salvage->has_answers;
    if (is_lost && plan.epoch < SWARM_EPOCH_MAX) { /* beyond it the round ends by its age */
        plan.owner = choose_owner(tracker, salvage, plan.owner);
        plan.epoch += 1;
        plan.expected = tracker_weighted_seats(table, table->declared & salvage->live) &
                        ~salvage->links.cut[plan.owner];
    } else if (is_owned) {
        uint64_t received = received_by(tracker, plan.owner, slice);
        uint64_t gone = salvage->blocked[plan.owner] | salvage->links.cut[plan.owner];
        plan.expected &= received | (salvage->live & ~gone);
    }
    return plan;
}

static void say_ask(struct tracker *tracker, uint64_t live, struct actions *actions) {
    tracker->is_asking = 1;
    tracker->ask += 1;
    for (; live != 0; live &= live - 1) {
        struct message message = {
            .kind = MESSAGE_POLL, .round = tracker->record.head.round, .ask = tracker->ask};
        int row = tracker->row_of_seat[__builtin_ctzll(live)];
        tracker_send(tracker, (uint32_t)row, message, actions);
    }
}

/* The proposal's line for a slice whose result some seats hold: as its owner says, if it can. */
static void propose_slice(struct tracker *tracker, uint32_t slice, uint64_t holders) {
    const struct tracker_settings *settings = &tracker->settings;
    const struct round_table *table = &tracker->record.table;
    uint32_t owner = table->slices[slice].owner;
    uint32_t teller = (holders & seat_bit(owner)) != 0 ? owner : (uint32_t)__builtin_ctzll(holders);
    const struct slice_report *report = report_of(tracker, teller, slice);
    uint64_t end = (slice + 1) * settings->slice_elements;
    struct entry_slice *line = &tracker->proposal.slices[slice];
    *line = (struct entry_slice){.begin = slice * settings->slice_elements,
                                 .end = end,
                                 .owner = owner,
                                 .epoch = report->epoch,
                                 .contributors = report->contributors & table->declared,
                                 .hash = report->hash};
    line->end = end < settings->parameter_count ? end : settings->parameter_count;
    for (uint64_t left = line->contributors; left != 0; left &= left - 1) {
        line->weight += table->members[__builtin_ctzll(left)].weight;
    }
}

static void say_proposal(struct tracker *tracker, uint64_t live, int64_t now_ms,
                         struct actions *actions) {
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        propose_slice(tracker, s, holders_of(tracker, live, s));
    }
    tracker->proposal.slice_count = tracker->settings.slice_count;
    tracker_propose(tracker);
    tracker_enter_stage(tracker, STAGE_VOTE, now_ms);
    for (; live != 0; live &= live - 1) {
        uint32_t row = (uint32_t)tracker->row_of_seat[__builtin_ctzll(live)];
        tracker_send_missing(tracker, row, now_ms, actions);
    }
}

/* For too long nobody got any further towards a vote. */
static int is_vote_stalled(const struct tracker *tracker, uint64_t live, int64_t now_ms) {
    int64_t since_ms = tracker->stage_ms;
    for (; live != 0; live &= live - 1) {
        int64_t progress_ms =
            tracker->members[tracker->row_of_seat[__builtin_ctzll(live)]].progress_ms;
        since_ms = progress_ms > since_ms ? progress_ms : since_ms;
    }
    return tracker->stage == STAGE_VOTE && now_ms - since_ms >= tracker->timing.exchange_ms;
}

/* Whether a single one holds it, and there are others, who cannot get it. */
static int is_one_of(uint64_t holders, uint64_t live) {
    return (holders & (holders - 1)) == 0 && holders != live;
}

void tracker_advance_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    struct salvage salvage = {.live = tracker_live_seats(tracker)};
    salvage.has_answers = tracker->is_asking && has_answers(tracker, salvage.live);
    tracker_links(tracker, salvage.live, &salvage.links);
    const struct slice_plan *plans = tracker->record.table.slices;
    uint32_t slice_count = tracker->settings.slice_count;
    int is_changed = 0;
    int needs_answers = 0;
    uint32_t missing = 0;
    int is_stalled = is_vote_stalled(tracker, salvage.live, now_ms);
    for (uint32_t s = 0; salvage.live != 0 && s < slice_count; s++) {
        uint64_t holders = holders_of(tracker, salvage.live, s);
        if (holders != 0 && !(is_stalled && is_one_of(holders, salvage.live))) {
            continue;
        }
        if (holders == seat_bit(plans[s].owner)) {
            salvage.seen |= holders; /* nobody gets its result from it: others are to try */
            salvage.replaced |= holders;
        }
        missing++;
        needs_answers |= (salvage.live & seat_bit(plans[s].owner)) == 0;
        struct slice_plan plan = plan_again(tracker, &salvage, s, now_ms);
        if (memcmp(&plan, &plans[s], sizeof(plan)) == 0) {
            continue;
        }
        if (!is_changed) {
            tracker_draft_plans(tracker);
        }
        is_changed = 1;
        tracker->next.table.slices[s] = plan;
    }
    tracker->is_asking &= needs_answers; /* the next death asks anew */
    if (is_changed) {
        tracker->next.table.version += 1;
        tracker_write(tracker, RECORD_PLANS, actions);
    } else if (needs_answers && !tracker->is_asking) {
        say_ask(tracker, salvage.live, actions);
    } else if (missing == 0 && salvage.live != 0 && tracker->stage == STAGE_EXCHANGE) {
        say_proposal(tracker, salvage.live, now_ms, actions);
    }
}
