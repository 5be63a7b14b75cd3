/* test_ledger: the records and lines of entries, and the chain. That bytes and hashes are the ones
 * documented is tested with ledgers of another implementation (tests/e2e/test_ledger.py). */
#include "base/random.h"
#include "entry_fixture.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/ledger/statement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SMALL_RECORD_MAX = 16384, SMALL_LINE_MAX = 32768, MUTATIONS = 50000 };

static struct entry_fixture fixture;
static struct entry entry, read;
static struct entry_slice slices[SWARM_SLICES_MAX], read_slices[SWARM_SLICES_MAX];

static void assert_same(void) {
    assert_int_equal(read.slice_count, entry.slice_count);
    assert_memory_equal(read_slices, slices, entry.slice_count * sizeof *slices);
    read.slices = entry.slices;
    assert_memory_equal(&read, &entry, sizeof entry);
}

static enum status read_line(const char *line, size_t length) {
    struct fault fault = {0};
    enum status status =
        ledger_line_read(line, length, "ledger:1", read_slices, SWARM_SLICES_MAX, &read, &fault);
    assert_true(status == OK || (fault.reason[0] != '\0' && fault.subject[0] != '\0'));
    return status;
}

static void records_and_lines_read_back(void **state) {
    (void)state;
    static uint8_t record[SMALL_RECORD_MAX];
    static char line[SMALL_LINE_MAX];
    entry_fixture_init(&fixture, 3, slices, 5);
    for (uint32_t index = 0; index < 5; index++) {
        entry_fixture_next(&fixture, index, &entry);
        entry.slices = index == 0 || index % 2 == 1 ? NULL : slices;
        if (entry.kind == ENTRY_OPEN) {
            entry.seats[1].is_guest = 1;
            entry.hash = entry_hash(&entry);
        }
        size_t count = entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record);
        assert_int_equal(count, entry_record_bytes(&entry, ENTRY_WITH_SLICES));
        assert_null(entry_read(record, count, read_slices, 5, &read));
        assert_same();
        struct text text = text_over(line, sizeof line);
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        assert_false(text.truncated);
        assert_int_equal(read_line(line, text.length), OK);
        assert_same();
    }
}

static void the_longest_entry_has_room(void **state) {
    (void)state;
    uint8_t *record = malloc(ENTRY_RECORD_BYTES_MAX);
    char *line = malloc(LEDGER_LINE_MAX);
    assert_true(record != NULL && line != NULL);
    entry_fixture_init(&fixture, SWARM_MEMBERS_MAX, slices, SWARM_SLICES_MAX);
    entry_fixture_next(&fixture, 2, &entry);
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX; i++) {
        entry.seats[i].range_count = SWARM_SEAT_RANGES_MAX;
        for (uint64_t k = 0; k < SWARM_SEAT_RANGES_MAX; k++) {
            entry.seats[i].ranges[k] = (struct sample_range){INT64_MAX - 1, INT64_MAX};
        }
        entry.signatures[i].seat = i;
        entry.members[i].samples = SWARM_SEAT_RANGES_MAX;
    }
    for (uint64_t i = 0; i < SWARM_RETURNED_RANGES_MAX; i++) {
        uint64_t begin = INT64_MAX / 2 + 2 * i;
        entry.cursor.returned[i] = (struct sample_range){begin, begin + 1};
    }
    entry.cursor.returned_count = SWARM_RETURNED_RANGES_MAX;
    entry.cursor.position = INT64_MAX;
    entry.signature_count = SWARM_MEMBERS_MAX;
    entry.hash = entry_hash(&entry);
    assert_null(entry_error(&entry));
    size_t count = entry_write(&entry, ENTRY_WITH_SLICES, record, ENTRY_RECORD_BYTES_MAX);
    /* A commit has no roster epoch and no leases, which the longest OPEN has. */
    const size_t most = ENTRY_RECORD_BYTES_MAX - ENTRY_ROSTER_BYTES_MAX - ENTRY_LEASES_BYTES_MAX;
    assert_true(count <= most && count > most - 3100);
    assert_null(entry_read(record, count, read_slices, SWARM_SLICES_MAX, &read));
    assert_same();
    struct text text = text_over(line, LEDGER_LINE_MAX);
    ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
    assert_false(text.truncated);
    assert_int_equal(read_line(line, text.length), OK);
    assert_same();
    free(record);
    free(line);
}

