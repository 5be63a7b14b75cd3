/* test_leases: the signatures of resignations and orders, the rules by which a member votes, and
 * the file in which it remembers its last promise. */
#include "runtime/swarm/leases/continue_file.h"
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

static struct hash hash_with(uint8_t byte) {
    struct hash hash;
    memset(hash.bytes, byte, sizeof hash.bytes);
    return hash;
}

/* number 0: the lease is bound to its vote alone. */
static struct lease lease_of(uint8_t state, uint32_t round, uint32_t incarnation, uint64_t number) {
    return (struct lease){.state = hash_with(state),
                          .round = round,
                          .start = {incarnation, number},
                          .vote = hash_with((uint8_t)(100 + round))};
}

static struct lease resignation_of(uint8_t state, uint32_t round) {
    return (struct lease){.state = hash_with(state), .round = round, .is_resignation = true};
}

/* ---- signatures ---- */

static void resignation_is_valid_for_its_member_swarm_and_state_only(void **state) {
    (void)state;
    const struct hash entry = hash_with(1), other = hash_with(2);
    const uint8_t *key = member_keys.public_keys.sign;
    uint8_t signature[SIGNATURE_BYTES];
    resignation_sign(&member_keys, &swarm, &entry, signature);
    assert_true(resignation_is_signed(key, &swarm, &entry, signature));
    assert_false(resignation_is_signed(key, &swarm, &other, signature));
    assert_false(resignation_is_signed(key, &other_swarm, &entry, signature));
    assert_false(resignation_is_signed(operator_keys.public_keys.sign, &swarm, &entry, signature));
    signature[3] ^= 1;
    assert_false(resignation_is_signed(key, &swarm, &entry, signature));
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
    assert_true(continue_order_has_member(&order, order.members[ORDER_MEMBERS_MAX - 1]));
    order.count = 1;
    assert_false(continue_order_has_member(&order, order.members[ORDER_MEMBERS_MAX - 1]));
    order.count = 0;
    assert_non_null(continue_order_error(&order));
    order.count = ORDER_MEMBERS_MAX + 1;
    assert_non_null(continue_order_error(&order));
    order = make_order(2);
    memcpy(order.members[1], order.members[0], KEY_BYTES);
    assert_non_null(continue_order_error(&order));
}

/* ---- rules ---- */

static void member_votes_by_the_rules(void **state) {
    (void)state;
    const struct lease none = {.round = 0}, held = lease_of(1, 5, 2, 77);
    const struct {
        const char *what;
        struct lease held, asked;
        bool is_allowed;
        uint64_t number; /* of the start in the lease after the vote */
    } cases[] = {
        {"first vote", none, held, true, 77},
        {"the same commit of the same start", held, held, true, 77},
        {"another commit of the same start", held, lease_of(1, 6, 2, 77), true, 77},
        {"the same commit of another start", held, lease_of(1, 5, 3, 9), true, 0},
        {"another commit of another start", held, lease_of(1, 6, 3, 9), false, 0},
        {"another commit of a copy", held, lease_of(1, 6, 2, 78), false, 0},
        {"the same commit of a third start", lease_of(1, 5, 0, 0), lease_of(1, 5, 3, 9), true, 0},
        {"another commit after votes for two starts", lease_of(1, 5, 0, 0), lease_of(1, 6, 2, 77),
         false, 0},
        {"after another state entry", held, lease_of(2, 6, 3, 9), true, 9},
        {"after a resignation", resignation_of(1, 5), held, false, 0},
        {"after a resignation from another state entry", resignation_of(2, 4), held, true, 77},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct lease *asked = &cases[i].asked;
        const bool is_allowed =
            lease_allows_vote(&cases[i].held, &asked->state, &asked->start, &asked->vote);
        if (is_allowed != cases[i].is_allowed) {
            fail_msg("%s: is_allowed is %d", cases[i].what, is_allowed);
        }
        if (is_allowed) {
            const struct lease renewed = lease_after_vote(&cases[i].held, asked);
            assert_int_equal(renewed.start.number, cases[i].number);
            assert_memory_equal(&renewed.vote, &asked->vote, sizeof renewed.vote);
            assert_memory_equal(&renewed.state, &asked->state, sizeof renewed.state);
        }
    }
}

