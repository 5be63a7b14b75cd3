/* drawn_lanes: programs on all three lanes whose instructions are drawn from a seed: small buffers
 * copied, added, gathered and summed over each other, with a communicator that makes up what the
 * other ranks would have sent. */
#ifndef SKEP_TESTS_UNIT_PROGRAM_DRAWN_LANES_H
#define SKEP_TESTS_UNIT_PROGRAM_DRAWN_LANES_H

#include "runtime/program/program.h"

enum {
    DRAWN_RANKS = 3,
    DRAWN_RANK = 1,
    DRAWN_BUFFERS = 7,
    DRAWN_SLOT_FLOATS = 64,
    DRAWN_FLOATS = DRAWN_RANKS * DRAWN_SLOT_FLOATS,
    DRAWN_INSTRUCTIONS = 60
};

struct drawn_lanes {
    struct region region;
    struct target target;
    struct program program;
    struct bound_program bound;
    struct communicator communicator;
};

/* drawn_lanes_init: draw, prove that the waits order all conflicts, bind, connect. The segment is
 * SEGMENT_MICROBATCH. A failure fails the running cmocka test. */
void drawn_lanes_init(struct drawn_lanes *drawn, uint64_t seed);

/* drawn_lanes_fill: the same small values in every buffer, each time. */
void drawn_lanes_fill(struct drawn_lanes *drawn);

void drawn_lanes_finish(struct drawn_lanes *drawn);

#endif
