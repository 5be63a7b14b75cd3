/* member_loop_receive: turns events of the messenger into verified messages for the state
 * machine, or passes them to the object that handles them. Invalid frames are dropped, and their
 * senders repeat them. */
#include "runtime/swarm/member/member_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

/* ---- messages of the state machine ---- */

/* Whether an abandoned job of the compute thread may still read the bytes that this result would
 * overwrite. */
static bool may_result_buffer_be_in_use(const struct member_loop *loop,
                                        const struct message *result) {
    const struct member_job *job = mailbox_current_job(&loop->mailbox);
    if (job == NULL || job->round != result->round) {
        return false;
    }
    return job->kind == ACTION_SUM ? job->slice == result->slice
                                   : job->kind != ACTION_ADOPT && job->kind != ACTION_SKETCH;
}

/* Stores a result that the state fetcher needs to bring fetched leaves to a newer root. Returns
 * whether the result was stored; if so, the state machine does not get it. */
static bool store_result_for_fetcher(struct member_loop *loop, const struct message *result) {
    bool is_needed = state_fetcher_accept_result(&loop->fetcher, result);
    if (is_needed) {
        slice_store_keep_result(&loop->slices, result);
        uplink_measurements_on_result(&loop->measures);
    }
    return is_needed;
}

static void record_round_entry(struct member_loop *loop, const struct entry *entry) {
    if (entry->kind == ENTRY_OPEN) {
        loop->open = *entry;
        loop->open.slices = NULL;
        uplink_measurements_on_round_open(&loop->measures, entry->round);
        uplink_on_round_open(&loop->uplink, entry->round);
    } else if (entry->kind == ENTRY_COMMIT) {
        loop->contributors = 0;
        for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
            loop->contributors += entry->members[seat].contributed > 0;
        }
        uplink_measurements_on_commit(&loop->measures, entry->round,
                                      uplink_is_paced(&loop->uplink));
    }
}

/* Prepares the delivery of a verified message: appends its entry to the ledger, or computes the
 * values of its slice. Returns whether the state machine may get the message. */
static bool prepare_delivery(struct member_loop *loop, struct message *message) {
    switch (message->kind) {
    case MESSAGE_ENTRY:
        return ledger_follower_accept_entry(&loop->ledger, message);
    case MESSAGE_PROPOSE:
        return ledger_follower_extends_chain(&loop->ledger, message->entry);
    case MESSAGE_GOODBYE:
        return ledger_follower_may_resign(&loop->ledger, message);
    case MESSAGE_TABLE:
        uplink_on_table(&loop->uplink, message->round);
        return true;
    case MESSAGE_CONTRIBUTION:
        slice_store_compute_values(&loop->slices, message, &message->values);
        return true;
    case MESSAGE_RESULT:
        if (may_result_buffer_be_in_use(loop, message)) {
            return false;
        }
        slice_store_compute_values(&loop->slices, message, &message->values);
        if (!isfinite(message->values.norm)) {
            return false;
        }
        return !store_result_for_fetcher(loop, message);
    default:
        return true;
    }
}

void member_loop_deliver(struct member_loop *loop, const struct message *message) {
    ASSERT(loop->message == NULL);
    loop->message = message;
    member_loop_step(loop, &(struct event){.kind = EVENT_MESSAGE, .message = message});
    loop->message = NULL;
}

static void deliver_verified(struct member_loop *loop, const struct message *message) {
    if (message->kind == MESSAGE_ENTRY) {
        record_round_entry(loop, message->entry);
    }
    member_loop_deliver(loop, catch_up_replace_message(&loop->catch_up, message));
}

/* A received frame with a message of the state machine, and the slice bytes that follow the
 * message. */
struct received_frame {
    const struct frame *frame; /* header of the frame */
    const uint8_t *payload;    /* bytes after the header */
    size_t count;              /* size of the payload */
    const uint8_t *bulk;       /* slice bytes; NULL: none */
    size_t bulk_bytes;         /* size of `bulk` */
};

/* Whether the entry of a message is signed by the tracker that the current tracker has replaced. A
 * tracker with new keys resumes the round that the tracker with the old keys opened, and repeats
 * the old entries. */
static bool is_signed_by_replaced_tracker(const struct member_loop *loop, struct message *message) {
    return message->kind == MESSAGE_ENTRY &&
           wire_verify_message(&loop->shape, loop->ledger.chain.tracker_key, NULL, message, NULL,
                               0);
}

