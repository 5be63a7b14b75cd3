/* tracker_strikes: the suspensions of members. A member is suspended if it misses parts of rounds
 * for which it is fast enough, if its contributions have no weight, if they oppose those of the
 * others, or if it made a false statement. */
#include "runtime/swarm/tracker_machine/tracker_accusation.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    STRIKE_ROUNDS = 3,  /* number of remembered rounds in which others waited for a member */
    STRIKES_MAX = 2,    /* number of misses in STRIKE_ROUNDS that suspends a member */
    OPPOSED_ROUNDS = 8, /* number of remembered commits that a member contributed to, at most 31 */
    OPPOSED_MAX = 4,    /* opposed contributions in OPPOSED_ROUNDS that suspend a member */
    STRIKE_SEATS_MIN = 4,  /* minimum voters to judge a voter, so that one voter cannot decide */
    STRIKE_GUESTS_MIN = 3, /* minimum voters to judge a guest, which does not vote itself */
    TERM_MIN = 8,          /* rounds of a member's first suspension */
    TERM_MAX = 512,        /* rounds of the longest suspension */
    CLEAN_ROUNDS = 64,     /* rounds without a miss after which a member's next term is halved */
    SUSPENDED_DIVISOR = 3, /* divisor: at most 1/3 of the connected voters are suspended */
};

bool tracker_is_suspended(const struct tracker *tracker, uint32_t row) {
    ASSERT(row < SWARM_MEMBERS_MAX);
    return tracker->strikes[row].until_round > tracker->record.head.round + 1;
}

void tracker_clear_strikes(struct tracker *tracker, uint32_t row) {
    tracker->strikes[row] = (struct tracker_strikes){0};
}

static bool is_false_statement(enum suspension_reason reason) {
    return reason == SUSPENSION_WRONG_SUM || reason == SUSPENSION_WRONG_SKETCH ||
           reason == SUSPENSION_WITHHELD;
}

void tracker_suspend_liar(struct tracker *tracker, uint32_t row, enum suspension_reason reason,
                          const struct entry_evidence *evidence) {
    ASSERT(row < tracker->record.member_count && is_false_statement(reason));
    tracker->strikes[row].due = reason;
    tracker->strikes[row].evidence = *evidence;
}

/* Returns what a seat missed in the round that has ended, or NONE. Late contributions are a miss
 * only of a seat that delivered in time before, because the speed of other seats is not known.
 * Missing sketches, which are much smaller, are a miss of a seat whose contributions were in
 * time. */
static enum suspension_reason find_miss(const struct tracker *tracker, uint32_t seat) {
    const struct tracker_exchange *exchange = &tracker->exchange;
    const struct seat_delivery *delivery = &exchange->deliveries[seat];
    bool is_commit = tracker->record.head.kind == ENTRY_COMMIT;
    if (seats_contain(exchange->failed_owners, seat)) {
        return SUSPENSION_RESULTS;
    }
    if (seats_contain(exchange->undeclared_seats, seat)) {
        return SUSPENSION_DECLARATION;
    }
    if (exchange->exclusions[seat] != SUSPENSION_NONE) {
        return exchange->exclusions[seat];
    }
    if (is_commit && delivery->is_rejected) {
        return delivery->is_repeated ? SUSPENSION_REPETITION : SUSPENSION_INVALID;
    }
    bool is_fast = tracker_is_known_fast(tracker, (uint32_t)tracker->seats.row_of_seat[seat]);
    bool is_missing = !is_commit || 2 * delivery->delivered < delivery->planned;
    bool is_silent = seats_contain(tracker_find_silent_seats(tracker), seat);
    return (is_silent && !is_missing && !delivery->is_late) ||
                   (is_fast && seats_contain(exchange->late_seats, seat) && is_missing)
               ? SUSPENSION_CONTRIBUTIONS
               : SUSPENSION_NONE;
}

/* Whether a round has enough voters to judge this seat, so that no single voter decides. */
static bool has_enough_voters(const struct entry *roster, uint32_t seat) {
    return entry_voter_count(roster) >=
           (roster->seats[seat].is_guest == 1 ? STRIKE_GUESTS_MIN : STRIKE_SEATS_MIN);
}

/* Records a round in which others waited for the member, and what the member missed; NONE:
 * nothing. */
static void record_judged_round(struct tracker_strikes *strikes, enum suspension_reason missed) {
    bool is_liar = is_false_statement(strikes->due);
    strikes->misses =
        (strikes->misses << 1 | (missed != SUSPENSION_NONE)) & ((1U << STRIKE_ROUNDS) - 1);
    strikes->clean_rounds = missed == SUSPENSION_NONE ? strikes->clean_rounds + 1 : 0;
    if (strikes->clean_rounds >= CLEAN_ROUNDS) {
        strikes->clean_rounds = 0;
        strikes->term /= 2;
    }
    if (missed != SUSPENSION_NONE && seats_count(strikes->misses) >= STRIKES_MAX && !is_liar) {
        strikes->due = missed;
        strikes->misses = 0;
    }
}

/* Records whether the member's contribution to a commit was opposed. */
static void record_opposition(struct tracker_strikes *strikes, bool is_opposed) {
    strikes->opposed = (strikes->opposed << 1 | is_opposed) & ((1U << OPPOSED_ROUNDS) - 1);
    strikes->clean_rounds = is_opposed ? 0 : strikes->clean_rounds;
    if (seats_count(strikes->opposed) >= OPPOSED_MAX && strikes->due == SUSPENSION_NONE) {
        strikes->due = SUSPENSION_OPPOSED;
        strikes->opposed = 0;
    }
}

