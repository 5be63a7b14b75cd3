/* test_wire: what one process writes another reads, field by field; whatever else comes is refused
 * or is the one spelling of what it says. */
#include "wire_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 1 << 20, KEYS = 40 };

static struct wire_fixture fixture;
static struct wire_arrays arrays;
static struct message message;
static const uint8_t *bulk;
static size_t bulk_bytes;
static uint8_t bytes[BYTES], again[BYTES];
static void *memory;

static void use(uint32_t members, uint32_t slices) {
    wire_fixture_init(&fixture, members, slices);
    free(memory);
    memory = aligned_alloc(64, wire_arrays_size(&fixture.shape));
    memset(memory, 0xa5, wire_arrays_size(&fixture.shape));
    wire_arrays_carve(&fixture.shape, memory, &arrays);
}

/* A frame as it came, its payload of one piece. */
static const char *read_bytes(const uint8_t *from, size_t count) {
    uint64_t known[2][4];
    struct frame frame;
    wire_accepted_kinds(WIRE_TRACKER, known[0]);
    wire_accepted_kinds(WIRE_MEMBER, known[1]);
    for (size_t i = 0; i < 4; i++) {
        known[0][i] |= known[1][i];
    }
    if (frame_read(from, count, known[0], &frame) != FRAME_OK) {
        return "is no frame";
    }
    return wire_read_message(&fixture.shape, &frame, from + FRAME_HEADER_BYTES,
                             count - FRAME_HEADER_BYTES, &arrays, &message, &bulk, &bulk_bytes);
}

static void assert_same_entry(void) {
    struct entry_slice *slices = arrays.entry.slices;
    assert_ptr_equal(message.entry, &arrays.entry);
    assert_memory_equal(slices, fixture.entry_slices, arrays.entry.slice_count * sizeof *slices);
    arrays.entry.slices = fixture.entry.slices;
    assert_memory_equal(&arrays.entry, &fixture.entry, sizeof arrays.entry);
    arrays.entry.slices = slices;
}

static void assert_same_table(void) {
    const struct round_table *table = message.table;
    size_t slices = fixture.shape.slice_count;
    assert_int_equal(table->round, fixture.table.round);
    assert_int_equal(table->version, fixture.table.version);
    assert_int_equal(table->declared_seats, fixture.table.declared_seats);
    assert_memory_equal(table->members, fixture.table.members, sizeof table->members);
    assert_memory_equal(table->signatures, fixture.table.signatures, sizeof table->signatures);
    assert_memory_equal(table->slices, fixture.plans, slices * sizeof *table->slices);
    assert_memory_equal(table->roots, fixture.table.roots, sizeof table->roots);
}

static void assert_same(void) {
    size_t slices = fixture.shape.slice_count;
    struct message expected = fixture.message;
    assert_int_equal(expected.entry != NULL, message.entry != NULL);
    assert_int_equal(expected.table != NULL, message.table != NULL);
    assert_int_equal(expected.report.rows != NULL, message.report.rows != NULL);
    assert_int_equal(expected.proof != NULL, message.proof != NULL);
    if (message.entry != NULL) {
        assert_same_entry();
    } else if (message.table != NULL) {
        assert_same_table();
    } else if (message.report.rows != NULL) {
        assert_memory_equal(message.report.rows, fixture.reports,
                            slices * sizeof *message.report.rows);
        assert_memory_equal(message.links.awaited_ms, fixture.awaited_ms,
                            sizeof fixture.awaited_ms);
    } else if (message.proof != NULL) {
        assert_true(message.proof->norm == fixture.proof.norm);
        assert_int_equal(message.proof->path_count, fixture.proof.path_count);
        assert_memory_equal(message.proof->path, fixture.proof.path,
                            fixture.proof.path_count * sizeof fixture.proof.path[0]);
    }
    assert_int_equal(expected.ballot.holders != NULL, message.ballot.holders != NULL);
    if (message.ballot.holders != NULL) {
        assert_memory_equal(message.ballot.holders, fixture.holders,
                            slices * sizeof *message.ballot.holders);
    }
    assert_int_equal(bulk_bytes, fixture.bulk_bytes);
    assert_true(bulk_bytes > 0 || bulk == NULL);
    assert_memory_equal(bulk_bytes > 0 ? bulk : fixture.bulk, fixture.bulk, bulk_bytes);
    if (message.kind == MESSAGE_CONTRIBUTION || message.kind == MESSAGE_SKETCHES) {
        memset(&expected.hash, 0, sizeof expected.hash); /* wire_verify_message computes it */
    }
    memset(&expected.from, 0, sizeof expected.from);
    expected.entry = message.entry;
    expected.table = message.table;
    expected.report.rows = message.report.rows;
    expected.proof = message.proof;
    expected.ballot.holders = message.ballot.holders;
    expected.links.awaited_ms = message.links.awaited_ms;
    assert_memory_equal(&message, &expected, sizeof message);
}

