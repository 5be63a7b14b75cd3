/* test_ledger_server: a running tracker sends a ledger whose entries are longer than a frame. */
#include "runtime/swarm/tracker/tracker.h"

#include "base/log.h"
#include "entry_fixture.h"
#include "runtime/swarm/client/ledger_source.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/tracker/allow_list.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = SWARM_MEMBERS_MAX, SLICES = SWARM_SLICES_MAX, ENTRIES = 7 };

static struct entry_slice slices[SLICES];
static struct entry_fixture fixture;
static struct entry entry;
static struct hash hashes[ENTRIES], genesis_root;
static struct region region;
static struct tracker_loop *loop;
static struct fault fault;
static char folder[64], store_path[128], list_path[128];
static int stop_pipe[2];
static pthread_t thread;
static size_t longest;

static void write_store(void) {
    struct ledger_store store;
    assert_int_equal(ledger_store_open(store_path, &region, &store, &fault), OK);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        entry_fixture_next(&fixture, i, &entry);
        assert_int_equal(ledger_store_append(&store, &entry, &fault), OK);
        genesis_root = i == 0 ? entry.root : genesis_root;
        hashes[i] = entry.hash;
        const size_t bytes = entry_record_bytes(&entry, ENTRY_WITH_SLICES);
        longest = bytes > longest ? bytes : longest;
    }
    ledger_store_close(&store);
}

static void *run_tracker(void *unused) {
    (void)unused;
    assert_int_equal(tracker_loop_run(loop, &fault), OK);
    return NULL;
}

/* Fills the allow-list of an open swarm, which any reader may query. */
static void name_members(void) {
    char key[KEYS_TEXT_BYTES];
    for (uint32_t i = 0; i < MEMBERS; i++) {
        public_keys_write(&fixture.members[i].public_keys, key);
        assert_int_equal(allow_list_add(list_path, key, NULL, &fault), OK);
    }
}

static void start_tracker(void) {
    const struct tracker_loop_options options = {
        .keys = &fixture.tracker,
        .name = "pages",
        .listen = "tcp://127.0.0.1:*",
        .store_path = store_path,
        .allow_list_path = list_path,
        .manifest = (const uint8_t *)"manifest",
        .manifest_bytes = 8,
        .manifest_hash = hash_of("manifest", 8),
        .genesis_root = genesis_root,
        .settings = {.slice_count = SLICES,
                     .slice_elements = 1000,
                     .parameter_count = 1000 * SLICES,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = 1,
                     .shrink_after_ms = 3000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = MEMBERS,
        .queued_frames = 8,
        .stop_fd = stop_pipe[0],
    };
    FILE *list = fopen(list_path, "w");
    assert_non_null(list);
    fputs("open: true\n", list);
    fclose(list);
    name_members();
    assert_int_equal(pipe(stop_pipe), 0);
    struct tracker_loop_options made = options;
    made.stop_fd = stop_pipe[0];
    assert_int_equal(tracker_loop_open(&made, &region, &loop, &fault), OK);
    assert_int_equal(pthread_create(&thread, NULL, run_tracker, NULL), 0);
}

static void stop_tracker(void) {
    close(stop_pipe[1]);
    pthread_join(thread, NULL);
    tracker_loop_close(loop);
    close(stop_pipe[0]);
}

static void a_reader_gets_entries_that_are_longer_than_a_frame(void **state) {
    (void)state;
    struct tracker_contact tracker = {.keys = fixture.tracker.public_keys};
    struct ledger_source *source = NULL;
    bool more = true;
    snprintf(tracker.address, sizeof tracker.address, "tcp://127.0.0.1:%u",
             tracker_loop_port(loop));
    assert_true(longest > FRAME_PAYLOAD_MAX);
    assert_int_equal(
        ledger_source_open_remote(&fixture.tracker, &tracker, &region, &source, &fault), OK);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        if (ledger_source_next(source, &more, &fault) != OK) {
            fail_msg("%s: %s", fault.subject, fault.reason);
        }
        assert_true(more);
        assert_true(hash_equal(&source->entry->hash, &hashes[i]));
    }
    assert_int_equal(ledger_source_next(source, &more, &fault), OK);
    assert_false(more);
    ledger_source_close(source);
}

static int begin(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-ledger-server-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/tracker.db", folder);
    snprintf(list_path, sizeof list_path, "%s/roster.yaml", folder);
    write_store();
    start_tracker();
    return 0;
}

static int end(void **state) {
    (void)state;
    stop_tracker();
    region_finish(&region);
    unlink(store_path);
    unlink(list_path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_entries_that_are_longer_than_a_frame),
    };
    log_init(0);
    return cmocka_run_group_tests(tests, begin, end);
}
