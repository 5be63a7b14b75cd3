/* frame: the header of a message. */
#include "transport/messages/frame.h"

#include <string.h>

/* The offset of each field in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_EPOCH = 6,
    AT_ROUND = 8,
    AT_SLICE = 12,
    AT_OFFSET = 16,
    AT_LENGTH = 24,
    AT_SESSION = 28
};

static const uint8_t MAGIC[] = {'S', 'K', 'E', 'P'};

_Static_assert(AT_VERSION == AT_MAGIC + sizeof MAGIC, "the magic has 4 bytes");
_Static_assert(AT_KIND == AT_VERSION + 1, "the version has 1 byte");
_Static_assert(AT_EPOCH == AT_KIND + sizeof(((struct frame *)0)->kind),
               "kind follows without a gap");
_Static_assert(AT_ROUND == AT_EPOCH + sizeof(((struct frame *)0)->epoch),
               "epoch follows without a gap");
_Static_assert(AT_SLICE == AT_ROUND + sizeof(((struct frame *)0)->round),
               "round follows without a gap");
_Static_assert(AT_OFFSET == AT_SLICE + sizeof(((struct frame *)0)->slice),
               "slice follows without a gap");
_Static_assert(AT_LENGTH == AT_OFFSET + sizeof(((struct frame *)0)->offset),
               "offset follows without a gap");
_Static_assert(AT_SESSION == AT_LENGTH + sizeof(((struct frame *)0)->length),
               "length follows without a gap");
_Static_assert(FRAME_HEADER_BYTES == AT_SESSION + sizeof(((struct frame *)0)->session),
               "session follows without a gap");

static void put(uint8_t *to, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *from, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

void frame_write(const struct frame *frame, uint8_t header[static FRAME_HEADER_BYTES]) {
    ASSERT(frame->length <= FRAME_PAYLOAD_MAX);
    ASSERT(frame->offset <= (uint64_t)INT64_MAX - frame->length);
    memcpy(header + AT_MAGIC, MAGIC, sizeof MAGIC);
    header[AT_VERSION] = FRAME_VERSION;
    header[AT_KIND] = frame->kind;
    put(header + AT_EPOCH, frame->epoch, sizeof frame->epoch);
    put(header + AT_ROUND, frame->round, sizeof frame->round);
    put(header + AT_SLICE, frame->slice, sizeof frame->slice);
    put(header + AT_OFFSET, frame->offset, sizeof frame->offset);
    put(header + AT_LENGTH, frame->length, sizeof frame->length);
    put(header + AT_SESSION, frame->session, sizeof frame->session);
}

static enum frame_verdict check_header(const uint8_t *header, size_t count,
                                       const uint64_t known[4]) {
    if (count < FRAME_HEADER_BYTES) {
        return FRAME_TRUNCATED;
    }
    if (memcmp(header + AT_MAGIC, MAGIC, sizeof MAGIC) != 0) {
        return FRAME_BAD_MAGIC;
    }
    if (header[AT_VERSION] != FRAME_VERSION) {
        return FRAME_BAD_VERSION;
    }
    if ((known[header[AT_KIND] / 64] >> header[AT_KIND] % 64 & 1) == 0) {
        return FRAME_BAD_KIND;
    }
    uint64_t length = get(header + AT_LENGTH, 4);
    if (length > FRAME_PAYLOAD_MAX || length != count - FRAME_HEADER_BYTES) {
        return FRAME_BAD_LENGTH;
    }
    return get(header + AT_OFFSET, 8) <= (uint64_t)INT64_MAX - length ? FRAME_OK : FRAME_BAD_OFFSET;
}

enum frame_verdict frame_read(const void *bytes, size_t count, const uint64_t known[4],
                              struct frame *frame) {
    const uint8_t *header = bytes;
    enum frame_verdict verdict = check_header(header, count, known);
    if (verdict != FRAME_OK) {
        return verdict;
    }
    *frame = (struct frame){
        .kind = header[AT_KIND],
        .epoch = (uint16_t)get(header + AT_EPOCH, sizeof frame->epoch),
        .round = (uint32_t)get(header + AT_ROUND, sizeof frame->round),
        .slice = (uint32_t)get(header + AT_SLICE, sizeof frame->slice),
        .offset = get(header + AT_OFFSET, sizeof frame->offset),
        .length = (uint32_t)get(header + AT_LENGTH, sizeof frame->length),
        .session = (uint32_t)get(header + AT_SESSION, sizeof frame->session),
    };
    return FRAME_OK;
}