static size_t write_fixture(void) {
    return wire_fixture_write(&fixture, &fixture.message, fixture.bulk, fixture.bulk_bytes, bytes,
                              sizeof bytes);
}

static void every_kind_reads_back_field_by_field(void **state) {
    (void)state;
    static const uint32_t SHAPES[][2] = {{1, 1}, {3, 5}, {8, 200}, {63, 17}, {64, 40}};
    for (size_t s = 0; s < ARRAY_COUNT(SHAPES); s++) {
        use(SHAPES[s][0], SHAPES[s][1]);
        for (uint32_t turn = 0; turn < MESSAGE_KINDS * WIRE_FILLS * KEYS; turn++) {
            uint32_t kind = turn % MESSAGE_KINDS;
            if (!wire_fixture_is(kind)) {
                continue;
            }
            wire_fixture_make(&fixture, kind, turn / MESSAGE_KINDS % WIRE_FILLS, turn);
            size_t count = write_fixture();
            assert_true(count - fixture.bulk_bytes - FRAME_HEADER_BYTES <=
                        wire_payload_bytes_max(&fixture.shape));
            memset(memory, (int)turn, wire_arrays_size(&fixture.shape));
            assert_null(read_bytes(bytes, count));
            assert_same();
            assert_int_equal(wire_fixture_write(&fixture, &message, bulk, bulk_bytes, again, BYTES),
                             count);
            assert_memory_equal(again, bytes, count);
        }
    }
}

/* Bytes that came instead: refused, or exactly what a sender of that would write. */
static void assert_canonical(const uint8_t *from, size_t count, bool *accepted) {
    *accepted = read_bytes(from, count) == NULL;
    if (*accepted) {
        assert_int_equal(wire_fixture_write(&fixture, &message, bulk, bulk_bytes, again, BYTES),
                         count);
        assert_memory_equal(again, from, count);
    }
}

