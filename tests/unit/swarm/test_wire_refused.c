/* test_wire_refused: what no sound sender says is refused, one thing wrong at a time. */
#include "wire_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fixture writes for one member more than readers know of. */
enum { MEMBERS = 3, BEYOND = 1 << MEMBERS, SLICES = 8, BYTES = 16384, MEMORY = 1 << 17 };

static struct wire_fixture fixture;
static struct wire_arrays arrays;
static _Alignas(64) uint8_t memory[MEMORY];
static uint8_t bytes[BYTES];
static size_t count;

static int use(void **state) {
    (void)state;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    assert_true(wire_arrays_size(&fixture.shape) <= MEMORY);
    wire_arrays_carve(&fixture.shape, memory, &arrays);
    return 0;
}

static bool taken_by(const struct wire_shape *shape) {
    static const uint64_t KNOWN[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    struct frame frame;
    struct message message;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    assert_int_equal(frame_read(bytes, count, KNOWN, &frame), FRAME_OK);
    return wire_read_message(shape, &frame, bytes + FRAME_HEADER_BYTES, frame.length, &arrays,
                             &message, &bulk, &bulk_bytes) == NULL;
}

static bool taken(void) {
    return taken_by(&fixture.shape);
}

static void write_fixture(void) {
    struct wire_shape shape = fixture.shape;
    fixture.shape.members_max++;
    count = wire_fixture_write(&fixture, &fixture.message, fixture.bulk, fixture.bulk_bytes, bytes,
                               sizeof bytes);
    fixture.shape = shape;
}

static void make(enum message_kind kind, enum wire_fill fill) {
    wire_fixture_make(&fixture, kind, fill, 1);
    write_fixture();
    assert_true(taken());
}

/* The word with one more bit is refused, and taken as it was. */
static void assert_bound(uint64_t *word, uint64_t bit) {
    *word ^= bit;
    write_fixture();
    assert_false(taken());
    *word ^= bit;
    write_fixture();
    assert_true(taken());
}

static void seats_beyond_the_swarm_are_refused_wherever_they_stand(void **state) {
    (void)state;
    make(MESSAGE_TABLE, WIRE_FULL);
    assert_bound(&fixture.table.declared_seats, BEYOND);
    assert_bound(&fixture.plans[SLICES - 1].expected_seats, BEYOND);
    fixture.plans[2].owner = MEMBERS;
    write_fixture();
    assert_false(taken());
    make(MESSAGE_REPORT, WIRE_FULL);
    assert_bound(&fixture.reports[0].received_seats, BEYOND);
    assert_bound(&fixture.reports[SLICES - 1].rejected_seats, BEYOND);
    assert_bound(&fixture.reports[SLICES - 1].repeated_seats, BEYOND);
    assert_bound(&fixture.reports[SLICES - 1].contributors, BEYOND);
    make(MESSAGE_PROPOSE, WIRE_FULL);
    assert_bound(&fixture.holders[SLICES - 1], BEYOND);
    make(MESSAGE_RESULT, WIRE_FULL);
    assert_bound(&fixture.message.contributors, BEYOND);
    struct wire_shape fewer = fixture.shape;
    fewer.members_max--;
    make(MESSAGE_ENTRY, WIRE_FULL);
    assert_false(taken_by(&fewer));
}

static void another_count_of_slices_is_refused(void **state) {
    (void)state;
    static const enum message_kind KINDS[] = {MESSAGE_ENTRY, MESSAGE_PROPOSE, MESSAGE_TABLE,
                                              MESSAGE_REPORT};
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        make(KINDS[i], WIRE_FULL);
        for (uint32_t slices = SLICES - 1; slices <= SLICES + 1; slices++) {
            struct wire_shape shape = fixture.shape;
            shape.slice_count = slices;
            bool is_difference = KINDS[i] == MESSAGE_REPORT && slices > SLICES;
            assert_int_equal(taken_by(&shape), slices == SLICES || is_difference);
        }
    }
    make(MESSAGE_FETCH_RESULT, WIRE_SOME);
    bytes[12] = SLICES; /* the header's slice */
    assert_false(taken());
}

/* One byte of a message gets another value: of its header, or of the value of a field. */
struct patch {
    enum message_kind kind;
    const char *field; /* NULL: the header */
    size_t at;
    uint8_t value;
};

