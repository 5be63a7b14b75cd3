/* tracker_handle: handles the messages of members, and sends the answers. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum { RESEND_MAX_MS = 60000 }; /* longest wait before a message is repeated */

static void send_to_identity(const struct identity *to, struct message message,
                             struct actions *actions) {
    ASSERT(message.kind < MESSAGE_KINDS);
    struct action *action = actions_add(actions, ACTION_SEND);
    action->to = *to;
    action->message = message;
}

void tracker_send(struct tracker *tracker, uint32_t row, struct message message,
                  struct actions *actions) {
    ASSERT(row < tracker->record.member_count);
    message.incarnation = tracker->record.incarnation;
    message.session = tracker->record.members[row].session;
    send_to_identity(&tracker->record.members[row].id, message, actions);
}

void tracker_clear_last_sent(struct tracker_last_sent *last) {
    last->resend_after_ms = 0;
}

/* Returns whether to send the message `next` now, and then records it in *last. A message that
 * differs from the last one is sent at once. A repetition waits, twice as long each time. */
static bool record_send_if_due(struct tracker_last_sent *last, const struct tracker_last_sent *next,
                               uint32_t first_wait_ms) {
    ASSERT(first_wait_ms > 0);
    ASSERT(last->resend_after_ms <= RESEND_MAX_MS);
    bool is_new =
        last->resend_after_ms == 0 || last->kind != next->kind || last->number != next->number;
    if (!is_new && next->sent_ms - last->sent_ms < last->resend_after_ms) {
        return false;
    }
    uint32_t wait_ms = is_new ? first_wait_ms : 2 * last->resend_after_ms;
    *last = *next;
    last->resend_after_ms = wait_ms < RESEND_MAX_MS ? wait_ms : RESEND_MAX_MS;
    return true;
}

static void handle_hello(struct tracker *tracker, const struct message *message, int64_t now_ms,
                         struct actions *actions) {
    uint32_t row = tracker_find_row(tracker, &message->from);
    if (row != ROW_NONE && tracker->members[row].start_id == message->number) {
        if (tracker->writer.pending_row != row + 1) {
            struct message welcome = {.kind = MESSAGE_WELCOME, .number = message->number};
            tracker_send(tracker, row, welcome, actions);
        }
        return;
    }
    row = row == ROW_NONE ? tracker_find_free_row(tracker) : row;
    if (!writer_can_write(&tracker->writer) || row == ROW_NONE) {
        return; /* Nothing is lost: the member will send HELLO again. */
    }
    ASSERT(row <= tracker->record.member_count);
    tracker_register_start(tracker, row, message, now_ms);
    tracker_draft_session(tracker, row, &message->from);
    tracker_write_draft(tracker, RECORD_SESSIONS, actions);
}

static bool needs_poll(const struct tracker *tracker, const struct tracker_member *member) {
    return member->report.poll != tracker->exchange.poll &&
           (tracker->stage.kind == STAGE_TRAIN ? !member->has_declared
                                               : tracker->exchange.is_poll_open);
}

/* Returns the version of the member's table, if only the changes since that version need to be
 * sent; 0: the whole table is sent. */
static uint32_t base_version(const struct round_table *table, uint32_t reported) {
    ASSERT(table->version > 0 && reported != table->version);
    return reported < table->version ? reported : 0;
}

/* Returns the message that a member of the open round needs next, or one of kind MESSAGE_KINDS if
 * it needs none. */
static struct message next_round_message(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    const struct tracker_record *record = &tracker->record;
    enum tracker_stage_kind stage = tracker->stage.kind;
    struct message message = {.kind = MESSAGE_KINDS, .round = record->head.round};
    ASSERT(stage != STAGE_READY && record->head.kind == ENTRY_OPEN);
    if (tracker->seats.seat_of_row[row] == NO_SEAT) {
        return message;
    }
    if (member->report.round != record->head.round) {
        message.kind = MESSAGE_ENTRY;
        message.entry = &record->head;
    } else if (stage >= STAGE_EXCHANGE && member->report.version != record->table.version) {
        ASSERT(record->table.round == record->head.round && record->table.version > 0);
        message.kind = MESSAGE_TABLE;
        message.table = &record->table;
        message.version = base_version(&record->table, member->report.version);
    } else if (needs_poll(tracker, member)) {
        message.kind = MESSAGE_POLL;
        message.poll =
            (struct message_poll){tracker->exchange.poll, tracker->exchange.ends_training};
    } else if (stage == STAGE_VOTE && !member->vote.has_arrived) {
        message.kind = MESSAGE_PROPOSE;
        message.entry = &tracker->proposal.entry;
        message.number = tracker->proposal.id;
        message.ballot.seed = tracker->proposal.seed;
        message.ballot.recheck = tracker->recheck.current;
        message.ballot.start = tracker->leases.start;
        message.ballot.holders = tracker->exchange.holders;
    }
    return message;
}

