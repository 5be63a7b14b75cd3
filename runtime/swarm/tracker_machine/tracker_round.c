/* tracker_round: when a round opens, gets its table, or is aborted. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker_machine/tracker_accusation.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum { WAIT_EXCHANGES = 4 }; /* late members delay a round by at most 4 times exchange_ms */

/* The rows of the members that may have a seat in the next round. They include suspended members
 * only if the swarm cannot continue without them. */
static uint64_t find_seatable_rows(const struct tracker *tracker) {
    uint64_t ready = 0, seatable = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const bool is_ready = tracker_is_ready_for_round(tracker, row);
        ready |= (uint64_t)is_ready << row;
        seatable |= (uint64_t)(is_ready && !tracker_is_suspended(tracker, row)) << row;
    }
    return (tracker_may_continue_with(tracker, seatable) ? seatable : ready) &
           tracker_rows_allowed_by_leases(tracker);
}

/* Counts the voting seats of the last round whose members stay for the next round. */
static uint32_t count_staying_voters(const struct tracker *tracker) {
    uint32_t staying = 0;
    SEATS_EACH(seat, entry_voting_seats(&tracker->record.head)) {
        const uint32_t known = tracker_find_row(tracker, &tracker->record.head.seats[seat].id);
        int row = tracker->seats.row_of_seat[seat];
        if (known != ROW_NONE && tracker_has_resigned(tracker, known)) {
            continue;
        }
        staying += row == NO_SEAT || !(tracker->members[row].is_leaving ||
                                       tracker_is_suspended(tracker, (uint32_t)row));
    }
    ASSERT(staying <= tracker->record.head.seat_count);
    return staying;
}

/* Whether a member of the last round has a state, so that it votes and applies the commit. */
static bool is_applying_commit(const struct tracker *tracker, uint32_t row) {
    return tracker->seats.seat_of_row[row] != NO_SEAT &&
           tracker_member_has_state(&tracker->members[row]);
}

/* Whether a member without a seat lacks only the last commit and fetches its results. */
static bool is_fetching_results(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    return tracker->seats.seat_of_row[row] == NO_SEAT && tracker_member_has_state(member) &&
           hash_equal(&member->report.root, &tracker->record.base_root);
}

/* After an ABORT, gives a seat the sample ranges that the same member had in the aborted round,
 * because the member still has the work that it did on these samples. Returns whether the seat got
 * any. */
static bool reassign_ranges(const struct entry *head, struct entry_seat *seat,
                            struct data_cursor *cursor) {
    ASSERT(head->kind != ENTRY_OPEN && seat->range_count == 0);
    for (uint32_t old = 0; head->kind == ENTRY_ABORT && old < head->seat_count; old++) {
        const struct entry_seat *before = &head->seats[old];
        if (before->session != seat->session) {
            continue;
        }
        for (uint32_t i = 0; i < before->range_count; i++) {
            if (cursor_take_returned_range(cursor, before->ranges[i])) {
                ASSERT(seat->range_count < SWARM_SEAT_RANGES_MAX);
                seat->ranges[seat->range_count++] = before->ranges[i];
            }
        }
    }
    return seat->range_count > 0;
}

/* Assigns samples that no other seat has. Ranges that were returned to the cursor may be short, so
 * the seat may get several. */
static void assign_new_samples(struct data_cursor *cursor, uint64_t samples,
                               struct entry_seat *seat) {
    ASSERT(samples > 0);
    while (samples > 0 && seat->range_count < SWARM_SEAT_RANGES_MAX) {
        const struct sample_range range = cursor_hand_out(cursor, samples);
        seat->ranges[seat->range_count++] = range;
        samples -= range.end - range.begin;
    }
    ASSERT(seat->range_count > 0 && seat->range_count <= SWARM_SEAT_RANGES_MAX);
}

/* Assigns the seats and samples of an OPEN. After an ABORT, all seats first get back their ranges
 * of the aborted round. Only then are new samples assigned, so that no other seat gets these
 * ranges. */
