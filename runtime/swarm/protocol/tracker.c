/* tracker: memory, what is durable, the clock, and what each event lets the tracker do. */
#include "runtime/swarm/protocol/tracker_state.h"

#include "base/check.h"

#include <string.h>

enum { GAP_HEARTBEATS = 3 };

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void *cut(char **memory, size_t count, size_t size) {
    void *start = *memory;
    *memory += aligned(count * size);
    return start;
}

size_t tracker_bytes(const struct tracker_settings *settings) {
    size_t slices = settings->slice_count;
    return aligned(sizeof(struct tracker)) + 2 * aligned(slices * sizeof(struct entry_slice)) +
           2 * aligned(slices * sizeof(struct slice_plan)) +
           aligned(SWARM_MEMBERS_MAX * slices * sizeof(struct hash)) +
           aligned(slices * sizeof(uint64_t)) +
           SWARM_MEMBERS_MAX * aligned(slices * sizeof(struct slice_report));
}

/* Rows and seats of each other, once a session or the roster has changed. */
static void place_seats(struct tracker *tracker) {
    const struct tracker_record *record = &tracker->record;
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX; i++) {
        tracker->row_of_seat[i] = NO_SEAT;
        tracker->seat_of_row[i] = NO_SEAT;
    }
    for (uint32_t seat = 0; seat < record->head.seat_count; seat++) {
        uint32_t row = tracker_row(tracker, &record->head.seats[seat].id);
        if (row != ROW_NONE && record->members[row].session == record->head.seats[seat].session) {
            tracker->row_of_seat[seat] = (int)row;
            tracker->seat_of_row[row] = (int)seat;
        }
    }
}

void tracker_enter_stage(struct tracker *tracker, enum tracker_stage stage, int64_t now_ms) {
    tracker->stage = stage;
    tracker->stage_ms = now_ms;
    tracker->held_ms = now_ms;
    tracker->is_asking = 0;
}

/* The record as it was durable, into the tracker's own arrays. */
static void take_record(struct tracker *tracker, const struct tracker_record *from) {
    struct tracker_record *record = &tracker->record;
    size_t slice_count = tracker->settings.slice_count;
    struct entry_slice *slices = record->commit.slices;
    struct slice_plan *plans = record->table.slices;
    struct hash *hashes = record->table.hashes;
    *record = *from;
    record->commit.slices = slices;
    record->head.slices = slices; /* read of a commit only, and then it is this one */
    record->table.slices = plans;
    record->table.hashes = hashes;
    memcpy(slices, from->commit.slices, from->commit.slice_count * sizeof(*slices));
    memcpy(plans, from->table.slices, slice_count * sizeof(*plans));
    memcpy(hashes, from->table.hashes, SWARM_MEMBERS_MAX * slice_count * sizeof(*hashes));
}

static void bind(struct tracker *tracker, char *memory) {
    size_t slices = tracker->settings.slice_count;
    tracker->record.commit.slices = cut(&memory, slices, sizeof(struct entry_slice));
    tracker->proposal.slices = cut(&memory, slices, sizeof(struct entry_slice));
    tracker->record.table.slices = cut(&memory, slices, sizeof(struct slice_plan));
    tracker->spare_plans = cut(&memory, slices, sizeof(struct slice_plan));
    tracker->record.table.hashes = cut(&memory, SWARM_MEMBERS_MAX * slices, sizeof(struct hash));
    tracker->holders = cut(&memory, slices, sizeof(uint64_t));
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].reports = cut(&memory, slices, sizeof(struct slice_report));
    }
}

struct tracker *tracker_init(void *memory, const struct tracker_settings *settings,
                             const struct tracker_record *record, int64_t now_ms) {
    ASSERT(settings->slice_count > 0 && settings->slice_count <= SWARM_SLICES_MAX);
    memset(memory, 0, tracker_bytes(settings));
    struct tracker *tracker = memory;
    tracker->settings = *settings;
    tracker->timing = settings->timing;
    bind(tracker, (char *)memory + aligned(sizeof(*tracker)));
    take_record(tracker, record);
    place_seats(tracker);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].heard_ms = now_ms;
    }
    enum tracker_stage stage = STAGE_READY;
    if (record->head.kind == ENTRY_OPEN) {
        int has_table = record->table.round == record->head.round && record->table.version > 0;
        stage = has_table ? STAGE_EXCHANGE : STAGE_TRAIN;
    }
    tracker_enter_stage(tracker, stage, now_ms);
    tracker->round_ms = now_ms;
    tracker->quorum_ms = now_ms;
    tracker->reached_ms = now_ms;
    tracker->seen_ms = now_ms;
    /* Numbers of another incarnation's asks and proposals are never met again. */
    tracker->proposal_number = (uint64_t)record->incarnation << 32;
    tracker->ask = record->incarnation << 16;
    return tracker;
}