/* Two places never both get the vote of a member for different commits after the same state entry:
 * all sequences of six steps of two trackers, each of which lets the member vote for one of two
 * commits, aborts, or restarts. An honest tracker does not commit what it has aborted or replaced,
 * nor what an earlier start in its place proposed. */
static void no_sequence_lets_two_places_commit(void **state) {
    (void)state;
    enum { STEPS = 6, PLACES = 2, COMMITS = 2, ABORT = 2, RESTART = 3, KINDS = 4 * PLACES };
    uint32_t sequences = 1;
    for (uint32_t i = 0; i < STEPS; i++) {
        sequences *= KINDS;
    }
    for (uint32_t sequence = 0; sequence < sequences; sequence++) {
        struct lease held = {.round = 0};
        bool may_commit[PLACES][COMMITS] = {{false}};
        uint32_t starts[PLACES] = {1, 1};
        uint32_t left = sequence;
        for (uint32_t step = 0; step < STEPS; step++, left /= KINDS) {
            const uint32_t place = left % PLACES, kind = left % KINDS / PLACES;
            const uint64_t number = tracker_start_number(7 + place, starts[place]);
            const struct tracker_start start = {starts[place], number};
            const struct lease asked = lease_of(1, 5 + kind, starts[place], number);
            if (kind == RESTART) {
                starts[place] += 1;
                memset(may_commit[place], 0, sizeof may_commit[place]);
            } else if (kind == ABORT) {
                lease_release(&held, held.round, &start);
                memset(may_commit[place], 0, sizeof may_commit[place]);
            } else if (lease_allows_vote(&held, &asked.state, &start, &asked.vote)) {
                held = lease_after_vote(&held, &asked);
                memset(may_commit[place], 0, sizeof may_commit[place]);
                may_commit[place][kind] = true;
            }
            assert_false(may_commit[0][0] && may_commit[1][1]);
            assert_false(may_commit[0][1] && may_commit[1][0]);
        }
    }
}

/* After a restart in the same place, the member votes for another commit, with an ABORT or without
 * one. */
static void restarted_tracker_gets_the_vote_of_its_last_start(void **state) {
    (void)state;
    const uint64_t first = tracker_start_number(7, 1), later = tracker_start_number(7, 2);
    const uint64_t copied = tracker_start_number(8, 2);
    const struct lease held = lease_of(1, 5, 2, first), asked = lease_of(1, 6, 4, later);
    const struct lease of_copy = lease_of(1, 6, 4, copied);
    assert_true(lease_allows_vote(&held, &asked.state, &asked.start, &asked.vote));
    assert_false(lease_allows_vote(&held, &of_copy.state, &of_copy.start, &of_copy.vote));
    const struct lease renewed = lease_after_vote(&held, &asked);
    assert_true(tracker_start_equal(&renewed.start, &asked.start));
    assert_false(lease_allows_vote(&renewed, &held.state, &held.start, &held.vote));
    struct lease released = held;
    lease_release(&released, 5, &of_copy.start);
    assert_true(tracker_start_equal(&released.start, &held.start));
    lease_release(&released, 5, &asked.start);
    assert_true(hash_is_zero(&released.state));
    released = renewed;
    lease_release(&released, 6, &held.start);
    assert_true(tracker_start_equal(&released.start, &asked.start));
}

