/* test_operator_documents: the documents that an operator signs, against bytes put together by
 * hand. */
#include "runtime/swarm/ledger/operator_documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROW_BYTES = 32, COPY_BYTES = DELEGATION_FRAME_BYTES_MAX };

static struct key_pairs operator_keys, other_keys;
static struct hash swarm;

static int make_keys(void **state) {
    (void)state;
    uint8_t secrets[2 * KEY_BYTES];
    for (int i = 0; i < 2 * KEY_BYTES; i++) {
        secrets[i] = (uint8_t)i;
    }
    keys_from_secrets(secrets, &operator_keys);
    secrets[KEY_BYTES] ^= 1;
    keys_from_secrets(secrets, &other_keys);
    memset(swarm.bytes, 0xab, sizeof swarm.bytes);
    return 0;
}

static struct delegation make_delegation(uint64_t serial) {
    struct delegation made = {.serial = serial, .expires_s = 0x70000000};
    memset(made.tracker.curve, 0xc1, KEY_BYTES);
    memset(made.tracker.sign, 0x51, KEY_BYTES);
    delegation_sign(&operator_keys, &swarm, &made);
    return made;
}

static void make_epoch(uint32_t count, bool is_open, struct roster_epoch *made) {
    memset(made, 0, sizeof *made);
    made->serial = 9;
    made->is_open = is_open;
    made->count = count;
    for (uint32_t i = 0; i < count; i++) {
        memset(made->members[i], (int)(2 * i + 1), KEY_BYTES);
    }
    roster_epoch_sign(&operator_keys, &swarm, made);
}

/* ---- bytes by hand ---- */

struct by_hand {
    uint8_t bytes[COPY_BYTES];
    size_t count;
};

static void add_byte(struct by_hand *out, unsigned byte) {
    out->bytes[out->count++] = (uint8_t)byte;
}

static void add_name(struct by_hand *out, const char *name) {
    add_byte(out, 0xa0 | (unsigned)strlen(name)); /* fixstr */
    memcpy(out->bytes + out->count, name, strlen(name));
    out->count += strlen(name);
}

static void add_bin(struct by_hand *out, const char *name, const void *bytes, size_t count) {
    add_name(out, name);
    add_byte(out, 0xc4); /* bin 8 */
    add_byte(out, (unsigned)count);
    memcpy(out->bytes + out->count, bytes, count);
    out->count += count;
}

static void add_u32(struct by_hand *out, const char *name, uint32_t value) {
    add_name(out, name);
    add_byte(out, 0xce); /* uint 32 */
    for (int shift = 24; shift >= 0; shift -= 8) {
        add_byte(out, value >> shift & 0xff);
    }
}

static void delegation_is_one_messagepack_map_behind_a_header(void **state) {
    (void)state;
    const struct delegation made = make_delegation(0x65000000);
    struct by_hand fields = {.count = 0};
    struct by_hand frame = {.count = 0};
    uint8_t written[DELEGATION_FRAME_BYTES_MAX];
    add_byte(&fields, 0x85); /* a map of 5 */
    add_bin(&fields, "swarm", swarm.bytes, ROW_BYTES);
    add_u32(&fields, "serial", 0x65000000);
    add_u32(&fields, "expires_s", 0x70000000);
    add_bin(&fields, "curve", made.tracker.curve, ROW_BYTES);
    add_bin(&fields, "sign", made.tracker.sign, ROW_BYTES);
    const struct hash hash = hash_of(fields.bytes, fields.count);
    assert_true(keys_verify(operator_keys.public_keys.sign, "skep delegation", hash.bytes,
                            HASH_BYTES, made.signature));
    memcpy(frame.bytes, "SKEP\x01\x01", 6);
    frame.count = OPERATOR_FRAME_HEADER_BYTES;
    add_byte(&frame, 0x82); /* a map of 2 */
    add_name(&frame, "document");
    memcpy(frame.bytes + frame.count, fields.bytes, fields.count);
    frame.count += fields.count;
    add_bin(&frame, "signature", made.signature, SIGNATURE_BYTES);
    frame.bytes[6] = (uint8_t)((frame.count - OPERATOR_FRAME_HEADER_BYTES) & 0xff);
    frame.bytes[7] = (uint8_t)((frame.count - OPERATOR_FRAME_HEADER_BYTES) >> 8);
    assert_int_equal(delegation_write(&swarm, &made, written), frame.count);
    assert_memory_equal(written, frame.bytes, frame.count);
}

