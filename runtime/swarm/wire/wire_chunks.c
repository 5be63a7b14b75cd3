/* wire_chunks: split payloads that are longer than a frame, and reassemble them. */
#include "runtime/swarm/ledger/packer.h"
#include "runtime/swarm/wire/wire.h"

#include <string.h>

void wire_put_length(uint8_t payload[static WIRE_LENGTH_BYTES], size_t count) {
    uint32_t length = (uint32_t)count;
    struct packer pack = packer_writing(payload, WIRE_LENGTH_BYTES);
    ASSERT(count >= WIRE_LENGTH_BYTES && count <= UINT32_MAX);
    packer_u32(&pack, &length);
}

struct frame wire_chunk(const struct frame *whole, size_t count, size_t offset) {
    ASSERT(offset < count);
    size_t rest = count - offset;
    struct frame piece = *whole;
    piece.offset = offset;
    piece.length = (uint32_t)(rest < FRAME_PAYLOAD_MAX ? rest : FRAME_PAYLOAD_MAX);
    return piece;
}

/* Whether both are of one message: all but where the piece lies. */
static bool belongs(const struct frame *a, const struct frame *b) {
    return a->kind == b->kind && a->epoch == b->epoch && a->round == b->round &&
           a->slice == b->slice && a->session == b->session;
}

static bool begin(struct wire_chunks *pieces, const struct frame *frame, const uint8_t *bytes) {
    uint32_t length = 0;
    struct packer pack = packer_reading(bytes, frame->length);
    packer_u32(&pack, &length);
    pieces->at = 0;
    pieces->count = length;
    pieces->frame = *frame;
    pieces->frame.length = length;
    return pack.error == NULL && length >= WIRE_LENGTH_BYTES && length <= pieces->capacity;
}

enum wire_progress wire_chunks_add(struct wire_chunks *pieces, const struct frame *frame,
                                   const uint8_t *bytes, const uint8_t **payload) {
    bool begins = frame->offset == 0;
    bool right = wire_is_chunked(frame->kind) &&
                 (begins ? begin(pieces, frame, bytes)
                         : frame->offset == pieces->at && belongs(frame, &pieces->frame));
    if (!right || frame->length != wire_chunk(&pieces->frame, pieces->count, pieces->at).length) {
        pieces->at = 0;
        return WIRE_INVALID;
    }
    if (begins && frame->length == pieces->count) {
        *payload = bytes;
        return WIRE_COMPLETE;
    }
    memcpy(pieces->bytes + pieces->at, bytes, frame->length);
    pieces->at += frame->length;
    if (pieces->at < pieces->count) {
        return WIRE_INCOMPLETE;
    }
    pieces->at = 0;
    *payload = pieces->bytes;
    return WIRE_COMPLETE;
}
