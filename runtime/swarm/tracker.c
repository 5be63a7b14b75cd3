/* tracker: memory, registration, and what each message and tick tells the tracker. */
#include "runtime/swarm/tracker_state.h"

#include "base/check.h"

#include <string.h>

enum { ROW_NONE = SWARM_MEMBERS_MAX, GAP_HEARTBEATS = 3 };

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t hashes_bytes(uint32_t slice_count) {
    return aligned((size_t)SWARM_MEMBERS_MAX * slice_count * sizeof(struct hash));
}

/* One record's arrays, cut from *memory. */
static void bind_record(struct tracker_record *record, char **memory, uint32_t slice_count) {
    size_t entry_bytes = aligned(slice_count * sizeof(struct entry_slice));
    record->head.slices = (struct entry_slice *)*memory;
    *memory += entry_bytes;
    record->commit.slices = (struct entry_slice *)*memory;
    *memory += entry_bytes;
    record->table.slices = (struct slice_plan *)*memory;
    *memory += aligned(slice_count * sizeof(struct slice_plan));
    record->table.hashes = (struct hash *)*memory;
    *memory += hashes_bytes(slice_count);
}

size_t tracker_bytes(const struct tracker_settings *settings) {
    size_t slices = settings->slice_count;
    return aligned(sizeof(struct tracker)) + 5 * aligned(slices * sizeof(struct entry_slice)) +
           2 * aligned(slices * sizeof(struct slice_plan)) +
           3 * hashes_bytes(settings->slice_count) + aligned(slices * sizeof(uint64_t)) +
           SWARM_MEMBERS_MAX * aligned(slices * sizeof(struct slice_report));
}

void tracker_copy_record(struct tracker_record *to, const struct tracker_record *from,
                         uint32_t slice_count) {
    to->incarnation = from->incarnation;
    to->session_next = from->session_next;
    to->member_count = from->member_count;
    memcpy(to->members, from->members, sizeof(to->members));
    entry_copy(&to->head, &from->head);
    entry_copy(&to->commit, &from->commit);
    to->base = from->base;
    to->table.round = from->table.round;
    to->table.version = from->table.version;
    to->table.declared = from->table.declared;
    memcpy(to->table.members, from->table.members, sizeof(to->table.members));
    memcpy(to->table.signatures, from->table.signatures, sizeof(to->table.signatures));
    memcpy(to->table.slices, from->table.slices, slice_count * sizeof(*to->table.slices));
    memcpy(to->table.hashes, from->table.hashes,
           (size_t)SWARM_MEMBERS_MAX * slice_count * sizeof(struct hash));
}

void tracker_enter(struct tracker *tracker, enum tracker_stage stage, int64_t now_ms) {
    tracker->stage = stage;
    tracker->stage_ms = now_ms;
    tracker->progress_ms = now_ms;
    tracker->is_asking = 0;
}

struct tracker *tracker_init(void *memory, const struct tracker_settings *settings,
                             const struct tracker_record *record, int64_t now_ms) {
    ASSERT(settings->slice_count > 0 && settings->slice_count <= SWARM_SLICES_MAX);
    memset(memory, 0, tracker_bytes(settings));
    struct tracker *tracker = memory;
    char *arrays = (char *)memory + aligned(sizeof(*tracker));
    tracker->settings = *settings;
    bind_record(&tracker->record, &arrays, settings->slice_count);
    bind_record(&tracker->next, &arrays, settings->slice_count);
    tracker->proposal.slices = (struct entry_slice *)arrays;
    arrays += aligned(settings->slice_count * sizeof(struct entry_slice));
    tracker->declared = (struct hash *)arrays;
    arrays += hashes_bytes(settings->slice_count);
    tracker->holders = (uint64_t *)arrays;
    arrays += aligned(settings->slice_count * sizeof(uint64_t));
    tracker_copy_record(&tracker->record, record, settings->slice_count);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].heard_ms = now_ms;
        tracker->members[row].reports = (struct slice_report *)arrays;
        arrays += aligned(settings->slice_count * sizeof(struct slice_report));
    }
    enum tracker_stage stage = STAGE_READY;
    if (record->head.kind == ENTRY_OPEN) {
        int has_table = record->table.round == record->head.round && record->table.version > 0;
        stage = has_table ? STAGE_EXCHANGE : STAGE_TRAIN;
    }
    tracker_enter(tracker, stage, now_ms);
    tracker->round_ms = now_ms;
    tracker->quorum_ms = now_ms;
    tracker->ticked_ms = now_ms;
    /* Numbers of another incarnation's asks and proposals are never met again. */
    tracker->proposal_number = (uint64_t)record->incarnation << 32;
    tracker->ask = record->incarnation << 16;
    return tracker;
}