static void a_record_that_is_cut_longer_or_changed_is_refused(void **state) {
    (void)state;
    static uint8_t record[SMALL_RECORD_MAX];
    entry_fixture_init(&fixture, 3, slices, 2);
    entry_fixture_next(&fixture, 2, &entry);
    size_t count = entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record);
    for (size_t cut = 0; cut < count; cut++) {
        assert_non_null(entry_read(record, cut, read_slices, SWARM_SLICES_MAX, &read));
    }
    assert_non_null(entry_read(record, count + 1, read_slices, SWARM_SLICES_MAX, &read));
    assert_non_null(entry_read(record, count, read_slices, 1, &read));
    uint32_t accepted = 0;
    for (size_t bit = 0; bit < 8 * count; bit++) {
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (entry_read(record, count, read_slices, SWARM_SLICES_MAX, &read) == NULL) {
            memcpy(read.signatures, entry.signatures, sizeof read.signatures);
            assert_same();
            accepted++;
        }
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(accepted <= 2 * 8 * ENTRY_SIGNATURE_BYTES);
}

/* One to four bytes changed, removed or doubled. */
static size_t mutate(uint8_t *bytes, size_t count, uint64_t key, uint64_t turn) {
    uint32_t words[4];
    random_block(key, turn, words);
    for (uint32_t i = 0; i <= words[0] % 4; i++) {
        size_t at = words[1 + i % 3] * (uint64_t)(i + 1) % count;
        switch (words[0] >> (8 + 2 * i) & 3) {
        case 0:
            memmove(bytes + at, bytes + at + 1, --count - at);
            break;
        case 1:
            memmove(bytes + at + 1, bytes + at, count++ - at);
            break;
        default:
            bytes[at] ^= (uint8_t)(1 << (words[0] >> (20 + i)) % 8);
        }
    }
    return count;
}

static void mutated_lines_and_records_are_refused_or_entries(void **state) {
    (void)state;
    static uint8_t whole[SMALL_LINE_MAX], bytes[SMALL_LINE_MAX];
    entry_fixture_init(&fixture, 2, slices, 2);
    for (uint32_t index = 0; index < 3; index++) {
        entry_fixture_next(&fixture, index, &entry);
        struct text text = text_over((char *)whole, sizeof whole);
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        for (uint64_t turn = 0; turn < MUTATIONS / 3; turn++) {
            memcpy(bytes, whole, text.length);
            size_t count = mutate(bytes, text.length, index, turn);
            if (read_line((const char *)bytes, count) == OK) {
                assert_null(entry_error(&read));
            }
        }
        size_t length = entry_write(&entry, ENTRY_WITH_SLICES, whole, sizeof whole);
        for (uint64_t turn = 0; turn < MUTATIONS / 3; turn++) {
            memcpy(bytes, whole, length);
            size_t count = mutate(bytes, length, index, turn);
            if (entry_read(bytes, count, read_slices, SWARM_SLICES_MAX, &read) == NULL) {
                const struct hash hash = entry_hash(&read);
                assert_true(hash_equal(&hash, &entry.hash)); /* only signatures can differ */
            }
        }
    }
}

static void a_chain_takes_its_entries_in_order_only(void **state) {
    (void)state;
    static struct ledger_chain chain, before;
    entry_fixture_init(&fixture, 3, slices, 2);
    for (uint32_t index = 0; index < 7; index++) {
        before = chain;
        entry_fixture_next(&fixture, index, &entry);
        for (uint32_t i = 0; i < entry.signature_count; i++) {
            entry.signatures[i].signature.bytes[9] ^= 1;
            assert_non_null(ledger_append(&chain, &entry));
            assert_memory_equal(&chain, &before, sizeof chain);
            entry.signatures[i].signature.bytes[9] ^= 1;
        }
        assert_null(ledger_append(&chain, &entry));
        assert_non_null(ledger_append(&chain, &entry));
        assert_true(hash_equal(&chain.head, &entry.hash));
        assert_int_equal(chain.entry_count, index + 1);
    }
    assert_int_equal(chain.last_ended_round, 3);
}

