/* wire_chunks: split payloads that are longer than a frame, and reassemble them. */
#include "runtime/swarm/wire/wire.h"

#include <string.h>

void wire_write_length(uint8_t payload[static WIRE_LENGTH_BYTES], size_t count) {
    ASSERT(count >= WIRE_LENGTH_BYTES && count <= UINT32_MAX);
    for (size_t i = 0; i < WIRE_LENGTH_BYTES; i++) {
        payload[i] = (uint8_t)(count >> (8 * i));
    }
}

size_t wire_read_length(const uint8_t payload[static WIRE_LENGTH_BYTES]) {
    size_t count = 0;
    for (size_t i = 0; i < WIRE_LENGTH_BYTES; i++) {
        count |= (size_t)payload[i] << (8 * i);
    }
    return count;
}

struct frame wire_chunk_header(const struct frame *whole, size_t count, size_t offset) {
    ASSERT(offset < count);
    size_t rest = count - offset;
    struct frame chunk = *whole;
    chunk.offset = offset;
    chunk.length = (uint32_t)(rest < FRAME_PAYLOAD_MAX ? rest : FRAME_PAYLOAD_MAX);
    return chunk;
}

/* Whether two chunks belong to the same message: all fields but offset and length agree. */
static bool is_same_message(const struct frame *a, const struct frame *b) {
    return a->kind == b->kind && a->epoch == b->epoch && a->round == b->round &&
           a->slice == b->slice && a->session == b->session;
}

static bool begin_payload(struct wire_chunks *chunks, const struct frame *frame,
                          const uint8_t *bytes) {
    const size_t length = frame->length >= WIRE_LENGTH_BYTES ? wire_read_length(bytes) : 0;
    chunks->received_bytes = 0;
    chunks->payload_bytes = length;
    chunks->frame = *frame;
    chunks->frame.length = (uint32_t)length;
    return length >= WIRE_LENGTH_BYTES && length <= chunks->capacity;
}

void wire_chunks_reset(struct wire_chunks *chunks) {
    chunks->received_bytes = 0;
}

enum wire_progress wire_chunks_add(struct wire_chunks *chunks, const struct frame *frame,
                                   const uint8_t *bytes, const uint8_t **payload) {
    bool begins = frame->offset == 0;
    bool is_valid =
        wire_is_chunked(frame->kind) && (begins ? begin_payload(chunks, frame, bytes)
                                                : frame->offset == chunks->received_bytes &&
                                                      is_same_message(frame, &chunks->frame));
    if (!is_valid || frame->length != wire_chunk_header(&chunks->frame, chunks->payload_bytes,
                                                        chunks->received_bytes)
                                          .length) {
        chunks->received_bytes = 0;
        return WIRE_INVALID;
    }
    if (begins && frame->length == chunks->payload_bytes) {
        *payload = bytes;
        return WIRE_COMPLETE;
    }
    memcpy(chunks->bytes + chunks->received_bytes, bytes, frame->length);
    chunks->received_bytes += frame->length;
    if (chunks->received_bytes < chunks->payload_bytes) {
        return WIRE_INCOMPLETE;
    }
    chunks->received_bytes = 0;
    *payload = chunks->bytes;
    return WIRE_COMPLETE;
}