static struct action *add_action(struct actions *actions, enum action_kind kind) {
    ASSERT(actions->count < actions->capacity);
    struct action *action = &actions->rows[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

void tracker_say(struct tracker *tracker, uint32_t row, struct message message,
                 struct actions *actions) {
    message.incarnation = tracker->record.incarnation;
    message.session = tracker->record.members[row].session;
    struct action *action = add_action(actions, ACTION_SEND);
    action->to = tracker->record.members[row].id;
    action->message = message;
}

void tracker_write(struct tracker *tracker, uint32_t parts, struct actions *actions) {
    tracker->is_writing = 1;
    tracker->is_appending = (parts & RECORD_HEAD) != 0;
    struct action *action = add_action(actions, ACTION_WRITE);
    action->record = &tracker->next;
    action->parts = parts;
    action->entry = tracker->is_appending ? &tracker->next.head : NULL;
}

static int same_identity(const struct identity *a, const struct identity *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

static uint32_t row_of(const struct tracker *tracker, const struct identity *id) {
    uint32_t row = 0;
    while (row < tracker->record.member_count &&
           !same_identity(&tracker->record.members[row].id, id)) {
        row++;
    }
    return row < tracker->record.member_count ? row : ROW_NONE;
}

int tracker_row_of_seat(const struct tracker *tracker, uint32_t seat) {
    const struct entry_seat *at = &tracker->record.head.seats[seat];
    uint32_t row = row_of(tracker, &at->id);
    return row != ROW_NONE && tracker->record.members[row].session == at->session ? (int)row
                                                                                  : NO_SEAT;
}

int tracker_seat_of_row(const struct tracker *tracker, uint32_t row) {
    const struct entry *head = &tracker->record.head;
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        if (tracker_row_of_seat(tracker, seat) == (int)row) {
            return (int)seat;
        }
    }
    return NO_SEAT;
}

uint64_t tracker_live_seats(const struct tracker *tracker) {
    uint64_t live = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int row = tracker_row_of_seat(tracker, seat);
        if (row != NO_SEAT && !tracker->members[row].silent) {
            live |= UINT64_C(1) << seat;
        }
    }
    return live;
}

/* A row for a new identity: a new one, or that of a silent member without a seat. */
static uint32_t free_row(const struct tracker *tracker) {
    if (tracker->record.member_count < SWARM_MEMBERS_MAX) {
        return tracker->record.member_count;
    }
    uint32_t row = 0;
    while (row < SWARM_MEMBERS_MAX &&
           (!tracker->members[row].silent || tracker_seat_of_row(tracker, row) != NO_SEAT)) {
        row++;
    }
    return row;
}

static void hear_hello(struct tracker *tracker, const struct message *message, int64_t now_ms,
                       struct actions *actions) {
    uint32_t row = row_of(tracker, &message->from);
    if (row != ROW_NONE && tracker->members[row].welcome == message->number) {
        if (!tracker->is_writing) {
            struct message welcome = {.kind = MESSAGE_WELCOME, .number = message->number};
            tracker_say(tracker, row, welcome, actions);
        }
        return;
    }
    row = row == ROW_NONE ? free_row(tracker) : row;
    if (tracker->is_writing || row == ROW_NONE) {
        return; /* it asks again */
    }
    struct tracker_member *member = &tracker->members[row];
    struct slice_report *reports = member->reports;
    *member = (struct tracker_member){.heard_ms = now_ms, .silent = 1, .reports = reports};
    member->welcome = message->number;
    tracker_copy_record(&tracker->next, &tracker->record, tracker->settings.slice_count);
    struct tracker_record *next = &tracker->next;
    next->members[row].id = message->from;
    next->members[row].session = next->session_next++;
    next->member_count = row == next->member_count ? row + 1 : next->member_count;
    tracker->pending_row = row + 1;
    tracker_write(tracker, RECORD_SESSIONS, actions);
}

/* What a member still lacks of what the tracker stands for, one thing at a time. */
static void answer_report(struct tracker *tracker, uint32_t row, struct actions *actions) {
    const struct tracker_member *member = &tracker->members[row];
    const struct tracker_record *record = &tracker->record;
    struct message message = {.kind = MESSAGE_ENTRY, .round = record->head.round};
    if (!hash_equal(&member->root, &record->commit.root)) {
        message.entry = &record->commit;
        message.root = record->base;
    } else if (record->head.kind != ENTRY_OPEN) {
        message.entry = member->round == record->head.round ? &record->head : NULL;
    } else if (tracker_seat_of_row(tracker, row) == NO_SEAT) {
        return;
    } else if (member->round != record->head.round) {
        message.entry = &record->head;
    } else if (tracker->stage >= STAGE_EXCHANGE && member->version != record->table.version) {
        message.kind = MESSAGE_TABLE;
        message.table = &record->table;
    } else if (member->ask != tracker->ask && tracker->is_asking) {
        message.kind = MESSAGE_ASK;
        message.ask = tracker->ask;
    } else if (tracker->stage == STAGE_VOTE && !member->has_voted) {
        message.kind = MESSAGE_PROPOSE;
        message.entry = &tracker->proposal;
        message.number = tracker->proposal_number;
        message.holders = tracker->holders;
    }
    if (message.entry != NULL || message.kind != MESSAGE_ENTRY) {
        tracker_say(tracker, row, message, actions);
    }
}

static void hear_report(struct tracker *tracker, uint32_t row, const struct message *message,
                        struct actions *actions) {
    struct tracker_member *member = &tracker->members[row];
    if (message->number <= member->report_number) {
        return; /* overtaken by a newer one */
    }
    member->report_number = message->number;
    member->root = message->root;
    member->round = message->round;
    member->ask = message->ask;
    member->version = message->version;
    member->measured = message->measured;
    memcpy(member->reports, message->reports,
           tracker->settings.slice_count * sizeof(*member->reports));
    if (!tracker->is_writing) {
        answer_report(tracker, row, actions);
    }
}

static void hear_declare(struct tracker *tracker, uint32_t row, const struct message *message) {
    int seat = tracker_seat_of_row(tracker, row);
    struct tracker_member *member = &tracker->members[row];
    if (tracker->stage != STAGE_TRAIN || seat == NO_SEAT || member->has_declared ||
        message->round != tracker->record.head.round) {
        return;
    }
    size_t count = tracker->settings.slice_count;
    memcpy(tracker->declared + (size_t)seat * count, message->hashes, count * sizeof(struct hash));
    tracker->signatures[seat] = message->signature;
    member->tokens = message->tokens;
    member->has_declared = 1;
}

static void hear_vote(struct tracker *tracker, uint32_t row, const struct message *message) {
    struct tracker_member *member = &tracker->members[row];
    if (tracker->stage != STAGE_VOTE || message->number != tracker->proposal_number) {
        return;
    }
    member->has_voted = 1;
    member->vote_root = message->root;
    member->vote_hash = message->hash;
    member->vote_signature = message->signature;
}

/* A session that is not the identity's present one: say which start has it, so that a process that
 * was displaced (by a late HELLO of an earlier start) asks for a new one. */
static void refuse_session(struct tracker *tracker, uint32_t row, const struct message *message,
                           struct actions *actions) {
    if (tracker->is_writing || message->kind != MESSAGE_REPORT) {
        return;
    }
    struct action *action = add_action(actions, ACTION_SEND);
    action->to = message->from;
    action->message.kind = MESSAGE_WELCOME;
    action->message.incarnation = tracker->record.incarnation;
    action->message.session =
        row == ROW_NONE ? tracker->record.session_next : tracker->record.members[row].session;
    action->message.number = row == ROW_NONE ? 0 : tracker->members[row].welcome;
}

/* A leaver goes between rounds, and not before one that stays stands on the newest root: or the
 * last to hold a committed round would take it away. If nobody stays, all may go. */
static void hear_leave(struct tracker *tracker, uint32_t row, struct actions *actions) {
    tracker->members[row].leaving = 1;
    uint32_t staying = 0;
    uint32_t ready = 0;
    for (uint32_t other = 0; other < tracker->record.member_count; other++) {
        const struct tracker_member *member = &tracker->members[other];
        int is_staying = !member->silent && !member->leaving;
        staying += is_staying;
        ready += is_staying && hash_equal(&member->root, &tracker->record.commit.root);
    }
    int is_seated =
        tracker->record.head.kind == ENTRY_OPEN && tracker_seat_of_row(tracker, row) != NO_SEAT;
    if (!tracker->is_writing && !is_seated && (ready > 0 || staying == 0)) {
        tracker_say(tracker, row, (struct message){.kind = MESSAGE_GOODBYE}, actions);
    }
}

static void hear(struct tracker *tracker, const struct message *message, int64_t now_ms,
                 struct actions *actions) {
    if (message->kind == MESSAGE_HELLO) {
        hear_hello(tracker, message, now_ms, actions);
        return;
    }
    uint32_t row = row_of(tracker, &message->from);
    if (row == ROW_NONE || tracker->record.members[row].session != message->session) {
        refuse_session(tracker, row, message, actions);
        return;
    }
    tracker->members[row].heard_ms = now_ms;
    tracker->members[row].silent = 0;
    switch (message->kind) {
    case MESSAGE_REPORT:
        hear_report(tracker, row, message, actions);
        break;
    case MESSAGE_DECLARE:
        hear_declare(tracker, row, message);
        break;
    case MESSAGE_VOTE:
        hear_vote(tracker, row, message);
        break;
    case MESSAGE_LEAVE:
        hear_leave(tracker, row, actions);
        break;
    default:
        break; /* for members only: the wire counts it */
    }
}

/* The run's end: whoever stands on the last root may go, once nobody still needs it. */
static void say_end(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    int has_waited = now_ms - tracker->stage_ms >= tracker->settings.timing.exchange_ms;
    uint32_t behind = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        behind += !member->silent && !hash_equal(&member->root, &tracker->record.commit.root);
    }
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        if ((behind == 0 || has_waited) && !member->silent &&
            hash_equal(&member->root, &tracker->record.commit.root)) {
            tracker_say(tracker, row, (struct message){.kind = MESSAGE_GOODBYE}, actions);
        }
    }
}