static void assign_seats(struct tracker *tracker, struct entry *entry) {
    const struct tracker_record *record = &tracker->record;
    uint32_t rows[SWARM_MEMBERS_MAX];
    ASSERT(entry->kind == ENTRY_OPEN && entry->round == record->head.round + 1);
    const uint64_t seatable = find_seatable_rows(tracker);
    entry->seat_count = 0;
    memset(entry->seats, 0, sizeof entry->seats);
    for (uint32_t row = 0; row < record->member_count; row++) {
        if ((seatable >> row & 1) != 0) {
            rows[entry->seat_count] = row;
            struct entry_seat *seat = &entry->seats[entry->seat_count++];
            seat->id = record->members[row].id;
            seat->session = record->members[row].session;
            seat->is_guest = !tracker_may_vote(tracker, row);
            tracker_mark_resumed_samples(tracker, row,
                                         reassign_ranges(&record->head, seat, &entry->cursor));
        }
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        assign_new_samples(&entry->cursor, tracker_samples_of_row(tracker, rows[i]),
                           &entry->seats[i]);
    }
}

static void open_round(struct tracker *tracker, struct actions *actions) {
    ASSERT(tracker->stage.kind == STAGE_READY);
    struct entry *entry = tracker_draft_entry(tracker, ENTRY_OPEN);
    tracker_derive_timing(tracker);
    entry->round = tracker->record.head.round + 1;
    entry->train_ms = tracker->deadlines.timing.train_ms;
    assign_seats(tracker, entry);
    ASSERT(entry->seat_count > 0);
    tracker_clear_table(tracker, entry->round);
    tracker_write_draft(tracker, RECORD_HEAD | RECORD_PLANS, actions);
}

bool tracker_is_run_complete(const struct tracker *tracker) {
    return tracker->stage.kind == STAGE_READY && tracker->settings.commits_max > 0 &&
           tracker->record.head.commits >= tracker->settings.commits_max;
}

/* How many members are ready for the next round, or keep it waiting. */
struct readiness {
    uint32_t ready;        /* voters with the current state, suspended and resigned ones included */
    uint32_t seats;        /* members that may have a seat with a vote in the next round */
    bool has_electors;     /* the members that may have a seat can commit the next round */
    uint32_t applying;     /* members that apply the last commit, as fast as usual */
    uint32_t fetching;     /* members that fetch results of the last commit, as fast as usual */
    uint32_t slow_joiners; /* members that cannot catch up while rounds continue */
    uint32_t slow;         /* members that apply or fetch, and usually take longer than others */
    uint32_t connected;    /* voters that are not silent */
};

static struct readiness count_members_by_readiness(const struct tracker *tracker) {
    const uint64_t seatable = find_seatable_rows(tracker);
    struct readiness count = {.has_electors = tracker_may_continue_with(tracker, seatable)};
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        bool is_ready = tracker_is_ready_for_round(tracker, row);
        bool is_late = !member->is_silent && !member->is_leaving && !is_ready;
        bool is_voter = !tracker_is_guest(tracker, row);
        count.ready += is_voter && is_ready;
        count.seats += tracker_may_vote(tracker, row) && (seatable >> row & 1) != 0;
        bool is_slow = !tracker_applies_in_time(tracker, row);
        bool is_applying = is_late && is_applying_commit(tracker, row);
        bool is_fetching = is_late && is_fetching_results(tracker, row);
        count.applying += is_applying && !is_slow;
        count.fetching += is_fetching && !is_slow;
        count.slow += (is_applying || is_fetching) && is_slow;
        count.slow_joiners += tracker_is_slow_joiner(tracker, row);
        count.connected += is_voter && !member->is_silent;
    }
    ASSERT(count.seats <= count.ready && count.ready <= count.connected);
    return count;
}

/* Whether the budget allows the next round to wait for late members. Members that are usually slow
 * may use only half of the budget. */
static bool may_wait(const struct tracker *tracker, const struct readiness *count,
                     int64_t capacity_ms) {
    const struct tracker_stage *stage = &tracker->stage;
    bool has_late = count->applying + count->fetching + count->slow_joiners > 0;
    return (has_late && stage_may_wait(stage, 0)) ||
           (count->slow > 0 && stage_may_wait(stage, capacity_ms / 2));
}

