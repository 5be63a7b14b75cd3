/* tracker_round: when a round opens, gets its table, commits or aborts, and the entries of that. */
#include "runtime/swarm/ledger/cursor.h"
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

enum {
    FOLLOWING_PART = 4, /* of a round's training: half of what the median member takes */
    MISSED_MOST = 2,    /* rounds: who does not come by the state meanwhile would never */
    HELD_EXCHANGES = 4, /* for so many deadlines of an exchange it is waited for, in all */
};

static uint32_t count_of(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

struct entry *tracker_begin_entry(struct tracker *tracker, enum entry_kind kind) {
    tracker_draft(tracker);
    struct entry *entry = &tracker->next.head;
    entry->kind = kind;
    entry->incarnation = tracker->record.incarnation;
    entry->prev = tracker->record.head.hash;
    entry->commits = tracker->record.head.commits;
    entry->root = tracker->record.commit.root;
    memset(&entry->hash, 0, sizeof(entry->hash));
    memset(&entry->manifest, 0, sizeof(entry->manifest));
    memset(entry->members, 0, sizeof(entry->members));
    memset(entry->signatures, 0, sizeof(entry->signatures));
    entry->signature_count = 0;
    entry->slice_count = 0;
    entry->deadline_ms = 0;
    return entry;
}

static int is_ready(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    return !member->silent && !member->leaving &&
           hash_equal(&member->root, &tracker->record.commit.root);
}

/* Of the last round's seats, those that were not let go. */
static uint32_t count_staying(const struct tracker *tracker) {
    uint32_t staying = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker->row_of_seat[seat];
        staying += row == NO_SEAT || !tracker->members[row].leaving;
    }
    return staying;
}

/* Who votes and applies; not who is still fetching the state. */
static int is_applying(const struct tracker *tracker, uint32_t row) {
    return tracker->seat_of_row[row] != NO_SEAT && tracker_has_state(&tracker->members[row]);
}

/* Who has no seat yet and is behind by the last commit only, whose results it fetches. */
static int is_following(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    return tracker->seat_of_row[row] == NO_SEAT && tracker_has_state(member) &&
           hash_equal(&member->root, &tracker->record.base);
}

/* Those few who exchange may be done in no time, when results take a newcomer long; so it has a
 * part of the training's time too. */
static int64_t following_ms(const struct swarm_timing *timing) {
    int64_t part_ms = timing->train_ms / FOLLOWING_PART;
    return part_ms > timing->exchange_ms ? part_ms : timing->exchange_ms;
}

/* After ABORT a seat gets its ranges of then again, for the work on them is kept. */
static void give_ranges(const struct tracker *tracker, struct entry_seat *seat,
                        struct data_cursor *cursor) {
    const struct entry *head = &tracker->record.head;
    for (uint32_t old = 0; head->kind == ENTRY_ABORT && old < head->seat_count; old++) {
        const struct entry_seat *kept = &head->seats[old];
        if (kept->session != seat->session) {
            continue;
        }
        for (uint32_t i = 0; i < kept->range_count; i++) {
            if (cursor_reclaim(cursor, kept->ranges[i])) {
                seat->ranges[seat->range_count++] = kept->ranges[i];
            }
        }
    }
}

/* Who is live and has missed rounds because others commit faster than the state comes to it: links
 * are its own until it is there, or has had its time. */
static int is_hindered(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    return !is_ready(tracker, row) && !member->silent && !member->leaving &&
           member->missed >= MISSED_MOST &&
           member->held_ms < HELD_EXCHANGES * (int64_t)tracker->timing.exchange_ms;
}

/* As it passes: who comes and goes is not waited for anew each time. */
static void count_held(struct tracker *tracker, int64_t now_ms) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        int64_t passed_ms = is_hindered(tracker, row) ? now_ms - tracker->held_ms : 0;
        tracker->members[row].held_ms += passed_ms;
    }
    tracker->held_ms = now_ms;
}

/* A round opens: who gets a seat, and who is passed over. */
static void count_missed(struct tracker *tracker) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_member *member = &tracker->members[row];
        member->missed += 1;
        if (is_ready(tracker, row)) {
            member->missed = 0;
            member->held_ms = 0;
        }
    }
}

