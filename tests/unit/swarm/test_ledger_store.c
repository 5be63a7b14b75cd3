/* test_ledger_store: what was promised is there after a kill at any moment, and nothing else is. */
#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "entry_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 3, SLICES = 40, KILLS = 30, ENTRIES = 12, FILE_MAX = 1 << 20 };

static struct entry_fixture fixture;
static struct entry entry;
static struct entry_slice slices[SLICES];
static char folder[64], path[128], log_path[128];
static struct region region;

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct text text = text_over(path, sizeof path);
    text_add(&text, "%s/ledger.db", folder);
    text = text_over(log_path, sizeof log_path);
    text_add(&text, "%s-wal", path);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    region_finish(&region);
    return system(command);
}

static struct ledger_store open_store(void) {
    struct ledger_store store;
    struct fault fault;
    assert_int_equal(ledger_store_open(path, &region, &store, &fault), OK);
    return store;
}

/* Entry `number` as the fixture makes it, the same in every process. */
static void make_entry(uint64_t number) {
    static struct entry_fixture at;
    static uint64_t next;
    if (number < next || next == 0) {
        at = fixture;
        next = 0;
    }
    for (; next <= number; next++) {
        entry_fixture_next(&at, (uint32_t)next, &entry);
    }
}

static void append(struct ledger_store *store, uint64_t number) {
    struct fault fault;
    make_entry(number);
    assert_int_equal(ledger_store_append(store, &entry, &fault), OK);
}

/* Every entry is read, the chain holds, and ends in the store's head. */
static void verify(struct ledger_store *store) {
    static struct entry read;
    static struct entry_slice read_slices[SLICES];
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    chain.has_tracker = true;
    struct fault fault;
    memcpy(chain.tracker_key, fixture.tracker.public_keys.sign, KEY_BYTES);
    for (uint64_t number = 0; number < store->entry_count; number++) {
        assert_int_equal(ledger_store_read(store, number, read_slices, SLICES, &read, &fault), OK);
        assert_null(ledger_append(&chain, &read));
    }
    assert_true(hash_equal(&chain.head, &store->head));
}

static void entries_and_promises_are_there_when_opened_again(void **state) {
    (void)state;
    char kept[16] = "untouched";
    size_t count = 7;
    struct fault fault;
    struct ledger_store store = open_store();
    assert_int_equal(store.entry_count, 0);
    assert_int_equal(ledger_store_read_promise(&store, "round", kept, sizeof kept, &count, &fault),
                     OK);
    assert_int_equal(count, 0);
    for (uint64_t number = 0; number < 5; number++) {
        append(&store, number);
    }
    assert_int_equal(ledger_store_write_promise(&store, "round", "first", 5, &fault), OK);
    assert_int_equal(ledger_store_write_promise(&store, "round", "second", 6, &fault), OK);
    assert_int_equal(ledger_store_write_promise(&store, "empty", NULL, 0, &fault), OK);
    ledger_store_close(&store);
    store = open_store();
    assert_int_equal(store.entry_count, 5);
    verify(&store);
    append(&store, 5);
    assert_int_equal(ledger_store_read_promise(&store, "round", kept, sizeof kept, &count, &fault),
                     OK);
    assert_int_equal(count, 6);
    assert_memory_equal(kept, "second", 6);
    assert_int_equal(ledger_store_read_promise(&store, "round", kept, 5, &count, &fault),
                     STATUS_INPUT);
    assert_int_equal(ledger_store_read_promise(&store, "empty", kept, 5, &count, &fault), OK);
    assert_int_equal(count, 0);
    ledger_store_close(&store);
}

/* Rows of the newest eight commits are stored, also in the order of the fixture: open and commit in
 * turn. */
