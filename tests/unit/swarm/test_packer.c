/* test_packer: one walk counts, writes, hashes and reads the same MessagePack, and reads nothing
 * else. */
#include "runtime/swarm/packer/packer.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 5, BYTES_MAX = 512 };

struct row {
    uint64_t seats;
    uint32_t epoch;
    uint8_t key[2];
};

struct fields {
    uint64_t wide;
    uint32_t number, count;
    char text[8], empty[4];
    uint8_t bytes[3];
    uint32_t nested;
    struct row rows[ROWS];
};

static const struct fields FIELDS = {.wide = 0x0102030405060708,
                                     .number = 5,
                                     .count = 2,
                                     .text = "skep!~",
                                     .bytes = {9, 8, 7},
                                     .nested = 200,
                                     .rows = {{6, 1, {1, 2}},
                                              {6, 2, {3, 4}},
                                              {0, 2, {5, 6}},
                                              {0, 2, {7, 8}},
                                              {UINT64_MAX, 0xabcd, {9, 10}}}};

/* Written by hand from the specification of MessagePack. */
static const uint8_t BYTES[] = {
    0x8c,                                                                     /* map of 12 */
    0xa4, 'w', 'i',  'd', 'e',  0xcf, 1,    2,    3,    4,    5,   6,   7, 8, /* uint 64 */
    0xa6, 'n', 'u',  'm', 'b',  'e',  'r',  5,                                /* positive fixint */
    0xa5, 'c', 'o',  'u', 'n',  't',  2,                                      /* positive fixint */
    0xa4, 't', 'e',  'x', 't',  0xa6, 's',  'k',  'e',  'p',  '!', '~',       /* fixstr */
    0xa5, 'e', 'm',  'p', 't',  'y',  0xa0,                                   /* fixstr of 0 */
    0xa5, 'b', 'y',  't', 'e',  's',  0xc4, 3,    9,    8,    7,              /* bin 8 */
    0xa3, 'm', 'a',  'p', 0x81, 0xa1, 'n',  0xcc, 200,                        /* map of 1, uint 8 */
    0xa4, 'l', 'i',  's', 't',  0x92, 5,    0xcc, 200,                        /* array of 2 */
    0xa6, 'e', 'p',  'o', 'c',  'h',  's',  0xc4, 10,                         /* bin 8, column */
    1,    0,   2,    0,   2,    0,    2,    0,    0xcd, 0xab,                 /* of 2 bytes each */
    0xa4, 'k', 'e',  'y', 's',  0xc4, 4,    1,    2,    9,    10,             /* rows 0 and 4 */
    0xa5, 's', 'e',  'a', 't',  's',  0xc4, 30,                               /* bin 8, runs */
    2,    0,   6,    0,   0,    0,    0,    0,    0,    0,                    /* two rows of 6 */
    2,    0,   0,    0,   0,    0,    0,    0,    0,    0,                    /* two rows of 0 */
    1,    0,   0xff, 255, 255,  255,  255,  255,  255,  255,                  /* one row */
    0xa6, 't', 'o',  't', 'a',  'l',  's',  0xc4, 8,                          /* bin 8 */
    7,    0,   0,    0,   0,    0,    0,    0,
};

static void walk_nested(struct packer *pack, void *object) {
    pack_u32(pack, "n", &((struct fields *)object)->nested);
}

static void walk(struct packer *pack, void *object) {
    struct fields *fields = object;
    struct packer_rows rows = {fields->rows, sizeof fields->rows[0], .count = ROWS};
    uint32_t totals = 1;
    pack_u64(pack, "wide", &fields->wide);
    pack_u32(pack, "number", &fields->number);
    pack_element_count(pack, "count", &fields->count, 2);
    pack_text(pack, "text", fields->text, sizeof fields->text);
    pack_text(pack, "empty", fields->empty, sizeof fields->empty);
    pack_bytes(pack, "bytes", fields->bytes, sizeof fields->bytes);
    pack_map(pack, "map", (struct packed_object){walk_nested, fields});
    pack_array_header(pack, "list", 2);
    pack_u32(pack, NULL, &fields->number);
    pack_u32(pack, NULL, &fields->nested);
    pack_u32_column(pack, "epochs", rows, offsetof(struct row, epoch), 2);
    rows.selected = &(uint64_t){1 << 0 | 1 << 4};
    pack_bytes_column(pack, "keys", rows, offsetof(struct row, key), 2);
    rows.selected = NULL;
    pack_u64_runs(pack, "seats", rows, offsetof(struct row, seats));
    if (pack_variable_bin_header(pack, "totals", &totals, 3, 8) == 1) {
        (void)pack_bin_number(pack, 7, 8);
    }
}