static void a_chain_counts_its_commits(void **state) {
    (void)state;
    static const uint32_t COUNTS[] = {0, 0, 1, 1, 2, 2, 3};
    static struct ledger_chain chain, kept, next;
    entry_fixture_init(&fixture, 1, slices, 1);
    for (uint32_t index = 0; index < ARRAY_COUNT(COUNTS); index++) {
        entry_fixture_next(&fixture, index, &entry);
        for (uint32_t count = 0; count < 5; count++) {
            next = chain;
            entry.commits = count;
            entry.hash = entry_hash(&entry);
            ledger_sign(entry.kind == ENTRY_COMMIT ? &fixture.members[0] : &fixture.tracker,
                        &entry.hash, &entry.signatures[0].signature);
            bool right = count == COUNTS[index];
            assert_int_equal(ledger_append(&next, &entry) == NULL, right);
            if (right) {
                kept = next;
            }
        }
        chain = kept;
        fixture.head = chain.head;
        fixture.chain = chain;
        assert_int_equal(chain.commits, COUNTS[index]);
    }
}

/* Makes the entry after an ended round a suspension of its first member. */
static void suspend_first_member(uint32_t chain_commits, uint32_t reason, uint32_t rounds) {
    entry.kind = ENTRY_SUSPEND;
    entry.cursor.position = fixture.position;
    entry.train_ms = 0;
    entry.slice_count = 0;
    entry.result_count = 0;
    entry.results = (struct hash){{0}};
    entry.chain = (struct hash){{0}};
    memset(entry.members, 0, sizeof entry.members);
    entry.round = 1;
    entry.commits = chain_commits;
    entry.suspension = (struct entry_suspension){.id = entry.seats[0].id, .reason = reason};
    entry.suspension.until_round = entry.round + rounds;
    entry_fixture_sign(&fixture, &entry);
}

static struct hash swarm_hash; /* of the chain's genesis */

/* Makes it a suspension for a statement of its first member about slice 1, signed by `signer`. */
static void suspend_for_statement(uint32_t reason, uint32_t signer) {
    struct statement statement = {.swarm = swarm_hash, .round = 1, .slice = 1};
    suspend_first_member(1, reason, 8);
    struct entry_evidence *evidence = &entry.suspension.evidence;
    evidence->slice = statement.slice;
    evidence->hash = statement.hash = hash_of("result", 6);
    if (reason == SUSPENSION_WRONG_SUM) {
        evidence->epoch = statement.epoch = 3;
        evidence->contributors = statement.contributors = 5;
    } else {
        evidence->seed = statement.seed = hash_of("seed", 4);
    }
    statement_sign(reason == SUSPENSION_WRONG_SUM ? STATEMENT_RESULT : STATEMENT_SKETCHES,
                   &statement, &fixture.members[signer], &evidence->signature);
    entry_fixture_sign(&fixture, &entry);
}

static void a_false_statement_is_repeated_with_its_signature(void **state) {
    (void)state;
    static uint8_t record[SMALL_RECORD_MAX];
    static char line[SMALL_LINE_MAX];
    static struct ledger_chain chain, next;
    chain = (struct ledger_chain){.has_tracker = true};
    entry_fixture_init(&fixture, 3, slices, 2);
    memcpy(chain.tracker_key, fixture.tracker.public_keys.sign, KEY_BYTES);
    for (uint32_t index = 0; index < 4; index++) {
        entry_fixture_next(&fixture, index, &entry);
        assert_true(index == 3 || ledger_append(&chain, &entry) == NULL);
    }
    swarm_hash = chain.swarm;
    for (uint32_t reason = SUSPENSION_WRONG_SUM; reason <= SUSPENSION_WRONG_SKETCH; reason++) {
        suspend_for_statement(reason, 1);
        next = chain;
        assert_non_null(
            strstr(ledger_append(&next, &entry), "without a valid signature of the suspended"));
        suspend_for_statement(reason, 0);
        entry.suspension.evidence.hash.bytes[0] ^= 1;
        entry_fixture_sign(&fixture, &entry);
        assert_non_null(
            strstr(ledger_append(&next, &entry), "without a valid signature of the suspended"));
        suspend_for_statement(reason, 0);
        entry.slices = NULL;
        assert_null(entry_read(record,
                               entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record),
                               read_slices, 2, &read));
        assert_same();
        struct text text = text_over(line, sizeof line);
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        assert_non_null(strstr(line, ledger_suspension_name(reason)));
        assert_int_equal(read_line(line, text.length), OK);
        assert_same();
        assert_null(ledger_append(&next, &entry));
    }
    suspend_for_statement(SUSPENSION_WRONG_SUM, 0);
    entry.suspension.reason = SUSPENSION_RESULTS; /* which has no evidence */
    entry_fixture_sign(&fixture, &entry);
    assert_non_null(ledger_append(&chain, &entry));
}