static void the_newest_commits_have_their_rows(void **state) {
    (void)state;
    enum { LENGTH = 31 };
    static struct entry read;
    static struct entry_slice read_slices[SLICES];
    struct fault fault;
    struct ledger_store store = open_store();
    for (uint64_t number = 0; number < LENGTH; number++) {
        append(&store, number);
        verify(&store);
    }
    for (uint64_t number = 0; number < LENGTH; number++) {
        const bool is_commit = number > 0 && number % 2 == 0;
        const bool is_new = number + 2 * (REPLAY_ROUNDS_MAX + 1) >= LENGTH + 1;
        assert_int_equal(ledger_store_read(&store, number, read_slices, SLICES, &read, &fault), OK);
        assert_int_equal(read.slice_count, is_commit && is_new ? SLICES : 0);
        assert_int_equal(read.result_count, is_commit ? SLICES : 0);
        if (read.slice_count > 0) {
            make_entry(number);
            assert_memory_equal(read_slices, entry.slices, sizeof read_slices);
        }
    }
    ledger_store_close(&store);
}

static void each_start_has_a_higher_number(void **state) {
    (void)state;
    struct fault fault;
    for (uint32_t start = 1; start <= 4; start++) {
        struct ledger_store store = open_store();
        uint32_t incarnation = 0;
        assert_int_equal(ledger_store_count_start(&store, &incarnation, &fault), OK);
        assert_int_equal(incarnation, start);
        ledger_store_close(&store);
    }
}

/* Appends and promises without end; each number goes into the pipe after the call that keeps it. */
static void append_in_child(int out) {
    struct ledger_store store;
    struct fault fault;
    if (ledger_store_open(path, &region, &store, &fault) != OK) {
        _exit(1);
    }
    for (uint64_t number = store.entry_count;; number++) {
        make_entry(number);
        if (ledger_store_append(&store, &entry, &fault) != OK ||
            ledger_store_write_promise(&store, "last", &number, sizeof number, &fault) != OK ||
            write(out, &number, sizeof number) != sizeof number) {
            _exit(1);
        }
    }
}

/* Waits for some numbers, then a moment that differs from turn to turn, then kills. Gives the count
 * of entries that the pipes have told of, `told` before this turn. */
static uint64_t run_and_kill(uint64_t turn, uint64_t told) {
    int pipes[2];
    uint32_t words[4];
    uint64_t number;
    random_block(11, turn, words);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        close(pipes[0]);
        append_in_child(pipes[1]);
    }
    close(pipes[1]);
    for (uint32_t i = 0; i < words[0] % 4; i++) {
        assert_int_equal(read(pipes[0], &number, sizeof number), sizeof number);
        told = number + 1;
    }
    for (volatile uint32_t spin = words[1] % 3000000; spin > 0; spin--) {
    }
    kill(child, SIGKILL);
    while (read(pipes[0], &number, sizeof number) == sizeof number) {
        told = number + 1;
    }
    close(pipes[0]);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    return told;
}

static void nothing_promised_is_lost_by_a_kill(void **state) {
    (void)state;
    uint64_t count = 0;
    uint64_t told = 0;
    for (uint64_t turn = 0; turn < KILLS; turn++) {
        told = run_and_kill(turn, told);
        uint64_t least = told > count ? told : count;
        uint64_t last = UINT64_MAX;
        size_t bytes = 0;
        struct fault fault;
        struct ledger_store store = open_store();
        assert_true(store.entry_count == least || store.entry_count == least + 1);
        verify(&store);
        assert_int_equal(
            ledger_store_read_promise(&store, "last", &last, sizeof last, &bytes, &fault), OK);
        assert_true(bytes == 0 ? told == 0 : last + 1 >= told && last < store.entry_count);
        count = store.entry_count;
        ledger_store_close(&store);
        region_finish(&region);
    }
    assert_true(count > KILLS);
}

static size_t read_whole(const char *from, char *bytes) {
    int fd;
    int64_t count;
    struct fault fault;
    assert_int_equal(file_open_read(from, &fd, &count, &fault), OK);
    assert_true(count <= FILE_MAX);
    assert_int_equal(file_read_at(fd, from, bytes, (size_t)count, 0, &fault), OK);
    close(fd);
    return (size_t)count;
}

static void write_whole(const char *to, const char *bytes, size_t count) {
    int fd;
    struct fault fault;
    assert_int_equal(file_open_write(to, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, to, bytes, count, 0, &fault), OK);
    close(fd);
}

/* A power cut: of what came after the last sync any part may be on the disk. The log is cut at
 * bytes all over it, and a torn byte put at its end. */
