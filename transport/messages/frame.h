/* frame: the header of 32 bytes at the start of every message between the processes of a swarm.
 * Integers are little-endian:
 *
 *     0        4      5   6     8      12     16      24      28       32
 *     magic 4  ver 1  kind epoch round  slice  offset  length  session  payload: `length` bytes
 *                     1    2     4      4      8       4       4
 *
 * A message is one ZeroMQ part: the header and its payload. The payload has a fixed layout for each
 * kind, followed by encoded bytes where the kind carries bulk data. */
#ifndef SKEP_TRANSPORT_MESSAGES_FRAME_H
#define SKEP_TRANSPORT_MESSAGES_FRAME_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER_BYTES = 32,     /* size of a frame header */
    FRAME_PAYLOAD_MAX = 1 << 20, /* maximum payload in bytes: one slice or one leaf */
    FRAME_BYTES_MAX = FRAME_HEADER_BYTES + FRAME_PAYLOAD_MAX,
    FRAME_VERSION = 1, /* version of the frame header */
};

struct frame {
    uint8_t kind;     /* kind of the message */
    uint16_t epoch;   /* epoch of the slice */
    uint32_t round;   /* number of the round */
    uint32_t slice;   /* index of the slice */
    uint64_t offset;  /* where the payload begins in its slice, leaf or document */
    uint32_t length;  /* payload size in bytes */
    uint32_t session; /* the sender's member session */
};

/* The result of checking a received message. Receivers count each one separately. */
enum frame_verdict {
    FRAME_OK,           /* the frame is valid */
    FRAME_TRUNCATED,    /* shorter than a header */
    FRAME_BAD_MAGIC,    /* not a message of this protocol */
    FRAME_BAD_VERSION,  /* a different version of the protocol */
    FRAME_BAD_KIND,     /* a kind that the receiver does not accept */
    FRAME_BAD_LENGTH,   /* too long, or not the length in its header */
    FRAME_BAD_OFFSET,   /* offset + length exceeds 2^63 - 1 */
    FRAME_VERDICT_COUNT /* number of enumerators above */
};

/* frame_write: write the header of a frame.
 * limits  length <= FRAME_PAYLOAD_MAX, offset + length < 2^63 */
void frame_write(const struct frame *frame, uint8_t header[static FRAME_HEADER_BYTES]);

/* frame_read: parse and check a message of `count` bytes. Its payload is at
 * bytes + FRAME_HEADER_BYTES.
 * accepted_kinds  bit k of accepted_kinds[k / 64] is kind k
 * errors  a verdict other than FRAME_OK; *frame is then unchanged. The receiver itself validates
 *         session, epoch, round and slice. */
MUST_CHECK enum frame_verdict frame_read(const void *bytes, size_t count,
                                         const uint64_t accepted_kinds[4], struct frame *frame);

#endif