static void a_suspension_is_between_rounds_and_changes_nothing_else(void **state) {
    (void)state;
    static uint8_t record[SMALL_RECORD_MAX];
    static char line[SMALL_LINE_MAX];
    static struct ledger_chain chain = {.has_tracker = true};
    entry_fixture_init(&fixture, 3, slices, 2);
    memcpy(chain.tracker_key, fixture.tracker.public_keys.sign, KEY_BYTES);
    for (uint32_t index = 0; index < 3; index++) {
        entry_fixture_next(&fixture, index, &entry);
        if (index == 2) {
            static struct entry commit;
            commit = entry;
            suspend_first_member(0, SUSPENSION_RESULTS, 8);
            assert_non_null(
                strstr(ledger_append(&chain, &entry), "suspends a member, but does not"));
            entry = commit;
        }
        assert_null(ledger_append(&chain, &entry));
    }
    entry_fixture_next(&fixture, 3, &entry);
    const struct hash root = chain.root;
    suspend_first_member(1, SUSPENSION_RESULTS, 0);
    assert_non_null(ledger_append(&chain, &entry)); /* it would end at once */
    suspend_first_member(1, SUSPENSION_REASONS, 8);
    assert_non_null(ledger_append(&chain, &entry));
    entry.root.bytes[0] ^= 1;
    suspend_first_member(1, SUSPENSION_RESULTS, 8);
    assert_non_null(ledger_append(&chain, &entry)); /* the root stays */
    entry.root.bytes[0] ^= 1;
    suspend_first_member(1, SUSPENSION_RESULTS, 8);
    entry.slices = NULL;
    assert_null(entry_read(record, entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record),
                           read_slices, 2, &read));
    assert_same();
    struct text text = text_over(line, sizeof line);
    ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
    assert_non_null(strstr(line, "\"reason\": \"results\""));
    assert_int_equal(read_line(line, text.length), OK);
    assert_same();
    assert_null(ledger_append(&chain, &entry));
    assert_true(hash_equal(&chain.root, &root));
    entry.suspension.until_round++;
    assert_non_null(ledger_append(&chain, &entry)); /* the hash covers it */
}

static void a_majority_is_needed_whatever_the_roster(void **state) {
    (void)state;
    for (uint32_t members = 1; members <= SWARM_MEMBERS_MAX; members += members < 6 ? 1 : 29) {
        static struct ledger_chain chain;
        memset(&chain, 0, sizeof chain);
        entry_fixture_init(&fixture, members, slices, 1);
        for (uint32_t index = 0; index < 2; index++) {
            entry_fixture_next(&fixture, index, &entry);
            assert_null(ledger_append(&chain, &entry));
        }
        entry_fixture_next(&fixture, 2, &entry);
        assert_true(2 * entry.signature_count > members);
        assert_true(2 * (entry.signature_count - 1) <= members);
        entry.signature_count--;
        assert_non_null(strstr(ledger_append(&chain, &entry), "quorum"));
        entry.signature_count++;
        assert_null(ledger_append(&chain, &entry));
    }
}

