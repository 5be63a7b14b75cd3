/* test_wire_chunks: chunked payloads are reassembled unchanged, and invalid chunks are rejected. */
#include "wire_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CAPACITY = 3 * FRAME_PAYLOAD_MAX, PIECES_MAX = 4 };

static uint8_t whole[CAPACITY], gathered[CAPACITY];
static struct wire_chunks pieces;
static const struct frame HEADER = {.kind = MESSAGE_TABLE, .round = 7, .session = 9};

/* A payload of so many bytes, its length before it. */
static struct frame make(size_t count) {
    struct frame frame = HEADER;
    frame.length = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        whole[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    wire_write_length(whole, count);
    memset(gathered, 0, sizeof gathered);
    pieces = (struct wire_chunks){.bytes = gathered, .capacity = CAPACITY};
    return frame;
}

/* The cut pieces of `frame`; gives how many. */
static uint32_t cut(const struct frame *frame, struct frame *cuts) {
    uint32_t made = 0;
    for (size_t at = 0; at < frame->length; at += cuts[made - 1].length) {
        cuts[made++] = wire_chunk_header(frame, frame->length, at);
    }
    return made;
}

static enum wire_progress add(const struct frame *piece, const uint8_t **payload) {
    return wire_chunks_add(&pieces, piece, whole + piece->offset, payload);
}

static void wholes_of_every_length_come_together(void **state) {
    (void)state;
    static const size_t COUNTS[] = {WIRE_LENGTH_BYTES,     100,
                                    FRAME_PAYLOAD_MAX - 1, FRAME_PAYLOAD_MAX,
                                    FRAME_PAYLOAD_MAX + 1, 2 * FRAME_PAYLOAD_MAX,
                                    CAPACITY - 5,          CAPACITY};
    for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
        struct frame cuts[PIECES_MAX];
        const uint8_t *payload = NULL;
        struct frame frame = make(COUNTS[i]);
        uint32_t count = cut(&frame, cuts);
        assert_int_equal(count, (COUNTS[i] + FRAME_PAYLOAD_MAX - 1) / FRAME_PAYLOAD_MAX);
        for (int again = 0; again < 2; again++) {
            for (uint32_t p = 0; p + 1 < count; p++) {
                assert_int_equal(add(&cuts[p], &payload), WIRE_INCOMPLETE);
            }
            assert_int_equal(add(&cuts[count - 1], &payload), WIRE_COMPLETE);
            assert_int_equal(pieces.payload_bytes, COUNTS[i]);
            assert_memory_equal(payload, whole, COUNTS[i]);
            assert_int_equal(pieces.frame.kind, frame.kind);
            assert_int_equal(pieces.frame.round, frame.round);
            assert_int_equal(pieces.frame.session, frame.session);
            assert_int_equal(pieces.frame.length, frame.length);
            assert_int_equal(pieces.frame.offset, 0);
            assert_true(count > 1 || payload == whole);
        }
    }
}

static void a_gap_an_overlap_or_another_message_is_refused(void **state) {
    (void)state;
    struct frame cuts[PIECES_MAX];
    const uint8_t *payload = NULL;
    struct frame frame = make(CAPACITY - 5);
    assert_int_equal(cut(&frame, cuts), 3);
    struct frame wrong[10];
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        wrong[i] = cuts[1];
    }
    wrong[0] = cuts[2]; /* a gap */
    wrong[1].offset -= 1;
    wrong[2].offset += 1;
    wrong[3].length -= 1;
    wrong[4].kind = MESSAGE_ENTRY;
    wrong[5].kind = MESSAGE_POLL;
    wrong[6].round++;
    wrong[7].session++;
    wrong[8].epoch++;
    wrong[9].slice++;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(add(&cuts[0], &payload), WIRE_INCOMPLETE);
        assert_int_equal(add(&wrong[i], &payload), WIRE_INVALID);
        assert_int_equal(add(&cuts[1], &payload), WIRE_INVALID); /* nothing is begun any more */
    }
    assert_int_equal(add(&cuts[0], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[1], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[1], &payload), WIRE_INVALID); /* an overlap */
    assert_int_equal(add(&cuts[2], &payload), WIRE_INVALID);
}

static void a_new_whole_drops_one_that_was_cut_off(void **state) {
    (void)state;
    struct frame cuts[PIECES_MAX];
    const uint8_t *payload = NULL;
    struct frame frame = make(CAPACITY);
    assert_int_equal(cut(&frame, cuts), 3);
    assert_int_equal(add(&cuts[0], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[1], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[0], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[2], &payload), WIRE_INVALID);
    assert_int_equal(add(&cuts[0], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[1], &payload), WIRE_INCOMPLETE);
    assert_int_equal(add(&cuts[2], &payload), WIRE_COMPLETE);
    assert_memory_equal(payload, whole, CAPACITY);
}

