/* tracker_handle_message: registration, reports, declarations, votes, and the answers to them. */
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

enum { SAID_WAIT_MAX_MS = 60000 };

/* Whether something is to be said to a row now: at once when it is new, and if the member still
 * stands as before then again, each time after twice as long. */
static int is_due(struct tracker *tracker, uint32_t row, enum message_kind kind, uint64_t number,
                  int64_t now_ms) {
    struct tracker_last_sent *said = &tracker->members[row].said;
    int is_new = said->wait_ms == 0 || said->kind != kind || said->number != number;
    if (!is_new && now_ms - said->at_ms < said->wait_ms) {
        return 0;
    }
    uint32_t wait_ms = is_new ? tracker->timing.silence_ms : 2 * said->wait_ms;
    wait_ms = wait_ms < SAID_WAIT_MAX_MS ? wait_ms : SAID_WAIT_MAX_MS;
    *said = (struct tracker_last_sent){kind, number, now_ms, wait_ms};
    return 1;
}

/* A row for a new identity: a new one, or that of a silent member without a seat. */
static uint32_t free_row(const struct tracker *tracker) {
    if (tracker->record.member_count < SWARM_MEMBERS_MAX) {
        return tracker->record.member_count;
    }
    uint32_t row = 0;
    while (row < SWARM_MEMBERS_MAX &&
           (!tracker->members[row].silent || tracker->seat_of_row[row] != NO_SEAT)) {
        row++;
    }
    return row;
}

/* What an earlier start of a row held went with its reports. */
static void forget_held(struct tracker *tracker, uint32_t row) {
    int seat = tracker->seat_of_row[row];
    for (uint32_t s = 0; seat != NO_SEAT && s < tracker->settings.slice_count; s++) {
        tracker->holders[s] &= ~(UINT64_C(1) << seat);
    }
}

static void hear_hello(struct tracker *tracker, const struct message *message, int64_t now_ms,
                       struct actions *actions) {
    uint32_t row = tracker_row(tracker, &message->from);
    if (row != ROW_NONE && tracker->members[row].welcome == message->number) {
        if (tracker->pending_row != row + 1) {
            struct message welcome = {.kind = MESSAGE_WELCOME, .number = message->number};
            tracker_send(tracker, row, welcome, actions);
        }
        return;
    }
    int64_t held_ms = row == ROW_NONE ? 0 : tracker->members[row].held_ms;
    row = row == ROW_NONE ? free_row(tracker) : row;
    if (tracker->writing != 0 || tracker->is_held_back || row == ROW_NONE) {
        return; /* it asks again */
    }
    struct tracker_member *member = &tracker->members[row];
    struct slice_report *reports = member->reports;
    *member = (struct tracker_member){
        .heard_ms = now_ms, .silent = 1, .held_ms = held_ms, .reports = reports};
    member->welcome = message->number;
    member->durable = message->root;
    forget_held(tracker, row);
    tracker_draft(tracker);
    struct tracker_record *next = &tracker->next;
    next->members[row].id = message->from;
    next->members[row].session = next->session_next++;
    next->member_count = row == next->member_count ? row + 1 : next->member_count;
    tracker->pending_row = row + 1;
    tracker_write(tracker, RECORD_SESSIONS, actions);
}

void tracker_send_missing(struct tracker *tracker, uint32_t row, int64_t now_ms,
                          struct actions *actions) {
    const struct tracker_member *member = &tracker->members[row];
    const struct tracker_record *record = &tracker->record;
    struct message message = {.kind = MESSAGE_KINDS, .round = record->head.round};
    uint64_t number = record->head.round;
    if (!hash_equal(&member->root, &record->commit.root)) {
        message.kind = MESSAGE_ENTRY;
        message.entry = &record->commit;
        message.root = record->base;
    } else if (record->head.kind != ENTRY_OPEN) {
        message.kind = member->round == record->head.round ? MESSAGE_ENTRY : MESSAGE_KINDS;
        message.entry = &record->head;
    } else if (tracker->seat_of_row[row] == NO_SEAT) {
        return;
    } else if (member->round != record->head.round) {
        message.kind = MESSAGE_ENTRY;
        message.entry = &record->head;
    } else if (tracker->stage >= STAGE_EXCHANGE && member->version != record->table.version) {
        message.kind = MESSAGE_TABLE;
        message.table = &record->table;
        number = number << 32 | record->table.version;
    } else if (member->ask != tracker->ask &&
               (tracker->stage == STAGE_TRAIN ? !member->has_declared : tracker->is_asking)) {
        message.kind = MESSAGE_POLL;
        message.ask = tracker->ask;
        number = tracker->ask;
    } else if (tracker->stage == STAGE_VOTE && !member->has_voted) {
        message.kind = MESSAGE_PROPOSE;
        message.entry = &tracker->proposal;
        message.number = tracker->proposal_number;
        message.holders = tracker->holders;
        number = message.number;
    }
    if (message.kind == MESSAGE_ENTRY) {
        memcpy(&number, message.entry->hash.bytes, sizeof(number));
    }
    if (message.kind != MESSAGE_KINDS && is_due(tracker, row, message.kind, number, now_ms)) {
        tracker_send(tracker, row, message, actions);
    }
}