static void say_to_all(struct tracker *tracker, struct actions *actions) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        if (!tracker->members[row].silent) {
            answer_report(tracker, row, actions);
        }
    }
}

/* The appended entry begins what it names. */
static void begin_head(struct tracker *tracker, int64_t now_ms) {
    struct tracker_record *record = &tracker->record;
    if (record->head.kind != ENTRY_OPEN) {
        tracker_enter(tracker, STAGE_READY, now_ms);
        return;
    }
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        tracker->members[row].has_declared = 0;
        tracker->members[row].has_voted = 0;
    }
    tracker->round_ms = now_ms;
    tracker->quorum_ms = now_ms;
    tracker_enter(tracker, STAGE_TRAIN, now_ms);
}

static void written(struct tracker *tracker, const struct event *event, int64_t now_ms,
                    struct actions *actions) {
    ASSERT(tracker->is_writing);
    tracker->is_writing = 0;
    uint32_t row = tracker->pending_row;
    tracker->pending_row = 0;
    if (event->written != WRITTEN) {
        tracker->is_fenced = event->written == WRITE_FENCED;
        if (row > 0) {
            tracker->members[row - 1].welcome = 0;
        }
        return;
    }
    if (tracker->is_appending) {
        struct entry *head = &tracker->next.head;
        head->hash = event->hash;
        if (head->kind == ENTRY_COMMIT) {
            tracker->next.base = tracker->record.commit.root;
            entry_copy(&tracker->next.commit, head);
        } else {
            head->signature_count = 1;
            head->signatures[0].signature = event->signature;
        }
    }
    tracker_copy_record(&tracker->record, &tracker->next, tracker->settings.slice_count);
    if (row > 0) {
        struct message welcome = {.kind = MESSAGE_WELCOME,
                                  .number = tracker->members[row - 1].welcome};
        tracker->members[row - 1].silent = 0;
        tracker_say(tracker, row - 1, welcome, actions);
        return;
    }
    if (tracker->is_appending) {
        begin_head(tracker, now_ms);
    } else {
        tracker_enter(tracker, STAGE_EXCHANGE, now_ms);
    }
    say_to_all(tracker, actions);
}

