/* test_wire_refused: what no sound sender says is refused, one thing wrong at a time. */
#include "wire_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fixture writes for one member more than readers know of. */
enum { MEMBERS = 3, BEYOND = 1 << MEMBERS, SLICES = 8, BYTES = 16384, MEMORY = 1 << 17 };
enum { STORED_BYTES = STORED_STATES_MAX * HASH_BYTES };

static struct wire_fixture fixture;
static struct wire_arrays arrays;
static _Alignas(64) uint8_t memory[MEMORY];
static uint8_t bytes[BYTES];
static size_t count;

static int use(void **state) {
    (void)state;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    assert_true(wire_arrays_size(&fixture.shape) <= MEMORY);
    wire_arrays_bind(&fixture.shape, memory, &arrays);
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
                                              MESSAGE_REPORT, MESSAGE_DECLARE};
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        make(KINDS[i], WIRE_FULL);
        for (uint32_t slices = SLICES - 1; slices <= SLICES + 1; slices++) {
            struct wire_shape shape = fixture.shape;
            shape.slice_count = slices;
            assert_int_equal(taken_by(&shape), slices == SLICES);
        }
    }
    make(MESSAGE_FETCH_RESULT, WIRE_SOME);
    bytes[12] = SLICES; /* the header's slice */
    assert_false(taken());
}

/* One byte of a message, from the start of its header on, gets another value. */
struct patch {
    enum message_kind kind;
    size_t at;
    uint8_t value;
};

static void numbers_that_no_sender_has_are_refused(void **state) {
    (void)state;
    enum { PAYLOAD = FRAME_HEADER_BYTES, TABLE = PAYLOAD + 8, ENTRY = PAYLOAD + 16 };
    static const struct patch PATCHES[] = {
        {MESSAGE_DECLARE, PAYLOAD + 7, 0x80},      /* tokens */
        {MESSAGE_TABLE, TABLE + 12 + 7, 0x80},     /* tokens */
        {MESSAGE_TABLE, TABLE + 20 + 7, 0x02},     /* weight */
        {MESSAGE_TABLE, 16, 1},                    /* offset */
        {MESSAGE_PROPOSE, ENTRY + 4, 1},           /* an open */
        {MESSAGE_PROPOSE, ENTRY + 24 + 32, 1},     /* root */
        {MESSAGE_PROPOSE, 8, 77},                  /* round */
        {MESSAGE_ENTRY, 8, 77},                    /* round */
        {MESSAGE_GOODBYE, 8, 77},                  /* round */
        {MESSAGE_VOTE, 6, 1},                      /* epoch */
        {MESSAGE_VOTE, 12, 1},                     /* slice */
        {MESSAGE_FETCH_CONTRIBUTION, 16, 1},       /* offset */
        {MESSAGE_LEAVE, 5, MESSAGE_KINDS},         /* kind */
        {MESSAGE_LEAVE, 5, WIRE_MANIFEST_REQUEST}, /* kind */
        {MESSAGE_LEAVE, 5, 255},                   /* kind */
    };
    for (size_t i = 0; i < ARRAY_COUNT(PATCHES); i++) {
        make(PATCHES[i].kind, WIRE_SOME);
        if (PATCHES[i].kind == MESSAGE_TABLE) {
            make(MESSAGE_TABLE, WIRE_FULL);
        }
        assert_int_not_equal(bytes[PATCHES[i].at], PATCHES[i].value);
        bytes[PATCHES[i].at] = PATCHES[i].value;
        assert_false(taken());
    }
    make(MESSAGE_TABLE, WIRE_SOME);
    memset(bytes + TABLE, 0, 4); /* version */
    assert_false(taken());
}

/* Rows of a report by hand, behind its fields. */
static bool takes_rows(const uint8_t *rows, size_t row_bytes) {
    make(MESSAGE_REPORT, WIRE_EMPTY);
    const size_t fields = FRAME_HEADER_BYTES + 8 + 4 + 4 + 32 + 32 + 8 + 16 + STORED_BYTES + 1;
    memcpy(bytes + fields, rows, row_bytes);
    count = fields + row_bytes;
    bytes[24] = (uint8_t)(count - FRAME_HEADER_BYTES);
    return taken();
}

