/* fields: every field of the messages that members send, and the false values that a hostile member
 * gives to one of them. */
#ifndef SKEP_TESTS_SIM_FIELDS_H
#define SKEP_TESTS_SIM_FIELDS_H

#include "tests/sim/world.h"

/* The object that contains a field. */
enum field_part { PART_MESSAGE, PART_REPORT, PART_AWAITED, PART_PROOF, PART_BYTES };

struct field {
    enum message_kind kind;
    enum field_part part; /* REPORT, AWAITED: the field of every row */
    const char *name;
    size_t offset;
    size_t bytes;      /* in memory */
    size_t wire_bytes; /* The largest value has this number of bytes. */
};

/* FIELD_LAST: the value that the field had in the round before. */
enum field_change {
    FIELD_ZERO,
    FIELD_ONE,
    FIELD_MAX,
    FIELD_DOUBLE,
    FIELD_HALF,
    FIELD_BIT,
    FIELD_LAST,
    FIELD_CHANGES
};

extern const struct field FIELDS[];
extern const uint32_t FIELD_COUNT;
extern const char *const FIELD_CHANGE_NAMES[FIELD_CHANGES];

/* field_change: give the field of a message, if it has that field, its false value. `memory` is the
 * sender's, which starts zeroed. */
enum {
    FIELD_BYTES_MAX = 512,
    /* one row for each slice, or for each seat */
    FIELD_ROWS_MAX = SIM_SLICES > SWARM_MEMBERS_MAX ? SIM_SLICES : SWARM_MEMBERS_MAX,
};
struct field_memory {
    uint32_t round;
    uint8_t current[FIELD_ROWS_MAX][FIELD_BYTES_MAX];
    uint8_t last[FIELD_ROWS_MAX][FIELD_BYTES_MAX];
};
void field_change(const struct world *world, const struct field *field, enum field_change change,
                  struct parcel *parcel, struct field_memory *memory);

#endif
