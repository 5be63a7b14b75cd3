/* tracker: the memory of the tracker's state machine, and the function that handles one event and
 * then starts what the new state allows. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

size_t tracker_memory_bytes(const struct tracker_settings *settings) {
    size_t slices = settings->slice_count;
    return carve_padded_bytes(sizeof(struct tracker)) +
           2 * carve_padded_bytes(slices * sizeof(struct entry_slice)) +
           2 * carve_padded_bytes(slices * sizeof(struct slice_plan)) +
           3 * carve_padded_bytes(slices * sizeof(uint64_t)) +
           SWARM_MEMBERS_MAX * carve_padded_bytes(slices * sizeof(struct slice_report));
}

struct tracker *tracker_init(void *memory, const struct tracker_settings *settings,
                             const struct tracker_record *record, int64_t now_ms) {
    ASSERT(settings->slice_count > 0 && settings->slice_count <= SWARM_SLICES_MAX);
    memset(memory, 0, tracker_memory_bytes(settings));
    struct tracker *tracker = memory;
    tracker->settings = *settings;
    size_t slices = settings->slice_count;
    char *arrays = (char *)memory + carve_padded_bytes(sizeof *tracker);
    proposal_init(&tracker->proposal, carve(&arrays, slices * sizeof(struct entry_slice)),
                  record->incarnation);
    exchange_init(&tracker->exchange, &arrays, settings->slice_count, record->incarnation, now_ms);
    tracker_load_record(tracker, &arrays, record);
    tracker_init_members(tracker, &arrays, now_ms);
    for (uint32_t row = 0; row < record->member_count; row++) {
        tracker_restore_member(tracker, row);
    }
    tracker_restore_exclusions(tracker);
    tracker_derive_timing(tracker);
    stage_init(&tracker->stage, record, now_ms);
    if (tracker->stage.kind == STAGE_EXCHANGE) {
        tracker_begin_pace(tracker);
    }
    return tracker;
}

const struct swarm_timing *tracker_timing(const struct tracker *tracker) {
    return &tracker->deadlines.timing;
}

const struct timing_times *tracker_usual_times(const struct tracker *tracker) {
    return &tracker->deadlines.times;
}

/* Enters the stage that the appended entry begins. */
static void enter_stage_of_head(struct tracker *tracker, int64_t now_ms) {
    if (tracker->record.head.kind != ENTRY_OPEN) {
        tracker_end_recheck(tracker);
        if (tracker->record.head.kind == ENTRY_COMMIT) {
            tracker_count_deliveries(tracker);
            /* judges the round by the speeds that were known when the round began */
            tracker_judge_round(tracker);
            tracker_separate_pairs(tracker);
            tracker_observe_exchange(tracker, now_ms);
            tracker_mark_applying_members(tracker);
            tracker_derive_timing(tracker);
        } else if (tracker->record.head.kind == ENTRY_ABORT) {
            tracker_judge_round(tracker);
            tracker_separate_pairs(tracker);
        } else if (tracker->record.head.kind == ENTRY_SUSPEND) {
            tracker_apply_suspension(tracker, &tracker->record.head);
        }
        tracker_enter_stage(tracker, STAGE_READY, now_ms);
        return;
    }
    tracker_clear_declarations(tracker);
    tracker_clear_votes(tracker);
    tracker_enter_stage(tracker, STAGE_TRAIN, now_ms);
}

static void send_missing_messages(struct tracker *tracker, int64_t now_ms,
                                  struct actions *actions) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        if (!tracker->members[row].is_silent) {
            tracker_send_missing_message(tracker, row, now_ms, actions);
        }
    }
}