static void numbers_that_no_sender_has_are_refused(void **state) {
    (void)state;
    enum { NUMBER = 1, BIN = 2 }; /* The length of the header of a number and of a short bin. */
    static const struct patch PATCHES[] = {
        {MESSAGE_DECLARE, "tokens", NUMBER, 0x80},
        {MESSAGE_TABLE, "tokens", BIN + 7, 0x80},
        {MESSAGE_TABLE, "weights", BIN + 7, 0x02},
        {MESSAGE_TABLE, NULL, 16, 1}, /* offset */
        {MESSAGE_PROPOSE, "kind", 0, ENTRY_OPEN},
        {MESSAGE_PROPOSE, "root", BIN, 1},
        {MESSAGE_PROPOSE, NULL, 8, 77},                  /* round */
        {MESSAGE_ENTRY, NULL, 8, 77},                    /* round */
        {MESSAGE_RESIGN, NULL, 8, 77},                   /* round */
        {MESSAGE_DECLARE, NULL, 6, 1},                   /* epoch */
        {MESSAGE_DECLARE, NULL, 12, 1},                  /* slice */
        {MESSAGE_FETCH_CONTRIBUTION, NULL, 16, 1},       /* offset */
        {MESSAGE_LEAVE, NULL, 5, MESSAGE_KINDS},         /* kind */
        {MESSAGE_LEAVE, NULL, 5, WIRE_MANIFEST_REQUEST}, /* kind */
        {MESSAGE_LEAVE, NULL, 5, 255},                   /* kind */
    };
    for (size_t i = 0; i < ARRAY_COUNT(PATCHES); i++) {
        const struct patch *patch = &PATCHES[i];
        make(patch->kind, patch->kind == MESSAGE_TABLE ? WIRE_FULL : WIRE_SOME);
        const size_t at =
            patch->at + (patch->field != NULL ? wire_fixture_find(bytes, count, patch->field) : 0);
        assert_int_not_equal(bytes[at], patch->value);
        bytes[at] = patch->value;
        if (taken()) {
            fail_msg("accepted patch %zu", i);
        }
    }
    make(MESSAGE_DECLARE, WIRE_SOME);
    memset(&fixture.message.root, 0, sizeof fixture.message.root);
    write_fixture();
    assert_false(taken());
    make(MESSAGE_REPORT, WIRE_FULL);
    bytes[wire_fixture_find(bytes, count, "parts")] = REPORT_ALL + 1;
    assert_false(taken());
    make(MESSAGE_REPORT, WIRE_EMPTY); /* report 1 */
    bytes[wire_fixture_find(bytes, count, "base")] = 1;
    assert_false(taken());
    make(MESSAGE_CONTRIBUTION, WIRE_FULL);
    fixture.proof.norm = (double)INFINITY;
    write_fixture();
    assert_false(taken());
    make(MESSAGE_TABLE, WIRE_FULL);
    fixture.table.version = 1;
    write_fixture();
    assert_true(taken());
    bytes[wire_fixture_find(bytes, count, "version")] = 0;
    assert_false(taken());
    write_fixture();
    bytes[wire_fixture_find(bytes, count, "base")] = 1; /* as new as the table */
    assert_false(taken());
}

/* Replaces the short bin of a field by another one. */
static bool accepts_rows(const char *field, const uint8_t *rows, uint8_t row_bytes) {
    static uint8_t rest[BYTES];
    make(MESSAGE_REPORT, WIRE_EMPTY);
    const size_t at = wire_fixture_find(bytes, count, field);
    const size_t end = at + 2 + bytes[at + 1];
    const size_t rest_bytes = count - end;
    assert_int_equal(bytes[at], 0xc4);
    memcpy(rest, bytes + end, rest_bytes);
    bytes[at + 1] = row_bytes;
    memcpy(bytes + at + 2, rows, row_bytes);
    memcpy(bytes + at + 2 + row_bytes, rest, rest_bytes);
    count = at + 2 + row_bytes + rest_bytes;
    bytes[24] = (uint8_t)(count - FRAME_HEADER_BYTES); /* the header's length */
    bytes[25] = (uint8_t)((count - FRAME_HEADER_BYTES) >> 8);
    return taken();
}

static void rows_of_a_report_have_one_encoding(void **state) {
    (void)state;
    static const struct {
        bool is_valid;
        const char *field;
        uint8_t row_bytes;
        uint8_t rows[20];
    } CASES[] = {
        {true, "slices", 4, {0, 0, 8, 0}},
        {false, "slices", 4, {0, 0, 9, 0}},             /* too many rows */
        {false, "slices", 4, {0, 0, 7, 0}},             /* fewer than have numbers */
        {false, "slices", 8, {0, 0, 4, 0, 4, 0, 4, 0}}, /* two stretches for one */
        {true, "epochs", 4, {8, 0, 0, 0}},
        {true, "epochs", 4, {8, 0, 7, 0}},
        {true, "epochs", 8, {3, 0, 7, 0, 5, 0, 6, 0}},
        {false, "epochs", 0, {0}},
        {false, "epochs", 4, {7, 0, 0, 0}},             /* too few rows */
        {false, "epochs", 4, {9, 0, 0, 0}},             /* too many rows */
        {false, "epochs", 8, {8, 0, 0, 0, 0, 0, 1, 0}}, /* an empty run */
        {false, "epochs", 8, {4, 0, 7, 0, 4, 0, 7, 0}}, /* two runs for one */
        {false, "epochs", 3, {8, 0, 0}},
        {true, "awaited_ms", 12, {MEMBERS, 0, 4, [6] = SWARM_MEMBERS_MAX - MEMBERS}},
        {false, "awaited_ms", 12, {MEMBERS + 1, 0, 4, [6] = SWARM_MEMBERS_MAX - MEMBERS - 1}},
        {false, "awaited_ms", 6, {MEMBERS, 0, 4}},
        {true, "rejected", 10, {8, 0, 4}},
        {true, "received", 20, {1, 0, 4, [10] = 7}},
        {false, "received", 20, {8, 0, 4, [10] = 0}},
        {false, "contributors", 10, {8, 0, 4}}, /* no row has a result */
        {false, "has_result", 3, {8, 0, 2}},
        {false, "has_result", 3, {8, 0, 1}}, /* the hashes are missing */
        {false, "hashes", 1, {0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        if (accepts_rows(CASES[i].field, CASES[i].rows, CASES[i].row_bytes) != CASES[i].is_valid) {
            fail_msg("case %zu", i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seats_beyond_the_swarm_are_refused_wherever_they_stand),
        cmocka_unit_test(another_count_of_slices_is_refused),
        cmocka_unit_test(numbers_that_no_sender_has_are_refused),
        cmocka_unit_test(rows_of_a_report_have_one_encoding),
    };
    return cmocka_run_group_tests(tests, use, NULL);
}
