/* test_packer: one walk counts, writes, reads and hashes the same bytes, and reads nothing else. */
#include "runtime/swarm/ledger/packer.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fields {
    uint64_t wide;
    uint32_t number, byte, two, count;
    char text[8];
    uint8_t bytes[3];
};

static const struct fields FIELDS = {.wide = 0x0102030405060708,
                                     .number = 0xfffefdfc,
                                     .byte = 0xab,
                                     .two = 0xcdef,
                                     .count = 5,
                                     .text = "skep!~",
                                     .bytes = {9, 8, 7}};

static const uint8_t BYTES[] = {8,    7,    6,    5,    4,    3,   2, 1, 0xfc, 0xfd,
                                0xfe, 0xff, 0xab, 0xef, 0xcd, 5,   0, 0, 0,    6,
                                's',  'k',  'e',  'p',  '!',  '~', 9, 8, 7};

static void walk(struct packer *pack, struct fields *fields) {
    pack_u64(pack, &fields->wide);
    pack_u32(pack, &fields->number);
    pack_uint(pack, &fields->byte, 1);
    pack_uint(pack, &fields->two, 2);
    pack_element_count(pack, &fields->count, 5);
    pack_text(pack, fields->text, sizeof fields->text);
    pack_bytes(pack, fields->bytes, sizeof fields->bytes);
}

static void assert_same(const struct fields *fields) {
    assert_int_equal(fields->wide, FIELDS.wide);
    assert_int_equal(fields->number, FIELDS.number);
    assert_int_equal(fields->byte, FIELDS.byte);
    assert_int_equal(fields->two, FIELDS.two);
    assert_int_equal(fields->count, FIELDS.count);
    assert_memory_equal(fields->text, FIELDS.text, sizeof fields->text);
    assert_memory_equal(fields->bytes, FIELDS.bytes, sizeof fields->bytes);
}

static void four_directions_meet_the_same_bytes(void **state) {
    (void)state;
    struct fields fields = FIELDS;
    struct packer pack = packer_begin_count();
    walk(&pack, &fields);
    assert_int_equal(pack.offset, sizeof BYTES);
    uint8_t bytes[sizeof BYTES];
    pack = packer_begin_write(bytes, sizeof bytes);
    walk(&pack, &fields);
    assert_memory_equal(bytes, BYTES, sizeof BYTES);
    struct hash_state hashing;
    hash_begin(&hashing);
    pack = packer_begin_hash(&hashing);
    walk(&pack, &fields);
    const struct hash hash = hash_end(&hashing);
    const struct hash expected = hash_of(BYTES, sizeof BYTES);
    assert_true(hash_equal(&hash, &expected));
    assert_same(&fields);
    memset(&fields, 0xa5, sizeof fields);
    pack = packer_begin_read(BYTES, sizeof BYTES);
    walk(&pack, &fields);
    assert_null(packer_finish(&pack));
    assert_same(&fields);
}

static void what_is_cut_reads_as_zeros_and_is_refused(void **state) {
    (void)state;
    for (size_t cut = 0; cut < sizeof BYTES; cut++) {
        struct fields fields;
        memset(&fields, 0xa5, sizeof fields);
        struct packer pack = packer_begin_read(BYTES, cut);
        walk(&pack, &fields);
        assert_string_equal(packer_finish(&pack), "is truncated");
        assert_true(pack.offset <= cut);
        assert_int_equal(fields.wide, cut < 8 ? 0 : FIELDS.wide);
        assert_int_equal(fields.number, cut < 12 ? 0 : FIELDS.number);
        assert_int_equal(fields.two, cut < 15 ? 0 : FIELDS.two);
        assert_int_equal(fields.count, cut < 19 ? 0 : FIELDS.count);
        assert_int_equal(fields.text[0], cut < 26 ? 0 : 's');
        assert_int_equal(fields.bytes[2], 0);
    }
    struct packer pack = packer_begin_read(BYTES, 9);
    uint64_t wide = 0;
    pack_u64(&pack, &wide);
    assert_non_null(packer_finish(&pack));
}

static void counts_and_texts_beyond_their_bounds_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } CASES[] = {{15, 6}, {18, 1}, {19, 8}, {19, 255}, {21, 0}, {21, ' '}, {21, 0x7f}, {21, 0x80}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        uint8_t bytes[sizeof BYTES];
        struct fields fields = FIELDS;
        memcpy(bytes, BYTES, sizeof bytes);
        bytes[CASES[i].at] = CASES[i].value;
        struct packer pack = packer_begin_read(bytes, sizeof bytes);
        walk(&pack, &fields);
        assert_non_null(packer_finish(&pack));
        assert_int_equal(fields.text[7], 0);
        assert_int_equal(fields.bytes[0], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_directions_meet_the_same_bytes),
        cmocka_unit_test(what_is_cut_reads_as_zeros_and_is_refused),
        cmocka_unit_test(counts_and_texts_beyond_their_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
