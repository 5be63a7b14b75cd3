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
    bool begins = ledger_copy_swarm(&ledger) != NULL;
    do {
        assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
        assert_true(past == NULL || ledger_append(&chain, past) == NULL);
    } while (past != NULL);
    assert_int_equal(begins, chain.entry_count > 0);
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    for (uint32_t index = 0; index < count; index++) {
        entry_fixture_next(&fixture, index, &entry);
        if (index >= chain.entry_count) {
            assert_true(ledger_copy_add(&ledger, NULL, &entry));
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
    assert_false(ledger_copy_add(&ledger, NULL, &entry));
    assert_false(ledger_copy_add(&ledger, NULL, NULL));
    assert_int_equal(ledger_copy_sync(&ledger, &fault), STATUS_FAILED);
    assert_string_equal(fault.subject, PATH);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
    while (!ledger_copy_add(&ledger, NULL, NULL) && clock_monotonic_ns() < until_ns) {
    }
    assert_int_equal(ledger_copy_sync(&ledger, &fault), OK);
    ledger_copy_close(&ledger);
    assert_int_equal(verified(), 3);
    hear(ENTRIES);
    assert_int_equal(verified(), ENTRIES);
}

/* ---- checkpoints ---- */

enum { CHECKPOINT_AT = 4 };

/* A start of a process that begins at a checkpoint if its file is empty: it reads what the file
 * has, then hears the chain up to `count` entries. Gives how many lines of entries the file had. */
static uint32_t hear_from_checkpoint(uint32_t count) {
    static struct entry_fixture fixture;
    static struct ledger_chain chain, checkpoint;
    struct ledger_copy ledger;
    const struct entry *past = NULL;
    const char *place;
    struct fault fault;
    uint32_t found = 0;
    memset(&chain, 0, sizeof chain);
    assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), OK);
    if (ledger.checkpoint != NULL) {
        const struct hash *swarm = ledger_copy_swarm(&ledger);
        assert_non_null(swarm);
        chain = *ledger.checkpoint;
        assert_null(ledger_chain_begin(&chain, swarm));
    }
    do {
        assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
        assert_true(past == NULL || ledger_append(&chain, past) == NULL);
        found += past != NULL;
    } while (past != NULL);
    assert_false(ledger_chain_is_unconfirmed(&chain)); /* never a checkpoint alone */
    assert_true(chain.entry_count == 0 || found == chain.entry_count - CHECKPOINT_AT);
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    for (uint32_t index = 0; index < count; index++) {
        if (index == 1) {
            entry_fixture_enroll(&fixture, 1, MEMBERS, false);
        }
        checkpoint = fixture.chain;
        entry_fixture_next(&fixture, index, &entry);
        if (index >= CHECKPOINT_AT && index >= chain.entry_count) {
            assert_true(
                ledger_copy_add(&ledger, index == CHECKPOINT_AT ? &checkpoint : NULL, &entry));
        }
    }
    assert_int_equal(ledger_copy_sync(&ledger, &fault), OK);
    ledger_copy_close(&ledger);
    region_finish(&region);
    return found;
}

static void a_copy_may_begin_with_a_checkpoint(void **state) {
    (void)state;
    assert_int_equal(hear_from_checkpoint(ENTRIES), 0);
    assert_int_equal(hear_from_checkpoint(ENTRIES + 2), ENTRIES - CHECKPOINT_AT);
    assert_int_equal(hear_from_checkpoint(ENTRIES + 2), ENTRIES + 2 - CHECKPOINT_AT);
}

/* A crash between the first line and the rest leaves no checkpoint without its commit. */
static void a_checkpoint_that_was_cut_short_is_written_again(void **state) {
    (void)state;
    static char whole[FILE_MAX], again[FILE_MAX];
    size_t size = 0, found = 0;
    struct fault fault;
    hear_from_checkpoint(ENTRIES);
    assert_int_equal(file_read_text(PATH, whole, sizeof whole, &size, &fault), OK);
    const size_t first = strcspn(whole, "\n") + 1;
    const size_t second = first + strcspn(whole + first, "\n") + 1;
    const size_t lengths[] = {1,          first - 1, first,      first + 1, (first + second) / 2,
                              second - 1, second,    second + 1, size - 1};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        scratch_write(PATH, whole, lengths[i]);
        const uint32_t entries = hear_from_checkpoint(ENTRIES);
        assert_int_equal(entries == 0, lengths[i] < second);
        assert_int_equal(file_read_text(PATH, again, sizeof again, &found, &fault), OK);
        assert_int_equal(found, size);
        assert_memory_equal(again, whole, size);
    }
}

static void a_full_disk_takes_no_part_of_a_checkpoint(void **state) {
    (void)state;
    static struct entry_fixture fixture;
    static char whole[FILE_MAX];
    struct fault fault;
    struct rlimit before;
    size_t size = 0;
    hear_from_checkpoint(CHECKPOINT_AT + 1);
    assert_int_equal(file_read_text(PATH, whole, sizeof whole, &size, &fault), OK);
    const size_t first = strcspn(whole, "\n") + 1;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (int i = 0; i < 3; i++) {
        const size_t sizes[] = {first - 5, first, first + 5};
        const struct rlimit full = {.rlim_cur = sizes[i], .rlim_max = before.rlim_max};
        struct ledger_copy ledger;
        static struct ledger_chain checkpoint;
        const struct entry *past = NULL;
        const char *place;
        forget(NULL);
        assert_int_equal(ledger_copy_open(PATH, SLICES, &region, &ledger, &fault), OK);
        assert_int_equal(ledger_copy_read(&ledger, &past, &place, &fault), OK);
        assert_null(past);
        entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
        for (uint32_t index = 0; index <= CHECKPOINT_AT; index++) {
            if (index == 1) {
                entry_fixture_enroll(&fixture, 1, MEMBERS, false);
            }
            checkpoint = fixture.chain;
            entry_fixture_next(&fixture, index, &entry);
        }
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
        assert_false(ledger_copy_add(&ledger, &checkpoint, &entry));
        assert_int_equal(ledger_copy_sync(&ledger, &fault), STATUS_FAILED);
        int64_t left = -1;
        int fd;
        assert_int_equal(file_open_read(PATH, &fd, &left, &fault), OK);
        close(fd);
        assert_int_equal(left, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
        while (!ledger_copy_add(&ledger, NULL, NULL) && clock_monotonic_ns() < until_ns) {
        }
        assert_int_equal(ledger_copy_sync(&ledger, &fault), OK);
        ledger_copy_close(&ledger);
        region_finish(&region);
        assert_int_equal(hear_from_checkpoint(ENTRIES), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(entries_are_kept_once_over_several_starts, forget),
        cmocka_unit_test_teardown(a_line_that_was_cut_short_is_written_again, forget),
        cmocka_unit_test_teardown(a_line_that_is_no_entry_is_named, forget),
        cmocka_unit_test_teardown(a_full_disk_is_waited_for, forget),
        cmocka_unit_test_teardown(a_copy_may_begin_with_a_checkpoint, forget),
        cmocka_unit_test_teardown(a_checkpoint_that_was_cut_short_is_written_again, forget),
        cmocka_unit_test_teardown(a_full_disk_takes_no_part_of_a_checkpoint, forget),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
