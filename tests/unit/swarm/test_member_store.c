/* test_member_store: stored data survives a kill at any moment, and truncated or damaged files are
 * not taken for it. */
#include "runtime/swarm/member/member_store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "tests/unit/swarm/entry_fixture.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARAMETERS = 40000, MEMBERS = 3, SLICES = 3, KILLS = 30, FILE_MAX = 1 << 20 };

static struct fixture_replica member;
static struct entry_fixture fixture;
static struct entry entry;
static struct entry_slice lines[SLICES];
static char folder[64], path[128];
static struct region region;

static int prepare(void **state) {
    (void)state;
    struct fixture_shape shape = {PARAMETERS, CODEC_INT8, MEMBERS, 1, 0};
    /* Data written by a killed process is in the kernel, so a folder in memory keeps it as well as
     * a disk does, and thousands of writes take no time. */
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/skep-member-XXXXXX"
                                                 : "/tmp/skep-member-XXXXXX");
    assert_non_null(mkdtemp(folder));
    fixture_replica_make(&shape, &member);
    assert_int_equal(member.replica.shape.slices.count, SLICES);
    return 0;
}

static int tidy_up(void **state) {
    (void)state;
    char command[128];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    fixture_replica_free(&member);
    region_finish(&region);
    return system(command);
}

static const char *path_of(const char *name) {
    path_join(folder, name, path, sizeof path);
    return path;
}

static enum status try_open(struct member_store *store, struct fault *fault) {
    return member_store_open(folder, &member.replica.shape.slices, &region, store, fault);
}

static struct member_store open_store(void) {
    struct member_store store;
    struct fault fault;
    assert_int_equal(try_open(&store, &fault), OK);
    return store;
}

/* The commit of a round in the fixture's chain, from 1; the same in every process. */
static void make_commit(uint32_t round) {
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    for (uint32_t index = 0; index <= 2 * round; index++) {
        entry_fixture_next(&fixture, index, &entry);
    }
    assert_int_equal(entry.kind, ENTRY_COMMIT);
    assert_int_equal(entry.round, round);
}

/* The results of a round, derived from its number, and the proposal with their hashes. */
static void make_results(uint32_t round) {
    const struct slices *slices = &member.replica.shape.slices;
    make_commit(round);
    for (uint32_t s = 0; s < SLICES; s++) {
        struct slice_range range = slices_range(slices, s);
        uint8_t *result = replica_result(&member.replica, round, s);
        memset(result, (int)(round * SLICES + s), range.bytes);
        lines[s].hash = hash_of(result, range.bytes);
        lines[s].epoch = round + s;
    }
}

static enum status keep(struct member_store *store, uint32_t round, struct fault *fault) {
    make_results(round);
    return member_store_add_results(store, &entry, &member.replica, fault);
}

static enum status apply(struct member_store *store, uint32_t round, struct fault *fault) {
    make_commit(round);
    return member_store_add_commit(store, &entry, fault);
}

static enum status fetch(struct member_store *store, uint32_t round, struct slice_report *reports) {
    struct fault fault;
    memset(member.replica.results, 0xee, 2 * member.replica.shape.slices.bytes);
    return member_store_read_results(store, round, &member.replica, reports, &fault);
}

static void check_kept(struct member_store *store, uint32_t round) {
    struct slice_report reports[SLICES];
    assert_int_equal(fetch(store, round, reports), OK);
    static uint8_t found[PARAMETERS * 2];
    uint64_t bytes = member.replica.shape.slices.bytes;
    memcpy(found, replica_result(&member.replica, round, 0), bytes);
    make_results(round);
    assert_memory_equal(found, replica_result(&member.replica, round, 0), bytes);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_equal(reports[s].has_result, 1);
        assert_int_equal(reports[s].epoch, round + s);
        assert_int_equal(reports[s].contributors, lines[s].contributors);
        assert_true(hash_equal(&reports[s].hash, &lines[s].hash));
    }
}

/* Check that the journal has the commits first, first + 1, ...; return their number. */
static uint32_t check_journal(struct member_store *store, uint32_t first) {
    static struct entry read;
    static struct entry_slice read_lines[SLICES];
    struct fault fault;
    int64_t offset = 0;
    uint32_t count = 0;
    for (bool found = true; found;) {
        read.slices = read_lines;
        assert_int_equal(entry_journal_next(&store->journal, &offset, &read, &found, &fault), OK);
        if (found) {
            make_commit(first + count++);
            assert_true(hash_equal(&read.hash, &entry.hash));
            assert_memory_equal(read_lines, lines, sizeof lines);
        }
    }
    return count;
}