/* Returns whether the next round waits for members that are not ready. Members that apply the last
 * commit have the usual time for that. All further waits are taken off one budget, so that late
 * members, however many and however often, delay the swarm only by a bounded part of its time. */
static bool keep_waiting_for_members(struct tracker *tracker, const struct readiness *count,
                                     int64_t now_ms) {
    struct tracker_stage *stage = &tracker->stage;
    const struct swarm_timing *timing = &tracker->deadlines.timing;
    bool is_usual =
        count->applying > 0 && now_ms - stage->stage_began_ms < tracker_apply_wait_ms(tracker);
    int64_t capacity_ms = WAIT_EXCHANGES * (int64_t)timing->exchange_ms;
    bool is_waiting = !is_usual && count->ready > 0 && may_wait(tracker, count, capacity_ms);
    stage_update_wait_budget(stage, is_waiting, capacity_ms, now_ms);
    return is_usual || may_wait(tracker, count, capacity_ms);
}

static void advance_ready_stage(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    const struct tracker_settings *settings = &tracker->settings;
    const struct swarm_timing *timing = &tracker->deadlines.timing;
    int64_t waited_ms = now_ms - tracker->stage.stage_began_ms;
    uint32_t staying = count_staying_voters(tracker);
    const struct readiness count = count_members_by_readiness(tracker);
    /* The timeout does not run while no member is connected: the member with the state may be the
     * last to reconnect. */
    if (count.ready > 0 || count.connected == 0) {
        stage_mark_current_state(&tracker->stage, now_ms);
    }
    bool is_shrunk = settings->shrink_after_ms > 0 && waited_ms >= settings->shrink_after_ms;
    bool has_quorum = staying == 0 || count.seats >= entry_quorum(staying);
    bool is_settled =
        waited_ms >= timing->heartbeat_ms && !keep_waiting_for_members(tracker, &count, now_ms);
    if (tracker_is_run_complete(tracker)) {
        return;
    }
    if (count.ready == 0) {
        tracker_roll_back_if_state_lost(tracker, now_ms, actions);
    } else if (tracker_suspend_next(tracker, actions)) {
        return;
    } else if (count.seats > 0 && count.ready >= settings->members_min && is_settled &&
               count.has_electors && (has_quorum || is_shrunk || tracker->leases.order.count > 0)) {
        /* Suspended members count towards members_min. Otherwise a swarm of that size would wait
         * forever, because the term of a suspension is counted in rounds. */
        tracker_count_missed_rounds(tracker);
        open_round(tracker, actions);
    }
}

void tracker_return_ranges(struct entry *entry, uint64_t used) {
    ASSERT((used & ~roster_seats(entry)) == 0);
    cursor_return_unused(&entry->cursor, entry, used);
}

static void abort_round(struct tracker *tracker, struct actions *actions) {
    ASSERT(tracker->stage.kind != STAGE_READY);
    tracker_return_ranges(tracker_draft_entry(tracker, ENTRY_ABORT), 0);
    tracker_write_draft(tracker, RECORD_HEAD, actions);
}

static void advance_train_stage(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    uint64_t live = tracker_live_seats(tracker);
    uint64_t declared = 0;
    const struct entry *head = &tracker->record.head;
    uint64_t voters = entry_voting_seats(head);
    SEATS_EACH(seat, live) {
        bool has_declared = tracker_member_in_seat(tracker, (uint32_t)seat)->has_declared;
        declared |= has_declared ? seat_bit(seat) : 0;
    }
    ASSERT((declared & ~live) == 0 && tracker->stage.kind == STAGE_TRAIN);
    int64_t waited_ms = now_ms - tracker->stage.round_began_ms;
    bool is_late = waited_ms >= tracker_declaration_wait_ms(tracker);
    uint64_t awaited = tracker_awaited_seats(tracker, live);
    if (((awaited & ~declared) == 0 || is_late) &&
        seats_count(declared & voters) >= entry_votes_needed(head)) {
        exchange_set_undeclared_seats(&tracker->exchange, awaited & ~declared);
        tracker_write_table(tracker, actions);
    } else if (waited_ms >= tracker_training_end_ms(tracker)) {
        exchange_request_training_end(&tracker->exchange);
    }
}

