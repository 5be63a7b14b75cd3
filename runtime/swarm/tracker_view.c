#include "runtime/swarm/tracker_view.h"

#include "base/text.h"
#include "runtime/swarm/tracker_state.h"

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
    const struct timing_measured slow = timing_quantiles(rows, count);
    text_add(text,
             "heartbeat %u ms (1 x round trip), silence %u ms (4 x round trip + 4 x heartbeat), "
             "train %u ms (2 x step x %u), exchange %u ms (3 x transfer + 4 x round trip), round "
             "%u ms (train + 10 x exchange): of %u members nine tenths have round trip <= %u ms, "
             "step <= %u ms, transfer <= %u ms",
             timing->heartbeat_ms, timing->silence_ms, timing->train_ms,
             tracker->settings.inner_steps, timing->exchange_ms, timing->round_ms, count,
             slow.round_trip_ms, slow.step_ms, slow.transfer_ms);
}

const char *tracker_stage_name(const struct tracker *tracker) {
    static const char *const STAGES[] = {[STAGE_READY] = "ready",
                                         [STAGE_TRAIN] = "train",
                                         [STAGE_EXCHANGE] = "exchange",
                                         [STAGE_VOTE] = "vote"};
    return STAGES[tracker->stage];
}

void tracker_look(const struct tracker *tracker, struct tracker_view *view) {
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
            .has_declared = member->has_declared,
            .has_voted = member->has_voted,
            .is_current = hash_equal(&member->root, &record->commit.root),
            .seat = record->head.kind == ENTRY_OPEN ? tracker->seat_of_row[row] : NO_SEAT,
        };
    }
}