static void stored_data_is_read_when_the_store_is_opened_again(void **state) {
    (void)state;
    struct fault fault;
    struct slice_report reports[SLICES];
    struct member_store store = open_store();
    assert_int_equal(store.newest, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        assert_int_equal(keep(&store, round, &fault), OK);
        assert_int_equal(apply(&store, round, &fault), OK);
    }
    assert_int_equal(keep(&store, 5, &fault), OK);
    member_store_close(&store);
    store = open_store();
    assert_int_equal(store.oldest, 1);
    assert_int_equal(store.newest, 5);
    assert_int_equal(check_journal(&store, 1), 3);
    check_kept(&store, 2);
    check_kept(&store, 5);
    assert_int_equal(fetch(&store, 4, reports), STATUS_INPUT);
    assert_int_equal(member_store_discard_before(&store, 3, &fault), OK);
    assert_int_equal(check_journal(&store, 1), 0);
    check_kept(&store, 1); /* for members that missed it */
    check_kept(&store, 3);
    assert_int_equal(member_store_discard_before(&store, 3 + REPLAY_ROUNDS_MAX, &fault), OK);
    assert_int_equal(fetch(&store, 3, reports), STATUS_INPUT);
    assert_int_equal(fetch(&store, 1, reports), STATUS_INPUT);
    check_kept(&store, 5);
    static uint8_t one[PARAMETERS * 2];
    struct slice_range range = slices_range(&member.replica.shape.slices, 1);
    struct hash other = {{9}};
    assert_true(member_store_read_result(&store, 5, 1, &lines[1].hash, one));
    assert_memory_equal(one, replica_result(&member.replica, 5, 1), range.bytes);
    assert_false(member_store_read_result(&store, 5, 0, &lines[1].hash, one));
    assert_false(member_store_read_result(&store, 5, 1, &other, one));
    assert_false(member_store_read_result(&store, 3, 1, &lines[1].hash, one));
    assert_int_equal(apply(&store, 5, &fault), OK);
    member_store_close(&store);
    store = open_store();
    assert_int_equal(store.oldest, 5);
    assert_int_equal(check_journal(&store, 5), 1);
    member_store_close(&store);
}

static void results_stored_again_replace_the_first(void **state) {
    (void)state;
    struct fault fault;
    struct member_store store = open_store();
    make_results(7);
    memset(replica_result(&member.replica, 7, 0), 0x11, 64);
    lines[0].hash = hash_of(replica_result(&member.replica, 7, 0),
                            slices_range(&member.replica.shape.slices, 0).bytes);
    assert_int_equal(member_store_add_results(&store, &entry, &member.replica, &fault), OK);
    assert_int_equal(keep(&store, 7, &fault), OK);
    check_kept(&store, 7);
    member_store_close(&store);
}

static void a_folder_is_used_by_one_process(void **state) {
    (void)state;
    struct member_store store = open_store();
    struct member_store second = {.newest = 77};
    struct fault fault;
    char holder[32];
    struct text text = text_over(holder, sizeof holder);
    text_add(&text, "process %d", (int)getpid());
    assert_int_equal(try_open(&second, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, holder));
    assert_int_equal(second.newest, 77);
    member_store_close(&store);
}

/* ---- truncated and damaged files ---- */

static size_t read_all(const char *name, uint8_t *bytes) {
    int fd;
    int64_t size;
    struct fault fault;
    assert_int_equal(file_open_read(path_of(name), &fd, &size, &fault), OK);
    assert_true(size <= FILE_MAX);
    assert_int_equal(file_read_at(fd, path, bytes, (size_t)size, 0, &fault), OK);
    close(fd);
    return (size_t)size;
}

static void write_all(const char *name, const uint8_t *bytes, size_t count) {
    int fd;
    struct fault fault;
    assert_int_equal(file_open_write(path_of(name), &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, path, bytes, count, 0, &fault), OK);
    close(fd);
}

static enum status claim(const char *name, const struct hash *ledger_swarm, struct fault *fault) {
    struct member_store store;
    struct hash manifest = hash_of(name, strlen(name));
    assert_int_equal(try_open(&store, fault), OK);
    enum status status = member_store_claim_folder(&store, &manifest, ledger_swarm, fault);
    member_store_close(&store);
    return status;
}