static struct message next_message(const struct tracker *tracker, uint32_t row) {
    const struct tracker_member *member = &tracker->members[row];
    const struct tracker_record *record = &tracker->record;
    struct message message = {.kind = MESSAGE_KINDS, .round = record->head.round};
    ASSERT(row < record->member_count);
    if (!hash_equal(&member->report.root, &record->commit.root)) {
        message.kind = MESSAGE_ENTRY;
        message.entry = &record->commit;
        message.root = record->base_root;
    } else if (record->head.kind == ENTRY_OPEN) {
        message = next_round_message(tracker, row);
    } else if (member->report.round == record->head.round) {
        message.kind = MESSAGE_ENTRY;
        message.entry = &record->head;
    }
    return message;
}

/* The number by which a repetition of a message is recognized. */
static uint64_t message_number(const struct message *message) {
    ASSERT(message->kind != MESSAGE_TABLE || message->table->round == message->round);
    uint64_t number = message->round;
    if (message->kind == MESSAGE_ENTRY) {
        memcpy(&number, message->entry->hash.bytes, sizeof number);
    } else if (message->kind == MESSAGE_TABLE) {
        number = number << 32 | message->table->version;
    } else if (message->kind == MESSAGE_POLL) {
        number = message->poll.number;
    } else if (message->kind == MESSAGE_PROPOSE) {
        number = message->number;
    }
    return number;
}

void tracker_send_missing_message(struct tracker *tracker, uint32_t row, int64_t now_ms,
                                  struct actions *actions) {
    ASSERT(tracker->writer.parts == 0);
    struct message message = next_message(tracker, row);
    const struct tracker_last_sent next = {
        .kind = message.kind, .number = message_number(&message), .sent_ms = now_ms};
    if (message.kind != MESSAGE_KINDS && record_send_if_due(&tracker->members[row].last_sent, &next,
                                                            tracker->deadlines.timing.silence_ms)) {
        tracker_send(tracker, row, message, actions);
    }
}

static void handle_report(struct tracker *tracker, uint32_t row, const struct message *message,
                          int64_t now_ms, struct actions *actions) {
    ASSERT(!tracker->members[row].is_silent);
    const struct tracker_report *report = &tracker->members[row].report;
    const struct hash *current = &tracker->record.commit.root;
    bool was_current = hash_equal(&report->root, current);
    bool is_stored = tracker_store_report(tracker, row, message);
    if (!is_stored || message->report.parts != 0) {
        struct message confirmation = {.kind = MESSAGE_CONFIRM, .number = report->number};
        tracker_send(tracker, row, confirmation, actions);
    }
    if (!is_stored) {
        return;
    }
    if (!was_current && hash_equal(&report->root, current)) {
        tracker_observe_apply_time(tracker, row, now_ms);
    }
    tracker_update_holders(tracker, row, now_ms);
    tracker_observe_owner_report(tracker, row, now_ms);
    if (tracker->writer.parts == 0) {
        tracker_send_missing_message(tracker, row, now_ms, actions);
    }
}

/* Stores a declaration. The signature covers the number of samples, so the table repeats this
 * number unchanged: a declaration of more samples than the seat was assigned is ignored. */
static void handle_declare(struct tracker *tracker, uint32_t row, const struct message *message,
                           int64_t now_ms) {
    int seat = tracker->seats.seat_of_row[row];
    struct tracker_member *member = &tracker->members[row];
    if (tracker->stage.kind != STAGE_TRAIN || seat == NO_SEAT || member->has_declared ||
        message->round != tracker->record.head.round ||
        !hash_equal(&message->hash, &tracker->record.head.hash) ||
        message->trained.samples > seat_samples(&tracker->record.head.seats[seat]) ||
        (tracker->writer.parts & RECORD_DECLARED) != 0) {
        return;
    }
    ASSERT(tracker->record.head.kind == ENTRY_OPEN && !member->vote.has_arrived);
    tracker_store_declaration(member, message);
    tracker_observe_training_time(tracker, row, now_ms);
}

/* Answers a report that was sent with an old session. The answer names the start that owns the
 * session now, so that a process that lost its session (to a delayed HELLO of an earlier start)
 * requests a new one. */
