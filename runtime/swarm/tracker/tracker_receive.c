/* tracker_host_hear: frames that come in: the machine's to the machine, each proven and bounded;
 * asks for what the process itself knows are answered here. */
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include "base/text.h"
#include "runtime/swarm/ledger/entry_bytes.h"
#include "runtime/swarm/tracker/tracker_status.h"

#include <string.h>

enum { PING_BYTES = 8 };

/* What a member measured, and how far it is, for the status. */
static void note(struct tracker_loop *loop, int row, const struct message *message) {
    struct admitted_member *member = &loop->members[row];
    member->heard_ms = tracker_now_ms();
    if (message->kind == MESSAGE_REPORT) {
        member->measured = message->measured;
        member->round = message->round;
    }
}

/* A message that no honest process sends: counted, and at last its sender is cut off. */
static void strike(struct tracker_loop *loop, struct tracker_guest *peer) {
    loop->refused_messages++;
    peer->strikes++;
}

static void hear_message(struct tracker_loop *loop, struct tracker_guest *peer,
                         const struct messenger_event *event) {
    struct message message;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    int row = address_book_find_curve(&loop->known, peer->curve);
    if (row == BOOK_NONE) {
        return; /* it has not been let in, or not yet */
    }
    const char *wrong = wire_read(&loop->shape, &event->frame, event->payload, event->frame.length,
                                  &loop->arrays, &message, &bulk, &bulk_bytes);
    if (wrong != NULL) {
        strike(loop, peer);
        return;
    }
    memcpy(message.from.bytes, loop->known.rows[row].keys.sign, KEY_BYTES);
    if (!wire_verified(&loop->shape, loop->options.keys->public_keys.sign, &loop->open, &message,
                       bulk, bulk_bytes)) {
        strike(loop, peer);
        return;
    }
    note(loop, row, &message);
    const struct event heard = {.kind = EVENT_MESSAGE, .message = &message};
    tracker_loop_step(loop, &heard);
}