/* Seats are those of the round that it reports on; who they are holds for the next one too. */
static void take_cut(struct tracker *tracker, uint32_t row, const struct message *message) {
    if (tracker->record.head.kind != ENTRY_OPEN || message->round != tracker->record.head.round) {
        return;
    }
    tracker->members[row].cut = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        int other = tracker->row_of_seat[seat];
        if ((message->cut >> seat & 1) != 0 && other != NO_SEAT) {
            tracker->members[row].cut |= UINT64_C(1) << other;
        }
    }
}

static void hear_report(struct tracker *tracker, uint32_t row, const struct message *message,
                        int64_t now_ms, struct actions *actions) {
    struct tracker_member *member = &tracker->members[row];
    if (message->number <= member->report_number) {
        return; /* overtaken by a newer one */
    }
    member->report_number = message->number;
    member->root = message->root;
    member->durable = message->hash;
    member->round = message->round;
    member->ask = message->ask;
    member->version = message->version;
    member->measured = message->measured;
    take_cut(tracker, row, message);
    memcpy(member->reports, message->reports,
           tracker->settings.slice_count * sizeof(*member->reports));
    tracker_note_report(tracker, row, now_ms);
    if (tracker->writing == 0) {
        tracker_send_missing(tracker, row, now_ms, actions);
    }
}

static void hear_declare(struct tracker *tracker, uint32_t row, const struct message *message) {
    int seat = tracker->seat_of_row[row];
    struct tracker_member *member = &tracker->members[row];
    if (tracker->stage != STAGE_TRAIN || seat == NO_SEAT || member->has_declared ||
        message->round != tracker->record.head.round || (tracker->writing & RECORD_DECLARED) != 0) {
        return;
    }
    size_t count = tracker->settings.slice_count;
    memcpy(tracker->record.table.hashes + (size_t)seat * count, message->hashes,
           count * sizeof(struct hash));
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
    if (tracker->writing != 0 || message->kind != MESSAGE_REPORT) {
        return;
    }
    const struct tracker_record *record = &tracker->record;
    struct message welcome = {.kind = MESSAGE_WELCOME, .incarnation = record->incarnation};
    welcome.session = row == ROW_NONE ? record->session_next : record->members[row].session;
    welcome.number = row == ROW_NONE ? 0 : tracker->members[row].welcome;
    tracker_send_to(&message->from, welcome, actions);
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
    int is_seated = tracker->record.head.kind == ENTRY_OPEN && tracker->seat_of_row[row] != NO_SEAT;
    if (tracker->writing == 0 && !is_seated && (ready > 0 || staying == 0)) {
        tracker_send(tracker, row, (struct message){.kind = MESSAGE_GOODBYE}, actions);
    }
}

void tracker_send_goodbyes(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    int64_t patience_ms = tracker->timing.exchange_ms;
    int has_waited = now_ms - tracker->stage_ms >= patience_ms;
    int is_alone = now_ms - tracker->reached_ms >= patience_ms; /* the state has gone with others */
    uint32_t behind = 0;                                        /* who still needs it */
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        behind += !member->silent && !hash_equal(&member->root, &tracker->record.commit.root);
    }
    for (uint32_t row = 0; tracker_is_over(tracker) && row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        int is_last = hash_equal(&member->root, &tracker->record.commit.root);
        if (!member->silent && (is_last ? behind == 0 || has_waited : is_alone)) {
            tracker_send(tracker, row, (struct message){.kind = MESSAGE_GOODBYE}, actions);
        }
    }
}

void tracker_handle_message(struct tracker *tracker, const struct message *message, int64_t now_ms,
                            struct actions *actions) {
    if (message->kind == MESSAGE_HELLO) {
        hear_hello(tracker, message, now_ms, actions);
        return;
    }
    uint32_t row = tracker_row(tracker, &message->from);
    if (row == ROW_NONE || tracker->record.members[row].session != message->session) {
        refuse_session(tracker, row, message, actions);
        return;
    }
    tracker->members[row].heard_ms = now_ms;
    tracker->members[row].silent = 0;
    switch (message->kind) {
    case MESSAGE_REPORT:
        hear_report(tracker, row, message, now_ms, actions);
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
