#include "runtime/swarm/protocol/tracker_view.h"

#include "base/text.h"
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

/* The deadlines, each with what it follows from (timing.h has floors and ceilings). */
static void derive(const struct tracker *tracker, const struct swarm_timing *timing,
                   struct text *text) {
    const struct timing_measured *rows = NULL;
    uint32_t count = tracker_measured(tracker, &rows);
    if (count == 0) {
        text_add(text,
                 "heartbeat %u ms, silence %u ms, train %u ms, exchange %u ms, round %u ms: as "
                 "set, until members have measured theirs",
                 timing->heartbeat_ms, timing->silence_ms, timing->train_ms, timing->exchange_ms,
                 timing->round_ms);
        return;
    }
    const struct timing_training *training = &tracker->settings.training;
    const struct timing_measured slow = timing_quantiles(rows, count);
    text_add(text,
             "heartbeat %u ms (1 x round trip), silence %u ms (4 x round trip + 4 x heartbeat), "
             "train %u ms (%g x step x %u), exchange %u ms (3 x transfer + 4 x round trip), round "
             "%u ms (train + 10 x exchange): of %u members nine tenths have round trip <= %u ms, "
             "step <= %u ms, transfer <= %u ms",
             timing->heartbeat_ms, timing->silence_ms, timing->train_ms, training->patience,
             training->steps, timing->exchange_ms, timing->round_ms, count, slow.round_trip_ms,
             slow.step_ms, slow.transfer_ms);
}

const char *tracker_stage_name(const struct tracker *tracker) {
    static const char *const STAGES[] = {[STAGE_READY] = "ready",
                                         [STAGE_TRAIN] = "train",
                                         [STAGE_EXCHANGE] = "exchange",
                                         [STAGE_VOTE] = "vote"};
    return STAGES[tracker->stage];
}

static uint32_t bits_of(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

/* The open round's table counts; before there is one, and between rounds, what was committed. */
static int has_table(const struct tracker *tracker) {
    return tracker->stage == STAGE_EXCHANGE || tracker->stage == STAGE_VOTE;
}

/* Slices of a seat; of these, in *missing, those without a result. */
static uint32_t slices_of_seat(const struct tracker *tracker, uint32_t seat, uint32_t *missing) {
    const uint64_t live = tracker_live_seats(tracker);
    uint32_t count = 0;
    *missing = 0;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        if (tracker->record.table.slices[s].owner == seat) {
            count++;
            *missing += (tracker->holders[s] & live) == 0;
        }
    }
    return count;
}

/* What a member did in the newest commit. */
static void look_at_commit(const struct entry *commit, struct tracker_view_member *member) {
    uint32_t seat = 0;
    while (seat < commit->seat_count &&
           memcmp(commit->seats[seat].id.bytes, member->id.bytes, sizeof member->id.bytes) != 0) {
        seat++;
    }
    for (uint32_t s = 0; seat < commit->seat_count && s < commit->slice_count; s++) {
        member->slices += commit->slices[s].owner == seat;
        member->has_contributed |= (int)(commit->slices[s].contributors >> seat & 1);
    }
}

static void look_at_row(const struct tracker *tracker, uint32_t row,
                        struct tracker_view_member *member) {
    uint32_t missing = 0;
    if (tracker->record.commit.kind == ENTRY_COMMIT) {
        look_at_commit(&tracker->record.commit, member);
    }
    if (has_table(tracker)) {
        int seat = tracker->seat_of_row[row];
        member->slices = seat == NO_SEAT ? 0 : slices_of_seat(tracker, (uint32_t)seat, &missing);
    }
    const int lacks[] = {[STAGE_READY] = 0,
                         [STAGE_TRAIN] = !member->has_declared,
                         [STAGE_EXCHANGE] = missing > 0,
                         [STAGE_VOTE] = !member->has_voted};
    member->is_awaited = member->seat != NO_SEAT && !member->silent && lacks[tracker->stage];
}

/* Who is there of those that it takes, and since when nothing went on. */
static void look_at_round(const struct tracker *tracker, struct tracker_view *view) {
    static const char *const AWAITED[] = {[STAGE_READY] = NULL,
                                          [STAGE_TRAIN] = "training",
                                          [STAGE_EXCHANGE] = "results",
                                          [STAGE_VOTE] = "votes"};
    const uint32_t seats = tracker->record.head.seat_count;
    uint32_t quorum = seats == 0 ? 1 : entry_quorum(seats);
    uint32_t least = tracker->settings.members_min;
    view->awaited = AWAITED[tracker->stage];
    view->moved_ms = tracker->stage_ms;
    view->present = 0;
    for (uint32_t row = 0; row < view->member_count; row++) {
        const struct tracker_view_member *member = &view->members[row];
        int64_t progress_ms = tracker->members[row].progress_ms;
        view->present += !member->silent && !member->leaving && member->is_current;
        view->moved_ms =
            has_table(tracker) && member->seat != NO_SEAT && progress_ms > view->moved_ms
                ? progress_ms
                : view->moved_ms;
    }
    view->needed = tracker->stage == STAGE_READY && least > quorum ? least : quorum;
    if (tracker->stage != STAGE_READY) {
        view->present = bits_of(tracker_live_seats(tracker));
    }
}

void tracker_read_view(const struct tracker *tracker, struct tracker_view *view) {
    const struct tracker_record *record = &tracker->record;
    view->record = record;
    view->stage = tracker_stage_name(tracker);
    view->stage_ms = tracker->stage_ms;
    view->round_ms = tracker->round_ms;
    view->timing = *tracker_timing(tracker);
    struct text text = text_over(view->derivation, sizeof view->derivation);
    derive(tracker, &view->timing, &text);
    view->member_count = record->member_count;
    for (uint32_t row = 0; row < record->member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        view->members[row] = (struct tracker_view_member){
            .id = record->members[row].id,
            .session = record->members[row].session,
            .silent = member->silent,
            .leaving = member->leaving,
            .has_declared = tracker->stage != STAGE_READY && member->has_declared,
            .has_voted = tracker->stage == STAGE_VOTE && member->has_voted,
            .is_current = hash_equal(&member->root, &record->commit.root),
            .seat = record->head.kind == ENTRY_OPEN ? tracker->seat_of_row[row] : NO_SEAT,
        };
        look_at_row(tracker, row, &view->members[row]);
    }
    view->slice_count = tracker->settings.slice_count;
    look_at_round(tracker, view);
}