/* ---- delegations ---- */

static void delegation_reads_back_and_is_signed_for_one_swarm_by_one_operator(void **state) {
    (void)state;
    const struct delegation made = make_delegation(7);
    uint8_t bytes[DELEGATION_FRAME_BYTES_MAX];
    struct delegation read;
    struct hash of, other = swarm;
    const size_t count = delegation_write(&swarm, &made, bytes);
    assert_null(delegation_read(bytes, count, &of, &read));
    assert_memory_equal(&of, &swarm, sizeof of);
    assert_memory_equal(&read, &made, sizeof read);
    assert_true(delegation_is_signed(operator_keys.public_keys.sign, &of, &read));
    assert_false(delegation_is_signed(other_keys.public_keys.sign, &of, &read));
    other.bytes[0] ^= 1;
    assert_false(delegation_is_signed(operator_keys.public_keys.sign, &other, &read));
    read.serial++;
    assert_false(delegation_is_signed(operator_keys.public_keys.sign, &of, &read));
    read = made;
    read.expires_s = 0;
    assert_false(delegation_is_signed(operator_keys.public_keys.sign, &of, &read));
    read = made;
    read.tracker.curve[31] ^= 1;
    assert_false(delegation_is_signed(operator_keys.public_keys.sign, &of, &read));
}

/* No changed byte and no shorter or longer frame gives a delegation that the operator signed. */
static void delegation_of_other_bytes_is_refused(void **state) {
    (void)state;
    const struct delegation made = make_delegation(7);
    uint8_t bytes[DELEGATION_FRAME_BYTES_MAX];
    struct delegation read;
    struct hash of;
    const size_t count = delegation_write(&swarm, &made, bytes);
    for (size_t at = 0; at < count; at++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1 << bit);
            const bool is_read = delegation_read(bytes, count, &of, &read) == NULL;
            assert_false(is_read &&
                         delegation_is_signed(operator_keys.public_keys.sign, &of, &read));
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    }
    for (size_t length = 0; length < count; length++) {
        assert_non_null(delegation_read(bytes, length, &of, &read));
    }
    bytes[count] = 0;
    assert_non_null(delegation_read(bytes, count + 1, &of, &read));
}

static void delegation_expires_at_its_time(void **state) {
    (void)state;
    const struct delegation for_ever = {.serial = 1}, timed = {.serial = 1, .expires_s = 100};
    assert_false(delegation_is_expired(&for_ever, UINT64_MAX));
    assert_false(delegation_is_expired(&timed, 99));
    assert_true(delegation_is_expired(&timed, 100));
}

static void next_serial_is_the_time_and_above_all_earlier_ones(void **state) {
    (void)state;
    assert_int_equal(operator_next_serial(0, 1000), 1000);
    assert_int_equal(operator_next_serial(999, 1000), 1000);
    assert_int_equal(operator_next_serial(1000, 1000), 1001);
    assert_int_equal(operator_next_serial(5000, 1000), 5001);
}

/* ---- roster epochs ---- */

static void roster_reads_back_for_each_count(void **state) {
    (void)state;
    static const uint32_t COUNTS[] = {0, 1, 3, 7, 127};
    static uint8_t bytes[ROSTER_FRAME_BYTES_MAX];
    static struct roster_epoch read;
    struct hash of;
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        static struct roster_epoch made;
        make_epoch(COUNTS[i], COUNTS[i] >= ROSTER_VOTERS_MIN, &made);
        const size_t count = roster_epoch_write(&swarm, &made, bytes);
        assert_null(roster_epoch_read(bytes, count, &of, &read));
        assert_memory_equal(&read, &made, sizeof read);
        assert_memory_equal(&of, &swarm, sizeof of);
        assert_true(roster_epoch_is_signed(operator_keys.public_keys.sign, &of, &read));
        assert_false(roster_epoch_is_signed(other_keys.public_keys.sign, &of, &read));
        read.is_open = !read.is_open;
        assert_false(roster_epoch_is_signed(operator_keys.public_keys.sign, &of, &read));
        assert_non_null(roster_epoch_read(bytes, count - 1, &of, &read));
    }
}

