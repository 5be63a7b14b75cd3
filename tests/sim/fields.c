#include "tests/sim/fields.h"
#include "tests/sim/parts.h"

#include <stddef.h>
#include <string.h>

#define FIELD(kind, member, wire_bytes)                                                            \
    {                                                                                              \
        kind, PART_MESSAGE, #member, offsetof(struct message, member),                             \
            sizeof(((struct message *)0)->member), wire_bytes                                      \
    }
#define ROW(member, wire_bytes)                                                                    \
    {                                                                                              \
        MESSAGE_REPORT, PART_REPORT, "reports." #member, offsetof(struct slice_report, member),    \
            sizeof(((struct slice_report *)0)->member), wire_bytes                                 \
    }

/* Of bulk data the first bytes are changed. */
enum { BULK_BYTES = 8 };

#define PROOF(member, wire_bytes)                                                                  \
    {                                                                                              \
        MESSAGE_CONTRIBUTION, PART_PROOF, "proof." #member, offsetof(struct slice_proof, member),  \
            sizeof(((struct slice_proof *)0)->member), wire_bytes                                  \
    }

/* The messages of trackers are not here: a tracker is trusted. */
const struct field FIELDS[] = {
    FIELD(MESSAGE_HELLO, session, 4),
    FIELD(MESSAGE_HELLO, root, HASH_BYTES),
    FIELD(MESSAGE_HELLO, number, 8),
    FIELD(MESSAGE_REPORT, session, 4),
    FIELD(MESSAGE_REPORT, round, 4),
    FIELD(MESSAGE_REPORT, number, 8),
    FIELD(MESSAGE_REPORT, report.base, 8),
    FIELD(MESSAGE_REPORT, report.parts, 1),
    FIELD(MESSAGE_REPORT, version, 4),
    FIELD(MESSAGE_REPORT, poll, 4),
    FIELD(MESSAGE_REPORT, root, HASH_BYTES),
    FIELD(MESSAGE_REPORT, hash, HASH_BYTES),
    FIELD(MESSAGE_REPORT, stored, STORED_STATES_MAX *HASH_BYTES),
    FIELD(MESSAGE_REPORT, links.unreachable, 8),
    {MESSAGE_REPORT, PART_AWAITED, "links.awaited_ms", 0, 4, 4},
    FIELD(MESSAGE_REPORT, measured.step_ms, 4),
    FIELD(MESSAGE_REPORT, measured.transfer_ms, 4),
    FIELD(MESSAGE_REPORT, measured.round_trip_ms, 4),
    FIELD(MESSAGE_REPORT, measured.upload_kib_s, 4),
    ROW(epoch, 2),
    ROW(has_result, 1),
    ROW(received_seats, 8),
    ROW(rejected_seats, 8),
    ROW(repeated_seats, 8),
    ROW(contributors, 8),
    ROW(hash, HASH_BYTES),
    FIELD(MESSAGE_DECLARE, session, 4),
    FIELD(MESSAGE_DECLARE, round, 4),
    FIELD(MESSAGE_DECLARE, trained.tokens, 8),
    FIELD(MESSAGE_DECLARE, trained.samples, 8),
    FIELD(MESSAGE_DECLARE, trained.norm, 8),
    FIELD(MESSAGE_DECLARE, signature, SWARM_SIGNATURE_BYTES),
    FIELD(MESSAGE_DECLARE, root, HASH_BYTES),
    FIELD(MESSAGE_DECLARE, hash, HASH_BYTES),
    FIELD(MESSAGE_VOTE, session, 4),
    FIELD(MESSAGE_VOTE, round, 4),
    FIELD(MESSAGE_VOTE, number, 8),
    FIELD(MESSAGE_VOTE, root, HASH_BYTES),
    FIELD(MESSAGE_VOTE, hash, HASH_BYTES),
    FIELD(MESSAGE_VOTE, signature, SWARM_SIGNATURE_BYTES),
    FIELD(MESSAGE_VOTE, slice, 4),
    FIELD(MESSAGE_VOTE, epoch, 2),
    FIELD(MESSAGE_VOTE, contributors, 8),
    FIELD(MESSAGE_VOTE, owner, SWARM_IDENTITY_BYTES),
    FIELD(MESSAGE_VOTE, ballot.seed, HASH_BYTES),
    FIELD(MESSAGE_VOTE, ballot.start, 8),
    FIELD(MESSAGE_VOTE, ballot.refusal.reason, 4),
    FIELD(MESSAGE_VOTE, ballot.refusal.suspect, 4),
    FIELD(MESSAGE_VOTE, ballot.refusal.silent_seats, 8),
    FIELD(MESSAGE_VOTE, ballot.refusal.opposed_seats, 8),
    FIELD(MESSAGE_LEAVE, session, 4),
    FIELD(MESSAGE_RESIGN, session, 4),
    FIELD(MESSAGE_RESIGN, hash, HASH_BYTES),
    FIELD(MESSAGE_RESIGN, signature, SWARM_SIGNATURE_BYTES),
    FIELD(MESSAGE_CONTRIBUTION, session, 4),
    FIELD(MESSAGE_CONTRIBUTION, round, 4),
    FIELD(MESSAGE_CONTRIBUTION, slice, 4),
    FIELD(MESSAGE_CONTRIBUTION, epoch, 2),
    PROOF(norm, 8),
    PROOF(path_count, 1),
    PROOF(path, CONTRIBUTION_PATH_MAX *HASH_BYTES),
    {MESSAGE_CONTRIBUTION, PART_BYTES, "bytes", 0, BULK_BYTES, BULK_BYTES},
    FIELD(MESSAGE_RESULT, session, 4),
    FIELD(MESSAGE_RESULT, round, 4),
    FIELD(MESSAGE_RESULT, slice, 4),
    FIELD(MESSAGE_RESULT, epoch, 2),
    FIELD(MESSAGE_RESULT, hash, HASH_BYTES),
    FIELD(MESSAGE_RESULT, contributors, 8),
    FIELD(MESSAGE_RESULT, owner, SWARM_IDENTITY_BYTES),
    FIELD(MESSAGE_RESULT, signature, SWARM_SIGNATURE_BYTES),
    {MESSAGE_RESULT, PART_BYTES, "bytes", 0, BULK_BYTES, BULK_BYTES},
    FIELD(MESSAGE_FETCH_CONTRIBUTION, session, 4),
    FIELD(MESSAGE_FETCH_CONTRIBUTION, round, 4),
    FIELD(MESSAGE_FETCH_CONTRIBUTION, slice, 4),
    FIELD(MESSAGE_FETCH_CONTRIBUTION, epoch, 2),
    FIELD(MESSAGE_FETCH_RESULT, session, 4),
    FIELD(MESSAGE_FETCH_RESULT, round, 4),
    FIELD(MESSAGE_FETCH_RESULT, slice, 4),
    FIELD(MESSAGE_FETCH_RESULT, epoch, 2),
    FIELD(MESSAGE_FETCH_RESULT, hash, HASH_BYTES),
    FIELD(MESSAGE_FETCH_SKETCHES, session, 4),
    FIELD(MESSAGE_FETCH_SKETCHES, round, 4),
    FIELD(MESSAGE_FETCH_SKETCHES, slice, 4),
    FIELD(MESSAGE_FETCH_SKETCHES, epoch, 2),
    FIELD(MESSAGE_FETCH_SKETCHES, ballot.seed, HASH_BYTES),
    FIELD(MESSAGE_SKETCHES, session, 4),
    FIELD(MESSAGE_SKETCHES, round, 4),
    FIELD(MESSAGE_SKETCHES, slice, 4),
    FIELD(MESSAGE_SKETCHES, epoch, 2),
    FIELD(MESSAGE_SKETCHES, ballot.seed, HASH_BYTES),
    FIELD(MESSAGE_SKETCHES, signature, SWARM_SIGNATURE_BYTES),
};