static void handle_written(struct tracker *tracker, const struct event *event, int64_t now_ms,
                           struct actions *actions) {
    uint32_t row = tracker->writer.pending_row - 1;
    uint32_t parts = tracker_end_write(tracker, event);
    if (parts == 0) {
        return;
    }
    if ((parts & RECORD_SESSIONS) != 0) {
        ASSERT(parts == RECORD_SESSIONS && row < tracker->record.member_count);
        struct message welcome = {.kind = MESSAGE_WELCOME,
                                  .number = tracker->members[row].start_id};
        tracker_send(tracker, row, welcome, actions);
        return;
    }
    if (parts == RECORD_RESIGNATIONS) {
        return;
    }
    if ((parts & RECORD_HEAD) != 0) {
        enter_stage_of_head(tracker, now_ms);
    } else {
        tracker_clear_stale_holders(tracker);
        if (tracker->record.table.version == 1) {
            tracker_begin_exchange(tracker, now_ms);
            tracker_begin_pace(tracker);
        }
        tracker_enter_stage(tracker, STAGE_EXCHANGE, now_ms);
    }
    send_missing_messages(tracker, now_ms, actions);
}

static void handle_tick(struct tracker *tracker, int64_t now_ms) {
    tracker_mark_timed_out_members(tracker, now_ms);
    writer_clear_backoff(&tracker->writer);
    tracker_watch_electors(tracker, now_ms);
}

static void handle_closed(struct tracker *tracker, const struct identity *id) {
    uint32_t row = tracker_find_row(tracker, id);
    if (row != ROW_NONE) {
        tracker_mark_silent(&tracker->members[row]);
    }
}

/* Asserts that the stage, the record and the write in progress are consistent after every event. */
static void assert_invariants(const struct tracker *tracker) {
    const struct tracker_record *record = &tracker->record;
    const struct tracker_writer *writer = &tracker->writer;
    enum tracker_stage_kind stage = tracker->stage.kind;
    bool has_table = record->table.round == record->head.round && record->table.version > 0;
    ASSERT((record->head.kind == ENTRY_OPEN) == (stage != STAGE_READY));
    ASSERT(stage < STAGE_EXCHANGE ? stage == STAGE_READY || !has_table : has_table);
    ASSERT(stage >= STAGE_EXCHANGE || !tracker->exchange.is_poll_open);
    ASSERT(stage != STAGE_VOTE || (tracker->proposal.entry.round == record->head.round &&
                                   hash_equal(&tracker->proposal.entry.prev, &record->head.hash)));
    ASSERT(hash_equal(&record->head.root, &record->commit.root));
    ASSERT(record->head.round >= record->commit.round);
    ASSERT(record->head.commits == record->commit.commits);
    ASSERT(writer->pending_row == 0 || writer->parts == RECORD_SESSIONS);
    ASSERT(writer->parts == 0 || !(writer->is_backing_off || writer->is_fenced));
    ASSERT(tracker->proposal.entry.slices != record->commit.slices);
    ASSERT(writer->spare_plans != record->table.slices);
}

void tracker_step(struct tracker *tracker, const struct event *event, int64_t now_ms,
                  struct actions *actions) {
    if (tracker->writer.is_fenced) {
        return;
    }
    int64_t gap_ms =
        stage_skip_gap(&tracker->stage, tracker->deadlines.timing.heartbeat_ms, now_ms);
    tracker_shift_member_times(tracker, gap_ms);
    exchange_shift_times(&tracker->exchange, gap_ms);
    if (event->kind == EVENT_TICK) {
        handle_tick(tracker, now_ms);
        tracker_send_goodbyes(tracker, now_ms, actions);
    } else if (event->kind == EVENT_MESSAGE) {
        tracker_handle_message(tracker, event->message, now_ms, actions);
    } else if (event->kind == EVENT_CLOSED) {
        handle_closed(tracker, &event->peer);
    } else {
        ASSERT(event->kind == EVENT_WRITTEN);
        handle_written(tracker, event, now_ms, actions);
    }
    if (writer_can_write(&tracker->writer)) {
        tracker_advance(tracker, now_ms, actions);
    }
    assert_invariants(tracker);
}