static void a_folder_belongs_to_one_swarm(void **state) {
    (void)state;
    struct fault fault;
    assert_int_equal(claim("this", NULL, &fault), OK);
    assert_int_equal(claim("this", NULL, &fault), OK);
    assert_int_equal(claim("other", NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, folder);
    assert_non_null(strstr(fault.reason, "another swarm, with"));
    assert_non_null(strstr(fault.remedy, "XDG_STATE_HOME"));
    write_all("swarm", NULL, 0);
    assert_int_equal(claim("this", NULL, &fault), STATUS_INPUT);
}

/* A folder of an earlier version, which did not record the swarm. */
static void stored_rounds_need_a_recorded_swarm(void **state) {
    (void)state;
    struct member_store store;
    struct fault fault;
    make_results(1);
    make_commit(1);
    assert_int_equal(try_open(&store, &fault), OK);
    assert_int_equal(member_store_add_commit(&store, &entry, &fault), OK);
    member_store_close(&store);
    const struct hash ledger_swarm = hash_of("this", 4);
    assert_int_equal(claim("this", NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, folder);
    assert_int_equal(claim("other", &ledger_swarm, &fault), STATUS_INPUT);
    assert_int_equal(claim("this", &ledger_swarm, &fault), OK);
    assert_int_equal(claim("this", NULL, &fault), OK);
}

static void a_truncated_journal_keeps_its_complete_entries(void **state) {
    (void)state;
    static uint8_t whole[FILE_MAX], now[FILE_MAX];
    struct fault fault;
    int64_t ends[3] = {0};
    struct member_store store = open_store();
    ends[0] = store.journal.valid_bytes;
    for (uint32_t round = 1; round <= 2; round++) {
        assert_int_equal(apply(&store, round, &fault), OK);
        ends[round] = store.journal.valid_bytes;
    }
    member_store_close(&store);
    size_t size = read_all("journal", whole);
    assert_int_equal(size, ends[2]);
    for (size_t length = 0; length <= size; length++) {
        uint32_t left = 2;
        while (left > 0 && (size_t)ends[left] > length) {
            left--;
        }
        write_all("journal", whole, length);
        store = open_store();
        assert_int_equal(store.journal.valid_bytes, ends[left]);
        if (length % 64 == 0) {
            assert_int_equal(check_journal(&store, 1), left);
            assert_int_equal(apply(&store, left + 1, &fault), OK);
            assert_int_equal(check_journal(&store, 1), left + 1);
        }
        member_store_close(&store);
        size_t found = read_all("journal", now);
        size_t least = (size_t)ends[0];
        assert_true(found == (length > least ? length : least) || length % 64 == 0);
        assert_memory_equal(now, whole, (size_t)ends[left]);
        region_finish(&region);
    }
}

static void a_changed_entry_is_not_read(void **state) {
    (void)state;
    static uint8_t whole[FILE_MAX];
    struct fault fault;
    struct member_store store = open_store();
    int64_t begin = store.journal.valid_bytes;
    assert_int_equal(apply(&store, 1, &fault), OK);
    member_store_close(&store);
    size_t size = read_all("journal", whole);
    for (size_t at = (size_t)begin; at < size; at++) {
        whole[at] ^= 0x10;
        write_all("journal", whole, size);
        whole[at] ^= 0x10;
        store = open_store();
        assert_int_equal(store.journal.valid_bytes, begin);
        member_store_close(&store);
        region_finish(&region);
    }
}

static void a_file_that_is_not_a_journal_is_not_changed(void **state) {
    (void)state;
    static uint8_t found[FILE_MAX];
    static const char *const FILES[][2] = {
        {"the diary of a bee", "is not a journal that this version of Skep can read"},
        {"skep journal 1\n",
         "uses protocol 1; Skep 0.1.0 was the last version that could read it"}};
    struct member_store store;
    struct fault fault;
    for (size_t i = 0; i < ARRAY_COUNT(FILES); i++) {
        const size_t size = strlen(FILES[i][0]) + 1;
        write_all("journal", (const uint8_t *)FILES[i][0], size);
        assert_int_equal(try_open(&store, &fault), STATUS_INPUT);
        assert_string_equal(fault.reason, FILES[i][1]);
        assert_int_equal(read_all("journal", found), size);
        assert_memory_equal(found, FILES[i][0], size);
    }
}

static void truncated_or_changed_results_are_rejected(void **state) {
    (void)state;
    static uint8_t whole[FILE_MAX];
    struct slice_report reports[SLICES];
    struct fault fault;
    struct member_store store = open_store();
    assert_int_equal(keep(&store, 2, &fault), OK);
    size_t size = read_all("results-2", whole);
    size_t head = store.files.header_bytes;
    for (size_t length = 0; length < size; length += length < head ? 1 : 97) {
        write_all("results-2", whole, length);
        assert_int_equal(fetch(&store, 2, reports), STATUS_INPUT);
    }
    for (size_t at = 0; at < size; at += at < head ? 1 : 97) {
        whole[at] ^= 0x10;
        write_all("results-2", whole, size);
        whole[at] ^= 0x10;
        assert_int_equal(fetch(&store, 2, reports), STATUS_INPUT);
    }
    write_all("results-2", whole, size);
    check_kept(&store, 2);
    write_all("results-3", whole, size); /* of another round */
    assert_int_equal(fetch(&store, 3, reports), STATUS_INPUT);
    member_store_close(&store);
}

/* ---- a full disk, and kills ---- */

static void limit_files(uint64_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    struct fault fault;
    struct member_store store = open_store();
    assert_int_equal(keep(&store, 1, &fault), OK);
    assert_int_equal(apply(&store, 1, &fault), OK);
    signal(SIGXFSZ, SIG_IGN);
    limit_files((uint64_t)store.journal.valid_bytes + 100);
    assert_int_equal(keep(&store, 1, &fault), STATUS_FIT);
    assert_int_equal(keep(&store, 2, &fault), STATUS_FIT);
    assert_false(file_exists(path_of("results.new")));
    assert_false(file_exists(path_of("results-2")));
    assert_int_equal(apply(&store, 2, &fault), STATUS_FIT);
    assert_non_null(strstr(fault.subject, "journal"));
    assert_int_equal(check_journal(&store, 1), 1);
    limit_files(0);
    check_kept(&store, 1);
    assert_int_equal(apply(&store, 2, &fault), OK);
    assert_int_equal(keep(&store, 2, &fault), OK);
    assert_int_equal(check_journal(&store, 1), 2);
    member_store_close(&store);
}

/* Store and apply rounds for ever; write each round to the pipe once it is durable. */
static void live_in_child(uint32_t round, int out) {
    struct member_store store;
    struct fault fault;
    if (try_open(&store, &fault) != OK) {
        _exit(1);
    }
    for (;; round++) {
        if (keep(&store, round, &fault) != OK || apply(&store, round, &fault) != OK ||
            write(out, &round, sizeof round) != sizeof round) {
            _exit(1);
        }
    }
}

/* Wait for some rounds, then for a time that differs from call to call, then kill the process.
 * Returns the last round that was read from the pipe; `told` is the one before this call. */
static uint32_t run_and_kill(uint64_t turn, uint32_t first) {
    int pipes[2];
    uint32_t words[4];
    uint32_t told = first - 1;
    random_block(12, turn, words);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        live_in_child(first, pipes[1]);
    }
    close(pipes[1]);
    for (uint32_t i = 0; i < words[0] % 3; i++) {
        assert_int_equal(read(pipes[0], &told, sizeof told), sizeof told);
    }
    for (volatile uint32_t spin = words[1] % 3000000; spin > 0; spin--) {
    }
    kill(child, SIGKILL);
    while (read(pipes[0], &told, sizeof told) == sizeof told) {
    }
    close(pipes[0]);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    return told;
}

static void a_kill_loses_no_stored_round(void **state) {
    (void)state;
    uint32_t first = 1; /* of the journal */
    uint32_t count = 0;
    for (uint64_t turn = 0; turn < KILLS; turn++) {
        uint32_t told = run_and_kill(turn, first + count);
        struct fault fault;
        struct member_store store = open_store();
        count = check_journal(&store, first);
        assert_true(first + count == told + 1 || first + count == told + 2);
        for (uint32_t round = first; round < first + count; round++) {
            check_kept(&store, round);
        }
        assert_false(file_exists(path_of("results.new")));
        if (turn % 5 == 4) {
            assert_int_equal(member_store_discard_before(&store, first + count - 1, &fault), OK);
            first += count;
            count = 0;
        }
        member_store_close(&store);
        region_finish(&region);
    }
    assert_true(first > 10);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, prepare, tidy_up)

int main(void) {
    const struct CMUnitTest tests[] = {
        STORE_TEST(stored_data_is_read_when_the_store_is_opened_again),
        STORE_TEST(results_stored_again_replace_the_first),
        STORE_TEST(a_folder_is_used_by_one_process),
        STORE_TEST(a_folder_belongs_to_one_swarm),
        STORE_TEST(stored_rounds_need_a_recorded_swarm),
        STORE_TEST(a_truncated_journal_keeps_its_complete_entries),
        STORE_TEST(a_changed_entry_is_not_read),
        STORE_TEST(a_file_that_is_not_a_journal_is_not_changed),
        STORE_TEST(truncated_or_changed_results_are_rejected),
        STORE_TEST(a_full_disk_loses_nothing),
        STORE_TEST(a_kill_loses_no_stored_round),
    };
    log_init(-1); /* warnings about truncated files are expected here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