/* ---- sets of rows ---- */

struct row_set {
    uint64_t selected[2];
    uint32_t numbers[100];
};

static void walk_row_set(struct packer *pack, void *object) {
    struct row_set *set = object;
    struct packer_rows rows = {set->numbers, sizeof set->numbers[0], 100, set->selected};
    pack_row_set(pack, "rows", set->selected, 100);
    pack_u32_runs(pack, "numbers", rows, 0, 4);
}

/* Rows 3, 4, 63, 64 and 99 with the numbers 7, 7, 7, 8, 8. */
static const uint8_t ROW_SET[] = {
    0x82, 0xa4, 'r', 'o', 'w', 's', 0xc4, 12,   3,  0, 2, 0, 63, 0, 2, 0, 99, 0, 1, 0, 0xa7,
    'n',  'u',  'm', 'b', 'e', 'r', 's',  0xc4, 12, 3, 0, 7, 0,  0, 0, 2, 0,  8, 0, 0, 0};

static const char *read_row_set(const uint8_t *bytes, size_t count, struct row_set *set) {
    return packer_read((struct packed_object){walk_row_set, set}, bytes, count);
}

static void a_set_of_rows_has_one_encoding(void **state) {
    (void)state;
    enum { STRETCHES = 8, RUNS = 30 };
    struct row_set set;
    uint8_t bytes[sizeof ROW_SET];
    memset(&set, 0xff, sizeof set);
    assert_null(read_row_set(ROW_SET, sizeof ROW_SET, &set));
    assert_true(set.selected[0] == (UINT64_C(1) << 63 | 0x18));
    assert_true(set.selected[1] == (UINT64_C(1) << 35 | 1));
    assert_int_equal(set.numbers[63], 7);
    assert_int_equal(set.numbers[99], 8);
    assert_int_equal(set.numbers[5], UINT32_MAX); /* a row that is not passed is left as it was */
    assert_int_equal(packer_write((struct packed_object){walk_row_set, &set}, bytes, sizeof bytes),
                     sizeof bytes);
    assert_memory_equal(bytes, ROW_SET, sizeof bytes);
    static const struct {
        size_t at;
        uint8_t value;
    } PATCHES[] = {
        {STRETCHES + 8, 100}, /* row 100 */
        {STRETCHES + 10, 2},  /* rows 99 and 100 */
        {STRETCHES + 2, 0},   /* no rows */
        {STRETCHES + 4, 5},   /* two stretches for one */
        {STRETCHES + 4, 2},   /* rows that are passed twice */
        {STRETCHES + 2, 60},  /* the same */
        {STRETCHES + 9, 1},   /* row 355 */
        {RUNS, 2},            /* fewer numbers than rows */
        {RUNS, 4},            /* more */
        {RUNS + 8, 7},        /* two runs for one */
    };
    for (size_t i = 0; i < ARRAY_COUNT(PATCHES); i++) {
        memcpy(bytes, ROW_SET, sizeof bytes);
        bytes[PATCHES[i].at] = PATCHES[i].value;
        if (read_row_set(bytes, sizeof bytes, &set) == NULL) {
            fail_msg("accepted patch %zu", i);
        }
    }
}

static const char *read_fields(const uint8_t *bytes, size_t count, struct fields *fields) {
    return packer_read((struct packed_object){walk, fields}, bytes, count);
}