const struct swarm_timing *tracker_timing(const struct tracker *tracker) {
    return &tracker->timing;
}

uint32_t tracker_measured(const struct tracker *tracker, const struct timing_measured **rows) {
    *rows = tracker->measured;
    return tracker->measured_count;
}

static struct action *add_action(struct actions *actions, enum action_kind kind) {
    ASSERT(actions->count < actions->capacity);
    struct action *action = &actions->rows[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

void tracker_send_to(const struct identity *to, struct message message, struct actions *actions) {
    struct action *action = add_action(actions, ACTION_SEND);
    action->to = *to;
    action->message = message;
}

void tracker_send(struct tracker *tracker, uint32_t row, struct message message,
                  struct actions *actions) {
    message.incarnation = tracker->record.incarnation;
    message.session = tracker->record.members[row].session;
    tracker_send_to(&tracker->record.members[row].id, message, actions);
}

void tracker_draft(struct tracker *tracker) {
    tracker->next = tracker->record;
}

void tracker_draft_plans(struct tracker *tracker) {
    tracker_draft(tracker);
    tracker->next.table.slices = tracker->spare_plans;
    memcpy(tracker->spare_plans, tracker->record.table.slices,
           tracker->settings.slice_count * sizeof(*tracker->spare_plans));
}

void tracker_write(struct tracker *tracker, uint32_t parts, struct actions *actions) {
    tracker->writing = parts;
    struct action *action = add_action(actions, ACTION_WRITE);
    action->record = &tracker->next;
    action->parts = parts;
    action->entry = (parts & RECORD_HEAD) != 0 ? &tracker->next.head : NULL;
}

uint32_t tracker_row(const struct tracker *tracker, const struct identity *id) {
    uint32_t row = 0;
    while (row < tracker->record.member_count &&
           memcmp(&tracker->record.members[row].id, id, sizeof(*id)) != 0) {
        row++;
    }
    return row < tracker->record.member_count ? row : ROW_NONE;
}

uint64_t tracker_live_seats(const struct tracker *tracker) {
    uint64_t live = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker->row_of_seat[seat];
        if (row != NO_SEAT && !tracker->members[row].silent) {
            live |= UINT64_C(1) << seat;
        }
    }
    return live;
}

/* The appended entry gets its hash and signature, and is the state that stands if it has one. */
static void take_appended(struct tracker *tracker, const struct event *event) {
    struct tracker_record *next = &tracker->next;
    next->head.hash = event->hash;
    if (next->head.kind != ENTRY_COMMIT) {
        next->head.signature_count = 1;
        next->head.signatures[0].signature = event->signature;
    }
    if (next->head.kind == ENTRY_COMMIT || next->head.kind == ENTRY_ROLLBACK) {
        next->base = tracker->record.commit.root;
        next->commit = next->head;
        tracker_add_rollback_state(tracker, &next->head);
    }
    if (next->head.kind == ENTRY_COMMIT) {
        tracker->proposal.slices = tracker->record.commit.slices;
    }
}

/* Who starts anew is reached, until somebody says again that it is not. */
static void forget_cuts(struct tracker *tracker, uint32_t row) {
    for (uint32_t other = 0; other < SWARM_MEMBERS_MAX; other++) {
        tracker->members[other].cut &= ~(UINT64_C(1) << row);
    }
}

/* What was written is what the tracker stands for now. */
static void take_next(struct tracker *tracker) {
    struct slice_plan *plans = tracker->record.table.slices;
    tracker->record = tracker->next;
    tracker->spare_plans = tracker->record.table.slices == plans ? tracker->spare_plans : plans;
}

/* The appended entry begins what it names. */
static void begin_head(struct tracker *tracker, int64_t now_ms) {
    if (tracker->record.head.kind != ENTRY_OPEN) {
        tracker_enter_stage(tracker, STAGE_READY, now_ms);
        tracker->reached_ms = now_ms;
        return;
    }
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].has_declared = 0;
        tracker->members[row].has_voted = 0;
    }
    tracker->round_ms = now_ms;
    tracker->quorum_ms = now_ms;
    tracker_enter_stage(tracker, STAGE_TRAIN, now_ms);
}