static bool is_message_verified(struct member_loop *loop, struct message *message,
                                const struct received_frame *received_frame) {
    const struct entry *open = loop->open.round > 0 ? &loop->open : NULL;
    const uint8_t *bulk = received_frame->bulk;
    const size_t bytes = received_frame->bulk_bytes;
    return wire_verify_message(&loop->shape, loop->tracker.keys.sign, open, message, bulk, bytes) ||
           is_signed_by_replaced_tracker(loop, message) ||
           catch_up_verify_result(&loop->catch_up, message, received_frame->bulk,
                                  received_frame->bulk_bytes);
}

static void receive_message(struct member_loop *loop, struct received_frame received_frame,
                            const uint8_t sender[static KEY_BYTES]) {
    struct message message;
    const char *error = wire_read_message(
        &loop->shape, received_frame.frame, received_frame.payload, received_frame.count,
        &loop->arrays, &message, &received_frame.bulk, &received_frame.bulk_bytes);
    if (error != NULL) {
        log_line(LOG_DEBUG, "swarm: ignoring a message of kind %u: it %s",
                 received_frame.frame->kind, error);
        return;
    }
    memcpy(message.from.bytes, sender, KEY_BYTES);
    bool is_from_tracker = memcmp(sender, loop->tracker.keys.sign, KEY_BYTES) == 0;
    bool has_slice = message.kind == MESSAGE_CONTRIBUTION || message.kind == MESSAGE_RESULT;
    if (has_slice && !slice_store_receive(&loop->slices, &message, received_frame.bulk,
                                          received_frame.bulk_bytes)) {
        return;
    }
    if (has_slice) { /* the last bytes of the slice have arrived */
        received_frame.bulk = loop->slices.incoming;
        received_frame.bulk_bytes = loop->slices.incoming_bytes;
    }
    bool is_page = message.kind == MESSAGE_SKETCHES;
    if ((is_page &&
         received_frame.bulk_bytes != sketch_store_page_bytes(&loop->shape, message.slice)) ||
        !is_message_verified(loop, &message, &received_frame)) {
        return;
    }
    loop->bulk = received_frame.bulk;
    bool is_untrusted = is_from_tracker && message.kind != MESSAGE_ENTRY &&
                        !ledger_follower_is_synced(&loop->ledger);
    if (!is_untrusted && prepare_delivery(loop, &message)) {
        deliver_verified(loop, &message);
    }
}

/* ---- frames ---- */

static void answer_ping(struct member_loop *loop, const struct messenger_event *event) {
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame pong = {.kind = WIRE_PONG};
    uint64_t number = 0;
    if (wire_read_ping(event->payload, event->frame.length, &number) == NULL) {
        pong.length = (uint32_t)wire_write_ping(number, payload);
        (void)messenger_send(loop->messenger, event->curve, CHANNEL_CONTROL, &pong, payload);
    }
}

static void on_rejected(struct member_loop *loop, const struct messenger_event *event) {
    const uint8_t *reason = NULL;
    size_t count = 0;
    if (wire_read_document(WIRE_REJECTED, event->payload, event->frame.length, &reason, &count) ==
        NULL) {
        admission_on_rejected(&loop->admission, reason, count);
    }
}

static void on_address_book(struct member_loop *loop, const uint8_t *payload, size_t count) {
    struct wire_address_book book;
    const char *error = wire_read_address_book(payload, count, &book);
    if (error != NULL) {
        log_line(LOG_WARNING, "swarm: ignoring the tracker's address book: it %s", error);
        return;
    }
    admission_on_address_book(&loop->admission, &book);
    peers_update(&loop->peers, &book);
}

static void on_ledger_page(struct member_loop *loop, const uint8_t *payload, size_t count) {
    const struct message *deferred = ledger_follower_on_page(&loop->ledger, payload, count);
    if (deferred != NULL) {
        deliver_verified(loop, deferred);
    }
}

/* Handles frames of the tracker that are not messages of the state machines. */
static void on_tracker_service_frame(struct member_loop *loop,
                                     const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    switch (frame->kind) {
    case WIRE_REJECTED:
        on_rejected(loop, event);
        break;
    case WIRE_REPLACED:
        mailbox_cancel_job(&loop->mailbox);
        admission_on_replaced(&loop->admission);
        break;
    case WIRE_ADDRESS_BOOK:
        on_address_book(loop, event->payload, frame->length);
        break;
    case WIRE_ATTENDANCE:
        admission_on_attendance(&loop->admission, event->payload, frame->length);
        break;
    case WIRE_PING:
        answer_ping(loop, event);
        break;
    case WIRE_PONG:
        uplink_measurements_on_pong(&loop->measures, event->payload, frame->length);
        break;
    default:
        break; /* answers to queries that a member never sends */
    }
}