static void all_passes_meet_the_same_bytes(void **state) {
    (void)state;
    struct fields fields = FIELDS;
    struct packed_object object = {walk, &fields};
    uint8_t bytes[BYTES_MAX];
    struct hash_state hashing;
    assert_int_equal(packer_count_bytes(object), sizeof BYTES);
    assert_int_equal(packer_write(object, bytes, sizeof BYTES), sizeof BYTES);
    assert_memory_equal(bytes, BYTES, sizeof BYTES);
    hash_begin(&hashing);
    packer_hash(object, &hashing);
    struct hash hash = hash_end(&hashing);
    struct hash expected = hash_of(BYTES, sizeof BYTES);
    assert_true(hash_equal(&hash, &expected));
    assert_memory_equal(&fields, &FIELDS, sizeof fields);

    memset(&fields, 0xa5, sizeof fields);
    assert_null(read_fields(BYTES, sizeof BYTES, &fields));
    assert_int_equal(fields.wide, FIELDS.wide);
    assert_int_equal(fields.number, FIELDS.number);
    assert_int_equal(fields.nested, FIELDS.nested);
    assert_memory_equal(fields.text, FIELDS.text, sizeof fields.text);
    assert_memory_equal(fields.empty, FIELDS.empty, sizeof fields.empty);
    assert_memory_equal(fields.bytes, FIELDS.bytes, sizeof fields.bytes);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(fields.rows[i].seats, FIELDS.rows[i].seats);
        assert_int_equal(fields.rows[i].epoch, FIELDS.rows[i].epoch);
        const bool is_selected = i == 0 || i == 4;
        assert_int_equal(fields.rows[i].key[1], is_selected ? FIELDS.rows[i].key[1] : 0xa5);
    }
}

static void truncated_and_longer_bytes_are_rejected(void **state) {
    (void)state;
    struct fields fields;
    uint8_t longer[sizeof BYTES + 1] = {0};
    for (size_t cut = 0; cut < sizeof BYTES; cut++) {
        assert_string_equal(read_fields(BYTES, cut, &fields), "is truncated");
        assert_int_equal(fields.wide, 0);
        assert_int_equal(fields.rows[ROWS - 1].epoch, 0);
    }
    memcpy(longer, BYTES, sizeof BYTES);
    assert_string_equal(read_fields(longer, sizeof longer, &fields),
                        "has bytes after its last field");
    size_t used = 0;
    assert_null(
        packer_read_next((struct packed_object){walk, &fields}, longer, sizeof longer, &used));
    assert_int_equal(used, sizeof BYTES);
}

/* Replaces the `old_count` bytes that follow `name` and its header. */
struct spelling {
    const char *name;
    size_t old_count;
    uint8_t new_bytes[40];
    size_t new_count;
};

static size_t spell(const struct spelling *spelling, uint8_t bytes[static BYTES_MAX]) {
    const size_t length = strlen(spelling->name);
    size_t at = 0;
    while (BYTES[at] != (0xa0 | length) || memcmp(BYTES + at + 1, spelling->name, length) != 0) {
        at++;
        assert_true(at < sizeof BYTES);
    }
    const size_t value = at + 1 + length;
    const size_t rest = sizeof BYTES - value - spelling->old_count;
    memcpy(bytes, BYTES, value);
    memcpy(bytes + value, spelling->new_bytes, spelling->new_count);
    memcpy(bytes + value + spelling->new_count, BYTES + sizeof BYTES - rest, rest);
    return value + spelling->new_count + rest;
}