/* The voting seats whose session is still current. A member that restarted takes no part in the
 * round. */
static uint64_t current_voters(const struct tracker *tracker) {
    uint64_t current = 0;
    SEATS_EACH(seat, entry_voting_seats(&tracker->record.head)) {
        current |= tracker->seats.row_of_seat[seat] != NO_SEAT ? seat_bit(seat) : 0;
    }
    ASSERT((tracker_live_voters(tracker) & ~current) == 0);
    return current;
}

/* The seats of members that cannot vote in the open round, because they have resigned or gave their
 * lease to another start of the tracker. */
static uint64_t find_seats_without_vote(const struct tracker *tracker) {
    const uint64_t allowed = tracker_rows_allowed_by_leases(tracker);
    uint64_t mute = 0;
    SEATS_EACH(seat, roster_seats(&tracker->record.head)) {
        const int row = tracker->seats.row_of_seat[seat];
        const bool is_mute = row != NO_SEAT && ((allowed >> row & 1) == 0 ||
                                                !tracker_may_vote(tracker, (uint32_t)row));
        mute |= is_mute ? seat_bit(seat) : 0;
    }
    return mute;
}

/* Whether the seats in `voters` can commit the open round. */
static bool can_commit(const struct tracker *tracker, uint64_t voters) {
    return seats_count(voters) >= entry_votes_needed(&tracker->record.head) &&
           tracker_can_seats_commit(tracker, voters);
}

static bool is_round_too_old(const struct tracker *tracker, int64_t now_ms) {
    ASSERT(tracker->stage.kind != STAGE_READY);
    return now_ms - tracker->stage.round_began_ms >= tracker->deadlines.timing.round_ms;
}

/* Records whether a quorum is connected. Returns true if the round must be aborted, because no
 * quorum can reconnect, because none reconnected in time, or because the round is too old. */
static bool check_round_loss(struct tracker *tracker, int64_t now_ms) {
    const struct tracker_settings *settings = &tracker->settings;
    const struct tracker_stage *stage = &tracker->stage;
    ASSERT(stage->kind != STAGE_READY);
    if (!can_commit(tracker, current_voters(tracker) & ~find_seats_without_vote(tracker))) {
        return true;
    }
    if (can_commit(tracker, tracker_live_voters(tracker))) {
        stage_mark_quorum(&tracker->stage, now_ms);
        return is_round_too_old(tracker, now_ms);
    }
    return settings->shrink_after_ms > 0 &&
           now_ms - stage->last_quorum_ms >= settings->shrink_after_ms;
}

/* Does the next step that the state allows: open a round, send the table, recover results, propose,
 * commit, abort or roll back. */
void tracker_advance(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    enum tracker_stage_kind stage = tracker->stage.kind;
    ASSERT(writer_can_write(&tracker->writer));
    ASSERT((stage == STAGE_READY) == (tracker->record.head.kind != ENTRY_OPEN));
    if (tracker_is_rollback_order_due(tracker)) {
        if (stage == STAGE_READY) {
            tracker_follow_rollback_order(tracker, actions);
        } else {
            abort_round(tracker, actions);
        }
    } else if (stage == STAGE_READY) {
        advance_ready_stage(tracker, now_ms, actions);
    } else if (tracker_judge_accusations(tracker) || tracker_is_proposal_refused(tracker, now_ms) ||
               tracker_is_round_overruled(tracker) || check_round_loss(tracker, now_ms)) {
        if (stage >= STAGE_EXCHANGE && is_round_too_old(tracker, now_ms)) {
            tracker_count_timed_out_round(tracker);
        }
        if (stage == STAGE_VOTE && is_round_too_old(tracker, now_ms)) {
            leases_mark_mute_rows(tracker);
        }
        abort_round(tracker, actions);
    } else if (stage == STAGE_TRAIN) {
        advance_train_stage(tracker, now_ms, actions);
    } else {
        if (stage == STAGE_VOTE) {
            tracker_count_votes(tracker, now_ms, actions);
        }
        if (tracker->writer.parts == 0) {
            tracker_advance_exchange(tracker, now_ms, actions);
        }
    }
}
