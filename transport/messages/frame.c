/* frame: the header of a message. */
#include "transport/messages/frame.h"

#include <string.h>

/* The byte offset of each field in the header. */
enum {
    MAGIC_OFFSET = 0,
    VERSION_OFFSET = 4,
    KIND_OFFSET = 5,
    EPOCH_OFFSET = 6,
    ROUND_OFFSET = 8,
    SLICE_OFFSET = 12,
    OFFSET_OFFSET = 16, /* byte offset of the field `offset` */
    LENGTH_OFFSET = 24,
    SESSION_OFFSET = 28
};

static const uint8_t MAGIC[] = {'S', 'K', 'E', 'P'};

_Static_assert(VERSION_OFFSET == MAGIC_OFFSET + sizeof MAGIC, "the magic is 4 bytes long");
_Static_assert(KIND_OFFSET == VERSION_OFFSET + 1, "the version is 1 byte long");
_Static_assert(EPOCH_OFFSET == KIND_OFFSET + sizeof(((struct frame *)0)->kind),
               "no gap after kind");
_Static_assert(ROUND_OFFSET == EPOCH_OFFSET + sizeof(((struct frame *)0)->epoch),
               "no gap after epoch");
_Static_assert(SLICE_OFFSET == ROUND_OFFSET + sizeof(((struct frame *)0)->round),
               "no gap after round");
_Static_assert(OFFSET_OFFSET == SLICE_OFFSET + sizeof(((struct frame *)0)->slice),
               "no gap after slice");
_Static_assert(LENGTH_OFFSET == OFFSET_OFFSET + sizeof(((struct frame *)0)->offset),
               "no gap after offset");
_Static_assert(SESSION_OFFSET == LENGTH_OFFSET + sizeof(((struct frame *)0)->length),
               "no gap after length");
_Static_assert(FRAME_HEADER_BYTES == SESSION_OFFSET + sizeof(((struct frame *)0)->session),
               "no gap after session");

static void write_integer(uint8_t *to, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t read_integer(const uint8_t *from, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

void frame_write(const struct frame *frame, uint8_t header[static FRAME_HEADER_BYTES]) {
    ASSERT(frame->length <= FRAME_PAYLOAD_MAX);
    ASSERT(frame->offset <= (uint64_t)INT64_MAX - frame->length);
    memcpy(header + MAGIC_OFFSET, MAGIC, sizeof MAGIC);
    header[VERSION_OFFSET] = FRAME_VERSION;
    header[KIND_OFFSET] = frame->kind;
    write_integer(header + EPOCH_OFFSET, frame->epoch, sizeof frame->epoch);
    write_integer(header + ROUND_OFFSET, frame->round, sizeof frame->round);
    write_integer(header + SLICE_OFFSET, frame->slice, sizeof frame->slice);
    write_integer(header + OFFSET_OFFSET, frame->offset, sizeof frame->offset);
    write_integer(header + LENGTH_OFFSET, frame->length, sizeof frame->length);
    write_integer(header + SESSION_OFFSET, frame->session, sizeof frame->session);
}

static enum frame_verdict check_header(const uint8_t *header, size_t count,
                                       const uint64_t accepted_kinds[4]) {
    if (count < FRAME_HEADER_BYTES) {
        return FRAME_TRUNCATED;
    }
    if (memcmp(header + MAGIC_OFFSET, MAGIC, sizeof MAGIC) != 0) {
        return FRAME_BAD_MAGIC;
    }
    if (header[VERSION_OFFSET] != FRAME_VERSION) {
        return FRAME_BAD_VERSION;
    }
    if ((accepted_kinds[header[KIND_OFFSET] / 64] >> header[KIND_OFFSET] % 64 & 1) == 0) {
        return FRAME_BAD_KIND;
    }
    uint64_t length = read_integer(header + LENGTH_OFFSET, 4);
    if (length > FRAME_PAYLOAD_MAX || length != count - FRAME_HEADER_BYTES) {
        return FRAME_BAD_LENGTH;
    }
    return read_integer(header + OFFSET_OFFSET, 8) <= (uint64_t)INT64_MAX - length
               ? FRAME_OK
               : FRAME_BAD_OFFSET;
}

enum frame_verdict frame_read(const void *bytes, size_t count, const uint64_t accepted_kinds[4],
                              struct frame *frame) {
    const uint8_t *header = bytes;
    enum frame_verdict verdict = check_header(header, count, accepted_kinds);
    if (verdict != FRAME_OK) {
        return verdict;
    }
    *frame = (struct frame){
        .kind = header[KIND_OFFSET],
        .epoch = (uint16_t)read_integer(header + EPOCH_OFFSET, sizeof frame->epoch),
        .round = (uint32_t)read_integer(header + ROUND_OFFSET, sizeof frame->round),
        .slice = (uint32_t)read_integer(header + SLICE_OFFSET, sizeof frame->slice),
        .offset = read_integer(header + OFFSET_OFFSET, sizeof frame->offset),
        .length = (uint32_t)read_integer(header + LENGTH_OFFSET, sizeof frame->length),
        .session = (uint32_t)read_integer(header + SESSION_OFFSET, sizeof frame->session),
    };
    return FRAME_OK;
}