static void say_to_all(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        if (!tracker->members[row].silent) {
            tracker_send_missing(tracker, row, now_ms, actions);
        }
    }
}

static void write_failed(struct tracker *tracker, enum write_outcome written) {
    tracker->is_fenced = written == WRITE_FENCED;
    tracker->is_held_back = 1;
    if (tracker->pending_row > 0) {
        tracker->members[tracker->pending_row - 1].welcome = 0;
        tracker->pending_row = 0;
    }
}

static void written(struct tracker *tracker, const struct event *event, int64_t now_ms,
                    struct actions *actions) {
    uint32_t parts = tracker->writing;
    ASSERT(parts != 0);
    tracker->writing = 0;
    if (event->written != WRITE_OK) {
        write_failed(tracker, event->written);
        return;
    }
    if ((parts & RECORD_HEAD) != 0) {
        take_appended(tracker, event);
    }
    take_next(tracker);
    place_seats(tracker);
    if ((parts & RECORD_SESSIONS) != 0) {
        uint32_t row = tracker->pending_row - 1;
        tracker->pending_row = 0;
        tracker->members[row].silent = 0;
        forget_cuts(tracker, row);
        struct message welcome = {.kind = MESSAGE_WELCOME, .number = tracker->members[row].welcome};
        tracker_send(tracker, row, welcome, actions);
        return;
    }
    if ((parts & RECORD_HEAD) != 0) {
        begin_head(tracker, now_ms);
    } else {
        tracker_clear_stale_holders(tracker);
        tracker_enter_stage(tracker, STAGE_EXCHANGE, now_ms);
    }
    say_to_all(tracker, now_ms, actions);
}

/* Heartbeats come in between, so a longer time without any event is one that the tracker slept, or
 * a jump of its clock: nobody is blamed for it. */
static void bridge_gap(struct tracker *tracker, int64_t now_ms) {
    int64_t heartbeat_ms = tracker->timing.heartbeat_ms;
    int64_t gap_ms = now_ms - tracker->seen_ms - heartbeat_ms;
    tracker->seen_ms = now_ms;
    if (gap_ms <= GAP_HEARTBEATS * heartbeat_ms) {
        return;
    }
    tracker->stage_ms += gap_ms;
    tracker->held_ms += gap_ms;
    tracker->round_ms += gap_ms;
    tracker->quorum_ms += gap_ms;
    tracker->reached_ms += gap_ms;
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].heard_ms += gap_ms;
        tracker->members[row].progress_ms += gap_ms;
    }
}

static void tick(struct tracker *tracker, int64_t now_ms) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_member *member = &tracker->members[row];
        member->silent |= now_ms - member->heard_ms > tracker->timing.silence_ms;
    }
    tracker->is_held_back = 0;
    if (tracker->measured_count == 0) {
        tracker_derive_timing(tracker);
    }
}

/* Suspected at once, until it is heard again; what was on its way to it is said again. */
static void closed(struct tracker *tracker, const struct identity *id) {
    uint32_t row = tracker_row(tracker, id);
    if (row != ROW_NONE) {
        tracker->members[row].silent = 1;
        tracker->members[row].said.wait_ms = 0;
    }
}

void tracker_step(struct tracker *tracker, const struct event *event, int64_t now_ms,
                  struct actions *actions) {
    if (tracker->is_fenced) {
        return;
    }
    bridge_gap(tracker, now_ms);
    if (event->kind == EVENT_TICK) {
        tick(tracker, now_ms);
        tracker_send_goodbyes(tracker, now_ms, actions);
    } else if (event->kind == EVENT_MESSAGE) {
        tracker_handle_message(tracker, event->message, now_ms, actions);
    } else if (event->kind == EVENT_CLOSED) {
        closed(tracker, &event->peer);
    } else {
        ASSERT(event->kind == EVENT_WRITTEN);
        written(tracker, event, now_ms, actions);
    }
    if (tracker->writing == 0 && !tracker->is_fenced && !tracker->is_held_back) {
        tracker_advance(tracker, now_ms, actions);
    }
}