static void a_length_beyond_the_capacity_or_of_nothing_is_refused(void **state) {
    (void)state;
    static const uint32_t LENGTHS[] = {0, 3, CAPACITY + 1, UINT32_MAX};
    const uint8_t *payload = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(LENGTHS); i++) {
        struct frame frame = make(FRAME_PAYLOAD_MAX);
        for (size_t k = 0; k < WIRE_LENGTH_BYTES; k++) {
            whole[k] = (uint8_t)(LENGTHS[i] >> (8 * k));
        }
        assert_int_equal(add(&frame, &payload), WIRE_INVALID);
        frame.length = LENGTHS[i] < FRAME_PAYLOAD_MAX ? LENGTHS[i] : FRAME_PAYLOAD_MAX;
        assert_int_equal(add(&frame, &payload), WIRE_INVALID);
    }
    struct frame frame = make(100);
    frame.length = 99;
    assert_int_equal(add(&frame, &payload), WIRE_INVALID);
    frame.length = 101;
    assert_int_equal(add(&frame, &payload), WIRE_INVALID);
    frame.length = 100;
    frame.offset = 100;
    assert_int_equal(wire_chunks_add(&pieces, &frame, whole, &payload), WIRE_INVALID);
    frame.offset = 0;
    assert_int_equal(add(&frame, &payload), WIRE_COMPLETE);
}

/* A proposal of the largest swarm: a signed commit without root, hash and signatures. */
static void make_longest(struct entry *entry, struct entry_slice *slices) {
    static struct entry_fixture swarm;
    entry_fixture_init(&swarm, SWARM_MEMBERS_MAX, slices, SWARM_SLICES_MAX);
    for (uint32_t index = 0; index <= 2; index++) {
        entry_fixture_next(&swarm, index, entry);
    }
    memset(&entry->root, 0, sizeof entry->root);
    memset(&entry->hash, 0, sizeof entry->hash);
    memset(entry->signatures, 0, sizeof entry->signatures);
    entry->signature_count = 0;
}

static void the_longest_proposal_goes_in_pieces(void **state) {
    (void)state;
    struct wire_shape shape = {.slice_count = SWARM_SLICES_MAX, .members_max = SWARM_MEMBERS_MAX};
    size_t most = wire_payload_bytes_max(&shape);
    uint8_t *payload = malloc(most);
    uint8_t *together = malloc(most);
    void *memory = aligned_alloc(64, wire_arrays_size(&shape));
    struct wire_arrays *arrays = calloc(1, sizeof *arrays);
    struct entry *entry = calloc(1, sizeof *entry);
    struct entry_slice *slices = calloc(SWARM_SLICES_MAX, sizeof *slices);
    uint64_t *holders = calloc(SWARM_SLICES_MAX, sizeof *holders);
    assert_true(payload && together && memory && arrays && entry && slices && holders);
    wire_arrays_carve(&shape, memory, arrays);
    make_longest(entry, slices);
    struct message message = {
        .kind = MESSAGE_PROPOSE, .round = entry->round, .entry = entry, .ballot.holders = holders};
    struct message read;
    struct frame frame;
    const uint8_t *bulk = NULL;
    size_t bulk_bytes = 0;
    holders[SWARM_SLICES_MAX - 1] = UINT64_MAX;
    size_t count = wire_write_message(&shape, &message, 0, &frame, payload, most);
    assert_in_range(count, FRAME_PAYLOAD_MAX + 1, most);
    struct wire_chunks joined = {.bytes = together, .capacity = most};
    const uint8_t *came = NULL;
    enum wire_progress part = WIRE_INCOMPLETE;
    for (size_t at = 0; at < count && part == WIRE_INCOMPLETE;) {
        struct frame piece = wire_chunk_header(&frame, count, at);
        part = wire_chunks_add(&joined, &piece, payload + at, &came);
        at += piece.length;
    }
    assert_int_equal(part, WIRE_COMPLETE);
    assert_null(wire_read_message(&shape, &joined.frame, came, joined.payload_bytes, arrays, &read,
                                  &bulk, &bulk_bytes));
    assert_int_equal(read.ballot.holders[SWARM_SLICES_MAX - 1], UINT64_MAX);
    assert_memory_equal(read.entry->slices, slices, SWARM_SLICES_MAX * sizeof *slices);
    free(payload);
    free(together);
    free(memory);
    free(arrays);
    free(entry);
    free(slices);
    free(holders);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wholes_of_every_length_come_together),
        cmocka_unit_test(a_gap_an_overlap_or_another_message_is_refused),
        cmocka_unit_test(a_new_whole_drops_one_that_was_cut_off),
        cmocka_unit_test(a_length_beyond_the_capacity_or_of_nothing_is_refused),
        cmocka_unit_test(the_longest_proposal_goes_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
