/* test_leases: the signatures of leases and orders, the rules by which a member gives a lease, and
 * the file in which it remembers the last one. */
#include "runtime/swarm/leases/lease_file.h"

#include "base/file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct key_pairs member_keys, operator_keys;
static struct hash swarm, other_swarm;
static char folder[64], path[128], temporary[160];

static int set_up(void **state) {
    (void)state;
    keys_generate(&member_keys);
    keys_generate(&operator_keys);
    memset(swarm.bytes, 0xab, sizeof swarm.bytes);
    memset(other_swarm.bytes, 0xac, sizeof swarm.bytes);
    strcpy(folder, "/tmp/skep-leases-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lease", folder);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    chmod(folder, 0700);
    unlink(path);
    rmdir(temporary);
    unlink(temporary);
    return rmdir(folder);
}

static struct lease lease_of(uint8_t state, uint32_t round, uint32_t incarnation, uint64_t number) {
    struct lease lease = {.round = round, .start = {incarnation, number}};
    memset(lease.state.bytes, state, sizeof lease.state.bytes);
    lease.is_resignation = number == 0;
    return lease;
}

/* ---- signatures ---- */

static void lease_is_valid_for_its_member_swarm_state_and_start_only(void **state) {
    (void)state;
    const struct lease lease = lease_of(1, 5, 2, 77);
    const uint8_t *key = member_keys.public_keys.sign;
    uint8_t signature[SIGNATURE_BYTES];
    lease_sign(&member_keys, &swarm, &lease, signature);
    assert_true(lease_is_signed(key, &swarm, &lease, signature));
    assert_false(lease_is_signed(operator_keys.public_keys.sign, &swarm, &lease, signature));
    assert_false(lease_is_signed(key, &other_swarm, &lease, signature));
    const struct lease others[] = {lease_of(2, 5, 2, 77), lease_of(1, 5, 3, 77),
                                   lease_of(1, 5, 2, 78), lease_of(1, 5, 0, 0)};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        assert_false(lease_is_signed(key, &swarm, &others[i], signature));
    }
}

static void resignation_is_no_lease(void **state) {
    (void)state;
    const struct lease resignation = lease_of(1, 5, 0, 0);
    const struct lease lease = lease_of(1, 5, 1, 1);
    uint8_t signature[SIGNATURE_BYTES];
    lease_sign(&member_keys, &swarm, &resignation, signature);
    assert_true(lease_is_signed(member_keys.public_keys.sign, &swarm, &resignation, signature));
    assert_false(lease_is_signed(member_keys.public_keys.sign, &swarm, &lease, signature));
}

static struct continue_order make_order(uint32_t count) {
    struct continue_order order = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        memset(order.members[i], (int)(3 * i + 1), KEY_BYTES);
    }
    return order;
}

static void order_is_valid_for_its_state_start_and_members_only(void **state) {
    (void)state;
    const struct lease scope = lease_of(1, 5, 2, 77), later = lease_of(1, 5, 2, 78);
    const struct lease other = lease_of(2, 5, 2, 77);
    const uint8_t *key = operator_keys.public_keys.sign;
    struct continue_order order = make_order(3);
    continue_order_sign(&operator_keys, &swarm, &scope.state, &scope.start, &order);
    assert_true(continue_order_is_signed(key, &swarm, &scope.state, &scope.start, &order));
    assert_false(continue_order_is_signed(key, &other_swarm, &scope.state, &scope.start, &order));
    assert_false(continue_order_is_signed(key, &swarm, &other.state, &scope.start, &order));
    assert_false(continue_order_is_signed(key, &swarm, &scope.state, &later.start, &order));
    assert_false(continue_order_is_signed(member_keys.public_keys.sign, &swarm, &scope.state,
                                          &scope.start, &order));
    order.count = 2;
    assert_false(continue_order_is_signed(key, &swarm, &scope.state, &scope.start, &order));
    order.count = 3;
    order.members[1][0] ^= 1;
    assert_false(continue_order_is_signed(key, &swarm, &scope.state, &scope.start, &order));
}