/* After a gap (a suspended machine) nobody is blamed for the time that the tracker slept. */
static void tick(struct tracker *tracker, int64_t now_ms) {
    const struct swarm_timing *timing = &tracker->settings.timing;
    int64_t gap_ms = now_ms - tracker->ticked_ms - timing->heartbeat_ms;
    tracker->ticked_ms = now_ms;
    if (gap_ms > GAP_HEARTBEATS * (int64_t)timing->heartbeat_ms) {
        tracker->stage_ms += gap_ms;
        tracker->round_ms += gap_ms;
        tracker->progress_ms += gap_ms;
        tracker->quorum_ms += gap_ms;
    } else {
        gap_ms = 0;
    }
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_member *member = &tracker->members[row];
        member->heard_ms = gap_ms > 0 ? now_ms : member->heard_ms;
        member->silent |= now_ms - member->heard_ms > timing->silence_ms;
    }
}

/* Suspected at once, until it is heard again. */
static void closed(struct tracker *tracker, const struct identity *id) {
    uint32_t row = row_of(tracker, id);
    if (row != ROW_NONE) {
        tracker->members[row].silent = 1;
    }
}

void tracker_step(struct tracker *tracker, const struct event *event, int64_t now_ms,
                  struct actions *actions) {
    if (tracker->is_fenced) {
        return;
    }
    if (event->kind == EVENT_TICK) {
        tick(tracker, now_ms);
        if (tracker_is_over(tracker)) {
            say_end(tracker, now_ms, actions);
        }
    } else if (event->kind == EVENT_MESSAGE) {
        hear(tracker, event->message, now_ms, actions);
    } else if (event->kind == EVENT_CLOSED) {
        closed(tracker, &event->peer);
    } else {
        ASSERT(event->kind == EVENT_WRITTEN);
        written(tracker, event, now_ms, actions);
    }
    if (!tracker->is_writing && !tracker->is_fenced) {
        tracker_advance(tracker, now_ms, actions);
    }
}
