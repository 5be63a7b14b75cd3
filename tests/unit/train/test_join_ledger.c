/* Tests of train/join_ledger: a member's copy of the ledger is whole lines, each once, whatever
 * ended the process before. */
#include "base/clock.h"
#include "base/file.h"
#include "runtime/inner_training/ledger_copy.h"
#include "scratch.h"
#include "tests/unit/swarm/entry_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 2, SLICES = 3, ENTRIES = 7, FILE_MAX = 1 << 16 };

static struct entry_slice lines[SLICES];
static struct entry entry;
static struct region region;
static const char PATH[] = "ledger.jsonl";
static const int64_t PATIENCE_NS = 30 * INT64_C(1000000000);

/* A start of the process: it reads what the file has, then hears the chain up to `count` entries,
 * and gives how many the file had. */
static uint32_t hear(uint32_t count) {
    static struct entry_fixture fixture;
    struct ledger_copy ledger;
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    const struct entry *past = NULL;
    const char *place;
    struct fault fault;
    assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), OK);
    bool begins = ledger_copy_first(&ledger) != NULL;
    do {
        assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
        assert_true(past == NULL || ledger_append(&chain, past) == NULL);
    } while (past != NULL);
    assert_int_equal(begins, chain.entry_count > 0);
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    for (uint32_t index = 0; index < count; index++) {
        entry_fixture_next(&fixture, index, &entry);
        if (index >= chain.entry_count) {
            assert_true(ledger_copy_add(&ledger, &entry));
        }
    }
    assert_int_equal(ledger_copy_sync(&ledger, &fault), OK);
    ledger_copy_close(&ledger);
    return (uint32_t)chain.entry_count;
}

/* Reads the file back: a verified chain; gives how many entries it has. */
static uint64_t verified(void) {
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    struct ledger_file *file;
    struct fault fault;
    bool more = true;
    assert_int_equal(ledger_file_open(PATH, &region, &file, &fault), OK);
    while (more) {
        assert_int_equal(ledger_file_next(file, &more, &fault), OK);
        if (more) {
            assert_null(ledger_append(&chain, &file->entry));
        }
    }
    ledger_file_close(file);
    region_finish(&region);
    return chain.entry_count;
}

static int forget(void **state) {
    (void)state;
    (void)unlink(PATH);
    return 0;
}

static void entries_are_kept_once_over_several_starts(void **state) {
    (void)state;
    assert_int_equal(hear(3), 0);
    assert_int_equal(verified(), 3);
    assert_int_equal(hear(2), 3); /* an end before it had heard of more */
    assert_int_equal(verified(), 3);
    assert_int_equal(hear(ENTRIES), 3);
    assert_int_equal(verified(), ENTRIES);
}

static void a_line_that_was_cut_short_is_written_again(void **state) {
    (void)state;
    static char whole[FILE_MAX];
    size_t size = 0;
    struct fault fault;
    hear(ENTRIES);
    assert_int_equal(file_read_text(PATH, whole, sizeof whole, &size, &fault), OK);
    for (size_t length = 0; length < size; length += 61) {
        scratch_write(PATH, whole, length);
        hear(ENTRIES);
        static char again[FILE_MAX];
        size_t found = 0;
        assert_int_equal(file_read_text(PATH, again, sizeof again, &found, &fault), OK);
        assert_int_equal(found, size);
        assert_memory_equal(again, whole, size);
        region_finish(&region);
    }
}

static void a_line_that_is_no_entry_is_named(void **state) {
    (void)state;
    static char whole[FILE_MAX];
    size_t size = 0;
    struct ledger_copy ledger;
    const struct entry *past = NULL;
    const char *place;
    struct fault fault;
    hear(2);
    assert_int_equal(file_read_text(PATH, whole, sizeof whole, &size, &fault), OK);
    whole[strcspn(whole, "\n") + 1] = '!';
    scratch_write(PATH, whole, size);
    assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), OK);
    assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
    assert_int_equal(past->kind, ENTRY_GENESIS);
    assert_string_equal(place, "ledger.jsonl:1");
    assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "ledger.jsonl:2"));
    assert_true(fault.remedy[0] != '\0');
    ledger_copy_close(&ledger);
    whole[0] = '!';
    scratch_write(PATH, whole, size);
    assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "ledger.jsonl:1"));
    region_finish(&region);
}

/* A file that may not grow takes a part of a line, as a full disk does: nothing counts as durable
 * until there is room, and then the line is there. */
static void a_full_disk_is_waited_for(void **state) {
    (void)state;
    static struct entry_fixture fixture;
    static char whole[FILE_MAX];
    size_t size = 0;
    struct fault fault;
    struct rlimit before;
    struct ledger_copy ledger;
    const struct entry *past = NULL;
    const char *place;
    hear(2);
    assert_int_equal(file_read_text(PATH, whole, sizeof whole, &size, &fault), OK);
    region_finish(&region);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit full = {.rlim_cur = size + 50, .rlim_max = before.rlim_max};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), OK);
    do {
        assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
    } while (past != NULL);
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    for (uint32_t index = 0; index < 3; index++) {
        entry_fixture_next(&fixture, index, &entry);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_false(ledger_copy_add(&ledger, &entry));
    assert_false(ledger_copy_add(&ledger, NULL));
    assert_int_equal(ledger_copy_sync(&ledger, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, PATH);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
    while (!ledger_copy_add(&ledger, NULL) && clock_monotonic_ns() < until_ns) {
    }
    assert_int_equal(ledger_copy_sync(&ledger, &fault), OK);
    ledger_copy_close(&ledger);
    assert_int_equal(verified(), 3);
    hear(ENTRIES);
    assert_int_equal(verified(), ENTRIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(entries_are_kept_once_over_several_starts, forget),
        cmocka_unit_test_teardown(a_line_that_was_cut_short_is_written_again, forget),
        cmocka_unit_test_teardown(a_line_that_is_no_entry_is_named, forget),
        cmocka_unit_test_teardown(a_full_disk_is_waited_for, forget),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
