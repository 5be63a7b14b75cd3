/* tracker_view: a copy of the tracker's state for status reports, and a text that explains the
 * deadlines. */
#include "base/text.h"
#include "runtime/swarm/protocol/audit.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Describes each deadline and the time that it follows from (timing.h has the rules). */
static void describe_deadlines(const struct tracker *tracker, const struct swarm_timing *timing,
                               struct text *text) {
    const struct timing_times *times = tracker_usual_times(tracker);
    text_add(text,
             "heartbeat %u ms (1 x round trip of %u ms), silence %u ms (4 x round trip + 4 x "
             "heartbeat), train %u ms (%g x %u ms), contributions %u ms (%g x %u ms), exchange %u "
             "ms (%g x %u ms), apply %u ms (%g x %u ms), round %u ms: each time limit is a "
             "multiple of the members' usual time, with a slack of %u ms",
             timing->heartbeat_ms, times->round_trip_ms, timing->silence_ms, timing->train_ms,
             tracker->settings.training.patience, times->train_ms, timing->contribution_ms,
             tracker->settings.training.patience, times->contribution_ms, timing->exchange_ms,
             tracker->settings.training.patience, times->result_ms, timing->apply_ms,
             tracker->settings.training.patience, times->apply_ms, timing->round_ms,
             timing_slack_ms(timing, times->round_trip_ms));
}

const char *tracker_stage_name(const struct tracker *tracker) {
    static const char *const STAGES[] = {[STAGE_READY] = "ready",
                                         [STAGE_TRAIN] = "train",
                                         [STAGE_EXCHANGE] = "exchange",
                                         [STAGE_VOTE] = "vote"};
    ASSERT(tracker->stage.kind < ARRAY_COUNT(STAGES));
    return STAGES[tracker->stage.kind];
}

/* Whether the view shows the slices in the table of the open round, or else those in the newest
 * commit. */
static bool shows_open_table(const struct tracker *tracker) {
    return tracker->stage.kind == STAGE_EXCHANGE || tracker->stage.kind == STAGE_VOTE;
}

/* Returns the number of slices of a seat, and in *missing how many of them have no result. */
static uint32_t count_slices_of_seat(const struct tracker *tracker, uint32_t seat,
                                     uint32_t *missing) {
    const uint64_t live = tracker_live_seats(tracker);
    uint32_t count = 0;
    *missing = 0;
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        if (tracker->record.table.slices[s].owner == seat) {
            count++;
            *missing += (tracker->exchange.holders[s] & live) == 0;
        }
    }
    ASSERT(*missing <= count && seat < tracker->record.head.seat_count);
    return count;
}

/* Fills in how many slices of the newest commit a member owned, and whether it contributed. */
static void fill_commit_fields(const struct entry *commit, struct tracker_view_member *member) {
    ASSERT(commit->kind == ENTRY_COMMIT && commit->result_count > 0);
    const int seat = roster_find_seat(commit, &member->id);
    if (seat != NO_SEAT) {
        member->slices += commit->members[seat].owned;
        member->has_contributed |= commit->members[seat].contributed > 0;
    }
}

static bool has_seat_without_vote(const struct tracker *tracker, uint32_t row) {
    const int seat = tracker->seats.seat_of_row[row];
    return seat != NO_SEAT && tracker->record.head.seats[seat].is_guest == 1;
}

static void fill_member_view(const struct tracker *tracker, uint32_t row,
                             struct tracker_view_member *member) {
    uint32_t missing = 0;
    if (tracker->record.commit.kind == ENTRY_COMMIT) {
        fill_commit_fields(&tracker->record.commit, member);
    }
    if (shows_open_table(tracker)) {
        int seat = tracker->seats.seat_of_row[row];
        member->slices =
            seat == NO_SEAT ? 0 : count_slices_of_seat(tracker, (uint32_t)seat, &missing);
    }
    const bool lacks[] = {[STAGE_READY] = false,
                          [STAGE_TRAIN] = !member->has_declared,
                          [STAGE_EXCHANGE] = missing > 0,
                          [STAGE_VOTE] =
                              !member->has_voted && !has_seat_without_vote(tracker, row)};
    member->is_awaited =
        member->seat != NO_SEAT && !member->is_silent && lacks[tracker->stage.kind];
}

