/* test_frame: the header's bytes, written down by hand, and what is refused. */
#include "transport/messages/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t KNOWN[4] = {1 << 7, 0, 0, 1ULL << 63}; /* 7 and 255 */
static const struct frame FRAME = {.kind = 7,
                                   .epoch = 0x0201,
                                   .round = 0x06050403,
                                   .slice = 0x0a090807,
                                   .offset = 0x1211100f0e0d0c0b,
                                   .length = 3,
                                   .session = 0x1a191817};
static const uint8_t BYTES[FRAME_HEADER_BYTES + 3] = {
    'S',  'K',  'E',  'P',  1,    7,    0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
    0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12,
    0x03, 0x00, 0x00, 0x00, 0x17, 0x18, 0x19, 0x1a, 'x',  'y',  'z'};

static void a_header_has_the_documented_bytes(void **state) {
    (void)state;
    uint8_t header[FRAME_HEADER_BYTES];
    frame_write(&FRAME, header);
    assert_memory_equal(header, BYTES, sizeof header);
}

static void a_message_reads_back(void **state) {
    (void)state;
    struct frame frame;
    memset(&frame, 0, sizeof frame);
    assert_int_equal(frame_read(BYTES, sizeof BYTES, KNOWN, &frame), FRAME_OK);
    assert_int_equal(frame.kind, FRAME.kind);
    assert_int_equal(frame.epoch, FRAME.epoch);
    assert_int_equal(frame.round, FRAME.round);
    assert_int_equal(frame.slice, FRAME.slice);
    assert_true(frame.offset == FRAME.offset);
    assert_int_equal(frame.length, FRAME.length);
    assert_int_equal(frame.session, FRAME.session);
}

static void each_way_to_be_wrong_has_its_verdict(void **state) {
    (void)state;
    static const struct {
        int at;
        uint8_t value;
        enum frame_verdict verdict;
    } ROWS[] = {{0, 's', FRAME_BAD_MAGIC},
                {3, 0, FRAME_BAD_MAGIC},
                {4, 0, FRAME_BAD_VERSION},
                {4, 2, FRAME_BAD_VERSION},
                {5, 0, FRAME_BAD_KIND},
                {5, 8, FRAME_BAD_KIND},
                {5, 255, FRAME_OK},
                {24, 2, FRAME_BAD_LENGTH},
                {24, 4, FRAME_BAD_LENGTH},
                {27, 0x80, FRAME_BAD_LENGTH},
                {26, 0x10, FRAME_BAD_LENGTH},
                {23, 0x80, FRAME_BAD_OFFSET},
                {28, 0, FRAME_OK},
                {6, 0xff, FRAME_OK}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        uint8_t bytes[sizeof BYTES];
        struct frame frame = {.session = 77};
        memcpy(bytes, BYTES, sizeof bytes);
        bytes[ROWS[i].at] = ROWS[i].value;
        assert_int_equal(frame_read(bytes, sizeof bytes, KNOWN, &frame), ROWS[i].verdict);
        assert_true(ROWS[i].verdict == FRAME_OK || frame.session == 77);
    }
}

static void a_message_of_another_length_is_refused(void **state) {
    (void)state;
    struct frame frame = {.session = 77};
    static uint8_t longest[FRAME_BYTES_MAX + 1];
    for (size_t count = 0; count < sizeof BYTES; count++) {
        assert_int_equal(frame_read(BYTES, count, KNOWN, &frame),
                         count < FRAME_HEADER_BYTES ? FRAME_TRUNCATED : FRAME_BAD_LENGTH);
    }
    assert_int_equal(frame.session, 77);
    struct frame most = {.kind = 7, .length = FRAME_PAYLOAD_MAX};
    most.offset = (uint64_t)INT64_MAX - FRAME_PAYLOAD_MAX;
    frame_write(&most, longest);
    assert_int_equal(frame_read(longest, FRAME_BYTES_MAX, KNOWN, &frame), FRAME_OK);
    assert_int_equal(frame.length, FRAME_PAYLOAD_MAX);
    assert_int_equal(frame_read(longest, FRAME_BYTES_MAX + 1, KNOWN, &frame), FRAME_BAD_LENGTH);
    longest[24] = 1; /* says 2^20 + 1, and is that long */
    assert_int_equal(frame_read(longest, FRAME_BYTES_MAX + 1, KNOWN, &frame), FRAME_BAD_LENGTH);
    longest[24] = 0;
    longest[16]++; /* one past the last offset */
    longest[17] = longest[18] = 0xff;
    assert_int_equal(frame_read(longest, FRAME_BYTES_MAX, KNOWN, &frame), FRAME_BAD_OFFSET);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_has_the_documented_bytes),
        cmocka_unit_test(a_message_reads_back),
        cmocka_unit_test(each_way_to_be_wrong_has_its_verdict),
        cmocka_unit_test(a_message_of_another_length_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
