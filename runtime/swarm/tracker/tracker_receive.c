/* tracker_receive: handles incoming frames. Decodes and verifies messages for the state machine.
 * Answers queries, which the state machine does not handle. */
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum {
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
    const int row = member_table_find_by_channel_key(loop->members, guest->curve);
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
    if (!wire_verify_message(&loop->shape, loop->options.keys->public_keys.sign,
                             &loop->driver->newest_entry, &message, bulk, bulk_bytes)) {
        add_strike(loop, guest);
        return;
    }
    if (message.kind == MESSAGE_HELLO &&
        !serving_permit_start(&member->usage, message.number, tracker_now_ms())) {
        return;
    }
    member_record_received(member, tracker_now_ms());
    if (message.kind == MESSAGE_REPORT) {
        member_record_report(member, &message);
    }
    const struct event received = {.kind = EVENT_MESSAGE, .message = &message};
    machine_driver_step(loop, &received);
}

/* What the sender of a query has proven. */
struct query_sender {
    enum requester requester; /* kind of the sender */
    bool has_proof;           /* the query contains a valid proof */
    struct public_keys keys;  /* if has_proof: public keys of the sender's identity */
};

static bool is_known_identity(const struct tracker_loop *loop, const struct public_keys *keys) {
    struct identity id;
    memcpy(id.bytes, keys->sign, KEY_BYTES);
    return public_keys_equal(keys, &loop->options.keys->public_keys) ||
           allow_list_find(&loop->watch->list, keys) != NULL ||
           member_table_find_by_identity(loop->members, &id) != MEMBER_NONE;
}

/* Identifies the sender of a query. A client connects with a temporary key, and therefore sends a
 * proof of its identity with the query. */
static struct query_sender identify_sender(const struct tracker_loop *loop,
                                           const struct tracker_guest *guest,
                                           const struct messenger_event *event) {
    const struct public_keys *own = &loop->options.keys->public_keys;
    struct query_sender sender = {.requester = REQUESTER_STRANGER};
    struct wire_proof proof;
    if (member_table_find_by_channel_key(loop->members, guest->curve) != MEMBER_NONE) {
        sender.requester = REQUESTER_MEMBER;
    } else if (event->frame.length == 0) {
        sender.requester = allow_list_has_channel_key(&loop->watch->list, guest->curve)
                               ? REQUESTER_LISTED
                               : REQUESTER_STRANGER;
    } else if (wire_read_proof(event->payload, event->frame.length, &proof) != NULL ||
               !wire_proof_is_signed(&proof, own, guest->curve)) {
        sender.requester = REQUESTER_UNPROVEN;
    } else {
        sender.has_proof = true;
        sender.keys = proof.keys;
        sender.requester =
            is_known_identity(loop, &proof.keys) ? REQUESTER_LISTED : REQUESTER_STRANGER;
    }
    return sender;
}

/* Returns whether the allow-list permits a query for status, ledger or checkpoint. If it does not,
 * sends the rejection. */
static bool permit_or_reject_query(struct tracker_loop *loop, struct tracker_guest *guest,
                                   const struct query_sender *sender) {
    if (sender->requester != REQUESTER_STRANGER || loop->watch->list.is_open) {
        guest_permit_queries(guest);
        return true;
    }
    if (sender->has_proof) {
        guest_reject_stranger(loop, guest, &sender->keys, "");
    } else {
        guest_reject(loop, guest,
                     "only a process whose key is on the allow-list may send this query");
    }
    return false;
}

/* Answers a ping with its number. */
static void send_pong(struct tracker_loop *loop, const struct tracker_guest *guest,
                      const struct messenger_event *event) {
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    uint64_t number = 0;
    if (wire_read_ping(event->payload, event->frame.length, &number) == NULL) {
        (void)tracker_loop_send_payload(loop, guest, WIRE_PONG, 0, payload,
                                        wire_write_ping(number, payload));
    }
}

/* Tests an address for a process that has sent a permitted query before. */
static void handle_probe_request(struct tracker_loop *loop, struct tracker_guest *guest,
                                 const struct messenger_event *event) {
    struct wire_probe probe;
    const int64_t now_ms = tracker_now_ms();
    if (wire_read_probe(event->payload, event->frame.length, &probe) != NULL) {
        add_strike(loop, guest);
    } else if (guest->may_query && serving_permit_query(&guest->usage, now_ms)) {
        guest_record_activity(guest, now_ms);
        reachability_test_guest(loop, guest, probe.address, now_ms);
    }
}

/* Answers a query for a document, or stores a query for the ledger. */
static void handle_document_query(struct tracker_loop *loop, struct tracker_guest *guest,
                                  const struct messenger_event *event) {
    const int64_t now_ms = tracker_now_ms();
    const struct query_sender sender = identify_sender(loop, guest, event);
    guest_record_activity(guest, now_ms);
    if (sender.requester == REQUESTER_UNPROVEN) {
        add_strike(loop, guest);
    } else if (event->frame.kind == WIRE_MANIFEST_REQUEST) {
        tracker_loop_send_manifest(loop, guest, sender.requester);
    } else if (!permit_or_reject_query(loop, guest, &sender)) {
        return;
    } else if (event->frame.kind == WIRE_STATUS_REQUEST) {
        tracker_loop_send_status(loop, guest, sender.requester);
    } else if (event->frame.kind == WIRE_CHECKPOINT_REQUEST) {
        tracker_loop_send_checkpoint(loop, guest, sender.requester);
    } else {
        ledger_request_store(&guest->ledger_request, event->frame.offset, sender.requester);
    }
}

static void handle_query(struct tracker_loop *loop, struct tracker_guest *guest,
                         const struct messenger_event *event) {
    const int64_t now_ms = tracker_now_ms();
    const bool is_member =
        member_table_find_by_channel_key(loop->members, guest->curve) != MEMBER_NONE;
    switch (event->frame.kind) {
    case WIRE_INTRODUCE:
        if (serving_permit_query(&guest->usage, now_ms)) {
            guest_on_introduction(loop, guest, event->payload, event->frame.length);
        }
        break;
    case WIRE_MANIFEST_REQUEST:
    case WIRE_STATUS_REQUEST:
    case WIRE_CHECKPOINT_REQUEST:
        if (serving_permit_query(&guest->usage, now_ms)) {
            handle_document_query(loop, guest, event);
        }
        break;
    case WIRE_LEDGER_REQUEST:
        /* A member's queries are not limited here, because it requests the next entries as soon as
         * it has received some. */
        if (is_member || serving_permit_query(&guest->usage, now_ms)) {
            handle_document_query(loop, guest, event);
        }
        break;
    case WIRE_PROBE_ADDRESS:
        handle_probe_request(loop, guest, event);
        break;
    case WIRE_PING:
        if (is_member || serving_permit_ping(&guest->usage, now_ms)) {
            send_pong(loop, guest, event);
        }
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
        messenger_ban_peer(loop->messenger, guest->curve);
    }
}