/* Handles a payload of the tracker once its last chunk has arrived. */
static void on_tracker_chunk(struct member_loop *loop, const struct messenger_event *event) {
    const uint8_t *tracker = loop->tracker.keys.sign;
    const struct wire_chunks *whole = &loop->chunks;
    const uint8_t *payload = NULL;
    if (wire_chunks_add(&loop->chunks, &event->frame, event->payload, &payload) != WIRE_COMPLETE) {
        return;
    }
    if (event->frame.kind == WIRE_LEDGER) {
        on_ledger_page(loop, payload + WIRE_LENGTH_BYTES, whole->payload_bytes - WIRE_LENGTH_BYTES);
    } else if (event->frame.kind == WIRE_CHECKPOINT) {
        ledger_follower_on_checkpoint(&loop->ledger, payload + WIRE_LENGTH_BYTES,
                                      whole->payload_bytes - WIRE_LENGTH_BYTES);
    } else if (event->frame.kind < WIRE_STATE_MACHINE_KINDS) {
        receive_message(
            loop, (struct received_frame){&whole->frame, payload, whole->payload_bytes, NULL, 0},
            tracker);
    }
}

static void on_tracker_frame(struct member_loop *loop, const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    if (!wire_may_send(WIRE_TRACKER, WIRE_MEMBER, frame->kind)) {
        return;
    }
    if (wire_is_chunked(frame->kind)) {
        on_tracker_chunk(loop, event);
    } else if (frame->kind >= WIRE_STATE_MACHINE_KINDS) {
        on_tracker_service_frame(loop, event);
    } else {
        receive_message(loop,
                        (struct received_frame){frame, event->payload, frame->length, NULL, 0},
                        loop->tracker.keys.sign);
    }
}

static void on_peer_frame(struct member_loop *loop, uint32_t peer,
                          const struct messenger_event *event) {
    const struct frame *frame = &event->frame;
    const uint8_t *payload = event->payload;
    const struct wire_member *sender = &loop->peers.links[peer].entry;
    if (!wire_may_send(WIRE_MEMBER, WIRE_MEMBER, frame->kind)) {
        return;
    }
    int64_t now_ns = clock_monotonic_ns();
    peers_on_frame(&loop->peers, peer, frame->kind, now_ns);
    switch (frame->kind) {
    case WIRE_LEAF_HASHES_REQUEST:
    case WIRE_LEAF_REQUEST:
        leaf_server_on_request(&loop->leaf_server, peer, frame, payload);
        break;
    case WIRE_LEAF_HASHES:
    case WIRE_LEAF:
        state_fetcher_on_frame(&loop->fetcher, peer, frame, payload, now_ns);
        break;
    case WIRE_PING:
        answer_ping(loop, event);
        break;
    case WIRE_PONG:
        break; /* peers_on_frame has recorded the pong */
    default:
        receive_message(loop, (struct received_frame){frame, payload, frame->length, NULL, 0},
                        sender->keys.sign);
        break;
    }
}

/* ---- connections ---- */

static void on_tracker_event(struct member_loop *loop, const struct messenger_event *event) {
    const char *address = loop->options.tracker_address;
    switch (event->kind) {
    case MESSENGER_FRAME:
        on_tracker_frame(loop, event);
        break;
    case MESSENGER_OPENED:
        wire_chunks_reset(&loop->chunks);
        admission_on_connect(&loop->admission);
        tracker_link_on_connect(&loop->tracker, clock_monotonic_ms());
        ledger_follower_on_connect(&loop->ledger);
        break;
    case MESSENGER_CLOSED:
        admission_on_disconnect(&loop->admission);
        break;
    case MESSENGER_REJECTED:
    case MESSENGER_FULL:
        log_line(LOG_WARNING, "swarm: the tracker at %s is busy or unreachable: retrying", address);
        break;
    }
}

static void on_peer_event(struct member_loop *loop, uint32_t peer,
                          const struct messenger_event *event) {
    switch (event->kind) {
    case MESSENGER_FRAME:
        on_peer_frame(loop, peer, event);
        break;
    case MESSENGER_OPENED:
        peers_on_connect(&loop->peers, peer);
        break;
    case MESSENGER_CLOSED:
        peers_on_disconnect(&loop->peers, peer);
        break;
    case MESSENGER_REJECTED:
    case MESSENGER_FULL:
        /* the peer rejects this member until it has received the address book; the messenger
         * redials */
        break;
    }
}

void member_loop_receive(struct member_loop *loop, const struct messenger_event *event) {
    if (memcmp(event->curve, loop->tracker.keys.curve, KEY_BYTES) == 0) {
        on_tracker_event(loop, event);
        return;
    }
    uint32_t peer = peers_find_by_curve_key(&loop->peers, event->curve);
    if (peer != PEER_NONE) {
        on_peer_event(loop, peer, event);
    }
}