static void reject_session(const struct tracker *tracker, uint32_t row,
                           const struct message *message, struct actions *actions) {
    if (tracker->writer.parts != 0 || message->kind != MESSAGE_REPORT) {
        return;
    }
    const struct tracker_record *record = &tracker->record;
    ASSERT(row == ROW_NONE || record->members[row].session < record->next_session);
    struct message welcome = {.kind = MESSAGE_WELCOME, .incarnation = record->incarnation};
    welcome.session = row == ROW_NONE ? record->next_session : record->members[row].session;
    welcome.number = row == ROW_NONE ? 0 : tracker->members[row].start_id;
    send_to_identity(&message->from, welcome, actions);
}

/* Marks a member as leaving. It is released only between rounds, and only while a voter that stays
 * has the current state. Otherwise the last copy of a committed round could be lost. If no voter
 * stays, all may leave. */
static void handle_leave(struct tracker *tracker, uint32_t row, struct actions *actions) {
    tracker_mark_leaving(&tracker->members[row]);
    uint32_t staying = 0;
    uint64_t ready = 0;
    for (uint32_t other = 0; other < tracker->record.member_count; other++) {
        const struct tracker_member *member = &tracker->members[other];
        bool is_voter = !tracker_is_guest(tracker, other);
        staying += is_voter && !member->is_silent && !member->is_leaving;
        ready |= (uint64_t)(is_voter && tracker_is_ready_for_round(tracker, other)) << other;
    }
    ASSERT(seats_count(ready) <= staying);
    bool is_seated =
        tracker->record.head.kind == ENTRY_OPEN && tracker->seats.seat_of_row[row] != NO_SEAT;
    if (tracker->writer.parts == 0 && !is_seated && (ready != 0 || staying == 0)) {
        struct message goodbye = {.kind = MESSAGE_GOODBYE};
        if (tracker_must_resign(tracker, row, ready)) {
            goodbye.round = tracker->leases.electors.round;
            goodbye.hash = tracker->leases.electors.state;
        }
        tracker_send(tracker, row, goodbye, actions);
    }
}

/* Releases the members once the run is complete. Members with the current state then exit, so a
 * member that arrives later does not wait for them. */
void tracker_send_goodbyes(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    if (!tracker_is_run_complete(tracker)) {
        return;
    }
    struct tracker_stage *stage = &tracker->stage;
    int64_t timeout_ms = tracker->deadlines.timing.exchange_ms;
    ASSERT(tracker->record.head.kind != ENTRY_OPEN && !tracker->exchange.is_poll_open);
    uint32_t current = 0;  /* number of connected members that have the current state */
    uint32_t outdated = 0; /* number of connected members that still lack the current state */
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        bool is_current = hash_equal(&member->report.root, &tracker->record.commit.root);
        current += !member->is_silent && is_current;
        outdated += !member->is_silent && !is_current;
    }
    ASSERT(current + outdated <= tracker->record.member_count);
    bool has_waited = now_ms - stage->stage_began_ms >= timeout_ms;
    bool is_state_lost =
        now_ms - stage->last_current_ms >= timeout_ms || (stage->is_concluded && current == 0);
    if (current > 0 && (outdated == 0 || has_waited)) {
        stage_mark_concluded(stage);
    }
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        bool is_current = hash_equal(&member->report.root, &tracker->record.commit.root);
        if (!member->is_silent && (is_current ? outdated == 0 || has_waited : is_state_lost)) {
            tracker_send(tracker, row, (struct message){.kind = MESSAGE_GOODBYE}, actions);
        }
    }
}

void tracker_handle_message(struct tracker *tracker, const struct message *message, int64_t now_ms,
                            struct actions *actions) {
    if (message->kind == MESSAGE_HELLO) {
        handle_hello(tracker, message, now_ms, actions);
        return;
    }
    uint32_t row = tracker_find_row(tracker, &message->from);
    if (row == ROW_NONE || tracker->record.members[row].session != message->session) {
        reject_session(tracker, row, message, actions);
        return;
    }
    ASSERT(message->session < tracker->record.next_session);
    tracker_mark_message_received(&tracker->members[row], now_ms);
    switch (message->kind) {
    case MESSAGE_REPORT:
        handle_report(tracker, row, message, now_ms, actions);
        break;
    case MESSAGE_DECLARE:
        handle_declare(tracker, row, message, now_ms);
        break;
    case MESSAGE_VOTE:
        tracker_handle_vote(tracker, row, message);
        break;
    case MESSAGE_LEAVE:
        handle_leave(tracker, row, actions);
        break;
    case MESSAGE_RESIGN:
        tracker_handle_resignation(tracker, row, message, actions);
        break;
    default:
        break; /* a message to members only, which the caller has counted as a violation */
    }
}
