/* test_ledger_checkpoint: which states a reader may begin a chain at, and that no other is
 * accepted. */
#include "entry_fixture.h"

#include "runtime/swarm/ledger/ledger_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 5, NAMED = 3, SLICES = 2, ENTRIES = 600, COMMIT_AT = 40, EPOCH_AT = 1 };

static struct entry_fixture fixture;
static struct entry_slice slices[SLICES];
static struct entry entry, commit; /* the last entry; the commit of the checkpoint */
static struct ledger_chain chain;
static struct ledger_checkpoint checkpoint;
static struct key_pairs foreign[MEMBERS];

static void begin_chain(void) {
    memset(&chain, 0, sizeof chain);
    memset(&checkpoint, 0, sizeof checkpoint);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
}

/* Adds the entries up to `until`, as a tracker and its members would that check nothing. */
static void play(uint32_t until) {
    while (fixture.chain.entry_count < until) {
        entry_fixture_next(&fixture, (uint32_t)fixture.chain.entry_count, &entry);
    }
}

/* Makes the state before entry COMMIT_AT, which a test may change before, the checkpoint; and
 * begins a chain there. */
static const char *begin_with(const uint8_t *bytes, size_t count) {
    const struct hash swarm = hash_of("manifest", 8);
    memset(&chain, 0, sizeof chain);
    ledger_set_operator_key(&chain, fixture.operator_keys.public_keys.sign);
    const char *error = ledger_chain_read(bytes, count, &chain);
    return error == NULL ? ledger_chain_begin(&chain, &swarm) : error;
}

static const char *begin(void) {
    checkpoint.byte_count = ledger_chain_write(&fixture.chain, checkpoint.bytes);
    entry_fixture_next(&fixture, COMMIT_AT, &commit);
    return begin_with(checkpoint.bytes, checkpoint.byte_count);
}

static const char *begin_and_append(void) {
    const char *error = begin();
    return error == NULL ? ledger_append(&chain, &commit) : error;
}

static void play_to_commit(void) {
    begin_chain();
    play(EPOCH_AT);
    entry_fixture_enroll(&fixture, 7, MEMBERS, false);
    play(COMMIT_AT);
}

static void set_foreign_keys(void) {
    uint8_t secrets[2 * KEY_BYTES];
    for (int i = 0; i < MEMBERS; i++) {
        memset(secrets, 180 + i, sizeof secrets);
        keys_from_secrets(secrets, &foreign[i]);
    }
}

static void assert_refused(const char *error, const char *words) {
    assert_non_null(error);
    if (strstr(error, words) == NULL) {
        fail_msg("%s: not: %s", error, words);
    }
}

static void a_chain_continues_from_its_checkpoint(void **unused) {
    (void)unused;
    play_to_commit();
    assert_null(begin());
    assert_true(ledger_chain_is_unconfirmed(&chain));
    assert_null(ledger_append(&chain, &commit));
    assert_false(ledger_chain_is_unconfirmed(&chain));
    assert_int_equal(chain.start.entry_count, COMMIT_AT);
    assert_int_equal(chain.start.votes, entry_quorum(MEMBERS));
    assert_int_equal(chain.start.voters, MEMBERS);
    assert_int_equal(chain.start.roster, 7);
    for (uint32_t i = COMMIT_AT + 1; i < ENTRIES; i++) {
        entry_fixture_next(&fixture, i, &entry);
        assert_null(ledger_append(&chain, &entry));
    }
    const struct hash found = ledger_chain_hash(&chain);
    const struct hash expected = ledger_chain_hash(&fixture.chain);
    assert_true(hash_equal(&found, &expected));
}

