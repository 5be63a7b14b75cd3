/* member_loop_receive: what the messenger brings becomes verified messages for the machine, or goes
 * to the part of the loop that it is for. What is not right is dropped: who meant it says it
 * again. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

/* Bytes of a slice land where they are aligned and nobody else writes. */
static bool land(struct member_loop *loop, const struct message *message, const uint8_t *bulk,
                 size_t bulk_bytes) {
    const struct slices *slices = &loop->options.replica->shape.slices;
    if (message->slice >= slices->count ||
        bulk_bytes != slices_range(slices, message->slice).bytes) {
        return false;
    }
    memcpy(loop->landing, bulk, bulk_bytes);
    loop->landed = bulk_bytes;
    return true;
}

/* The computing thread may be at what would be written over: a job that no longer matters. */
static bool is_in_use(const struct member_loop *loop, const struct message *message) {
    const struct loop_job *job = &loop->job;
    if (!job->is_out || job->round != message->round) {
        return false;
    }
    return job->kind == ACTION_SUM ? job->slice == message->slice : job->kind != ACTION_ADOPT;
}

static bool is_sound(const struct member_loop *loop, const struct message *message) {
    return replica_sound(loop->options.replica, message->slice, loop->landing, loop->landed);
}

static void note_entry(struct member_loop *loop, const struct entry *entry) {
    if (entry->kind == ENTRY_OPEN) {
        loop->open = *entry;
        loop->open.slices = NULL; /* it has none */
        loop->view.round = entry->round;
        uplink_on_open(loop, entry->round);
    } else if (entry->kind == ENTRY_COMMIT) {
        uplink_on_commit(loop, entry);
    }
}

/* A result that brings leaves forward is not the machine's: it waits for the state. */
static bool is_adopted(struct member_loop *loop, const struct message *message) {
    bool is_its = state_fetcher_on_result(loop, message);
    if (is_its) {
        member_loop_keep_result(loop, message);
    }
    return is_its;
}

/* What a message must be for the machine to hear it, beyond its signatures. */
static bool is_fit(struct member_loop *loop, struct message *message) {
    bool is_trackers = memcmp(&message->from, &loop->tracker_id, sizeof(message->from)) == 0;
    if (is_trackers && message->kind != MESSAGE_ENTRY && !ledger_follower_is_synced(loop)) {
        return false;
    }
    switch (message->kind) {
    case MESSAGE_ENTRY:
        if (!ledger_follower_may_deliver(loop, message)) {
            return false;
        }
        note_entry(loop, message->entry);
        return true;
    case MESSAGE_TABLE:
        uplink_on_table(loop, message->round);
        return true;
    case MESSAGE_CONTRIBUTION:
        message->is_refused = !is_sound(loop, message);
        return true;
    case MESSAGE_RESULT:
        return !is_in_use(loop, message) && is_sound(loop, message) && !is_adopted(loop, message);
    default:
        return true;
    }
}

void member_loop_deliver(struct member_loop *loop, const struct message *message) {
    loop->heard = message;
    member_loop_step(loop, &(struct event){.kind = EVENT_MESSAGE, .message = message});
    loop->heard = NULL;
}

static void hear_machine(struct member_loop *loop, const struct frame *frame,
                         const uint8_t *payload, size_t count, const struct identity *from) {
    struct message message;
    const uint8_t *bulk;
    size_t bulk_bytes;
    const char *wrong =
        wire_read(&loop->shape, frame, payload, count, &loop->arrays, &message, &bulk, &bulk_bytes);
    if (wrong != NULL) {
        log_line(LOG_DEBUG, "swarm: a message of kind %u %s", frame->kind, wrong);
        return;
    }
    message.from = *from;
    bool has_bulk = message.kind == MESSAGE_CONTRIBUTION || message.kind == MESSAGE_RESULT;
    const struct entry *open = loop->open.round > 0 ? &loop->open : NULL;
    if ((has_bulk && !land(loop, &message, bulk, bulk_bytes)) ||
        (!wire_verified(&loop->shape, loop->options.tracker.sign, open, &message, bulk,
                        bulk_bytes) &&
         !catch_up_verifies(loop, &message, bulk, bulk_bytes)) ||
        !is_fit(loop, &message)) {
        return;
    }
    member_loop_deliver(loop, catch_up_substitute(loop, &message));
}

void member_loop_receive_entry(struct member_loop *loop, struct message *message) {
    if (is_fit(loop, message)) {
        member_loop_deliver(loop, catch_up_substitute(loop, message));
    }
}