static void open_round(struct tracker *tracker, struct actions *actions) {
    struct entry *entry = tracker_begin_entry(tracker, ENTRY_OPEN);
    tracker_derive_timing(tracker);
    const struct tracker_record *record = &tracker->record;
    entry->round = record->head.round + 1;
    entry->deadline_ms = tracker->timing.train_ms;
    entry->seat_count = 0;
    memset(entry->seats, 0, sizeof(entry->seats));
    for (uint32_t row = 0; row < record->member_count; row++) {
        if (is_ready(tracker, row)) {
            struct entry_seat *seat = &entry->seats[entry->seat_count++];
            seat->id = record->members[row].id;
            seat->session = record->members[row].session;
            give_ranges(tracker, seat, &entry->cursor);
        }
    }
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        struct entry_seat *seat = &entry->seats[i];
        if (seat->range_count < SWARM_SEAT_RANGES_MAX) {
            seat->ranges[seat->range_count++] =
                cursor_hand_out(&entry->cursor, tracker->settings.seat_samples);
        }
    }
    tracker->next.table.round = entry->round;
    tracker->next.table.version = 0;
    tracker_write(tracker, RECORD_HEAD | RECORD_PLANS, actions);
}

int tracker_is_over(const struct tracker *tracker) {
    return tracker->stage == STAGE_READY && tracker->settings.commits_max > 0 &&
           tracker->record.head.commits >= tracker->settings.commits_max;
}

static void advance_ready(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    const struct tracker_settings *settings = &tracker->settings;
    int64_t waited_ms = now_ms - tracker->stage_ms;
    uint32_t staying = count_staying(tracker);
    uint32_t ready = 0;
    uint32_t applying = 0;
    uint32_t following = 0;
    uint32_t hindered = 0;
    uint32_t waiting = 0;
    count_held(tracker, now_ms);
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        ready += (uint32_t)is_ready(tracker, row);
        int is_late = !member->silent && !member->leaving && !is_ready(tracker, row);
        applying += (uint32_t)(is_late && is_applying(tracker, row));
        following += (uint32_t)(is_late && is_following(tracker, row));
        hindered += (uint32_t)is_hindered(tracker, row);
        waiting += (uint32_t)!member->silent;
    }
    /* Nobody waits in vain while nobody is there: whoever has the state may come last. */
    tracker->reached_ms = ready > 0 || waiting == 0 ? now_ms : tracker->reached_ms;
    int is_shrunk = settings->shrink_after_ms > 0 && waited_ms >= settings->shrink_after_ms;
    int has_quorum = staying == 0 || ready >= entry_quorum(staying);
    int is_settled = waited_ms >= tracker->timing.heartbeat_ms &&
                     (applying == 0 || waited_ms >= tracker->timing.exchange_ms) && hindered == 0 &&
                     (following == 0 || waited_ms >= following_ms(&tracker->timing));
    if (tracker_is_over(tracker)) {
        return;
    }
    if (ready == 0) {
        tracker_roll_back(tracker, now_ms, actions);
    } else if (ready >= settings->members_min && is_settled && (has_quorum || is_shrunk)) {
        count_missed(tracker);
        open_round(tracker, actions);
    }
}

static void return_ranges(struct entry *entry, uint64_t used) {
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        for (uint32_t r = 0; (used >> i & 1) == 0 && r < seat->range_count; r++) {
            cursor_return(&entry->cursor, seat->ranges[r]);
        }
    }
}

static void abort_round(struct tracker *tracker, struct actions *actions) {
    return_ranges(tracker_begin_entry(tracker, ENTRY_ABORT), 0);
    tracker_write(tracker, RECORD_HEAD, actions);
}

/* Seats whose votes equal the given row's. */
static uint64_t equal_votes(const struct tracker *tracker, int row) {
    uint64_t equal = 0;
    const struct tracker_member *model = &tracker->members[row];
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int other = tracker->row_of_seat[seat];
        if (other != NO_SEAT && tracker->members[other].has_voted &&
            hash_equal(&tracker->members[other].vote_hash, &model->vote_hash) &&
            hash_equal(&tracker->members[other].vote_root, &model->vote_root)) {
            equal |= UINT64_C(1) << seat;
        }
    }
    return equal;
}

