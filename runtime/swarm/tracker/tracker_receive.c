/* tracker_receive: handles incoming frames. Decodes and verifies messages for the state machine.
 * Answers queries, which the state machine does not handle. */
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <string.h>

enum {
    PING_BYTES = 8,  /* size of the payload of a ping */
    STRIKES_MAX = 3, /* protocol violations after which a peer is banned */
};

static void add_strike(struct tracker_loop *loop, struct tracker_guest *guest) {
    guest_add_strike(guest);
    guest_table_count_rejected_message(loop->guests);
}

static void receive_message(struct tracker_loop *loop, struct tracker_guest *guest,
                            const struct messenger_event *event) {
    struct message message;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    const int row = member_table_find_curve(loop->members, guest->curve);
    if (row == MEMBER_NONE) {
        return; /* the sender is not a member */
    }
    struct admitted_member *member = &loop->members->rows[row];
    if (wire_read_message(&loop->shape, &event->frame, event->payload, event->frame.length,
                          &loop->arrays, &message, &bulk, &bulk_bytes) != NULL) {
        add_strike(loop, guest);
        return;
    }
    message.from = member_identity(member);
    if (!wire_is_verified(&loop->shape, loop->options.keys->public_keys.sign,
                          &loop->driver->newest_entry, &message, bulk, bulk_bytes)) {
        add_strike(loop, guest);
        return;
    }
    member_record_received(member, tracker_now_ms());
    if (message.kind == MESSAGE_REPORT) {
        member_record_report(member, &message);
    }
    const struct event received = {.kind = EVENT_MESSAGE, .message = &message};
    machine_driver_step(loop, &received);
}

/* Whether a guest may query status and ledger: keys on the allow-list and the tracker's own
 * identity may. A client connects with a temporary key, and therefore sends a proof of its identity
 * with the query. */
static bool may_query(struct tracker_loop *loop, struct tracker_guest *guest,
                      const struct messenger_event *event) {
    const struct public_keys *own = &loop->options.keys->public_keys;
    const struct allow_list *list = &loop->watch->list;
    const size_t count = event->frame.length;
    struct wire_proof proof;
    if (list->is_open || (count == 0 && allow_list_has_channel_key(list, guest->curve))) {
        return true;
    }
    if (count == 0) {
        guest_reject(loop, guest,
                     "only a process whose key is on the allow-list may send this query");
        return false;
    }
    if (wire_read_proof(event->payload, count, &proof) != NULL ||
        !wire_proof_is_signed(&proof, own, guest->curve)) {
        add_strike(loop, guest);
        return false;
    }
    if (public_keys_equal(&proof.keys, own) || allow_list_permits(list, &proof.keys)) {
        return true;
    }
    guest_reject_stranger(loop, guest, &proof.keys, "");
    return false;
}

/* Answers a ping with its payload, which is copied first because sending invalidates the event. */
static void send_pong(struct tracker_loop *loop, const struct tracker_guest *guest,
                      const struct messenger_event *event) {
    uint8_t bytes[PING_BYTES];
    if (event->frame.length == PING_BYTES) {
        memcpy(bytes, event->payload, PING_BYTES);
        (void)tracker_loop_send(loop, guest, WIRE_PONG, 0, bytes, PING_BYTES);
    }
}

static void handle_query(struct tracker_loop *loop, struct tracker_guest *guest,
                         const struct messenger_event *event) {
    switch (event->frame.kind) {
    case WIRE_INTRODUCE:
        guest_on_introduction(loop, guest, event->payload, event->frame.length);
        break;
    case WIRE_MANIFEST_REQUEST:
        guest_record_activity(guest, tracker_now_ms());
        tracker_loop_send_manifest(loop, guest);
        break;
    case WIRE_STATUS_REQUEST:
        guest_record_activity(guest, tracker_now_ms());
        if (may_query(loop, guest, event)) {
            tracker_loop_send_status(loop, guest);
        }
        break;
    case WIRE_LEDGER_REQUEST:
        guest_record_activity(guest, tracker_now_ms());
        if (may_query(loop, guest, event)) {
            ledger_request_store(&guest->ledger_request, event->frame.offset);
        }
        break;
    case WIRE_PING:
        send_pong(loop, guest, event);
        break;
    default:
        add_strike(loop, guest);
    }
}

void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *guest,
                          const struct messenger_event *event) {
    if (event->frame.kind < WIRE_STATE_MACHINE_KINDS) {
        receive_message(loop, guest, event);
    } else {
        handle_query(loop, guest, event);
    }
    if (guest->strikes >= STRIKES_MAX) {
        messenger_ban(loop->messenger, guest->curve);
    }
}
