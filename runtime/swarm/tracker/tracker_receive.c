/* tracker_receive: incoming frames. Messages for the state machine are decoded and verified first.
 * Queries that need no state machine are answered here. */
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <string.h>

enum {
    PING_BYTES = 8,
    STRIKES_MAX = 3, /* messages that no correct process sends, until their sender is banned */
};

static void strike(struct tracker_loop *loop, struct tracker_guest *guest) {
    guest_add_strike(guest);
    guest_table_count_refused(loop->guests);
}

static void receive_message(struct tracker_loop *loop, struct tracker_guest *guest,
                            const struct messenger_event *event) {
    struct message message;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    const int row = member_table_find_curve(loop->members, guest->curve);
    if (row == MEMBER_NONE) {
        return; /* it is not admitted, or not yet */
    }
    struct admitted_member *member = &loop->members->rows[row];
    if (wire_read_message(&loop->shape, &event->frame, event->payload, event->frame.length,
                          &loop->arrays, &message, &bulk, &bulk_bytes) != NULL) {
        strike(loop, guest);
        return;
    }
    message.from = member_identity(member);
    if (!wire_is_verified(&loop->shape, loop->options.keys->public_keys.sign, &loop->driver->newest,
                          &message, bulk, bulk_bytes)) {
        strike(loop, guest);
        return;
    }
    member_note_received(member, tracker_now_ms());
    if (message.kind == MESSAGE_REPORT) {
        member_note_report(member, &message);
    }
    const struct event received = {.kind = EVENT_MESSAGE, .message = &message};
    machine_driver_step(loop, &received);
}

/* Keys on the allow-list and the tracker's own identity may query status and ledger. A client
 * connects with a temporary key, so that it sends a proof of its identity with the query. */
static bool may_query(struct tracker_loop *loop, struct tracker_guest *guest,
                      const struct messenger_event *event) {
    const struct public_keys *own = &loop->options.keys->public_keys;
    const struct allow_list *list = &loop->watch->list;
    const size_t count = event->frame.length;
    struct wire_proof proof;
    if (list->open || (count == 0 && allow_list_has_curve(list, guest->curve))) {
        return true;
    }
    if (count == 0) {
        guest_reject(loop, guest, "only keys on the allow-list (skep roster) may query this");
        return false;
    }
    if (wire_read_proof(event->payload, count, &proof) != NULL ||
        !wire_proof_is_signed(&proof, own, guest->curve)) {
        strike(loop, guest);
        return false;
    }
    if (public_keys_equal(&proof.keys, own) || allow_list_permits(list, &proof.keys)) {
        return true;
    }
    guest_reject_stranger(loop, guest, &proof.keys, "");
    return false;
}

/* The payload is copied first: sending invalidates the event. */
static void send_pong(struct tracker_loop *loop, const struct tracker_guest *guest,
                      const struct messenger_event *event) {
    uint8_t bytes[PING_BYTES];
    if (event->frame.length == PING_BYTES) {
        memcpy(bytes, event->payload, PING_BYTES);
        (void)tracker_loop_send(loop, guest, WIRE_PONG, 0, bytes, PING_BYTES);
    }
}

static void answer(struct tracker_loop *loop, struct tracker_guest *guest,
                   const struct messenger_event *event) {
    switch (event->frame.kind) {
    case WIRE_INTRODUCE:
        guest_on_introduction(loop, guest, event->payload, event->frame.length);
        break;
    case WIRE_MANIFEST_REQUEST:
        guest_set_active(guest, tracker_now_ms());
        tracker_loop_send_manifest(loop, guest);
        break;
    case WIRE_STATUS_REQUEST:
        guest_set_active(guest, tracker_now_ms());
        if (may_query(loop, guest, event)) {
            tracker_loop_send_status(loop, guest);
        }
        break;
    case WIRE_LEDGER_REQUEST:
        guest_set_active(guest, tracker_now_ms());
        if (may_query(loop, guest, event)) {
            ledger_request_set(&guest->ledger, event->frame.offset);
        }
        break;
    case WIRE_PING:
        send_pong(loop, guest, event);
        break;
    default:
        strike(loop, guest);
    }
}

void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *guest,
                          const struct messenger_event *event) {
    if (event->frame.kind < WIRE_STATE_MACHINE_KINDS) {
        receive_message(loop, guest, event);
    } else {
        answer(loop, guest, event);
    }
    if (guest->strikes >= STRIKES_MAX) {
        messenger_ban(loop->messenger, guest->curve);
    }
}