static void abort_releases_the_lease_of_its_start_and_round_only(void **state) {
    (void)state;
    const struct tracker_start start = {2, 77}, copy = {2, 78}, later = {3, 77};
    struct lease held = lease_of(1, 5, 2, 77);
    lease_release(&held, 4, &start);
    lease_release(&held, 5, &copy);
    lease_release(&held, 5, &later);
    assert_int_equal(held.start.number, 77);
    lease_release(&held, 5, &start);
    assert_true(hash_is_zero(&held.state));
    held = resignation_of(1, 5);
    lease_release(&held, 5, &start);
    assert_true(held.is_resignation);
}

static void member_resigns_only_if_it_has_not_voted(void **state) {
    (void)state;
    const struct lease none = {.round = 0}, held = lease_of(1, 5, 2, 77);
    const struct lease resigned = resignation_of(1, 4);
    const struct hash entry = hash_with(1), later = hash_with(2);
    assert_true(lease_allows_resignation(&none, &entry));
    assert_false(lease_allows_resignation(&held, &entry));
    assert_true(lease_allows_resignation(&held, &later));
    assert_true(lease_allows_resignation(&resigned, &entry));
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
    assert_memory_equal(&read.vote, &lease->vote, sizeof read.vote);
    assert_true(tracker_start_equal(&read.start, &lease->start));
}

static void file_has_the_last_lease(void **state) {
    (void)state;
    const struct lease none = {.round = 0};
    const struct lease leases[] = {lease_of(1, 5, 2, 77),
                                   lease_of(2, UINT32_MAX, UINT32_MAX, INT64_MAX),
                                   lease_of(3, 7, 0, 0), resignation_of(4, 8)};
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

/* An order is read as it was signed, and a file with another content is refused. */
static void order_to_continue_is_read_as_it_was_signed(void **state) {
    (void)state;
    struct continue_file file = {
        .swarm = swarm, .state = hash_with(1), .start = {UINT32_MAX, INT64_MAX}};
    static struct continue_file read;
    struct fault fault;
    static char text[8192], changed[8192];
    size_t length = 0;
    const uint32_t counts[] = {1, 3, ORDER_MEMBERS_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        file.order = make_order(counts[i]);
        continue_order_sign(&operator_keys, &swarm, &file.state, &file.start, &file.order);
        assert_int_equal(continue_file_write(path, &file, &fault), OK);
        assert_int_equal(continue_file_read(path, &read, &fault), OK);
        assert_true(continue_order_is_signed(operator_keys.public_keys.sign, &read.swarm,
                                             &read.state, &read.start, &read.order));
    }
    assert_int_equal(file_read_text(path, text, sizeof text, &length, &fault), OK);
    const char *const fields[] = {"format", "swarm", "state", "start", "members", "signature"};
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        memcpy(changed, text, sizeof changed);
        *strstr(changed, fields[i]) = 'x'; /* the field has another name */
        assert_int_equal(file_write_new(path, changed, length, &fault), OK);
        assert_int_equal(continue_file_read(path, &read, &fault), STATUS_INPUT);
    }
    assert_int_equal(file_write_new(path, text, length / 2, &fault), OK);
    assert_int_equal(continue_file_read(path, &read, &fault), STATUS_INPUT);
}

int main(void) {
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FILE_TEST(resignation_is_valid_for_its_member_swarm_and_state_only),
        FILE_TEST(order_is_valid_for_its_state_start_and_members_only),
        FILE_TEST(order_names_members_once_in_ascending_order),
        FILE_TEST(member_votes_by_the_rules),
        FILE_TEST(no_sequence_lets_two_places_commit),
        FILE_TEST(restarted_tracker_gets_the_vote_of_its_last_start),
        FILE_TEST(abort_releases_the_lease_of_its_start_and_round_only),
        FILE_TEST(member_resigns_only_if_it_has_not_voted),
        FILE_TEST(file_has_the_last_lease),
        FILE_TEST(interrupted_or_failed_write_leaves_the_old_lease),
        FILE_TEST(full_disk_leaves_the_old_lease),
        FILE_TEST(damaged_file_is_refused_with_a_remedy),
        FILE_TEST(order_to_continue_is_read_as_it_was_signed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
