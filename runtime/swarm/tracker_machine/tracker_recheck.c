#include "runtime/swarm/protocol/audit.h"
#include "runtime/swarm/tracker_machine/tracker_accusation.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    WAIT_HEARTBEATS = 8, /* number of heartbeats that an audited proposal waits for missing votes */
    /* divisor of exchange_ms: the additional wait, in which voters fetch the audited slice */
    WAIT_EXCHANGE_DIVISOR = 16,
    LATE_ROUNDS = 64,         /* number of rounds in which no proposal waits for a late voter */
    IGNORED_ROUNDS_MIN = 8,   /* rounds in which an accuser is ignored; doubled each time */
    IGNORED_ROUNDS_MAX = 512, /* maximum rounds in which an accuser is ignored */
};

void tracker_clear_recheck_credit(struct tracker *tracker, uint32_t row) {
    struct tracker_recheck *recheck = &tracker->recheck;
    recheck->credits[row] = (struct recheck_credit){0};
    recheck->is_confirmed |= recheck->accuser_row == row + 1;
}

void recheck_confirm_accusation(struct tracker_recheck *recheck) {
    recheck->is_confirmed = true;
}

/* Sets what the voters on a new proposal audit. Without an accusation, the proposal's seed decides,
 * because it was drawn after the results were reported. */
void tracker_begin_recheck(struct tracker *tracker) {
    struct tracker_recheck *recheck = &tracker->recheck;
    const bool is_audited = !tracker->settings.is_sparse &&
                            tracker->proposal.seed.bytes[0] % AUDIT_ROUNDS == AUDIT_ROUNDS - 1 &&
                            entry_voter_count(&tracker->record.head) >= AUDIT_VOTERS_MIN;
    recheck->current = recheck->next != RECHECK_NONE ? recheck->next
                       : is_audited                  ? (uint32_t)RECHECK_DRAWN
                                                     : (uint32_t)RECHECK_NONE;
    recheck->next = RECHECK_NONE;
    recheck->quorum_ms = 0;
}

/* The row of the accuser whose accusation is followed: of the accusers that are not ignored now,
 * the one with the lowest ignored_rounds. NO_SEAT: there is none. */
static int find_accuser(const struct tracker *tracker) {
    const struct entry *head = &tracker->record.head;
    int found = NO_SEAT;
    SEATS_EACH(seat, entry_voting_seats(head)) {
        const int row = tracker->seats.row_of_seat[seat];
        if (row == NO_SEAT || !tracker->members[row].vote.has_arrived ||
            !hash_is_zero(&tracker->members[row].vote.root) ||
            !refusal_is_accusation(tracker->members[row].vote.refusal.reason)) {
            continue;
        }
        const struct recheck_credit *credits = tracker->recheck.credits;
        if (credits[row].ignored_until <= head->round &&
            (found == NO_SEAT || credits[row].ignored_rounds < credits[found].ignored_rounds)) {
            found = row;
        }
    }
    return found;
}

/* The rows of the live voters whose votes are missing, except slow and recently late ones. */
static uint64_t find_awaited_rows(const struct tracker *tracker) {
    uint64_t rows = 0;
    SEATS_EACH(seat, tracker_live_voters(tracker)) {
        const uint32_t row = (uint32_t)tracker->seats.row_of_seat[seat];
        const bool is_prompt =
            tracker_is_fast_enough(tracker, row) &&
            tracker->recheck.credits[row].awaited_from <= tracker->record.head.round;
        rows |= is_prompt && !tracker->members[row].vote.has_arrived ? seat_bit(row) : 0;
    }
    return rows;
}

/* Starts or continues the wait for missing votes. Returns false if no votes are missing, or if the
 * wait is over. After a wait, no proposal waits for the missing voters for LATE_ROUNDS rounds. */
static bool keep_waiting_for_votes(struct tracker *tracker, int64_t now_ms) {
    struct tracker_recheck *recheck = &tracker->recheck;
    const struct swarm_timing *timing = &tracker->deadlines.timing;
    const uint64_t awaited = find_awaited_rows(tracker);
    if (awaited == 0) {
        return false;
    }
    recheck->quorum_ms = recheck->quorum_ms == 0 ? now_ms : recheck->quorum_ms;
    const int64_t wait_ms = WAIT_HEARTBEATS * (int64_t)timing->heartbeat_ms +
                            (int64_t)timing->exchange_ms / WAIT_EXCHANGE_DIVISOR;
    if (now_ms - recheck->quorum_ms < wait_ms) {
        return true;
    }
    SEATS_EACH(row, awaited) {
        recheck->credits[row].awaited_from = tracker->record.head.round + LATE_ROUNDS;
    }
    return false;
}

/* Returns true if the proposal is not committed yet, because votes are awaited, or because another
 * proposal follows an accusation. Only one accusation is followed in each round. */
bool tracker_advance_recheck(struct tracker *tracker, int64_t now_ms) {
    struct tracker_recheck *recheck = &tracker->recheck;
    ASSERT(tracker->stage.kind == STAGE_VOTE);
    const int row = recheck->accuser_row == 0 ? find_accuser(tracker) : NO_SEAT;
    if (row != NO_SEAT) {
        recheck->accuser_row = (uint32_t)row + 1;
        recheck->next = RECHECK_SLICE + tracker->members[row].vote.slice;
        tracker_enter_stage(tracker, STAGE_EXCHANGE, now_ms);
        return true;
    }
    return (recheck->current == RECHECK_DRAWN || tracker_is_opposition_undecided(tracker)) &&
           keep_waiting_for_votes(tracker, now_ms);
}

/* Ends the rechecks of a round. If the others did not confirm an accusation, the accuser is ignored
 * for some rounds, because the accusation has cost them time. */
void tracker_end_recheck(struct tracker *tracker) {
    struct tracker_recheck *recheck = &tracker->recheck;
    ASSERT(recheck->accuser_row <= SWARM_MEMBERS_MAX);
    if (recheck->accuser_row > 0 && !recheck->is_confirmed) {
        struct recheck_credit *credit = &recheck->credits[recheck->accuser_row - 1];
        const uint32_t rounds = 2 * credit->ignored_rounds;
        credit->ignored_rounds = rounds < IGNORED_ROUNDS_MIN   ? IGNORED_ROUNDS_MIN
                                 : rounds < IGNORED_ROUNDS_MAX ? rounds
                                                               : IGNORED_ROUNDS_MAX;
        credit->ignored_until = tracker->record.head.round + 1 + credit->ignored_rounds;
    }
    recheck->accuser_row = 0;
    recheck->next = RECHECK_NONE;
    recheck->is_confirmed = false;
}