static void a_log_that_is_cut_anywhere_gives_whole_entries(void **state) {
    (void)state;
    static char database[FILE_MAX], log[FILE_MAX];
    struct ledger_store store = open_store();
    for (uint64_t number = 0; number < ENTRIES; number++) {
        append(&store, number);
    }
    size_t bytes = read_whole(path, database);
    size_t logged = read_whole(log_path, log);
    ledger_store_close(&store);
    uint64_t most = 0;
    for (size_t cut = logged; cut > logged / 3; cut -= logged / 50 + 1) {
        write_whole(path, database, bytes);
        log[cut - 1] ^= 1;
        write_whole(log_path, log, cut);
        log[cut - 1] ^= 1;
        store = open_store();
        assert_true(store.entry_count < ENTRIES && (most == 0 || store.entry_count <= most));
        most = store.entry_count;
        verify(&store);
        append(&store, store.entry_count);
        ledger_store_close(&store);
        region_finish(&region);
    }
    assert_true(most < ENTRIES / 2);
}

static void a_second_tracker_is_refused(void **state) {
    (void)state;
    struct ledger_store first = open_store();
    struct ledger_store second = {.entry_count = 77};
    struct fault fault;
    append(&first, 0);
    assert_int_equal(ledger_store_open(path, &region, &second, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "another process"));
    assert_int_equal(second.entry_count, 77);
    append(&first, 1);
    ledger_store_close(&first);
}

static void a_full_disk_keeps_what_was_there(void **state) {
    (void)state;
    struct rlimit old, small = {.rlim_cur = 256 << 10};
    struct ledger_store store = open_store();
    struct fault fault = {0};
    enum status status = OK;
    uint64_t number = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    while (status == OK && number < 1000) {
        make_entry(number);
        status = ledger_store_append(&store, &entry, &fault);
        number += status == OK;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(status == STATUS_FIT || status == STATUS_FAILED);
    assert_int_equal(store.entry_count, number);
    verify(&store);
    append(&store, number);
    ledger_store_close(&store);
    store = open_store();
    assert_int_equal(store.entry_count, number + 1);
    verify(&store);
    ledger_store_close(&store);
}

static void what_is_no_ledger_is_refused_and_left_alone(void **state) {
    (void)state;
    struct ledger_store store = {.entry_count = 77};
    struct fault fault;
    static char text[4096], found[FILE_MAX];
    memset(text, 'x', sizeof text);
    write_whole(path, text, sizeof text);
    assert_int_equal(ledger_store_open(path, &region, &store, &fault), STATUS_INPUT);
    assert_int_equal(read_whole(path, found), sizeof text);
    assert_memory_equal(found, text, sizeof text);
    assert_int_equal(ledger_store_open(folder, &region, &store, &fault), STATUS_INPUT);
    assert_int_equal(ledger_store_open("/nowhere/x/y", &region, &store, &fault), STATUS_INPUT);
    assert_int_equal(store.entry_count, 77);
}

static void a_store_of_protocol_1_is_rejected(void **state) {
    (void)state;
    enum { USER_VERSION = 60 }; /* Position of the schema version, big-endian, in a SQLite file. */
    static char whole[FILE_MAX];
    struct fault fault;
    struct ledger_store store = open_store();
    ledger_store_close(&store);
    size_t size = read_whole(path, whole);
    assert_memory_equal(whole + USER_VERSION, "\0\0\0\2", 4);
    whole[USER_VERSION + 3] = 1;
    write_whole(path, whole, size);
    assert_int_equal(ledger_store_open(path, &region, &store, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, path);
    assert_non_null(strstr(fault.reason, "uses protocol 1; Skep 0.1.0 was the"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_and_promises_are_there_when_opened_again,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_newest_commits_have_their_rows, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(each_start_has_a_higher_number, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(nothing_promised_is_lost_by_a_kill, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_log_that_is_cut_anywhere_gives_whole_entries, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_second_tracker_is_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_full_disk_keeps_what_was_there, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_ledger_is_refused_and_left_alone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_store_of_protocol_1_is_rejected, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
