#include "runtime/swarm/tracker/tracker_documents.h"

#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum { NO_DOCUMENT = -1 }; /* no document is being sent */

static size_t document_capacity(const struct tracker_loop_options *options,
                                enum document document) {
    const struct wire_shape shape = tracker_wire_shape(options);
    switch (document) {
    case DOCUMENT_MANIFEST:
        return WIRE_DOCUMENT_OFFSET + options->manifest_bytes;
    case DOCUMENT_STATUS:
    case DOCUMENT_PUBLIC_STATUS:
        return WIRE_DOCUMENT_OFFSET + WIRE_STATUS_BYTES_MAX;
    case DOCUMENT_CHECKPOINT:
        return WIRE_DOCUMENT_OFFSET + LEDGER_CHAIN_BYTES_MAX;
    default:
        return wire_payload_bytes_max(&shape);
    }
}

uint64_t document_table_bytes(const struct tracker_loop_options *options) {
    uint64_t bytes = sizeof(struct document_table);
    for (int document = 0; document < DOCUMENT_COUNT; document++) {
        bytes += document_capacity(options, (enum document)document);
    }
    return bytes;
}

struct document_table *document_table_init(const struct tracker_loop_options *options,
                                           struct region *region) {
    struct document_table *table = region_alloc(region, 1, sizeof *table);
    for (int i = 0; i < DOCUMENT_COUNT; i++) {
        struct document_buffer *buffer = &table->buffers[i];
        buffer->capacity = document_capacity(options, (enum document)i);
        buffer->bytes = region_alloc(region, buffer->capacity, 1);
    }
    struct document_buffer *manifest = &table->buffers[DOCUMENT_MANIFEST];
    memcpy(manifest->bytes + WIRE_DOCUMENT_OFFSET, options->manifest, options->manifest_bytes);
    manifest->count = wire_write_document(WIRE_MANIFEST, options->manifest_bytes, manifest->bytes);
    manifest->generation = 1;
    return table;
}

struct document_stream make_idle_document_stream(void) {
    return (struct document_stream){.current_document = NO_DOCUMENT};
}

bool document_stream_is_busy(const struct document_stream *stream) {
    return stream->current_document != NO_DOCUMENT;
}

static enum crash_point_id find_crash_point(enum message_kind kind) {
    switch (kind) {
    case MESSAGE_WELCOME:
        return CRASH_SEND_WELCOME;
    case MESSAGE_TABLE:
        return CRASH_SEND_TABLE;
    case MESSAGE_POLL:
        return CRASH_SEND_POLL;
    case MESSAGE_PROPOSE:
        return CRASH_SEND_PROPOSE;
    case MESSAGE_GOODBYE:
        return CRASH_SEND_GOODBYE;
    default:
        return CRASH_SEND_ENTRY;
    }
}

static int document_of_message(const struct message *message) {
    switch (message->kind) {
    case MESSAGE_ENTRY:
        return DOCUMENT_ENTRY;
    case MESSAGE_TABLE:
        return message->version == 0 ? DOCUMENT_TABLE : DOCUMENT_TABLE_CHANGES;
    case MESSAGE_PROPOSE:
        return DOCUMENT_PROPOSAL;
    default:
        return NO_DOCUMENT;
    }
}

/* Returns a hash of a message: messages with equal hashes have equal payloads. The session, which
 * differs for each member, is not in the payload but in the frame header. */