static void a_line_of_protocol_1_is_rejected(void **state) {
    (void)state;
    static const char FIELD[] = "\"protocol\": 2, ";
    static char line[SMALL_LINE_MAX];
    struct fault fault;
    entry_fixture_init(&fixture, 3, slices, 5);
    entry_fixture_next(&fixture, 0, &entry);
    struct text text = text_over(line, sizeof line);
    ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
    char *field = strstr(line, FIELD);
    assert_non_null(field);
    memmove(field, field + strlen(FIELD), strlen(field + strlen(FIELD)) + 1);
    assert_int_equal(ledger_line_read(line, strlen(line), "ledger:1", read_slices, SWARM_SLICES_MAX,
                                      &read, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "ledger:1");
    assert_non_null(strstr(fault.reason, "uses protocol 1; Skep 0.1.0 was the"));
    text = text_over(line, sizeof line);
    ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
    strstr(line, FIELD)[12] = '3';
    assert_int_equal(read_line(line, strlen(line)), STATUS_INPUT);
}

/* Two entries of a round, as they are stored and sent. */
static size_t round_bytes(uint32_t members, uint32_t slice_count) {
    size_t bytes = 0;
    entry_fixture_init(&fixture, members, slices, slice_count);
    for (uint32_t index = 0; index < 3; index++) {
        entry_fixture_next(&fixture, index, &entry);
        bytes += index > 0 ? entry_record_bytes(&entry, ENTRY_WITHOUT_SLICES) : 0;
    }
    return bytes;
}

static void a_round_has_the_same_size_with_any_number_of_slices(void **state) {
    (void)state;
    const size_t bytes = round_bytes(8, 32);
    print_message("a round of 8 members: %zu bytes\n", bytes);
    assert_in_range(bytes, 1000, 4096);
    assert_in_range(round_bytes(8, 969), bytes, bytes + 32); /* numbers with more digits */
    assert_in_range(round_bytes(8, SWARM_SLICES_MAX), bytes, bytes + 32);
}

static void a_chain_continues_from_its_written_state(void **state) {
    (void)state;
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    static struct ledger_chain chain, again;
    memset(&chain, 0, sizeof chain);
    entry_fixture_init(&fixture, 3, slices, 2);
    for (uint32_t index = 0; index < 90; index++) {
        entry_fixture_next(&fixture, index, &entry);
        if (index > 80) {
            const size_t count = ledger_chain_write(&chain, bytes);
            memset(&again, 0, sizeof again);
            assert_null(ledger_chain_read(bytes, count, &again));
            const struct hash written = ledger_chain_hash(&chain),
                              read_hash = ledger_chain_hash(&again);
            assert_true(hash_equal(&written, &read_hash));
            assert_null(ledger_append(&again, &entry));
            memset(&again, 0, sizeof again);
            assert_non_null(ledger_chain_read(bytes, count - 1, &again));
        }
        assert_null(ledger_append(&chain, &entry));
    }
    assert_int_equal(chain.history.count, ROLLBACK_STATES_MAX);
}

static void the_longest_state_of_a_chain_has_room(void **state) {
    (void)state;
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    static struct ledger_chain chain, again;
    memset(&chain, 0xff, sizeof chain);
    chain.is_round_open = 1;
    chain.needs_leases = 1;
    chain.electors.count = SWARM_MEMBERS_MAX;
    chain.reference_norm = 1;
    chain.last_ended_round = UINT32_MAX - 1;
    chain.commits = UINT32_MAX - 1;
    chain.history.count = ROLLBACK_STATES_MAX;
    for (uint32_t i = 0; i < ROLLBACK_STATES_MAX; i++) {
        chain.history.states[i].round = UINT32_MAX - 1;
        chain.history.states[i].commits = UINT32_MAX - 1;
    }
    chain.roster_epoch.count = ROSTER_KEYS_MAX;
    chain.cursor.returned_count = SWARM_RETURNED_RANGES_MAX;
    for (uint64_t i = 0; i < SWARM_RETURNED_RANGES_MAX; i++) {
        chain.cursor.returned[i] = (struct sample_range){3 * i, 3 * i + 1};
    }
    const size_t count = ledger_chain_write(&chain, bytes);
    assert_null(ledger_chain_read(bytes, count, &again));
    chain.cursor.returned[7].end += 2; /* overlaps with the next one */
    memset(&again, 0, sizeof again);
    assert_non_null(ledger_chain_read(bytes, ledger_chain_write(&chain, bytes), &again));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_and_lines_read_back),
        cmocka_unit_test(the_longest_entry_has_room),
        cmocka_unit_test(a_record_that_is_cut_longer_or_changed_is_refused),
        cmocka_unit_test(mutated_lines_and_records_are_refused_or_entries),
        cmocka_unit_test(a_chain_takes_its_entries_in_order_only),
        cmocka_unit_test(a_chain_counts_its_commits),
        cmocka_unit_test(a_round_has_the_same_size_with_any_number_of_slices),
        cmocka_unit_test(a_chain_continues_from_its_written_state),
        cmocka_unit_test(the_longest_state_of_a_chain_has_room),
        cmocka_unit_test(a_suspension_is_between_rounds_and_changes_nothing_else),
        cmocka_unit_test(a_false_statement_is_repeated_with_its_signature),
        cmocka_unit_test(a_majority_is_needed_whatever_the_roster),
        cmocka_unit_test(a_line_of_protocol_1_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
