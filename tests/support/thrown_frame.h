/* thrown_frame: messages as any member could send them, of which some are then spoiled. */
#ifndef SKEP_TESTS_SUPPORT_THROWN_FRAME_H
#define SKEP_TESTS_SUPPORT_THROWN_FRAME_H

#include "runtime/swarm/wire/wire.h"

/* A stream of random words. */
struct dice {
    uint64_t key, at;
};
uint32_t dice_word(struct dice *dice);
/* In [0, count), a little more often the lower. */
uint32_t dice_below(struct dice *dice, uint32_t count);

/* What a sender knows of the swarm that it wants to harm. */
struct thrower_view {
    struct wire_shape shape;
    struct wire_arrays arrays; /* for the messages that it writes */
    const struct key_pairs *keys;
    uint32_t round, session; /* the newest that it heard of */
};

enum spoiling {
    SPOILED_NOT,        /* sound, but of random content */
    SPOILED_BITS,       /* some bits of the payload */
    SPOILED_SHORT,      /* the end is cut off */
    SPOILED_LONG,       /* with more behind it */
    SPOILED_HEADER,     /* fields of the header */
    SPOILED_KIND,       /* the payload of another kind */
    SPOILED_ALTOGETHER, /* random bytes */
    SPOILINGS
};

/* thrown_make: a random message, spoiled in a random way; frame->length bytes of payload.
 * memory  payload has room for FRAME_PAYLOAD_MAX */
enum spoiling thrown_make(struct thrower_view *view, struct dice *dice, struct frame *frame,
                          uint8_t *payload);

#endif