static void commit_round(struct tracker *tracker, int row, uint64_t votes,
                         struct actions *actions) {
    struct entry *entry = tracker_begin_entry(tracker, ENTRY_COMMIT);
    *entry = tracker->proposal; /* with its slices, which are read until they are the commit's */
    entry->root = tracker->members[row].vote_root;
    entry->hash = tracker->members[row].vote_hash;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((votes >> seat & 1) != 0) {
            struct entry_signature *signature = &entry->signatures[entry->signature_count++];
            signature->seat = seat;
            signature->signature = tracker->members[tracker->row_of_seat[seat]].vote_signature;
        }
    }
    tracker_write(tracker, RECORD_HEAD, actions);
}

static void advance_vote(struct tracker *tracker, struct actions *actions) {
    uint32_t seat_count = tracker->record.head.seat_count;
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        int row = tracker->row_of_seat[seat];
        if (row == NO_SEAT || !tracker->members[row].has_voted) {
            continue;
        }
        uint64_t votes = equal_votes(tracker, row);
        if (count_of(votes) >= entry_quorum(seat_count)) {
            commit_round(tracker, row, votes, actions);
            return;
        }
    }
}

void tracker_propose(struct tracker *tracker) {
    struct entry *proposal = &tracker->proposal;
    uint64_t used = 0;
    for (uint32_t s = 0; s < proposal->slice_count; s++) {
        used |= proposal->slices[s].contributors;
    }
    const struct entry *head = &tracker->record.head;
    proposal->kind = ENTRY_COMMIT;
    proposal->incarnation = tracker->record.incarnation;
    proposal->round = head->round;
    proposal->prev = head->hash;
    proposal->commits = head->commits + 1;
    proposal->cursor = head->cursor;
    proposal->seat_count = head->seat_count;
    memcpy(proposal->seats, head->seats, sizeof(head->seats));
    memcpy(proposal->members, tracker->record.table.members, sizeof(proposal->members));
    return_ranges(proposal, used);
    tracker->proposal_number += 1;
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].has_voted = 0;
    }
}

static void advance_train(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    const struct swarm_timing *timing = &tracker->timing;
    uint64_t live = tracker_live_seats(tracker);
    uint64_t declared = 0;
    uint32_t seat_count = tracker->record.head.seat_count;
    for (uint32_t seat = 0; seat < seat_count; seat++) {
        int row = tracker->row_of_seat[seat];
        if ((live >> seat & 1) != 0 && tracker->members[row].has_declared) {
            declared |= UINT64_C(1) << seat;
        }
    }
    int is_late = now_ms - tracker->round_ms >= (int64_t)timing->train_ms + timing->silence_ms;
    if ((declared == live || is_late) && count_of(declared) >= entry_quorum(seat_count)) {
        tracker_write_table(tracker, actions);
    }
}

/* Seats whose session is its member's still: another start of it has no part in the round. */
static uint32_t count_standing(const struct tracker *tracker) {
    uint32_t standing = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        standing += tracker->row_of_seat[seat] != NO_SEAT;
    }
    return standing;
}

/* A round ends without a result when no quorum can come back, when none did in time, or when it is
 * too old. */
static int is_hopeless(struct tracker *tracker, int64_t now_ms) {
    const struct tracker_settings *settings = &tracker->settings;
    uint32_t live = count_of(tracker_live_seats(tracker));
    if (count_standing(tracker) < entry_quorum(tracker->record.head.seat_count)) {
        return 1;
    }
    if (live >= entry_quorum(tracker->record.head.seat_count)) {
        tracker->quorum_ms = now_ms;
        return now_ms - tracker->round_ms >= tracker->timing.round_ms;
    }
    return settings->shrink_after_ms > 0 &&
           now_ms - tracker->quorum_ms >= settings->shrink_after_ms;
}

void tracker_advance(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    if (tracker->stage == STAGE_READY) {
        advance_ready(tracker, now_ms, actions);
        return;
    }
    if (is_hopeless(tracker, now_ms)) {
        abort_round(tracker, actions);
        return;
    }
    if (tracker->stage == STAGE_TRAIN) {
        advance_train(tracker, now_ms, actions);
        return;
    }
    if (tracker->stage == STAGE_VOTE) {
        advance_vote(tracker, actions);
    }
    if (tracker->writing == 0) {
        tracker_advance_exchange(tracker, now_ms, actions);
    }
}