static void a_checkpoint_is_made_every_256_entries_and_for_each_epoch(void **unused) {
    (void)unused;
    static const uint64_t MADE_AT[] = {256, 402};
    uint32_t made = 0;
    begin_chain();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        if (i == 11 || i == 401) {
            entry_fixture_enroll(&fixture, i, MEMBERS, false);
        }
        chain = fixture.chain;
        entry_fixture_next(&fixture, i, &entry);
        const uint64_t last = checkpoint.entry_count;
        ledger_checkpoint_update(&checkpoint, &chain, &entry);
        if (checkpoint.entry_count != last) {
            assert_true(made < ARRAY_COUNT(MADE_AT));
            assert_int_equal(checkpoint.entry_count, MADE_AT[made++]);
            assert_null(begin_with(checkpoint.bytes, checkpoint.byte_count));
            assert_null(ledger_append(&chain, &entry));
        }
    }
    assert_int_equal(made, ARRAY_COUNT(MADE_AT));
    assert_int_equal(checkpoint.roster, 401);
}

static void a_changed_byte_is_refused(void **unused) {
    (void)unused;
    play_to_commit();
    assert_null(begin());
    for (size_t i = 0; i < checkpoint.byte_count; i++) {
        checkpoint.bytes[i] ^= 1;
        if (begin_with(checkpoint.bytes, checkpoint.byte_count) == NULL) {
            assert_non_null(ledger_append(&chain, &commit));
        }
        checkpoint.bytes[i] ^= 1;
    }
    for (size_t count = 0; count < checkpoint.byte_count; count++) {
        assert_non_null(begin_with(checkpoint.bytes, count));
    }
    assert_non_null(begin_with(checkpoint.bytes, checkpoint.byte_count + 1));
    assert_null(begin_with(checkpoint.bytes, checkpoint.byte_count));
    assert_null(ledger_append(&chain, &commit));
}

static void voters_that_the_operator_did_not_name_are_refused(void **unused) {
    (void)unused;
    set_foreign_keys();
    begin_chain();
    play(EPOCH_AT);
    entry_fixture_enroll(&fixture, 7, MEMBERS, false);
    memcpy(fixture.members, foreign, sizeof foreign); /* a roster of the tracker's own */
    play(COMMIT_AT);
    assert_refused(begin_and_append(), "a member that the operator's roster epoch does not list");
    begin_chain();
    play(EPOCH_AT);
    memcpy(fixture.members, foreign, sizeof foreign);
    const struct key_pairs operator_keys = fixture.operator_keys;
    fixture.operator_keys = foreign[0]; /* and a roster epoch of its own */
    entry_fixture_enroll(&fixture, 7, MEMBERS, false);
    fixture.operator_keys = operator_keys;
    play(COMMIT_AT);
    assert_refused(begin(), "operator did not sign");
}

/* Anyone can be a guest, so the named members alone vote. */
static void guests_of_an_open_epoch_do_not_vote(void **unused) {
    (void)unused;
    set_foreign_keys();
    for (uint32_t foreign_seat = 0; foreign_seat < MEMBERS; foreign_seat++) {
        begin_chain();
        fixture.guest_count = MEMBERS - NAMED;
        play(EPOCH_AT);
        entry_fixture_enroll(&fixture, 7, NAMED, true);
        fixture.members[foreign_seat] = foreign[foreign_seat];
        play(COMMIT_AT);
        const char *error = begin_and_append();
        if (foreign_seat < NAMED) {
            assert_refused(
                error, "gives a vote to a member that the operator's roster epoch does not list");
        } else {
            assert_null(error);
            assert_int_equal(chain.start.votes, entry_quorum(NAMED));
            assert_int_equal(chain.start.voters, NAMED);
        }
    }
}

static void a_chain_without_roster_epoch_has_no_checkpoint(void **unused) {
    (void)unused;
    begin_chain();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        chain = fixture.chain;
        entry_fixture_next(&fixture, i, &entry);
        ledger_checkpoint_update(&checkpoint, &chain, &entry);
    }
    assert_int_equal(checkpoint.byte_count, 0);
    begin_chain();
    play(COMMIT_AT);
    assert_refused(begin(), "no roster epoch");
}

static void a_checkpoint_of_another_swarm_is_refused(void **unused) {
    (void)unused;
    play_to_commit();
    fixture.chain.swarm = hash_of("other", 5);
    assert_refused(begin(), "a different swarm");
}