static struct hash message_key(const struct message *message) {
    const uint64_t numbers[] = {
        message->kind,  message->incarnation, message->number,
        message->round, message->version,     message->table == NULL ? 0 : message->table->version};
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

/* Whether a long document was sent completely a short time ago. It is then not sent again at each
 * heartbeat, because it may still be in transit. After a lost connection, the guest has a new row
 * without sent documents. */
static bool was_just_sent(const struct tracker_loop *loop, const struct document_stream *stream,
                          enum document document, int64_t now_ms) {
    const struct document_buffer *buffer = &loop->documents->buffers[document];
    return buffer->count > FRAME_PAYLOAD_MAX / 16 &&
           stream->generation[document] == buffer->generation &&
           now_ms - stream->sent_ms[document] < loop->timing.silence_ms;
}

/* Sends pieces of the current document until it is complete or the connection's queue is full.
 * Returns whether it is complete. */
static bool send_document_pieces(struct tracker_loop *loop, struct tracker_guest *guest) {
    struct document_stream *stream = &guest->stream;
    const struct document_buffer *buffer = &loop->documents->buffers[stream->current_document];
    struct frame header = stream->header[stream->current_document];
    enum send_result sent = SEND_OK;
    while (sent == SEND_OK && stream->sent_bytes < buffer->count) {
        const struct frame piece = wire_chunk_header(&header, buffer->count, stream->sent_bytes);
        sent = messenger_send(loop->messenger, guest->curve, CHANNEL_CONTROL, &piece,
                              buffer->bytes + stream->sent_bytes);
        stream->sent_bytes += sent == SEND_OK ? piece.length : 0;
    }
    ASSERT(stream->sent_bytes <= buffer->count);
    return sent != SEND_WOULD_BLOCK;
}

static void send_due_documents(struct tracker_loop *loop, struct tracker_guest *guest) {
    struct document_stream *stream = &guest->stream;
    while (stream->due_mask != 0) {
        if (stream->current_document == NO_DOCUMENT) {
            stream->current_document = __builtin_ctz(stream->due_mask);
            stream->sent_bytes = 0;
        }
        const int document = stream->current_document;
        const uint32_t generation = loop->documents->buffers[document].generation;
        ASSERT((stream->due_mask >> document & 1) != 0);
        if (document == DOCUMENT_TABLE_CHANGES && stream->due_generation[document] != generation) {
            /* The buffer now has the changes since another version, which this guest may not have.
             * So the document is not sent, and the state machine repeats the message. */
            stream->due_mask &= ~(1U << document);
            stream->current_document = NO_DOCUMENT;
            continue;
        }
        if (stream->sent_bytes == 0 || stream->generation[document] != generation) {
            stream->sent_bytes = 0; /* the content has changed, so sending starts again */
            stream->generation[document] = generation;
        }
        if (!send_document_pieces(loop, guest)) {
            return;
        }
        stream->due_mask &= ~(1U << document);
        stream->sent_ms[document] = tracker_now_ms();
        stream->current_document = NO_DOCUMENT;
    }
}

static void send_document(struct tracker_loop *loop, struct tracker_guest *guest,
                          enum document document, const struct frame *header) {
    struct document_stream *stream = &guest->stream;
    const bool is_due = (stream->due_mask >> document & 1) != 0;
    if (!is_due && was_just_sent(loop, stream, document, tracker_now_ms())) {
        return;
    }
    stream->due_mask |= 1U << document;
    stream->due_generation[document] = loop->documents->buffers[document].generation;
    stream->header[document] = *header;
    send_due_documents(loop, guest);
}

static void send_message_document(struct tracker_loop *loop, struct tracker_guest *guest,
                                  enum document document, const struct message *message) {
    struct document_buffer *buffer = &loop->documents->buffers[document];
    const struct hash key = message_key(message);
    if (buffer->count == 0 || !hash_equal(&key, &buffer->key)) {
        buffer->count = wire_write_message(&loop->shape, message, 0, &buffer->header, buffer->bytes,
                                           buffer->capacity);
        buffer->key = key;
        buffer->generation++;
    }
    struct frame frame = buffer->header;
    frame.session = message->session;
    send_document(loop, guest, document, &frame);
}

void tracker_loop_send_action(struct tracker_loop *loop, const struct action *action) {
    const struct message *message = &action->message;
    const int row = member_table_find_by_identity(loop->members, &action->to);
    struct tracker_guest *guest =
        row == MEMBER_NONE ? NULL : guest_find(loop->guests, loop->members->rows[row].keys.curve);
    const int document = document_of_message(message);
    if (guest == NULL) {
        return;
    }
    reach_crash_point(loop, CRASH_BEFORE, find_crash_point(message->kind));
    if (document == NO_DOCUMENT) {
        struct frame frame;
        (void)wire_write_message(&loop->shape, message, 0, &frame, loop->scratch,
                                 FRAME_PAYLOAD_MAX);
        (void)messenger_send(loop->messenger, guest->curve, CHANNEL_CONTROL, &frame, loop->scratch);
    } else {
        send_message_document(loop, guest, (enum document)document, message);
    }
    reach_crash_point(loop, CRASH_AFTER, find_crash_point(message->kind));
}

bool tracker_loop_send_payload(struct tracker_loop *loop, const struct tracker_guest *guest,
                               enum wire_kind kind, uint64_t offset, const void *payload,
                               size_t count) {
    const struct frame frame = {.kind = (uint8_t)kind, .offset = offset, .length = (uint32_t)count};
    return messenger_send(loop->messenger, guest->curve, CHANNEL_CONTROL, &frame, payload) ==
           SEND_OK;
}

/* Sends a document that a guest has requested, and charges its bytes to the budget that all
 * requesters of the kind `requester` share. */
static void serve_document(struct tracker_loop *loop, struct tracker_guest *guest,
                           enum document document, enum requester requester) {
    const struct frame header = {.kind = document == DOCUMENT_MANIFEST     ? WIRE_MANIFEST
                                         : document == DOCUMENT_CHECKPOINT ? WIRE_CHECKPOINT
                                                                           : WIRE_STATUS};
    serving_charge_bytes(&loop->serving_buckets, requester,
                         loop->documents->buffers[document].count, tracker_now_ms());
    send_document(loop, guest, document, &header);
}

void tracker_loop_send_manifest(struct tracker_loop *loop, struct tracker_guest *guest,
                                enum requester requester) {
    if (serving_may_send_bytes(&loop->serving_buckets, requester, tracker_now_ms())) {
        serve_document(loop, guest, DOCUMENT_MANIFEST, requester);
    }
}

void tracker_loop_send_status(struct tracker_loop *loop, struct tracker_guest *guest,
                              enum requester requester) {
    if (!serving_may_send_bytes(&loop->serving_buckets, requester, tracker_now_ms())) {
        return;
    }
    const bool has_addresses = requester != REQUESTER_STRANGER;
    const enum document document = has_addresses ? DOCUMENT_STATUS : DOCUMENT_PUBLIC_STATUS;
    struct document_buffer *buffer = &loop->documents->buffers[document];
    struct text text = text_over((char *)buffer->bytes + WIRE_DOCUMENT_OFFSET,
                                 buffer->capacity - WIRE_DOCUMENT_OFFSET);
    tracker_status_write(loop, has_addresses, &text);
    ASSERT(!text.truncated);
    buffer->count = wire_write_document(WIRE_STATUS, text.length, buffer->bytes);
    buffer->generation++;
    serve_document(loop, guest, document, requester);
}

void tracker_loop_send_checkpoint(struct tracker_loop *loop, struct tracker_guest *guest,
                                  enum requester requester) {
    const struct ledger_checkpoint *checkpoint = &loop->driver->durable.checkpoint;
    struct document_buffer *buffer = &loop->documents->buffers[DOCUMENT_CHECKPOINT];
    if (!serving_may_send_bytes(&loop->serving_buckets, requester, tracker_now_ms())) {
        return;
    }
    const struct hash key = hash_of(checkpoint->bytes, checkpoint->byte_count);
    if (buffer->count == 0 || !hash_equal(&key, &buffer->key)) {
        memcpy(buffer->bytes + WIRE_DOCUMENT_OFFSET, checkpoint->bytes, checkpoint->byte_count);
        buffer->count = wire_write_document(WIRE_CHECKPOINT, checkpoint->byte_count, buffer->bytes);
        buffer->key = key;
        buffer->generation++;
    }
    serve_document(loop, guest, DOCUMENT_CHECKPOINT, requester);
}

void tracker_loop_continue_documents(struct tracker_loop *loop) {
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        if (loop->guests->rows[i].is_used && loop->guests->rows[i].stream.due_mask != 0) {
            send_due_documents(loop, &loop->guests->rows[i]);
        }
    }
}
