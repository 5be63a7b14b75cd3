/* test_tracker_durable: what a tracker promised is what it starts from, whatever ended it. */
#include "runtime/swarm/tracker/tracker_durable.h"

#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLICES = 5, DECLARED = 0x25, KILLS = 20 };

/* A record with arrays of its own. */
struct rig {
    struct tracker_record record;
    struct entry_slice head[SLICES], commit[SLICES];
    struct slice_plan plans[SLICES];
};

static struct rig first, second;
static struct tracker_durable durable;
static struct region region;
static struct key_pairs keys;
static struct durable_options options;
static char folder[64], path[128];

static void bind(struct rig *rig) {
    memset(rig, 0, sizeof *rig);
    rig->record.head.slices = rig->head;
    rig->record.commit.slices = rig->commit;
    rig->record.table.slices = rig->plans;
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-durable-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct text text = text_over(path, sizeof path);
    text_add(&text, "%s/tracker.db", folder);
    uint8_t secrets[2 * KEY_BYTES] = {7};
    keys_from_secrets(secrets, &keys);
    options = (struct durable_options){.path = path,
                                       .keys = &keys,
                                       .slice_count = SLICES,
                                       .manifest = hash_of("manifest", 8),
                                       .root = hash_of("root", 4)};
    bind(&first);
    bind(&second);
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

static void open_into(struct rig *rig) {
    struct fault fault = {0};
    if (tracker_durable_open(&options, &region, &durable, &rig->record, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

/* Writes as the machine would, and moves the record on as it would. */
static enum write_outcome write_record(struct rig *rig, bool appends) {
    struct event event;
    struct fault fault;
    const struct action action = {
        .kind = ACTION_WRITE, .record = &rig->record, .entry = appends ? &rig->record.head : NULL};
    tracker_durable_write(&durable, &action, &event, &fault);
    assert_int_equal(event.kind, EVENT_WRITTEN);
    if (event.write_outcome == WRITE_OK && appends) {
        rig->record.head.hash = event.hash;
        if (rig->record.head.kind != ENTRY_COMMIT) {
            rig->record.head.signature_count = 1;
            rig->record.head.signatures[0].signature = event.signature;
        }
    }
    return event.write_outcome;
}

static void add_member(struct tracker_record *record, uint8_t number) {
    record->members[record->member_count].id.bytes[0] = number;
    record->members[record->member_count].misses = number & 7U;
    record->members[record->member_count].opposed = 0x51U * number;
    record->members[record->member_count].share = 100U * number;
    uint32_t speed[sizeof(struct record_speed) / sizeof(uint32_t)];
    for (uint32_t i = 0; i < ARRAY_COUNT(speed); i++) {
        speed[i] = 1000U * number + i;
    }
    memcpy(&record->speeds[record->member_count], speed, sizeof speed);
    record->members[record->member_count++].session = record->next_session++;
}

static void begin_entry(struct tracker_record *record, enum entry_kind kind) {
    struct entry *head = &record->head;
    head->kind = kind;
    head->incarnation = durable.incarnation;
    head->prev = head->hash;
    head->commits = record->commit.commits + (kind == ENTRY_COMMIT ? 1U : 0U);
    head->root = record->commit.root;
    head->manifest = (struct hash){{0}};
    head->train_ms = 0;
    head->signature_count = 0;
    head->slice_count = 0;
    head->result_count = 0;
    head->results = (struct hash){{0}};
    head->chain = (struct hash){{0}};
}

static void open_round(struct tracker_record *record) {
    begin_entry(record, ENTRY_OPEN);
    struct entry *head = &record->head;
    head->round++;
    head->train_ms = 500;
    head->seat_count = record->member_count;
    for (uint32_t seat = 0; seat < head->seat_count; seat++) {
        head->seats[seat] = (struct entry_seat){.id = record->members[seat].id,
                                                .session = record->members[seat].session,
                                                .range_count = 1,
                                                .ranges = {{seat * 10, seat * 10 + 10}}};
    }
    head->cursor.position = 10 * head->seat_count;
    record->table.round = head->round;
    record->table.version = 0;
}

static void make_table(struct tracker_record *record) {
    struct round_table *table = &record->table;
    table->version = 1;
    table->declared_seats = DECLARED;
    memset(table->members, 0, sizeof table->members);
    memset(table->signatures, 0, sizeof table->signatures);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        table->roots[seat] = (struct hash){{0}};
        if (((uint64_t)DECLARED >> seat & 1) != 0) {
            table->members[seat] = (struct entry_member){.tokens = 1000 + seat,
                                                         .weight = 900 + seat,
                                                         .samples = 1 + seat,
                                                         .norm = 0.5 + seat};
            const uint32_t words[] = {table->round, seat};
            table->roots[seat] = hash_of(words, sizeof words);
            memset(&table->signatures[seat], (int)(seat + 1), sizeof table->signatures[seat]);
        }
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        table->slices[s] = (struct slice_plan){
            .owner = s % 3, .epoch = 0, .expected_seats = DECLARED & 1, .optional_seats = 2};
    }
}

static void commit_round(struct tracker_record *record) {
    begin_entry(record, ENTRY_COMMIT);
    struct entry *head = &record->head;
    memcpy(head->members, record->table.members, sizeof head->members);
    head->root = hash_of(&head->round, sizeof head->round);
    head->slice_count = SLICES;
    for (uint32_t s = 0; s < SLICES; s++) {
        head->slices[s] = (struct entry_slice){.begin = s, .end = s + 1, .owner = s % 3};
    }
    entry_derive_fields_from_rows(head);
    head->signature_count = 1;
    head->hash = entry_hash(head);
}

static void compare(const struct tracker_record *a, const struct tracker_record *b) {
    assert_int_equal(a->next_session, b->next_session);
    assert_int_equal(a->member_count, b->member_count);
    assert_memory_equal(a->members, b->members, sizeof a->members);
    assert_memory_equal(a->speeds, b->speeds, sizeof a->speeds);
    assert_memory_equal(&a->head.hash, &b->head.hash, sizeof a->head.hash);
    assert_memory_equal(&a->commit.hash, &b->commit.hash, sizeof a->commit.hash);
    assert_memory_equal(&a->base_root, &b->base_root, sizeof a->base_root);
    assert_int_equal(a->table.round, b->table.round);
    assert_int_equal(a->table.version, b->table.version);
    if (a->table.version == 0) {
        return;
    }
    assert_int_equal(a->table.declared_seats, b->table.declared_seats);
    assert_memory_equal(a->table.members, b->table.members, sizeof a->table.members);
    assert_memory_equal(a->table.signatures, b->table.signatures, sizeof a->table.signatures);
    assert_memory_equal(a->table.slices, b->table.slices, SLICES * sizeof a->table.slices[0]);
    assert_memory_equal(a->table.roots, b->table.roots, sizeof a->table.roots);
}

/* Ends this start and begins the next, whose record is compared. */
static void restart(const struct rig *rig) {
    tracker_durable_close(&durable);
    bind(&second);
    open_into(&second);
    assert_int_equal(second.record.incarnation, durable.incarnation);
    compare(&rig->record, &second.record);
}

static void a_new_swarm_begins_with_its_genesis(void **state) {
    (void)state;
    open_into(&first);
    assert_int_equal(durable.incarnation, 1);
    assert_int_equal(first.record.head.kind, ENTRY_GENESIS);
    assert_memory_equal(&first.record.head.manifest, &options.manifest, HASH_BYTES);
    assert_memory_equal(&first.record.commit.root, &options.root, HASH_BYTES);
    assert_true(ledger_is_signed_by(keys.public_keys.sign, &first.record.head.hash,
                                    &first.record.head.signatures[0].signature));
    assert_int_equal(first.record.next_session, 1);
    restart(&first);
    assert_int_equal(durable.incarnation, 2);
    assert_int_equal(durable.store.entry_count, 1);
    tracker_durable_close(&durable);
}

static void every_step_of_a_round_is_recalled(void **state) {
    (void)state;
    open_into(&first);
    struct tracker_record *record = &first.record;
    for (uint8_t number = 1; number <= 6; number++) {
        add_member(record, number);
        assert_int_equal(write_record(&first, false), WRITE_OK);
    }
    restart(&first);
    open_round(record);
    record->head.incarnation = durable.incarnation;
    assert_int_equal(write_record(&first, true), WRITE_OK);
    restart(&first);
    make_table(record);
    assert_int_equal(write_record(&first, false), WRITE_OK);
    restart(&first);
    record->table.version++;
    record->table.slices[2].owner = 5;
    record->table.slices[2].epoch++;
    assert_int_equal(write_record(&first, false), WRITE_OK);
    add_member(record, 9);
    assert_int_equal(write_record(&first, false), WRITE_OK);
    restart(&first);
    commit_round(record);
    assert_int_equal(write_record(&first, true), WRITE_OK);
    record->base_root = record->commit.root;
    entry_copy(&record->commit, &record->head);
    restart(&first);
    begin_entry(record, ENTRY_OPEN);
    open_round(record);
    assert_int_equal(write_record(&first, true), WRITE_OK);
    restart(&first);
    tracker_durable_close(&durable);
}

static void suspend(struct tracker_record *record, uint32_t row, uint32_t until_round) {
    begin_entry(record, ENTRY_SUSPEND);
    record->head.suspension = (struct entry_suspension){
        .id = record->members[row].id, .reason = SUSPENSION_LARGE_NORM, .until_round = until_round};
    assert_int_equal(write_record(&first, true), WRITE_OK);
    record->head.suspension = (struct entry_suspension){0};
}

/* As many later suspensions as guests can cause do not end the suspension of a member. */
static void a_suspension_is_recalled_after_any_number_of_entries(void **state) {
    enum { LATER = 2 * TRACKER_REPLAY_ENTRIES, UNTIL_ROUND = 513 };
    static struct tracker_view view;
    const struct tracker_settings settings = {.slice_count = SLICES,
                                              .slice_elements = 10,
                                              .parameter_count = 10 * SLICES,
                                              .seat_samples = 4,
                                              .sample_tokens = 4,
                                              .members_min = 1,
                                              .training = {1, 2},
                                              .times = {1, 1, 1, 1, 1}};
    struct tracker_record *record = &first.record;
    struct fault fault = {0};
    (void)state;
    open_into(&first);
    for (uint8_t number = 1; number <= 3; number++) {
        add_member(record, number);
    }
    open_round(record);
    assert_int_equal(write_record(&first, true), WRITE_OK);
    begin_entry(record, ENTRY_ABORT);
    assert_int_equal(write_record(&first, true), WRITE_OK);
    suspend(record, 1, UNTIL_ROUND);
    for (uint32_t i = 0; i < LATER; i++) {
        suspend(record, 2, 3);
    }
    tracker_durable_close(&durable);
    bind(&second);
    open_into(&second);
    void *memory = aligned_alloc(64, (tracker_memory_bytes(&settings) + 63) / 64 * 64);
    struct tracker *tracker = tracker_init(memory, &settings, &second.record, 0);
    assert_int_equal(tracker_durable_replay(&durable, tracker, &fault), OK);
    tracker_read_view(tracker, &view);
    assert_int_equal(view.members[0].suspended_until, 0);
    assert_int_equal(view.members[1].suspended_until, UNTIL_ROUND);
    assert_int_equal(view.members[1].suspended_for, SUSPENSION_LARGE_NORM);
    free(memory);
    tracker_durable_close(&durable);
}

static void a_commit_whose_hash_is_not_its_own_is_not_written(void **state) {
    (void)state;
    open_into(&first);
    add_member(&first.record, 1);
    add_member(&first.record, 2);
    add_member(&first.record, 3);
    open_round(&first.record);
    assert_int_equal(write_record(&first, true), WRITE_OK);
    make_table(&first.record);
    commit_round(&first.record);
    first.record.head.hash.bytes[0] ^= 1;
    assert_int_equal(write_record(&first, true), WRITE_FAILED);
    assert_int_equal(durable.store.entry_count, 2);
    first.record.head.hash.bytes[0] ^= 1;
    assert_int_equal(write_record(&first, true), WRITE_OK);
    tracker_durable_close(&durable);
}

static void an_earlier_start_writes_nothing_any_more(void **state) {
    (void)state;
    uint32_t later;
    struct fault fault;
    open_into(&first);
    assert_int_equal(ledger_store_count_start(&durable.store, &later, &fault), OK);
    add_member(&first.record, 1);
    assert_int_equal(write_record(&first, false), WRITE_FENCED);
    bind(&second);
    tracker_durable_close(&durable);
    open_into(&second);
    assert_int_equal(second.record.member_count, 0);
    tracker_durable_close(&durable);
}

static void run_command(const char *format, const char *from, const char *to) {
    char command[256];
    struct text text = text_over(command, sizeof command);
    text_add(&text, format, from, to);
    assert_false(text.truncated);
    assert_int_equal(system(command), 0);
}

/* A restart and a renamed folder keep the place, and a copy of the file gets another one. */
static void a_copy_of_the_store_has_another_place(void **state) {
    (void)state;
    static const char COPY[] = "cp %1$s %1$s.copy && mv %1$s.copy %1$s", RENAME[] = "mv %s %s";
    char renamed[128];
    open_into(&first);
    const uint32_t place = durable.place;
    assert_true(place >= 1 && place <= INT32_MAX);
    restart(&first);
    assert_int_equal(durable.place, place);
    tracker_durable_close(&durable);
    struct text text = text_over(renamed, sizeof renamed);
    text_add(&text, "%s/other.db", folder);
    run_command(RENAME, path, renamed);
    options.path = renamed;
    bind(&second);
    open_into(&second);
    assert_int_equal(durable.place, place);
    tracker_durable_close(&durable);
    run_command(COPY, renamed, "");
    bind(&second);
    open_into(&second);
    const uint32_t copied = durable.place;
    assert_int_not_equal(copied, place);
    restart(&second);
    assert_int_equal(durable.place, copied);
    tracker_durable_close(&durable);
    options.path = path;
}

static void the_ledger_of_another_swarm_is_refused(void **state) {
    (void)state;
    struct fault fault;
    open_into(&first);
    tracker_durable_close(&durable);
    options.manifest.bytes[0] ^= 1;
    assert_int_equal(tracker_durable_open(&options, &region, &durable, &second.record, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "manifest"));
    options.manifest.bytes[0] ^= 1;
    options.root.bytes[0] ^= 1;
    assert_int_equal(tracker_durable_open(&options, &region, &durable, &second.record, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "root"));
}

/* On a bad disk any byte may be another one: it is refused, or read as one of the form. */
static void parts_that_are_cut_or_changed_are_read_without_harm(void **state) {
    (void)state;
    static uint8_t bytes[8192], copy[8192];
    bind(&first);
    first.record.next_session = 8;
    add_member(&first.record, 1);
    first.record.table.round = 3;
    make_table(&first.record);
    size_t count = record_write_table(&first.record, SLICES, bytes);
    assert_true(count <= sizeof bytes && count <= record_table_bytes_max(SLICES));
    for (size_t cut = 0; cut <= count + 1; cut++) {
        const char *wrong = record_read_table(bytes, cut, SLICES, &second.record);
        assert_true((wrong == NULL) == (cut == count));
    }
    assert_non_null(record_read_table(bytes, count, SLICES - 1, &second.record));
    for (size_t at = 0; at < count; at++) {
        memcpy(copy, bytes, count);
        copy[at] ^= 0x80;
        const char *wrong = record_read_table(copy, count, SLICES, &second.record);
        assert_true(wrong != NULL || record_write_table(&second.record, SLICES, copy) == count);
    }
    count = record_write_members(&first.record, bytes);
    for (size_t cut = 0; cut <= count + 1; cut++) {
        const char *wrong = record_read_members(bytes, cut, &second.record);
        assert_true((wrong == NULL) == (cut == count));
    }
    bytes[8] = 65;
    assert_non_null(record_read_members(bytes, sizeof bytes, &second.record));
}

/* Each turn one write with an entry, or with a table of a new version, till it is killed. */
static void write_without_end(int out) {
    struct tracker_record *record = &first.record;
    open_into(&first);
    if (record->member_count == 0) {
        add_member(record, 1);
    }
    for (;;) {
        open_round(record);
        bool ok = write_record(&first, true) == WRITE_OK;
        make_table(record);
        ok &= write_record(&first, false) == WRITE_OK;
        begin_entry(record, ENTRY_ABORT);
        record->next_session = record->head.round + 1;
        ok &= write_record(&first, true) == WRITE_OK;
        if (!ok || write(out, &record->head.round, 4) != 4) {
            _exit(1);
        }
    }
}

/* Entry and promises of one write are both there, or neither: an ABORT came with next_session. */
static void a_kill_leaves_whole_writes(void **state) {
    (void)state;
    uint32_t told = 0;
    for (uint32_t turn = 0; turn < KILLS; turn++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        if (child == 0) {
            close(pipes[0]);
            write_without_end(pipes[1]);
        }
        close(pipes[1]);
        assert_int_equal(read(pipes[0], &told, 4), 4);
        for (volatile uint32_t spin = turn * 150000; spin > 0; spin--) {
        }
        kill(child, SIGKILL);
        while (read(pipes[0], &told, 4) == 4) {
        }
        close(pipes[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        bind(&second);
        open_into(&second);
        const struct tracker_record *record = &second.record;
        uint32_t ended = record->head.round - (record->head.kind == ENTRY_OPEN);
        assert_true(ended >= told);
        assert_int_equal(record->next_session, ended > 0 ? ended + 1 : 2);
        assert_true(record->table.round == record->head.round);
        tracker_durable_close(&durable);
        region_finish(&region);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_swarm_begins_with_its_genesis, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(every_step_of_a_round_is_recalled, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_suspension_is_recalled_after_any_number_of_entries,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_commit_whose_hash_is_not_its_own_is_not_written,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_earlier_start_writes_nothing_any_more, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_copy_of_the_store_has_another_place, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(the_ledger_of_another_swarm_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(parts_that_are_cut_or_changed_are_read_without_harm,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_kill_leaves_whole_writes, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