static void other_encodings_of_the_same_content_are_rejected(void **state) {
    (void)state;
    static const struct spelling SPELLINGS[] = {
        {"number", 1, {0xcc, 5}, 2},                             /* uint 8 */
        {"number", 1, {0xcd, 0, 5}, 3},                          /* uint 16 */
        {"number", 1, {0xce, 0, 0, 0, 5}, 5},                    /* uint 32 */
        {"number", 1, {0xcf, 0, 0, 0, 0, 0, 0, 0, 5}, 9},        /* uint 64 */
        {"number", 1, {0xd0, 5}, 2},                             /* int 8 */
        {"number", 1, {0xd3, 0, 0, 0, 0, 0, 0, 0, 5}, 9},        /* int 64 */
        {"number", 1, {0xca, 0x40, 0xa0, 0, 0}, 5},              /* float */
        {"number", 1, {0xcb, 0x40, 0x14, 0, 0, 0, 0, 0, 0}, 9},  /* double */
        {"text", 7, {0xd9, 6, 's', 'k', 'e', 'p', '!', '~'}, 8}, /* str 8 */
        {"text", 7, {0xda, 0, 6, 's', 'k', 'e', 'p', '!', '~'}, 9},
        {"text", 7, {0xc4, 6, 's', 'k', 'e', 'p', '!', '~'}, 8}, /* bin 8 */
        {"empty", 1, {0xd9, 0}, 2},
        {"empty", 1, {0xc0}, 1}, /* nil */
        {"empty", 1, {0xc4, 0}, 2},
        {"empty", 1, {0xc7, 0, 1}, 3},                /* ext 8 */
        {"bytes", 5, {0xa3, 9, 8, 7}, 4},             /* fixstr */
        {"bytes", 5, {0xc5, 0, 3, 9, 8, 7}, 6},       /* bin 16 */
        {"bytes", 5, {0xc6, 0, 0, 0, 3, 9, 8, 7}, 8}, /* bin 32 */
        {"bytes", 5, {0x93, 9, 8, 7}, 4},             /* array */
        {"bytes", 5, {0xc7, 3, 1, 9, 8, 7}, 6},       /* ext 8 */
        {"map", 1, {0xde, 0, 1}, 3},                  /* map 16 */
        {"map", 1, {0xdf, 0, 0, 0, 1}, 5},            /* map 32 */
        {"list", 1, {0xdc, 0, 2}, 3},                 /* array 16 */
        {"list", 1, {0xdd, 0, 0, 0, 2}, 5},           /* array 32 */
        {"seats",
         22,
         {0xc4, 40, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 6, 0,
          0,    0,  0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
         32}, /* two runs of equal rows */
        {"seats",
         12,
         {0xc4, 40, 2, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0},
         22}, /* an empty run */
    };
    struct fields fields;
    uint8_t bytes[BYTES_MAX];
    for (size_t i = 0; i < ARRAY_COUNT(SPELLINGS); i++) {
        const size_t count = spell(&SPELLINGS[i], bytes);
        if (read_fields(bytes, count, &fields) == NULL) {
            fail_msg("accepted encoding %zu of %s", i, SPELLINGS[i].name);
        }
    }
}

static void other_contents_are_rejected(void **state) {
    (void)state;
    static const struct spelling SPELLINGS[] = {
        {"number", 1, {0xcf, 0, 0, 0, 1, 0, 0, 0, 0}, 9},               /* above 32 bits */
        {"number", 1, {0xff}, 1},                                       /* -1 */
        {"number", 1, {0xc3}, 1},                                       /* true */
        {"count", 1, {3}, 1},                                           /* above its limit */
        {"text", 7, {0xa8, 's', 'k', 'e', 'p', '!', '~', 'x', 'x'}, 9}, /* too long */
        {"text", 7, {0xa6, 's', ' ', 'e', 'p', '!', '~'}, 7},
        {"text", 7, {0xa6, 's', 0x7f, 'e', 'p', '!', '~'}, 7},
        {"text", 7, {0xa6, 's', 0x80, 'e', 'p', '!', '~'}, 7},
        {"text", 7, {0xa6, 's', 0, 'e', 'p', '!', '~'}, 7},
        {"text", 7, {0xa6, 's', 'k', 'e', 'p', '!', 0}, 7},
        {"bytes", 5, {0xc4, 2, 9, 8}, 4},
        {"bytes", 5, {0xc4, 4, 9, 8, 7, 6}, 6},
        {"map", 4, {0x80}, 1},                             /* a field is missing */
        {"map", 4, {0x82, 0xa1, 'n', 5, 0xa1, 'm', 6}, 7}, /* an unknown field */
        {"map", 4, {0x81, 0xa1, 'm', 5}, 4},
        {"map", 4, {0x81, 0xc4, 1, 'n', 5}, 5}, /* the name is a bin */
        {"list", 4, {0x91, 5}, 2},
        {"list", 4, {0x93, 5, 0xcc, 200, 1}, 5},
        {"list", 4, {0xdd, 0xff, 0xff, 0xff, 0xff, 5, 5}, 7}, /* 4,294,967,295 elements */
        {"list", 4, {0xdf, 0xff, 0xff, 0xff, 0xff, 5, 5}, 7},
        {"list", 4, {0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 5}, 10}, /* too deep */
        {"list", 4, {0xc1}, 1}, /* no type has this byte */
        {"epochs", 2, {0xc4, 8}, 2},
        {"seats", 4, {0xc4, 30, 3, 0}, 4}, /* runs of too many rows */
        {"seats", 4, {0xc4, 30, 1, 0}, 4}, /* runs of too few rows */
        {"seats", 2, {0xc4, 29}, 2},
        {"totals", 10, {0xc4, 0}, 2},
    };
    struct fields fields;
    uint8_t bytes[BYTES_MAX];
    for (size_t i = 0; i < ARRAY_COUNT(SPELLINGS); i++) {
        const size_t count = spell(&SPELLINGS[i], bytes);
        if (read_fields(bytes, count, &fields) == NULL) {
            fail_msg("accepted content %zu of %s", i, SPELLINGS[i].name);
        }
        assert_int_equal(fields.text[7], 0);
    }
}

/* The order of two fields, and the number of fields in the header. */
static void misplaced_and_repeated_fields_are_rejected(void **state) {
    (void)state;
    struct fields fields;
    uint8_t bytes[BYTES_MAX];
    memcpy(bytes, BYTES, sizeof BYTES);
    memcpy(bytes + 1 + 14, BYTES + 1 + 14 + 8, 7); /* count, then number */
    memcpy(bytes + 1 + 14 + 7, BYTES + 1 + 14, 8);
    assert_non_null(read_fields(bytes, sizeof BYTES, &fields));
    for (uint8_t header = 0x80; header < 0x90; header++) {
        memcpy(bytes, BYTES, sizeof BYTES);
        bytes[0] = header;
        assert_int_equal(read_fields(bytes, sizeof BYTES, &fields) == NULL, header == 0x8c);
    }
    memcpy(bytes, BYTES, sizeof BYTES);
    memcpy(bytes + sizeof BYTES, (uint8_t[]){0xa4, 'w', 'i', 'd', 'e', 5}, 6);
    bytes[0] = 0x8d;
    assert_non_null(read_fields(bytes, sizeof BYTES + 6, &fields));
}

/* A list of as many tokens as any message, and of one more. */
static void walk_long_list(struct packer *pack, void *object) {
    uint32_t count = *(uint32_t *)object;
    uint32_t element = 1;
    pack_array_header(pack, "list", count);
    for (uint32_t i = 0; i < count; i++) {
        pack_u32(pack, NULL, &element);
    }
}

static void a_value_with_too_many_tokens_is_rejected(void **state) {
    (void)state;
    uint8_t bytes[BYTES_MAX];
    for (uint32_t count = 300; count <= 340; count++) {
        struct packed_object object = {walk_long_list, &count};
        const size_t length = packer_write(object, bytes, sizeof bytes);
        assert_int_equal(packer_read(object, bytes, length) == NULL, count <= 320 - 3);
    }
}

/* Bulk bytes follow the encoding and belong to its last field. */
struct bulk {
    uint32_t round;
    const uint8_t *bytes;
    size_t count;
};

static void walk_bulk(struct packer *pack, void *object) {
    struct bulk *bulk = object;
    pack_u32(pack, "round", &bulk->round);
    pack_bulk_header(pack, "bytes", &bulk->bytes, &bulk->count);
}

static void bulk_bytes_are_not_copied(void **state) {
    (void)state;
    static const size_t COUNTS[] = {0, 1, 255, 256, 65535, 65536};
    static uint8_t bytes[65536 + 64];
    for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
        struct bulk bulk = {.round = 7, .count = COUNTS[i]};
        struct packed_object object = {walk_bulk, &bulk};
        const size_t head = packer_write(object, bytes, sizeof bytes);
        memset(bytes + head, 0xc1, COUNTS[i]); /* no MessagePack */
        bulk = (struct bulk){.round = 0};
        assert_null(packer_read(object, bytes, head + COUNTS[i]));
        assert_int_equal(bulk.round, 7);
        assert_int_equal(bulk.count, COUNTS[i]);
        assert_ptr_equal(bulk.bytes, COUNTS[i] > 0 ? bytes + head : NULL);
        assert_non_null(packer_read(object, bytes, head + COUNTS[i] + 1));
        assert_non_null(packer_read(object, bytes, head + COUNTS[i] - 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_of_rows_has_one_encoding),
        cmocka_unit_test(all_passes_meet_the_same_bytes),
        cmocka_unit_test(truncated_and_longer_bytes_are_rejected),
        cmocka_unit_test(other_encodings_of_the_same_content_are_rejected),
        cmocka_unit_test(other_contents_are_rejected),
        cmocka_unit_test(misplaced_and_repeated_fields_are_rejected),
        cmocka_unit_test(a_value_with_too_many_tokens_is_rejected),
        cmocka_unit_test(bulk_bytes_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
