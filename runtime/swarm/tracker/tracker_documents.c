/* tracker_host_say: frames that go out. What the machine says is short, or one of the documents,
 * which are encoded once for everybody and go piece by piece as each peer's connection has room. */
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <string.h>

enum { NO_DOCUMENT = -1 };

static enum crash_point_id place_of(enum message_kind kind) {
    switch (kind) {
    case MESSAGE_WELCOME:
        return PLACE_SEND_WELCOME;
    case MESSAGE_TABLE:
        return PLACE_SEND_TABLE;
    case MESSAGE_POLL:
        return PLACE_SEND_ASK;
    case MESSAGE_PROPOSE:
        return PLACE_SEND_PROPOSE;
    case MESSAGE_GOODBYE:
        return PLACE_SEND_GOODBYE;
    default:
        return PLACE_SEND_ENTRY;
    }
}

static int document_of(enum message_kind kind) {
    switch (kind) {
    case MESSAGE_ENTRY:
        return DOCUMENT_ENTRY;
    case MESSAGE_TABLE:
        return DOCUMENT_TABLE;
    case MESSAGE_PROPOSE:
        return DOCUMENT_PROPOSAL;
    default:
        return NO_DOCUMENT;
    }
}

/* Two messages of a kind with equal keys have equal payloads: sessions stand in the header. */
static struct hash key_of(const struct message *message) {
    const uint64_t numbers[] = {message->kind, message->incarnation, message->number,
                                message->round,
                                message->table == NULL ? 0 : message->table->version};
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, numbers, sizeof numbers);
    hash_add(&state, message->root.bytes, HASH_BYTES);
    if (message->entry != NULL) {
        hash_add(&state, message->entry->hash.bytes, HASH_BYTES);
        hash_add(&state, message->entry->prev.bytes, HASH_BYTES);
    }
    return hash_end(&state);
}

static struct tracker_guest *peer_of_identity(struct tracker_loop *loop,
                                              const struct identity *id) {
    int row = address_book_find_identity(&loop->known, id);
    if (row == BOOK_NONE) {
        return NULL;
    }
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        struct tracker_guest *peer = &loop->peers[i];
        if (peer->is_used &&
            memcmp(peer->curve, loop->known.rows[row].keys.curve, KEY_BYTES) == 0) {
            return peer;
        }
    }
    return NULL;
}

void tracker_loop_send_action(struct tracker_loop *loop, const struct action *action) {
    const struct message *message = &action->message;
    struct tracker_guest *peer = peer_of_identity(loop, &action->to);
    int which = document_of(message->kind);
    struct frame frame;
    if (peer == NULL) {
        return; /* it asks for what it lacks when it is back */
    }
    crash_point(loop, CRASH_BEFORE, place_of(message->kind));
    if (which == NO_DOCUMENT) {
        (void)wire_write(&loop->shape, message, 0, &frame, loop->scratch, FRAME_PAYLOAD_MAX);
        (void)messenger_send(loop->messenger, peer->curve, CHANNEL_CONTROL, &frame, loop->scratch);
    } else {
        struct document_buffer *document = &loop->documents[which];
        const struct hash key = key_of(message);
        if (document->count == 0 || !hash_equal(&key, &document->key)) {
            document->count = wire_write(&loop->shape, message, 0, &document->whole,
                                         document->bytes, document->capacity);
            document->key = key;
            document->generation++;
        }
        frame = document->whole;
        frame.session = message->session;
        tracker_loop_send_document(loop, peer, (enum document)which, &frame);
    }
    crash_point(loop, CRASH_AFTER, place_of(message->kind));
}

bool tracker_loop_send(struct tracker_loop *loop, const struct tracker_guest *peer,
                       enum wire_kind kind, uint64_t offset, const void *payload, size_t count) {
    const struct frame frame = {.kind = (uint8_t)kind, .offset = offset, .length = (uint32_t)count};
    return messenger_send(loop->messenger, peer->curve, CHANNEL_CONTROL, &frame, payload) ==
           SEND_OK;
}

/* What was sent whole and is long is not sent again at every heartbeat: it may still be on its way,
 * and a connection that broke has made the peer a new one. */
static bool was_just_sent(const struct tracker_loop *loop, const struct document_stream *stream,
                          enum document document, int64_t now_ms) {
    return loop->documents[document].count > FRAME_PAYLOAD_MAX / 16 &&
           stream->generation[document] == loop->documents[document].generation &&
           now_ms - stream->sent_ms[document] < loop->timing.silence_ms;
}

/* One document as far as there is room. True when it is through. */
static bool pump_document(struct tracker_loop *loop, struct tracker_guest *peer) {
    struct document_stream *stream = &peer->stream;
    const struct document_buffer *document = &loop->documents[stream->current];
    struct frame whole = stream->whole[stream->current];
    enum send_result sent = SEND_OK;
    while (sent == SEND_OK && stream->at < document->count) {
        const struct frame piece = wire_chunk(&whole, document->count, stream->at);
        sent = messenger_send(loop->messenger, peer->curve, CHANNEL_CONTROL, &piece,
                              document->bytes + stream->at);
        stream->at += sent == SEND_OK ? piece.length : 0;
    }
    return sent != SEND_WOULD_BLOCK;
}

static void pump_peer(struct tracker_loop *loop, struct tracker_guest *peer) {
    struct document_stream *stream = &peer->stream;
    while (stream->due != 0) {
        if (stream->current == NO_DOCUMENT) {
            stream->current = __builtin_ctz(stream->due);
            stream->at = 0;
        }
        int which = stream->current;
        if (stream->at == 0 || stream->generation[which] != loop->documents[which].generation) {
            stream->at = 0; /* another content came into its buffer: from its beginning */
            stream->generation[which] = loop->documents[which].generation;
        }
        if (!pump_document(loop, peer)) {
            return;
        }
        stream->due &= ~(1U << which);
        stream->sent_ms[which] = tracker_now_ms();
        stream->current = NO_DOCUMENT;
    }
}

void tracker_loop_send_document(struct tracker_loop *loop, struct tracker_guest *peer,
                                enum document document, const struct frame *whole) {
    struct document_stream *stream = &peer->stream;
    bool is_due = (stream->due >> document & 1) != 0;
    if (!is_due && was_just_sent(loop, stream, document, tracker_now_ms())) {
        return;
    }
    stream->due |= 1U << document;
    stream->whole[document] = *whole;
    pump_peer(loop, peer);
}

void tracker_loop_pump_documents(struct tracker_loop *loop) {
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        if (loop->peers[i].is_used && loop->peers[i].stream.due != 0) {
            pump_peer(loop, &loop->peers[i]);
        }
    }
}
