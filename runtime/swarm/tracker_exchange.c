/* tracker_exchange: who owns which slice, what a death or a stall changes, when all is there. */
#include "runtime/swarm/tracker_state.h"

#include "base/check.h"

#include <string.h>

/* Live seats that hold a result of the slice's present epoch. */
static uint64_t holders_of(const struct tracker *tracker, uint64_t live, uint32_t slice) {
    const struct slice_plan *plan = &tracker->record.table.slices[slice];
    uint64_t holders = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        if ((live >> seat & 1) == 0 || tracker->members[row].round != tracker->record.head.round) {
            continue;
        }
        const struct slice_report *report = &tracker->members[row].reports[slice];
        holders |= report->held && report->epoch == plan->epoch ? UINT64_C(1) << seat : 0;
    }
    return holders;
}

static uint64_t weighted_seats(const struct round_table *table, uint64_t seats) {
    uint64_t weighted = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((seats >> seat & 1) != 0 && table->members[seat].weight > 0) {
            weighted |= UINT64_C(1) << seat;
        }
    }
    return weighted;
}

/* The live seat that owns the fewest slices of the table, not `besides` while there is another. */
static uint32_t least_loaded(const struct round_table *table, uint32_t slice_count, uint64_t live,
                             uint32_t besides) {
    uint32_t load[SWARM_MEMBERS_MAX] = {0};
    uint64_t others = live & ~(UINT64_C(1) << besides);
    uint64_t choice = others != 0 ? others : live;
    for (uint32_t s = 0; s < slice_count; s++) {
        load[table->slices[s].owner] += 1;
    }
    uint32_t best = (uint32_t)__builtin_ctzll(choice);
    for (uint32_t seat = best; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((choice >> seat & 1) != 0 && load[seat] < load[best]) {
            best = seat;
        }
    }
    return best;
}

void tracker_table(struct tracker *tracker, struct actions *actions) {
    const struct tracker_settings *settings = &tracker->settings;
    tracker_copy_record(&tracker->next, &tracker->record, settings->slice_count);
    struct round_table *table = &tracker->next.table;
    const struct entry *open = &tracker->record.head;
    table->round = open->round;
    table->version = 1;
    table->declared = 0;
    memset(table->members, 0, sizeof(table->members));
    uint64_t live = tracker_live_seats(tracker);
    for (uint32_t seat = 0; seat < open->seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        if ((live >> seat & 1) == 0 || !tracker->members[row].has_declared) {
            continue;
        }
        uint64_t samples = 0;
        for (uint32_t r = 0; r < open->seats[seat].range_count; r++) {
            samples += open->seats[seat].ranges[r].end - open->seats[seat].ranges[r].begin;
        }
        uint64_t assigned = samples * settings->sample_tokens;
        uint64_t tokens = tracker->members[row].tokens;
        table->declared |= UINT64_C(1) << seat;
        table->members[seat].tokens = tokens;
        table->members[seat].weight = tokens < assigned ? tokens : assigned;
    }
    memcpy(table->hashes, tracker->declared,
           (size_t)SWARM_MEMBERS_MAX * settings->slice_count * sizeof(struct hash));
    memcpy(table->signatures, tracker->signatures, sizeof(table->signatures));
    uint64_t expected = weighted_seats(table, table->declared);
    uint32_t turn = 0;
    for (uint32_t s = 0; s < settings->slice_count; s++) {
        while ((table->declared >> turn % SWARM_MEMBERS_MAX & 1) == 0) {
            turn++;
        }
        table->slices[s] =
            (struct slice_plan){.owner = turn % SWARM_MEMBERS_MAX, .expected = expected};
        turn++;
    }
    tracker_write(tracker, RECORD_PLANS | RECORD_DECLARED, actions);
}

/* What is known of the exchange; grows while it goes on. */
static uint64_t progress_of(const struct tracker *tracker) {
    uint64_t known = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        if (row == NO_SEAT || tracker->members[row].round != tracker->record.head.round) {
            continue;
        }
        for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
            const struct slice_report *report = &tracker->members[row].reports[s];
            known += (uint64_t)__builtin_popcountll(report->received) + report->held;
        }
    }
    return known;
}

static int has_answers(const struct tracker *tracker, uint64_t live) {
    int answered = 1;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        answered &= (live >> seat & 1) == 0 || tracker->members[row].ask == tracker->ask;
    }
    return answered;
}

/* One slice without a result: the plan that it needs now. A dead contributor is no longer waited
 * for; a dead owner's slice goes to another, with a new epoch, once everybody has said that nobody
 * holds its result; in a stall its owner does with what it has, or another one tries. */