/* The waiting times by hand, and eight rows of zeros. */
static bool takes_waiting_times(uint8_t seats, uint8_t last) {
    const size_t fields = FRAME_HEADER_BYTES + 8 + 4 + 4 + 32 + 32 + 8 + 16 + STORED_BYTES;
    static const uint8_t ROWS[] = {8, 0, 0, 0};
    make(MESSAGE_REPORT, WIRE_EMPTY);
    memset(bytes + fields, 0, 1 + 4 * (size_t)seats);
    bytes[fields] = seats;
    bytes[fields + 4 * (size_t)seats] = seats > 0 ? last : 0;
    count = fields + 1 + 4 * (size_t)seats + sizeof ROWS;
    memcpy(bytes + count - sizeof ROWS, ROWS, sizeof ROWS);
    bytes[24] = (uint8_t)(count - FRAME_HEADER_BYTES);
    return taken();
}

static void waiting_times_have_one_spelling(void **state) {
    (void)state;
    assert_true(takes_waiting_times(0, 0));
    assert_true(takes_waiting_times(MEMBERS, 1));
    assert_false(takes_waiting_times(MEMBERS, 0)); /* the last one is not 0 */
    assert_false(takes_waiting_times(MEMBERS + 1, 1));
}

static void rows_of_a_report_have_one_spelling(void **state) {
    (void)state;
    enum { EPOCH_LAST = 1 << 1, EPOCH = 2 << 1, RECEIVED = 2 << 3, REFUSED = 1 << 7 };
    static const struct {
        bool right;
        size_t row_bytes;
        uint8_t rows[40];
    } CASES[] = {
        {true, 4, {8, 0, 0, 0}},
        {false, 4, {7, 0, 0, 0}},             /* rows are missing */
        {false, 4, {9, 0, 0, 0}},             /* there are too many */
        {false, 8, {0, 0, 0, 0, 8, 0, 0, 0}}, /* a run of nothing */
        {false, 8, {4, 0, 0, 0, 4, 0, 0, 0}}, /* two runs for one */
        {true, 11, {0, 0, 1, 0, EPOCH, 7, 0, 7, 0, 0, 0}},
        {true, 12, {0, 0, 2, 0, EPOCH, 7, 0, EPOCH_LAST, 6, 0, 0, 0}},
        {false, 14, {0, 0, 2, 0, EPOCH, 7, 0, EPOCH, 7, 0, 6, 0, 0, 0}}, /* given again */
        {false, 16, {0, 0, 1, 0, EPOCH, 7, 0, 0, 0, 1, 0, EPOCH_LAST, 6, 0, 0, 0}}, /* 2 for 1 */
        {false, 11, {0, 0, 1, 0, EPOCH, 0, 0, 7, 0, 0, 0}}, /* zero is not given */
        {false, 9, {0, 0, 1, 0, EPOCH_LAST, 7, 0, 0, 0}},   /* nothing was given */
        {false, 11, {0, 0, 1, 0, EPOCH | EPOCH_LAST, 7, 0, 7, 0, 0, 0}},
        {false, 9, {0, 0, 1, 0, 0, 7, 0, 0, 0}}, /* a row that says nothing */
        {true, 17, {0, 0, 1, 0, REFUSED, 4, [13] = 7}},
        {false, 17, {0, 0, 1, 0, REFUSED, 0, [13] = 7}}, /* nobody is refused */
        {true, 17, {0, 0, 1, 0, RECEIVED, 4, [13] = 7}},
        {false, 17, {0, 0, 1, 0, 2 << 5, 4, [13] = 7}},    /* contributors of no result */
        {false, 9, {7, 0, 2, 0, EPOCH, 7, 0, EPOCH_LAST}}, /* beyond the last */
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        if (takes_rows(CASES[i].rows, CASES[i].row_bytes) != CASES[i].right) {
            fail_msg("case %zu", i);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seats_beyond_the_swarm_are_refused_wherever_they_stand),
        cmocka_unit_test(another_count_of_slices_is_refused),
        cmocka_unit_test(numbers_that_no_sender_has_are_refused),
        cmocka_unit_test(rows_of_a_report_have_one_spelling),
        cmocka_unit_test(waiting_times_have_one_spelling),
    };
    return cmocka_run_group_tests(tests, use, NULL);
}