/* An epoch of the operator that a later one replaced: the entries show the later one. */
static void an_older_epoch_does_not_follow(void **unused) {
    (void)unused;
    play_to_commit();
    assert_null(begin_and_append());
    entry_fixture_enroll(&fixture, 6, MEMBERS, false);
    entry_fixture_next(&fixture, COMMIT_AT + 1, &entry);
    assert_refused(ledger_append(&chain, &entry), "not newer than the previous one");
    play_to_commit();
    assert_null(begin());
    struct ledger_chain *older = &fixture.chain;
    assert_null(ledger_chain_read(checkpoint.bytes, checkpoint.byte_count,
                                  memset(older, 0, sizeof *older)));
    const struct hash swarm = hash_of("manifest", 8);
    older->roster_epoch.serial = 6; /* the commit does not vouch for it */
    roster_epoch_sign(&fixture.operator_keys, &swarm, &older->roster_epoch);
    checkpoint.byte_count = ledger_chain_write(older, checkpoint.bytes);
    assert_null(begin_with(checkpoint.bytes, checkpoint.byte_count));
    assert_refused(ledger_append(&chain, &commit), "has a hash of the chain state that");
}

static void what_follows_a_checkpoint_is_its_commit(void **unused) {
    (void)unused;
    play_to_commit();
    assert_null(begin());
    entry_fixture_next(&fixture, COMMIT_AT + 1, &entry);
    assert_refused(ledger_append(&chain, &entry), "does not follow");
    assert_true(ledger_chain_is_unconfirmed(&chain));
    memset(&entry, 0, sizeof entry); /* the tracker aborts the round instead */
    entry = commit;
    entry.kind = ENTRY_ABORT;
    entry.commits--;
    entry.root = chain.root;
    entry.slice_count = 0;
    entry.result_count = 0;
    entry.results = (struct hash){{0}};
    entry.chain = (struct hash){{0}};
    memset(entry.members, 0, sizeof entry.members);
    memset(entry.signatures, 0, sizeof entry.signatures);
    entry.cursor = chain.cursor;
    cursor_return_unused(&entry.cursor, &entry, 0);
    entry_fixture_sign(&fixture, &entry);
    assert_refused(ledger_append(&chain, &entry), "is not a commit");
    play_to_commit();
    play(COMMIT_AT + 1); /* no round is open */
    assert_refused(begin(), "is not the state of a chain before a");
}

/* Numbers that later entries would count on from, in a state that a quorum has signed. */
static void numbers_that_no_chain_has_are_refused(void **unused) {
    (void)unused;
    for (int i = 0; i < 7; i++) {
        play_to_commit();
        struct ledger_chain *state = &fixture.chain;
        switch (i) {
        case 0:
            state->last_ended_round = state->last_opened_round + 1;
            break;
        case 1:
            state->reference_norm = -1;
            break;
        case 2:
            state->reference_norm = (double)NAN;
            break;
        case 3:
            state->history.states[2].round = UINT32_MAX;
            break;
        case 4:
            state->history.states[2].commits = UINT32_MAX;
            break;
        case 5:
            state->is_round_open = 0;
            break;
        default:
            state->commits = UINT32_MAX;
        }
        checkpoint.byte_count = ledger_chain_write(state, checkpoint.bytes);
        assert_refused(begin_with(checkpoint.bytes, checkpoint.byte_count),
                       "has rounds that are out of order, or");
    }
}

/* ---- the first line of a file ---- */

static struct region region;
static char path[] = "/tmp/skep-checkpoint-XXXXXX";

static void write_file(void) {
    static char memory[LEDGER_CHECKPOINT_TEXT_BYTES + LEDGER_ENTRY_TEXT_BYTES];
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    struct text text = text_over(memory, sizeof memory);
    ledger_checkpoint_line_write(&chain, bytes, &text);
    text_add(&text, "\n");
    ledger_line_write(&commit, ENTRY_WITHOUT_SLICES, &text);
    text_add(&text, "\n");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.bytes, 1, text.length, file), text.length);
    fclose(file);
}