const uint32_t FIELD_COUNT = ARRAY_COUNT(FIELDS);

const char *const FIELD_CHANGE_NAMES[FIELD_CHANGES] = {
    [FIELD_ZERO] = "0",    [FIELD_ONE] = "1",    [FIELD_MAX] = "max",   [FIELD_DOUBLE] = "x2",
    [FIELD_HALF] = "half", [FIELD_BIT] = "flip", [FIELD_LAST] = "last",
};

/* Row `row` of the field in a parcel, or NULL. */
static uint8_t *find(const struct world *world, const struct field *field, struct parcel *parcel,
                     uint32_t row) {
    const uint32_t rows[] = {[PART_MESSAGE] = 1,
                             [PART_REPORT] = world->slice_count,
                             [PART_AWAITED] = SWARM_MEMBERS_MAX,
                             [PART_PROOF] = 1,
                             [PART_BYTES] = 1};
    if (parcel->message.kind != field->kind || row >= rows[field->part]) {
        return NULL;
    }
    switch (field->part) {
    case PART_MESSAGE:
        return (uint8_t *)&parcel->message + field->offset;
    case PART_REPORT:
        return (uint8_t *)parcel->array + row * sizeof(struct slice_report) + field->offset;
    case PART_AWAITED:
        return (uint8_t *)&parcel->awaited_ms[row];
    case PART_PROOF:
        return (uint8_t *)&parcel->proof + field->offset;
    default:
        return (uint8_t *)&parcel->coded;
    }
}

/* Multiplies or divides a little-endian number by two. */
static void shift(uint8_t *bytes, size_t count, enum field_change change) {
    bool is_double = change == FIELD_DOUBLE;
    uint32_t carry = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t *byte = &bytes[is_double ? i : count - 1 - i];
        uint32_t value = *byte;
        *byte = (uint8_t)(is_double ? value << 1 | carry : value >> 1 | carry << 7);
        carry = is_double ? value >> 7 : value & 1;
    }
}

static void change_row(const struct field *field, enum field_change change, uint8_t *bytes,
                       const uint8_t *last) {
    size_t count = field->wire_bytes;
    switch (change) {
    case FIELD_ZERO:
    case FIELD_ONE:
        memset(bytes, 0, field->bytes);
        bytes[0] = change == FIELD_ONE;
        break;
    case FIELD_MAX:
        memset(bytes, 0xff, count);
        break;
    case FIELD_BIT:
        bytes[0] ^= 1;
        break;
    case FIELD_LAST:
        memcpy(bytes, last, field->bytes);
        break;
    default:
        shift(bytes, count, change);
        break;
    }
}

void field_change(const struct world *world, const struct field *field, enum field_change change,
                  struct parcel *parcel, struct field_memory *memory) {
    const uint32_t round = world->stores[0].record.head.round;
    if (memory->round != round) {
        memory->round = round;
        memcpy(memory->last, memory->current, sizeof(memory->last));
    }
    ASSERT(field->bytes <= FIELD_BYTES_MAX);
    uint8_t *bytes = NULL;
    for (uint32_t row = 0; (bytes = find(world, field, parcel, row)) != NULL; row++) {
        memcpy(memory->current[row], bytes, field->bytes);
        change_row(field, change, bytes, memory->last[row]);
    }
}
