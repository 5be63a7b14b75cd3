/* frame: the 32 bytes in front of everything that goes between the processes of a swarm. All
 * integers are little-endian:
 *
 *     0        4      5   6     8      12     16      24      28       32
 *     magic 4  ver 1  kind epoch round  slice  offset  length  session  payload: `length` bytes
 *                     1    2     4      4      8       4       4
 *
 * A message is one part: the header and its payload, a fixed form of its kind, behind it raw codec
 * bytes for bulk. */
#ifndef SKEP_TRANSPORT_MESSAGES_FRAME_H
#define SKEP_TRANSPORT_MESSAGES_FRAME_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER_BYTES = 32,
    FRAME_PAYLOAD_MAX = 1 << 20, /* a whole slice, a whole leaf */
    FRAME_BYTES_MAX = FRAME_HEADER_BYTES + FRAME_PAYLOAD_MAX,
    FRAME_VERSION = 1,
};

struct frame {
    uint8_t kind;
    uint16_t epoch;
    uint32_t round;
    uint32_t slice;
    uint64_t offset;  /* of the payload in what it is a piece of */
    uint32_t length;  /* of the payload in bytes */
    uint32_t session; /* of the sender, as the tracker numbered it */
};

/* What is wrong with a message, each counted apart by its receiver. */
enum frame_verdict {
    FRAME_OK,
    FRAME_TRUNCATED,   /* no whole header */
    FRAME_BAD_MAGIC,   /* not of this protocol */
    FRAME_BAD_VERSION, /* of another version of it */
    FRAME_BAD_KIND,    /* of a kind that is not known */
    FRAME_BAD_LENGTH,  /* longer than allowed, or not as long as it says */
    FRAME_BAD_OFFSET,  /* offset + length beyond 2^63 */
    FRAME_VERDICTS     /* how many there are */
};

/* frame_verdict_name: "short", "magic" and so on, for logs and metrics. */
const char *frame_verdict_name(enum frame_verdict verdict);

/* frame_write: the header of a frame.
 * limits  length <= FRAME_PAYLOAD_MAX, offset + length < 2^63 */
void frame_write(const struct frame *frame, uint8_t header[static FRAME_HEADER_BYTES]);

/* frame_read: take a message apart; its payload is at bytes + FRAME_HEADER_BYTES.
 * known   bit k of known[k / 64]: kind k is one
 * errors  a verdict other than FRAME_OK; *frame is then untouched. Session, epoch, round and
 *         slice are for the receiver to judge. */
MUST_CHECK enum frame_verdict frame_read(const void *bytes, size_t count, const uint64_t known[4],
                                         struct frame *frame);

#endif