/* Records for each contributor to the commit whether its contribution was opposed, even if the
 * member is disconnected by now. */
static void record_opposed_contributors(struct tracker *tracker) {
    const struct entry *commit = &tracker->record.head;
    const uint64_t opposed = tracker_find_opposed_seats(tracker);
    ASSERT(commit->kind == ENTRY_COMMIT);
    for (uint32_t seat = 0; seat < commit->seat_count; seat++) {
        const struct entry_member *member = &commit->members[seat];
        const int row = tracker->seats.row_of_seat[seat];
        if (row != NO_SEAT && member->weight > 0 && member->contributed > 0 &&
            has_enough_voters(commit, seat)) {
            record_opposition(&tracker->strikes[row], seats_contain(opposed, seat));
        }
    }
}

/* Returns the seats whose contribution had no weight, or was rejected by owners. */
static uint64_t find_excluded_seats(const struct tracker_exchange *exchange) {
    uint64_t excluded = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        bool is_excluded =
            exchange->exclusions[seat] != SUSPENSION_NONE || exchange->deliveries[seat].is_rejected;
        excluded |= is_excluded ? seat_bit(seat) : 0;
    }
    return excluded;
}

/* Records which members missed a part of the round. A member that is disconnected, or that the
 * owners did not wait for although its contribution had a weight, is not judged. */
void tracker_judge_round(struct tracker *tracker) {
    struct tracker_exchange *exchange = &tracker->exchange;
    const struct tracker_record *record = &tracker->record;
    ASSERT(record->head.kind == ENTRY_COMMIT || record->head.kind == ENTRY_ABORT);
    bool has_table = record->table.round == record->head.round && record->table.version > 0;
    if (!has_table) {
        return;
    }
    if (record->head.kind == ENTRY_COMMIT) {
        record_opposed_contributors(tracker);
    }
    uint64_t judged = exchange->expected_seats | exchange->undeclared_seats |
                      find_excluded_seats(exchange) | tracker_find_silent_seats(tracker);
    SEATS_EACH(seat, tracker_live_seats(tracker) & judged) {
        if (has_enough_voters(&record->head, (uint32_t)seat)) {
            record_judged_round(&tracker->strikes[tracker->seats.row_of_seat[seat]],
                                find_miss(tracker, (uint32_t)seat));
        }
    }
}

/* Returns the row to suspend next, or ROW_NONE. At most a third of the voters are suspended at a
 * time: if more are due, the network is at fault. There is no such limit for guests, which may all
 * be liars. */
static uint32_t find_due_row(struct tracker *tracker) {
    uint32_t due = ROW_NONE;
    uint32_t suspended = 0;
    uint32_t connected = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        bool is_due = tracker->strikes[row].due != SUSPENSION_NONE;
        if (tracker_is_guest(tracker, row)) {
            if (is_due) {
                return row;
            }
            continue;
        }
        connected += !tracker->members[row].is_silent;
        suspended += !tracker->members[row].is_silent && tracker_is_suspended(tracker, row);
        due = is_due ? row : due;
    }
    return SUSPENDED_DIVISOR * (suspended + 1) <= connected ? due : ROW_NONE;
}

bool tracker_suspend_next(struct tracker *tracker, struct actions *actions) {
    ASSERT(tracker->stage.kind == STAGE_READY);
    uint32_t row = tracker->record.head.kind == ENTRY_GENESIS ? ROW_NONE : find_due_row(tracker);
    if (row == ROW_NONE) {
        return false;
    }
    uint32_t term = tracker->strikes[row].term;
    term = 2 * term < TERM_MIN ? TERM_MIN : 2 * term < TERM_MAX ? 2 * term : TERM_MAX;
    struct entry *entry = tracker_draft_entry(tracker, ENTRY_SUSPEND);
    entry->suspension = (struct entry_suspension){.id = tracker->record.members[row].id,
                                                  .reason = tracker->strikes[row].due,
                                                  .until_round = entry->round + 1 + term,
                                                  .evidence = tracker->strikes[row].evidence};
    tracker_write_draft(tracker, RECORD_HEAD, actions);
    return true;
}

void tracker_apply_suspension(struct tracker *tracker, const struct entry *entry) {
    ASSERT(entry->kind == ENTRY_SUSPEND);
    uint32_t row = tracker_find_row(tracker, &entry->suspension.id);
    if (row == ROW_NONE) {
        return; /* another member has the row of the suspended member by now */
    }
    uint32_t term = entry->suspension.until_round - entry->round - 1;
    tracker->strikes[row] = (struct tracker_strikes){.until_round = entry->suspension.until_round,
                                                     .term = term,
                                                     .reason = entry->suspension.reason};
    tracker_mark_slow(tracker, row); /* no owner waits for the member at first when it returns */
}

void tracker_restore_member(struct tracker *tracker, uint32_t row) {
    ASSERT(row < tracker->record.member_count);
    tracker->strikes[row].misses = tracker->record.members[row].misses;
    tracker->strikes[row].opposed = tracker->record.members[row].opposed;
    tracker_restore_share(tracker, row, tracker->record.members[row].share);
    tracker_restore_speed(tracker, row, &tracker->record.speeds[row]);
}

/* Applies the suspension, and if it is over by now, restores the member from the record: what the
 * record has of the member is then newer. */
void tracker_replay_suspension(struct tracker *tracker, const struct entry *entry) {
    const uint32_t row = tracker_find_row(tracker, &entry->suspension.id);
    tracker_apply_suspension(tracker, entry);
    if (row != ROW_NONE && !tracker_is_suspended(tracker, row)) {
        tracker_restore_member(tracker, row);
    }
}