static void order_names_members_once_in_ascending_order(void **state) {
    (void)state;
    struct continue_order order = make_order(ORDER_MEMBERS_MAX);
    assert_null(continue_order_error(&order));
    assert_true(continue_order_has(&order, order.members[ORDER_MEMBERS_MAX - 1]));
    order.count = 1;
    assert_false(continue_order_has(&order, order.members[ORDER_MEMBERS_MAX - 1]));
    order.count = 0;
    assert_non_null(continue_order_error(&order));
    order.count = ORDER_MEMBERS_MAX + 1;
    assert_non_null(continue_order_error(&order));
    order = make_order(2);
    memcpy(order.members[1], order.members[0], KEY_BYTES);
    assert_non_null(continue_order_error(&order));
}

/* ---- rules ---- */

static void member_answers_by_the_rules(void **state) {
    (void)state;
    const struct lease none = {.round = 0}, resigned = lease_of(1, 5, 0, 0);
    const struct lease held = lease_of(1, 5, 2, 77);
    const struct {
        const char *what;
        struct lease held, asked;
        uint32_t stored_round;
        enum lease_answer answer;
    } cases[] = {
        {"first lease", none, held, 0, LEASE_WRITE},
        {"first lease of the genesis", none, lease_of(1, 0, 1, 7), 0, LEASE_WRITE},
        {"first lease of a member with results of a later round", none, held, 6, LEASE_WRITE},
        {"same start", held, held, 0, LEASE_REPEAT},
        {"same start after a vote", held, held, 6, LEASE_REPEAT},
        {"higher incarnation", held, lease_of(1, 5, 3, 9), 5, LEASE_WRITE},
        {"higher incarnation after a vote", held, lease_of(1, 5, 3, 9), 6, LEASE_REPEAT},
        {"lower incarnation", held, lease_of(1, 5, 1, 9), 0, LEASE_REPEAT},
        {"another start of the same incarnation", held, lease_of(1, 5, 2, 78), 0, LEASE_FORK},
        {"the same after a vote", held, lease_of(1, 5, 2, 78), 6, LEASE_FORK},
        {"later state", held, lease_of(2, 6, 1, 3), 6, LEASE_WRITE},
        {"later state of the same round, by an order", held, lease_of(2, 5, 2, 77), 5, LEASE_WRITE},
        {"earlier state", held, lease_of(2, 4, 9, 3), 0, LEASE_IGNORE},
        {"resignation", held, resigned, 5, LEASE_WRITE},
        {"resignation after a vote", held, resigned, 6, LEASE_REPEAT},
        {"resignation without a lease", none, resigned, 5, LEASE_WRITE},
        {"resignation without a lease after a vote", none, resigned, 6, LEASE_IGNORE},
        {"lease after a resignation", resigned, lease_of(1, 5, 9, 9), 0, LEASE_REPEAT},
        {"second resignation", resigned, resigned, 0, LEASE_REPEAT},
        {"later state after a resignation", resigned, lease_of(2, 6, 2, 77), 0, LEASE_WRITE},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        enum lease_answer answer =
            lease_answer(&cases[i].held, &cases[i].asked, cases[i].stored_round);
        if (answer != cases[i].answer) {
            fail_msg("%s: %d, not %d", cases[i].what, answer, cases[i].answer);
        }
    }
}

static void lease_is_held_for_its_state_and_start_only(void **state) {
    (void)state;
    const struct lease held = lease_of(1, 5, 2, 77), resigned = lease_of(1, 5, 0, 0);
    const struct lease other = lease_of(2, 5, 2, 78);
    assert_true(lease_is_held(&held, &held.state, &held.start));
    assert_false(lease_is_held(&held, &other.state, &held.start));
    assert_false(lease_is_held(&held, &held.state, &other.start));
    assert_false(lease_is_held(&resigned, &resigned.state, &resigned.start));
}

/* ---- the file ---- */

static void write_lease(const struct lease *lease) {
    struct fault fault;
    assert_int_equal(lease_file_write(path, &swarm, lease, &fault), OK);
}