static bool same_keys(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 && memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

/* Whoever is on the roster, and the tracker's own identity, may look: a member on its own channel,
 * anybody else with a proof of who asks. Others are told what their operator is to send. */
static bool may_look(struct tracker_loop *loop, struct tracker_guest *peer,
                     const struct messenger_event *event) {
    const struct public_keys *own = &loop->options.keys->public_keys;
    const size_t count = event->frame.length;
    struct wire_proof proof;
    if (loop->roster.open || (count == 0 && allow_list_has_curve(&loop->roster, peer->curve))) {
        return true;
    }
    if (count == 0) {
        guest_reject(loop, peer, "only who is on the roster is shown this");
        return false;
    }
    if (wire_read_proof(event->payload, count, &proof) != NULL ||
        !wire_proof_verified(&proof, own, peer->curve)) {
        strike(loop, peer);
        return false;
    }
    const bool is_on_it =
        same_keys(&proof.keys, own) || allow_list_permits(&loop->roster, &proof.keys);
    if (!is_on_it) {
        guest_reject_stranger(loop, peer, &proof.keys, "");
    }
    return is_on_it;
}

static void send_status(struct tracker_loop *loop, struct tracker_guest *peer) {
    struct document_buffer *document = &loop->documents[DOCUMENT_STATUS];
    const struct frame whole = {.kind = WIRE_STATUS};
    struct text text = text_over((char *)document->bytes + WIRE_LENGTH_BYTES,
                                 document->capacity - WIRE_LENGTH_BYTES);
    tracker_status_write(loop, &text);
    ASSERT(!text.cut);
    document->count = WIRE_LENGTH_BYTES + text.length;
    wire_put_length(document->bytes, document->count);
    document->generation++;
    tracker_loop_send_document(loop, peer, DOCUMENT_STATUS, &whole);
}

/* Whole records from the one asked for on, as many as a frame holds; none is an answer too. */
static bool send_ledger(struct tracker_loop *loop, const struct tracker_guest *peer,
                        uint64_t first) {
    struct ledger_store *store = &loop->durable.store;
    struct fault fault;
    size_t count = 0;
    for (uint64_t number = first; number < store->count; number++) {
        if (ledger_store_read(store, number, loop->served.slices, loop->shape.slice_count,
                              &loop->served, &fault) != OK) {
            break;
        }
        if (entry_record_bytes(&loop->served) > FRAME_PAYLOAD_MAX - count) {
            break;
        }
        count += entry_write(&loop->served, loop->scratch + count, FRAME_PAYLOAD_MAX - count);
    }
    return tracker_loop_send(loop, peer, WIRE_LEDGER, first, loop->scratch, count);
}

/* A frame of records may be a megabyte to read and to decode: so asks are only noted as they come
 * in, and answered in turn, beside everything else. */
void tracker_loop_serve_ledger(struct tracker_loop *loop) {
    const int64_t begun_ms = tracker_now_ms();
    for (uint32_t i = 0; begun_ms >= loop->serve_ms && i < loop->peers_max; i++) {
        const uint32_t at = (loop->serve_turn + i) % loop->peers_max;
        struct tracker_guest *peer = &loop->peers[at];
        if (!peer->is_used || !peer->wants_ledger || begun_ms < peer->ledger_ms) {
            continue;
        }
        const bool is_sent = send_ledger(loop, peer, peer->ledger_first);
        const int64_t ended_ms = tracker_now_ms();
        peer->wants_ledger = !is_sent;
        peer->ledger_ms = is_sent ? 0 : ended_ms + HOST_FULL_MS;
        loop->serve_turn = at + 1;
        loop->serve_ms = ended_ms + (HOST_READING - 1) * (ended_ms - begun_ms);
        return;
    }
}

/* Sending ends the life of what came in: it is copied first. */
static void send_pong(struct tracker_loop *loop, const struct tracker_guest *peer,
                      const struct messenger_event *event) {
    uint8_t bytes[PING_BYTES];
    if (event->frame.length == PING_BYTES) {
        memcpy(bytes, event->payload, PING_BYTES);
        (void)tracker_loop_send(loop, peer, WIRE_PONG, 0, bytes, PING_BYTES);
    }
}

static bool is_ask(uint8_t kind) {
    return kind == WIRE_MANIFEST_REQUEST || kind == WIRE_STATUS_REQUEST ||
           kind == WIRE_LEDGER_REQUEST;
}

static void answer(struct tracker_loop *loop, struct tracker_guest *peer,
                   const struct messenger_event *event) {
    const struct frame whole = {.kind = WIRE_MANIFEST};
    peer->heard_ms = is_ask(event->frame.kind) ? tracker_now_ms() : peer->heard_ms;
    switch (event->frame.kind) {
    case WIRE_INTRODUCE:
        guest_introduced(loop, peer, event->payload, event->frame.length);
        break;
    case WIRE_MANIFEST_REQUEST:
        tracker_loop_send_document(loop, peer, DOCUMENT_MANIFEST, &whole);
        break;
    case WIRE_STATUS_REQUEST:
        if (may_look(loop, peer, event)) {
            send_status(loop, peer);
        }
        break;
    case WIRE_LEDGER_REQUEST:
        if (may_look(loop, peer, event)) {
            peer->wants_ledger = true;
            peer->ledger_first = event->frame.offset;
        }
        break;
    case WIRE_PING:
        send_pong(loop, peer, event);
        break;
    default:
        strike(loop, peer);
    }
}

void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *peer,
                          const struct messenger_event *event) {
    if (event->frame.kind < WIRE_MACHINE_KINDS) {
        hear_message(loop, peer, event);
    } else {
        answer(loop, peer, event);
    }
    if (peer->strikes >= HOST_STRIKES_MAX) {
        messenger_ban(loop->messenger, peer->curve);
    }
}