static void a_file_may_begin_with_a_checkpoint(void **unused) {
    (void)unused;
    struct ledger_file *file = NULL;
    struct fault fault;
    bool more = false;
    play_to_commit();
    assert_null(begin());
    write_file();
    assert_int_equal(ledger_file_open(path, &region, &file, &fault), OK);
    assert_int_equal(ledger_file_next(file, &more, &fault), OK);
    assert_true(more && file->has_checkpoint);
    assert_true(hash_equal(&file->entry.hash, &commit.hash));
    assert_non_null(strstr(file->location, ":2"));
    chain = *file->checkpoint;
    assert_null(ledger_chain_begin(&chain, NULL));
    assert_null(ledger_append(&chain, &file->entry));
    assert_int_equal(ledger_file_next(file, &more, &fault), OK);
    assert_false(more);
    ledger_file_close(file);
    region_finish(&region);
}

static void the_longest_checkpoint_fits_its_line(void **unused) {
    (void)unused;
    static char memory[LEDGER_CHECKPOINT_TEXT_BYTES];
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    struct text text = text_over(memory, sizeof memory);
    memset(&chain, 0xff, sizeof chain);
    chain.is_round_open = 1;
    chain.needs_leases = 1;
    chain.electors.count = SWARM_MEMBERS_MAX;
    chain.reference_norm = 1;
    chain.history.count = ROLLBACK_STATES_MAX;
    chain.roster_epoch.count = ROSTER_KEYS_MAX;
    chain.cursor.returned_count = SWARM_RETURNED_RANGES_MAX;
    ledger_checkpoint_line_write(&chain, bytes, &text);
    assert_false(text.truncated);
    print_message("longest line of a checkpoint: %zu bytes\n", text.length);
}

static void a_wrong_first_line_is_named(void **unused) {
    (void)unused;
    static const struct {
        const char *from, *to, *words;
    } CASES[] = {
        {"entry_count", "entries", "entry_count"},
        {"\"entry_count\": 40", "\"entry_count\": 41", "is the checkpoint of a different"},
        {"\"state\": \"", "\"x\": 1, \"state\": \"", "unknown fields"},
        {"\"state\": \"d", "\"state\": \"D", "hexadecimal"},
        {"\"state\": \"de", "\"state\": \"", "state"},
    };
    static char text[LEDGER_CHECKPOINT_TEXT_BYTES + 100], changed[sizeof text];
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    struct fault fault;
    bool is_checkpoint = false;
    play_to_commit();
    assert_null(begin());
    struct text line = text_over(text, sizeof text);
    ledger_checkpoint_line_write(&chain, bytes, &line);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        const char *at = strstr(text, CASES[i].from);
        assert_non_null(at);
        const int length = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
                                    CASES[i].to, at + strlen(CASES[i].from));
        assert_int_equal(ledger_checkpoint_line_read(changed, (size_t)length, "file:1", bytes,
                                                     &chain, &is_checkpoint, &fault),
                         STATUS_INPUT);
        if (strstr(fault.reason, CASES[i].words) == NULL &&
            strstr(fault.subject, CASES[i].words) == NULL) {
            fail_msg("%zu: %s: %s", i, fault.subject, fault.reason);
        }
    }
}

static int make_file(void **unused) {
    (void)unused;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **unused) {
    (void)unused;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_continues_from_its_checkpoint),
        cmocka_unit_test(a_checkpoint_is_made_every_256_entries_and_for_each_epoch),
        cmocka_unit_test(a_changed_byte_is_refused),
        cmocka_unit_test(voters_that_the_operator_did_not_name_are_refused),
        cmocka_unit_test(guests_of_an_open_epoch_do_not_vote),
        cmocka_unit_test(a_chain_without_roster_epoch_has_no_checkpoint),
        cmocka_unit_test(a_checkpoint_of_another_swarm_is_refused),
        cmocka_unit_test(an_older_epoch_does_not_follow),
        cmocka_unit_test(what_follows_a_checkpoint_is_its_commit),
        cmocka_unit_test(numbers_that_no_chain_has_are_refused),
        cmocka_unit_test(a_file_may_begin_with_a_checkpoint),
        cmocka_unit_test(the_longest_checkpoint_fits_its_line),
        cmocka_unit_test(a_wrong_first_line_is_named),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
