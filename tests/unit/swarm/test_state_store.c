/* test_state_store: states on disk that a swarm can return to. */
#include "runtime/swarm/member/state_store.h"

#include "base/file.h"
#include "base/text.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEAVES = 3, PARAMETERS = 2 * LEAF_ELEMENTS + 1000 };

static struct fixture_replica member;
static char folder[64], path[128];
static struct state_store store;

static int prepare(void **state) {
    (void)state;
    const struct fixture_shape shape = {PARAMETERS, CODEC_INT8, 1, 1, 0};
    strcpy(folder, "/tmp/skep-states-XXXXXX");
    assert_non_null(mkdtemp(folder));
    fixture_replica_make(&shape, &member);
    return 0;
}

static int tidy_up(void **state) {
    (void)state;
    char command[128];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    fixture_replica_free(&member);
    return system(command);
}

/* The state after commit `commits`: a value for every commit. */
static void set_state(uint32_t commits) {
    for (int64_t i = 0; i < PARAMETERS; i++) {
        member.replica.params[i] = fixture_noise(2 * commits, i);
        member.replica.momentum[i] = fixture_noise(2 * commits + 1, i);
    }
    replica_refresh_hashes(&member.replica);
}

static void open_store(void) {
    struct fault fault;
    assert_int_equal(state_store_open(folder, &member.replica.shape.slices, &store, &fault), OK);
}

static struct hash add(uint32_t commits) {
    struct fault fault;
    set_state(commits);
    state_store_remove_expired(&store, commits);
    assert_int_equal(state_store_add(&store, commits + 3, commits, &member.replica, &fault), OK);
    return member.replica.root;
}

static const char *path_of(const struct hash *root) {
    char hex[HASH_HEX_BYTES];
    struct text text = text_over(path, sizeof path);
    text_add(&text, "%s/state-%.16s", folder, hash_hex(root, hex));
    return path;
}

static bool reports(const struct hash *root) {
    struct hash roots[STORED_STATES_MAX];
    bool is_reported = false;
    state_store_list_roots(&store, roots);
    for (uint32_t i = 0; i < STORED_STATES_MAX; i++) {
        is_reported |= hash_equal(&roots[i], root);
    }
    return is_reported;
}

static void a_stored_state_has_the_leaves_and_hashes_of_its_root(void **state) {
    (void)state;
    static uint8_t bytes[LEAF_BYTES], expected[LEAF_BYTES];
    struct hash hashes[LEAVES];
    open_store();
    const struct hash root = add(8);
    assert_true(state_store_read_hashes(&store, &root, 0, LEAVES, hashes));
    assert_memory_equal(hashes, member.replica.leaves, sizeof hashes);
    assert_true(state_store_read_hashes(&store, &root, 1, 1, hashes));
    assert_memory_equal(hashes, member.replica.leaves + 1, sizeof hashes[0]);
    for (uint64_t index = 0; index < LEAVES; index++) {
        const size_t length = replica_read_leaf(&member.replica, index, expected);
        assert_int_equal(state_store_read_leaf(&store, &root, index, bytes), length);
        assert_memory_equal(bytes, expected, length);
    }
    set_state(9); /* another root, whose first digits are not those of any file */
    assert_false(state_store_has_root(&store, &member.replica.root));
    assert_int_equal(state_store_read_leaf(&store, &member.replica.root, 0, bytes), 0);
    assert_true(reports(&root) && !reports(&member.replica.root));
}

static void four_states_stay_and_a_restart_finds_them(void **state) {
    (void)state;
    struct hash roots[7];
    open_store();
    for (uint32_t i = 1; i < 7; i++) {
        roots[i] = add(8 * i);
    }
    for (int restart = 0; restart < 2; restart++) {
        for (uint32_t i = 1; i < 7; i++) {
            assert_int_equal(state_store_has_root(&store, &roots[i]), i >= 3);
            assert_int_equal(reports(&roots[i]), i >= 3);
        }
        open_store();
    }
    state_store_remove_expired(&store, 8 * 6 + 31);
    assert_int_equal(store.count, 1);
    assert_true(state_store_has_root(&store, &roots[6]));
    state_store_remove_expired(&store, 8 * 6 + 32);
    assert_int_equal(store.count, 0);
    assert_false(file_exists(path_of(&roots[6])));
}

static void damaged_and_unfinished_files_are_removed(void **state) {
    (void)state;
    struct fault fault;
    open_store();
    const struct hash shorter = add(8), marked = add(16), renamed = add(24), whole = add(32);
    assert_int_equal(truncate(path_of(&shorter), 1000), 0);
    int fd = open(path_of(&marked), O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 0), 1);
    close(fd);
    char other[128];
    struct text text = text_over(other, sizeof other);
    text_add(&text, "%s/state-0000000000000000", folder);
    assert_int_equal(rename(path_of(&renamed), other), 0);
    text = text_over(path, sizeof path);
    text_add(&text, "%s/state.new", folder);
    assert_int_equal(file_write_new(path, "half", 4, &fault), OK);
    open_store();
    assert_int_equal(store.count, 1);
    assert_true(reports(&whole));
    assert_false(file_exists(path) || file_exists(other));
    assert_false(file_exists(path_of(&shorter)) || file_exists(path_of(&marked)));
    state_store_remove_expired(&store, 64);
}

/* A limit on the size of files stands for a full disk. */
static void a_full_disk_leaves_the_other_states_and_no_part_of_this_one(void **state) {
    (void)state;
    struct fault fault;
    struct rlimit before;
    open_store();
    const struct hash root = add(8);
    set_state(16);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(state_store_add(&store, 19, 16, &member.replica, &fault), STATUS_FIT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(state_store_has_root(&store, &root));
    assert_false(state_store_has_root(&store, &member.replica.root));
    struct text text = text_over(path, sizeof path);
    text_add(&text, "%s/state.new", folder);
    assert_false(file_exists(path));
    assert_int_equal(state_store_add(&store, 19, 16, &member.replica, &fault), OK);
    assert_true(state_store_has_root(&store, &member.replica.root));
    state_store_remove_expired(&store, 64);
}

static void a_state_of_another_model_is_not_used(void **state) {
    (void)state;
    struct fault fault;
    open_store();
    const struct hash root = add(8);
    struct slices other = member.replica.shape.slices;
    other.parameter_count++;
    assert_int_equal(state_store_open(folder, &other, &store, &fault), OK);
    assert_int_equal(store.count, 0);
    assert_false(file_exists(path_of(&root)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_state_has_the_leaves_and_hashes_of_its_root),
        cmocka_unit_test(four_states_stay_and_a_restart_finds_them),
        cmocka_unit_test(damaged_and_unfinished_files_are_removed),
        cmocka_unit_test(a_full_disk_leaves_the_other_states_and_no_part_of_this_one),
        cmocka_unit_test(a_state_of_another_model_is_not_used),
    };
    return cmocka_run_group_tests(tests, prepare, tidy_up);
}