static void assert_stored(const struct lease *lease) {
    struct fault fault;
    struct lease read;
    assert_int_equal(lease_file_read(path, &swarm, &read, &fault), OK);
    assert_memory_equal(&read.state, &lease->state, sizeof read.state);
    assert_int_equal(read.round, lease->round);
    assert_int_equal(read.is_resignation, lease->is_resignation);
    assert_true(tracker_start_equal(&read.start, &lease->start));
}

static void file_has_the_last_lease(void **state) {
    (void)state;
    const struct lease none = {.round = 0};
    const struct lease leases[] = {lease_of(1, 5, 2, 77),
                                   lease_of(2, UINT32_MAX, UINT32_MAX, INT64_MAX),
                                   lease_of(3, 7, 0, 0)};
    assert_stored(&none);
    for (size_t i = 0; i < ARRAY_COUNT(leases); i++) {
        write_lease(&leases[i]);
        assert_stored(&leases[i]);
    }
}

/* A killed process leaves a temporary file of any length; a failed write leaves the old lease. */
static void interrupted_or_failed_write_leaves_the_old_lease(void **state) {
    (void)state;
    const struct lease first = lease_of(1, 5, 2, 77), second = lease_of(2, 6, 2, 77);
    uint8_t bytes[LEASE_FILE_BYTES];
    struct fault fault;
    write_lease(&first);
    lease_bytes_write(&swarm, &second, bytes);
    for (size_t count = 0; count <= sizeof bytes; count += 40) {
        assert_int_equal(file_write_new(temporary, bytes, count, &fault), OK);
        assert_stored(&first);
    }
    assert_int_equal(unlink(temporary), 0);
    assert_int_equal(mkdir(temporary, 0700), 0); /* no file can be written there */
    assert_int_not_equal(lease_file_write(path, &swarm, &second, &fault), OK);
    assert_stored(&first);
    assert_int_equal(rmdir(temporary), 0);
    write_lease(&second);
    assert_stored(&second);
}

static void full_disk_leaves_the_old_lease(void **state) {
    (void)state;
    const struct lease first = lease_of(1, 5, 2, 77), second = lease_of(2, 6, 2, 77);
    struct rlimit limit;
    struct fault fault;
    write_lease(&first);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit full = {.rlim_cur = LEASE_FILE_BYTES / 2, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    enum status status = lease_file_write(path, &swarm, &second, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, STATUS_FIT);
    assert_stored(&first);
}

static void damaged_file_is_refused_with_a_remedy(void **state) {
    (void)state;
    const struct lease lease = lease_of(1, 5, 2, 77);
    uint8_t bytes[LEASE_FILE_BYTES + 1] = {0};
    struct fault fault;
    struct lease read;
    lease_bytes_write(&swarm, &lease, bytes);
    for (size_t i = 0; i < LEASE_FILE_BYTES; i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(file_write_new(path, bytes, LEASE_FILE_BYTES, &fault), OK);
        assert_int_equal(lease_file_read(path, &swarm, &read, &fault), STATUS_INPUT);
        assert_non_null(strstr(fault.remedy, "only while a single tracker"));
        assert_int_equal(read.start.number, 0);
        bytes[i] ^= 0x10;
    }
    const size_t counts[] = {0, LEASE_FILE_BYTES - 1, LEASE_FILE_BYTES + 1};
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        assert_int_equal(file_write_new(path, bytes, counts[i], &fault), OK);
        assert_int_equal(lease_file_read(path, &swarm, &read, &fault), STATUS_INPUT);
    }
    write_lease(&lease);
    assert_int_equal(lease_file_read(path, &other_swarm, &read, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "another swarm"));
}

int main(void) {
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FILE_TEST(lease_is_valid_for_its_member_swarm_state_and_start_only),
        FILE_TEST(resignation_is_no_lease),
        FILE_TEST(order_is_valid_for_its_state_start_and_members_only),
        FILE_TEST(order_names_members_once_in_ascending_order),
        FILE_TEST(member_answers_by_the_rules),
        FILE_TEST(lease_is_held_for_its_state_and_start_only),
        FILE_TEST(file_has_the_last_lease),
        FILE_TEST(interrupted_or_failed_write_leaves_the_old_lease),
        FILE_TEST(full_disk_leaves_the_old_lease),
        FILE_TEST(damaged_file_is_refused_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