static struct slice_plan plan_again(struct tracker *tracker, uint64_t live, uint32_t slice,
                                    int is_stalled) {
    const struct round_table *table = &tracker->next.table;
    struct slice_plan plan = table->slices[slice];
    int owner_row = tracker_row_of_seat(tracker, plan.owner);
    int is_owned = (live >> plan.owner & 1) != 0;
    uint64_t received = 0;
    if (is_owned && tracker->members[owner_row].round == table->round &&
        tracker->members[owner_row].reports[slice].epoch == plan.epoch) {
        received = tracker->members[owner_row].reports[slice].received;
    }
    int is_lost =
        is_owned ? is_stalled && received == 0 : tracker->is_asking && has_answers(tracker, live);
    if (is_lost && plan.epoch < SWARM_EPOCH_MAX) { /* beyond it the round ends by its age */
        plan.owner =
            least_loaded(table, tracker->settings.slice_count, live, table->slices[slice].owner);
        plan.epoch += 1;
        plan.expected = weighted_seats(table, table->declared & live);
    } else if (is_owned) {
        plan.expected &= live | received;
        plan.expected &= is_stalled ? received : UINT64_MAX;
    }
    return plan;
}

static void say_ask(struct tracker *tracker, uint64_t live, struct actions *actions) {
    tracker->is_asking = 1;
    tracker->ask += 1;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        if ((live >> seat & 1) != 0) {
            struct message message = {
                .kind = MESSAGE_ASK, .round = tracker->record.head.round, .ask = tracker->ask};
            tracker_say(tracker, (uint32_t)tracker_row_of_seat(tracker, seat), message, actions);
        }
    }
}

static void say_proposal(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    tracker_propose(tracker);
    tracker_enter(tracker, STAGE_VOTE, now_ms);
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        if (row != NO_SEAT && !tracker->members[row].silent) {
            struct message message = {.kind = MESSAGE_PROPOSE,
                                      .round = tracker->record.head.round,
                                      .number = tracker->proposal_number,
                                      .entry = &tracker->proposal,
                                      .holders = tracker->holders};
            tracker_say(tracker, (uint32_t)row, message, actions);
        }
    }
}

/* The proposal's line for a slice whose result some seats hold: as its owner says, if it can. */
static void propose_slice(struct tracker *tracker, uint32_t slice, uint64_t holders) {
    const struct tracker_settings *settings = &tracker->settings;
    const struct round_table *table = &tracker->record.table;
    uint32_t owner = table->slices[slice].owner;
    uint32_t seat_told = (holders >> owner & 1) != 0 ? owner : (uint32_t)__builtin_ctzll(holders);
    const struct slice_report *report =
        &tracker->members[tracker_row_of_seat(tracker, seat_told)].reports[slice];
    tracker->holders[slice] = holders;
    struct entry_slice *line = &tracker->proposal.slices[slice];
    uint64_t end = (slice + 1) * settings->slice_elements;
    line->begin = slice * settings->slice_elements;
    line->end = end < settings->parameter_count ? end : settings->parameter_count;
    line->owner = owner;
    line->epoch = report->epoch;
    line->contributors = report->contributors;
    line->hash = report->hash;
    line->weight = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((report->contributors >> seat & 1) != 0) {
            line->weight += table->members[seat].weight;
        }
    }
}

void tracker_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    uint32_t slice_count = tracker->settings.slice_count;
    uint64_t live = tracker_live_seats(tracker);
    if (live == 0) {
        return;
    }
    uint64_t progress = progress_of(tracker);
    if (progress != tracker->progress) {
        tracker->progress = progress;
        tracker->progress_ms = now_ms;
    }
    int is_stalled = now_ms - tracker->progress_ms >= tracker->settings.timing.exchange_ms;
    int is_changed = 0;
    int needs_answers = 0;
    uint32_t missing = 0;
    tracker_copy_record(&tracker->next, &tracker->record, slice_count);
    for (uint32_t s = 0; s < slice_count; s++) {
        uint64_t holders = holders_of(tracker, live, s);
        if (holders != 0) {
            if (tracker->stage == STAGE_EXCHANGE) {
                propose_slice(tracker, s, holders);
            }
            continue;
        }
        missing++;
        struct slice_plan *plan = &tracker->next.table.slices[s];
        needs_answers |= (live >> plan->owner & 1) == 0;
        *plan = plan_again(tracker, live, s, is_stalled);
        is_changed |= memcmp(plan, &tracker->record.table.slices[s], sizeof(*plan)) != 0;
    }
    if (is_changed) {
        tracker->next.table.version += 1;
        tracker_write(tracker, RECORD_PLANS, actions);
    } else if (needs_answers && !tracker->is_asking) {
        say_ask(tracker, live, actions);
    } else if (missing == 0 && tracker->stage == STAGE_EXCHANGE) {
        tracker->proposal.slice_count = slice_count;
        say_proposal(tracker, now_ms, actions);
    }
}