static void answer_ping(struct member_loop *loop, const struct messenger_event *event) {
    uint8_t bytes[8];
    if (event->frame.length != sizeof bytes) {
        return;
    }
    memcpy(bytes, event->payload, sizeof bytes);
    struct frame frame = {.kind = WIRE_PONG, .length = sizeof bytes};
    (void)uplink_send(loop, event->curve, CHANNEL_CONTROL, &frame, bytes);
}

static void hear_tracker_host(struct member_loop *loop, const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    switch (frame->kind) {
    case WIRE_REFUSED:
        peers_on_rejected(loop, event->payload, frame->length);
        break;
    case WIRE_REPLACED:
        peers_on_replaced(loop);
        break;
    case WIRE_ADDRESS_BOOK:
        peers_on_address_book(loop, event->payload, frame->length);
        break;
    case WIRE_LEDGER:
        ledger_follower_on_records(loop, frame, event->payload);
        break;
    case WIRE_PING:
        answer_ping(loop, event);
        break;
    case WIRE_PONG:
        uplink_on_pong(loop, event->payload, frame->length);
        break;
    default:
        break; /* of no use to a member that has its manifest */
    }
}

static void hear_tracker(struct member_loop *loop, const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    const uint8_t *payload = event->payload;
    if (!wire_may_send(WIRE_TRACKER, WIRE_MEMBER, frame->kind)) {
        return;
    }
    if (frame->kind >= WIRE_MACHINE_KINDS) {
        hear_tracker_host(loop, event);
        return;
    }
    if (!wire_is_chunked(frame->kind)) {
        hear_machine(loop, frame, payload, frame->length, &loop->tracker_id);
    } else if (wire_chunks_add(&loop->pieces, frame, event->payload, &payload) == WIRE_COMPLETE) {
        hear_machine(loop, &loop->pieces.frame, payload, loop->pieces.count, &loop->tracker_id);
    }
}

static void hear_peer(struct member_loop *loop, uint32_t peer,
                      const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    struct identity from;
    memcpy(from.bytes, loop->peers[peer].as.keys.sign, KEY_BYTES);
    if (!wire_may_send(WIRE_MEMBER, WIRE_MEMBER, frame->kind)) {
        return;
    }
    int64_t now_ns = clock_monotonic_ns();
    peers_note_frame(loop, peer, frame->kind, now_ns);
    switch (frame->kind) {
    case WIRE_LEAF_HASHES_REQUEST:
    case WIRE_LEAF_HASHES:
    case WIRE_LEAF_REQUEST:
    case WIRE_LEAF:
        leaf_server_receive(loop, peer, frame, event->payload, now_ns);
        break;
    case WIRE_PING:
        answer_ping(loop, event);
        break;
    case WIRE_PONG:
        break; /* heard is enough */
    default:
        hear_machine(loop, frame, event->payload, frame->length, &from);
        break;
    }
}

static void hear_tracker_line(struct member_loop *loop, const struct messenger_event *event) {
    switch (event->kind) {
    case MESSENGER_FRAME:
        hear_tracker(loop, event);
        break;
    case MESSENGER_OPENED:
        loop->tracker_is_there = true;
        loop->is_admitted = false; /* it says so again */
        loop->introduced_ns = 0;
        loop->pieces.at = 0;
        ledger_follower_on_connect(loop);
        break;
    case MESSENGER_CLOSED:
        if (loop->is_replaced) {
            break; /* the connection was ours to end */
        }
        loop->tracker_is_there = false;
        break;
    case MESSENGER_REJECTED:
        log_line(LOG_WARNING, "swarm: the tracker at %s has another key than the join string's",
                 loop->options.tracker_address);
        break;
    case MESSENGER_FULL:
        log_line(LOG_WARNING, "swarm: the tracker at %s has no place for one more; it is tried on",
                 loop->options.tracker_address);
        break;
    }
}

void member_loop_receive(struct member_loop *loop, const struct messenger_event *event) {
    if (memcmp(event->curve, loop->options.tracker.curve, KEY_BYTES) == 0) {
        hear_tracker_line(loop, event);
        return;
    }
    uint32_t peer = peers_find_curve(loop, event->curve);
    if (peer == PEER_NONE) {
        return;
    }
    switch (event->kind) {
    case MESSENGER_FRAME:
        hear_peer(loop, peer, event);
        break;
    case MESSENGER_OPENED:
        peers_on_open(loop, peer);
        break;
    case MESSENGER_CLOSED:
        peers_on_close(loop, peer);
        break;
    case MESSENGER_REJECTED:
    case MESSENGER_FULL:
        break; /* it does not know us yet; the messenger tries again */
    }
}