static void what_is_cut_or_flipped_has_one_spelling_or_none(void **state) {
    (void)state;
    bool accepted = false;
    use(3, 4);
    for (uint32_t turn = 0; turn < MESSAGE_KINDS * WIRE_FILLS; turn++) {
        uint32_t kind = turn % MESSAGE_KINDS;
        if (!wire_fixture_is(kind)) {
            continue;
        }
        wire_fixture_make(&fixture, kind, turn / MESSAGE_KINDS, turn);
        size_t count = write_fixture();
        for (size_t cut = FRAME_HEADER_BYTES; cut < count; cut++) {
            static uint8_t shorter[BYTES];
            memcpy(shorter, bytes, cut);
            shorter[24] = (uint8_t)(cut - FRAME_HEADER_BYTES); /* the header's length */
            shorter[25] = (uint8_t)((cut - FRAME_HEADER_BYTES) >> 8);
            assert_canonical(shorter, cut, &accepted);
            assert_false(accepted);
        }
        for (size_t bit = 0; bit < 8 * count; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_canonical(bytes, count, &accepted);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        bytes[count] = 0;
        bytes[24]++;
        assert_true(bytes[24] == 0 || read_bytes(bytes, count + 1) != NULL);
    }
}

/* The rows of a report, written by hand as wire.h describes them. */
static void a_report_has_the_bytes_that_are_documented(void **state) {
    (void)state;
    static const uint8_t ROWS[] = {
        0xa6, 'e',  'p',  'o', 'c',  'h',  's', 0xc4, 12,   1,    0,   0,    0,    2,    0,    7,
        0,    5,    0,    0,   0,    0xa8, 'r', 'e',  'c',  'e',  'i', 'v',  'e',  'd',  0xc4, 50,
        2,    0,    0,    0,   0,    0,    0,   0,    0,    0,    1,   0,    4,    0,    0,    0,
        0,    0,    0,    0,   1,    0,    0,   0,    0,    0,    0,   0,    0,    0,    1,    0,
        4,    0,    0,    0,   0,    0,    0,   0,    3,    0,    0,   0,    0,    0,    0,    0,
        0,    0,    0xa8, 'r', 'e',  'j',  'e', 'c',  't',  'e',  'd', 0xc4, 30,   2,    0,    0,
        0,    0,    0,    0,   0,    0,    0,   1,    0,    2,    0,   0,    0,    0,    0,    0,
        0,    5,    0,    0,   0,    0,    0,   0,    0,    0,    0,   0xa8, 'r',  'e',  'p',  'e',
        'a',  't',  'e',  'd', 0xc4, 30,   2,   0,    0,    0,    0,   0,    0,    0,    0,    0,
        1,    0,    2,    0,   0,    0,    0,   0,    0,    0,    5,   0,    0,    0,    0,    0,
        0,    0,    0,    0,   0xaa, 'h',  'a', 's',  '_',  'r',  'e', 's',  'u',  'l',  't',  0xc4,
        15,   1,    0,    0,   1,    0,    1,   2,    0,    0,    1,   0,    1,    3,    0,    0,
        0xac, 'c',  'o',  'n', 't',  'r',  'i', 'b',  'u',  't',  'o', 'r',  's',  0xc4, 50,   1,
        0,    0,    0,    0,   0,    0,    0,   0,    0,    1,    0,   5,    0,    0,    0,    0,
        0,    0,    0,    2,   0,    0,    0,   0,    0,    0,    0,   0,    0,    1,    0,    5,
        0,    0,    0,    0,   0,    0,    0,   3,    0,    0,    0,   0,    0,    0,    0,    0,
        0,    0xa6, 'h',  'a', 's',  'h',  'e', 's',  0xc4, 64,   0,   0,    0xaa, 0,    0,    0,
        0,    0,    0,    0,   0,    0,    0,   0,    0,    0,    0,   0,    0,    0,    0,    0,
        0,    0,    0,    0,   0,    0,    0,   0,    0,    0xab, 0,   0,    0,    0,    0,    0,
        0,    0,    0,    0,   0,    0,    0,   0,    0,    0,    0,   0,    0,    0,    0,    0,
        0,    0,    0,    0,   0,    0,    0,   0,    0,    0};
    use(3, 8);
    wire_fixture_make(&fixture, MESSAGE_REPORT, WIRE_EMPTY, 0);
    const uint64_t changed = fixture.message.number;
    fixture.reports[1] =
        (struct slice_report){.epoch = 7, .has_result = 1, .contributors = 5, .changed = changed};
    fixture.reports[1].hash.bytes[2] = 0xaa;
    fixture.reports[1].hash.bytes[31] = 0xab;
    fixture.reports[2] = (struct slice_report){.epoch = 7,
                                               .received_seats = 4,
                                               .rejected_seats = 2,
                                               .repeated_seats = 2,
                                               .changed = changed};
    fixture.reports[4] = (struct slice_report){
        .has_result = 1, .received_seats = 4, .contributors = 5, .changed = changed};
    size_t count = write_fixture();
    assert_memory_equal(bytes + count - sizeof ROWS, ROWS, sizeof ROWS);
}

static void a_report_has_only_its_parts_and_the_rows_that_changed(void **state) {
    (void)state;
    use(8, 200);
    wire_fixture_make(&fixture, MESSAGE_REPORT, WIRE_EMPTY, 1);
    fixture.message.number = 1000;
    fixture.message.report.base = 999;
    fixture.message.report.parts = 0;
    assert_int_equal(write_fixture(), FRAME_HEADER_BYTES + 26);
    fixture.message.report.parts = REPORT_ROWS;
    for (uint32_t i = 0; i < 200; i++) {
        const uint64_t changed = i == 7 ? 999 : i == 8 ? 1000 : i == 9 ? 1001 : 1;
        fixture.reports[i] = (struct slice_report){.epoch = i, .changed = changed};
    }
    assert_null(read_bytes(bytes, write_fixture()));
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(message.report.rows[i].changed, i == 8 ? 1000 : 0);
        assert_int_equal(message.report.rows[i].epoch, i == 8 ? 8 : 0);
    }
}