/* Fills in the numbers of present and of needed members, what the stage waits for, and the time of
 * its last progress. */
static void fill_round_fields(const struct tracker *tracker, struct tracker_view *view) {
    static const char *const AWAITED[] = {[STAGE_READY] = NULL,
                                          [STAGE_TRAIN] = "training",
                                          [STAGE_EXCHANGE] = "results",
                                          [STAGE_VOTE] = "votes"};
    uint32_t quorum = entry_votes_needed(&tracker->record.head);
    uint32_t members_min = tracker->settings.members_min;
    view->awaited = AWAITED[tracker->stage.kind];
    view->last_progress_ms = tracker->stage.stage_began_ms;
    view->present = 0;
    for (uint32_t row = 0; row < view->member_count; row++) {
        const struct tracker_view_member *member = &view->members[row];
        view->present +=
            !member->is_guest && !member->is_silent && !member->is_leaving && member->is_current;
    }
    ASSERT(view->present <= view->member_count);
    view->needed =
        tracker->stage.kind == STAGE_READY && members_min > quorum ? members_min : quorum;
    if (tracker->stage.kind != STAGE_READY) {
        view->present = seats_count(tracker_live_voters(tracker));
    }
}

static void fill_audit_probabilities(const struct tracker *tracker, struct tracker_view *view) {
    const struct audit_swarm swarm = {.slices = tracker->settings.slice_count,
                                      .voters = entry_voter_count(&tracker->record.head),
                                      .has_sketches = tracker->settings.has_sketches};
    const uint32_t lies = swarm.voters > 0 ? audit_slices_per_owner(&swarm) : 0;
    const bool is_sparse = tracker->settings.is_sparse;
    view->found_in_round = is_sparse ? 1 : audit_detection_probability(&swarm, lies, 1);
    view->found_in_10_rounds = is_sparse ? 1 : audit_detection_probability(&swarm, lies, 10);
}

void tracker_read_view(const struct tracker *tracker, struct tracker_view *view) {
    const struct tracker_record *record = &tracker->record;
    ASSERT(record->member_count <= SWARM_MEMBERS_MAX);
    view->record = record;
    view->stage = tracker_stage_name(tracker);
    view->stage_began_ms = tracker->stage.stage_began_ms;
    view->round_began_ms = tracker->stage.round_began_ms;
    view->timing = *tracker_timing(tracker);
    struct text text = text_over(view->derivation, sizeof view->derivation);
    describe_deadlines(tracker, &view->timing, &text);
    view->member_count = record->member_count;
    for (uint32_t row = 0; row < record->member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        view->members[row] = (struct tracker_view_member){
            .id = record->members[row].id,
            .session = record->members[row].session,
            .is_guest = tracker_is_guest(tracker, row),
            .is_silent = member->is_silent,
            .is_leaving = member->is_leaving,
            .has_declared = tracker->stage.kind != STAGE_READY && member->has_declared,
            .has_voted = tracker->stage.kind == STAGE_VOTE && member->vote.has_arrived,
            .is_current = hash_equal(&member->report.root, &record->commit.root),
            .seat = record->head.kind == ENTRY_OPEN ? tracker->seats.seat_of_row[row] : NO_SEAT,
        };
        if (tracker_is_suspended(tracker, row)) {
            view->members[row].suspended_until = tracker->strikes[row].until_round;
            view->members[row].suspended_for = tracker->strikes[row].reason;
        }
        fill_member_view(tracker, row, &view->members[row]);
    }
    view->is_fork_possible = tracker_is_fork_possible(tracker, &view->electors);
    view->missing_count = tracker_list_missing_electors(tracker, view->missing);
    view->slice_count = tracker->settings.slice_count;
    fill_audit_probabilities(tracker, view);
    fill_round_fields(tracker, view);
}