static void roster_of_the_most_keys_fits_its_frame(void **state) {
    (void)state;
    static struct roster_epoch made = {.serial = UINT64_MAX, .count = ROSTER_KEYS_MAX};
    static uint8_t bytes[ROSTER_FRAME_BYTES_MAX];
    static struct roster_epoch read;
    struct hash of;
    for (uint32_t i = 0; i < ROSTER_KEYS_MAX; i++) {
        made.members[i][0] = (uint8_t)i;
    }
    roster_epoch_sign(&operator_keys, &swarm, &made);
    const size_t count = roster_epoch_write(&swarm, &made, bytes);
    assert_true(count <= ROSTER_FRAME_BYTES_MAX);
    assert_null(roster_epoch_read(bytes, count, &of, &read));
    assert_memory_equal(&read, &made, sizeof read);
    made.count++;
    assert_non_null(roster_epoch_error(&made));
}

static void roster_names_exactly_its_keys(void **state) {
    (void)state;
    static struct roster_epoch epoch;
    make_epoch(127, false, &epoch);
    for (uint32_t value = 0; value < 256; value++) {
        uint8_t key[KEY_BYTES];
        memset(key, (int)value, sizeof key);
        assert_int_equal(roster_epoch_has_key(&epoch, key), value % 2 == 1 && value < 254);
    }
    const struct roster_epoch empty = {.serial = 1};
    assert_false(roster_epoch_has_key(&empty, epoch.members[0]));
}

static void roster_without_order_or_voters_is_refused(void **state) {
    (void)state;
    static struct roster_epoch epoch;
    for (uint32_t count = 0; count < ROSTER_VOTERS_MIN; count++) {
        make_epoch(count, false, &epoch);
        assert_null(roster_epoch_error(&epoch));
        epoch.is_open = 1;
        assert_non_null(strstr(roster_epoch_error(&epoch), "fewer than three"));
    }
    make_epoch(4, false, &epoch);
    memcpy(epoch.members[2], epoch.members[1], KEY_BYTES);
    assert_non_null(strstr(roster_epoch_error(&epoch), "ascending"));
    make_epoch(4, false, &epoch);
    epoch.is_open = 2;
    assert_non_null(roster_epoch_error(&epoch));
    make_epoch(4, false, &epoch);
    epoch.serial = 0;
    assert_non_null(roster_epoch_error(&epoch));
}

static void one_kind_is_not_read_as_the_other(void **state) {
    (void)state;
    static struct roster_epoch epoch;
    static uint8_t bytes[ROSTER_FRAME_BYTES_MAX];
    struct delegation delegation = make_delegation(3);
    struct hash of;
    size_t count = delegation_write(&swarm, &delegation, bytes);
    assert_non_null(roster_epoch_read(bytes, count, &of, &epoch));
    make_epoch(2, false, &epoch);
    count = roster_epoch_write(&swarm, &epoch, bytes);
    assert_non_null(delegation_read(bytes, count, &of, &delegation));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delegation_is_one_messagepack_map_behind_a_header),
        cmocka_unit_test(delegation_reads_back_and_is_signed_for_one_swarm_by_one_operator),
        cmocka_unit_test(delegation_of_other_bytes_is_refused),
        cmocka_unit_test(delegation_expires_at_its_time),
        cmocka_unit_test(next_serial_is_the_time_and_above_all_earlier_ones),
        cmocka_unit_test(roster_reads_back_for_each_count),
        cmocka_unit_test(roster_of_the_most_keys_fits_its_frame),
        cmocka_unit_test(roster_names_exactly_its_keys),
        cmocka_unit_test(roster_without_order_or_voters_is_refused),
        cmocka_unit_test(one_kind_is_not_read_as_the_other),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