static void equal_rows_of_a_report_are_short(void **state) {
    (void)state;
    use(8, 200);
    wire_fixture_make(&fixture, MESSAGE_REPORT, WIRE_EMPTY, 1);
    size_t empty = write_fixture();
    assert_true(empty < 700);
    for (uint32_t i = 0; i < 200; i++) {
        fixture.reports[i] =
            (struct slice_report){.has_result = 1, .epoch = 3, .contributors = 0xff, .changed = 1};
    }
    /* The bin of the hashes has a header of three bytes instead of two. */
    assert_int_equal(write_fixture(), empty + 200 * HASH_BYTES + 1);
}

static void what_a_swarm_cannot_have_is_refused(void **state) {
    (void)state;
    struct wire_shape shape = {.slice_count = 5, .members_max = 3};
    use(4, 6);
    for (uint32_t turn = 0; turn < MESSAGE_KINDS * 8; turn++) {
        uint32_t kind = turn % MESSAGE_KINDS;
        bool sized = kind == MESSAGE_REPORT || kind == MESSAGE_TABLE || kind == MESSAGE_PROPOSE ||
                     kind == MESSAGE_ENTRY;
        if (!wire_fixture_is(kind)) {
            continue;
        }
        wire_fixture_make(&fixture, kind, WIRE_FULL, turn);
        size_t count = write_fixture();
        struct wire_shape own = fixture.shape;
        fixture.shape.slice_count = shape.slice_count;
        bool refused = read_bytes(bytes, count) != NULL;
        assert_int_equal(refused, sized || fixture.message.slice == shape.slice_count);
        fixture.shape = own;
        fixture.shape.members_max = shape.members_max;
        sized = sized && kind != MESSAGE_DECLARE;
        refused = read_bytes(bytes, count) != NULL;
        assert_true(refused || !sized || kind == MESSAGE_REPORT);
        fixture.shape = own;
    }
}

static void kinds_go_one_way_only(void **state) {
    (void)state;
    uint64_t known[4];
    for (uint32_t kind = 0; kind < 256; kind++) {
        bool up = wire_may_send(WIRE_MEMBER, WIRE_TRACKER, (uint8_t)kind);
        bool down = wire_may_send(WIRE_TRACKER, WIRE_MEMBER, (uint8_t)kind);
        bool across = wire_may_send(WIRE_MEMBER, WIRE_MEMBER, (uint8_t)kind);
        bool both = kind == WIRE_PING || kind == WIRE_PONG || kind == WIRE_PROBE_ADDRESS;
        bool is = wire_fixture_is(kind) || (kind >= WIRE_INTRODUCE && kind < WIRE_KIND_END);
        assert_int_equal(up + down + across, !is    ? 0
                                             : both ? (kind == WIRE_PROBE_ADDRESS ? 2 : 3)
                                                    : 1);
        assert_false(wire_may_send(WIRE_TRACKER, WIRE_TRACKER, (uint8_t)kind));
        wire_accepted_kinds(WIRE_TRACKER, known);
        assert_int_equal(known[kind / 64] >> kind % 64 & 1, up);
        wire_accepted_kinds(WIRE_MEMBER, known);
        assert_int_equal(known[kind / 64] >> kind % 64 & 1, down || across);
    }
    assert_true(wire_may_send(WIRE_MEMBER, WIRE_TRACKER, MESSAGE_VOTE));
    assert_true(wire_may_send(WIRE_TRACKER, WIRE_MEMBER, MESSAGE_TABLE));
    assert_true(wire_may_send(WIRE_MEMBER, WIRE_MEMBER, MESSAGE_RESULT));
}

static int forget(void **state) {
    (void)state;
    free(memory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_reads_back_field_by_field),
        cmocka_unit_test(what_is_cut_or_flipped_has_one_spelling_or_none),
        cmocka_unit_test(a_report_has_the_bytes_that_are_documented),
        cmocka_unit_test(a_report_has_only_its_parts_and_the_rows_that_changed),
        cmocka_unit_test(equal_rows_of_a_report_are_short),
        cmocka_unit_test(what_a_swarm_cannot_have_is_refused),
        cmocka_unit_test(kinds_go_one_way_only),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
