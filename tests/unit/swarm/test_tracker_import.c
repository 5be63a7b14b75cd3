/* test_tracker_import: a store made anew from a copy of the ledger has all of it, gives out no
 * number again, and comes to be as a whole or not at all. */
#include "runtime/swarm/tracker/tracker_import.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/tracker/tracker_durable.h"
#include "tests/unit/swarm/entry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 3, SLICES = 2, ENTRIES = 7, COPY_MAX = 1 << 16, UNHEARD_MIN = 1000 };
enum { CHECKPOINT_AT = 4 };

static struct entry_fixture fixture;
static struct entry_slice lines[SLICES];
static struct entry entry;
static struct region region;
static char folder[64], copy[128], store_path[128], beside[136];
static char bytes[COPY_MAX];
static struct text text;

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-import-XXXXXX");
    assert_non_null(mkdtemp(folder));
    path_join(folder, "ledger.jsonl", copy, sizeof copy);
    path_join(folder, "tracker.db", store_path, sizeof store_path);
    path_join(folder, "tracker.db.new", beside, sizeof beside);
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    entry_fixture_enroll(&fixture, 1, MEMBERS, false);
    text = text_over(bytes, sizeof bytes);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        entry_fixture_next(&fixture, i, &entry);
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        text_add(&text, "\n");
    }
    assert_false(text.truncated);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    region_finish(&region);
    (void)unlink(copy);
    (void)unlink(store_path);
    return rmdir(folder);
}

static enum status import(struct fault *fault) {
    const struct tracker_import wish = {.source_path = copy,
                                        .store_path = store_path,
                                        .operator_key = fixture.operator_keys.public_keys.sign,
                                        .manifest = hash_of("manifest", 8)};
    uint64_t count = 0;
    int fd;
    assert_int_equal(file_open_write(copy, &fd, fault), OK);
    assert_int_equal(file_write_at(fd, copy, bytes, text.length, 0, fault), OK);
    close(fd);
    enum status status = tracker_import(&wish, &count, fault);
    assert_int_equal(count, status == OK ? ENTRIES : 0);
    assert_false(file_exists(beside));
    return status;
}

static void the_store_has_the_ledger_and_counts_on(void **state) {
    (void)state;
    struct ledger_store store;
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    static struct tracker_record record;
    static uint8_t members[RECORD_MEMBERS_BYTES_MAX];
    size_t count = 0;
    uint32_t incarnation = 0;
    struct fault fault;
    bool has = true;
    assert_int_equal(tracker_store_has_entries(store_path, &has, &fault), OK);
    assert_false(has);
    assert_int_equal(import(&fault), OK);
    assert_int_equal(tracker_store_has_entries(store_path, &has, &fault), OK);
    assert_true(has);
    assert_int_equal(ledger_store_open(store_path, &region, &store, &fault), OK);
    uint32_t sessions = 0;
    for (uint64_t i = 0; i < store.entry_count; i++) {
        assert_int_equal(ledger_store_read(&store, i, lines, SLICES, &entry, &fault), OK);
        assert_null(ledger_append(&chain, &entry));
        for (uint32_t seat = 0; seat < entry.seat_count; seat++) {
            uint32_t session = entry.seats[seat].session;
            sessions = session > sessions ? session : sessions;
        }
    }
    assert_int_equal(chain.entry_count, ENTRIES);
    assert_true(hash_equal(&chain.head, &fixture.head));
    assert_int_equal(ledger_store_count_start(&store, &incarnation, &fault), OK);
    assert_true(incarnation > chain.incarnation + UNHEARD_MIN);
    assert_int_equal(
        ledger_store_read_promise(&store, TRACKER_MEMBERS, members, sizeof members, &count, &fault),
        OK);
    assert_null(record_read_members(members, count, &record));
    assert_int_equal(record.member_count, 0);
    assert_true(record.next_session > sessions + UNHEARD_MIN);
    ledger_store_close(&store);
    assert_int_equal(import(&fault), STATUS_INPUT); /* it has entries by now */
    assert_string_equal(fault.subject, store_path);
}

static void a_copy_that_does_not_verify_leaves_nothing(void **state) {
    (void)state;
    struct fault fault;
    bool has = true;
    char *tokens = strstr(bytes, "\"tokens\": ");
    assert_non_null(tokens);
    char *digit = tokens + strlen("\"tokens\": ");
    *digit = *digit == '1' ? '2' : '1';
    assert_int_equal(import(&fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "ledger.jsonl:3"));
    assert_true(fault.remedy[0] != '\0');
    assert_int_equal(tracker_store_has_entries(store_path, &has, &fault), OK);
    assert_false(has);
}

static void a_copy_of_another_operator_is_refused(void **state) {
    (void)state;
    struct fault fault;
    fixture.operator_keys.public_keys.sign[0] ^= 1;
    assert_int_equal(import(&fault), STATUS_INPUT);
    assert_non_null(strstr(fault.subject, "ledger.jsonl:1"));
    assert_non_null(strstr(fault.reason, "that the operator did not sign"));
}

/* Readers of the tracker's ledger need the entries before. */
static void a_copy_that_begins_with_a_checkpoint_is_refused(void **state) {
    (void)state;
    static uint8_t state_bytes[LEDGER_CHAIN_BYTES_MAX];
    struct fault fault;
    bool has = true;
    entry_fixture_init(&fixture, MEMBERS, lines, SLICES);
    entry_fixture_enroll(&fixture, 1, MEMBERS, false);
    text = text_over(bytes, sizeof bytes);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        if (i == CHECKPOINT_AT) {
            ledger_checkpoint_line_write(&fixture.chain, state_bytes, &text);
            text_add(&text, "\n");
        }
        entry_fixture_next(&fixture, i, &entry);
        if (i >= CHECKPOINT_AT) {
            ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
            text_add(&text, "\n");
        }
    }
    assert_int_equal(import(&fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "begins with a checkpoint, at entry 4"));
    assert_true(fault.remedy[0] != '\0');
    assert_int_equal(tracker_store_has_entries(store_path, &has, &fault), OK);
    assert_false(has);
}

static void a_copy_without_entries_is_refused(void **state) {
    (void)state;
    struct fault fault;
    text.length = 0;
    assert_int_equal(import(&fault), STATUS_INPUT);
    assert_string_equal(fault.subject, copy);
}

#define IMPORT_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IMPORT_TEST(the_store_has_the_ledger_and_counts_on),
        IMPORT_TEST(a_copy_that_does_not_verify_leaves_nothing),
        IMPORT_TEST(a_copy_of_another_operator_is_refused),
        IMPORT_TEST(a_copy_that_begins_with_a_checkpoint_is_refused),
        IMPORT_TEST(a_copy_without_entries_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
