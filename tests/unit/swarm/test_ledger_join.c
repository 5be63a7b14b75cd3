/* test_ledger_join: how many bytes of a long ledger a joiner receives from a running tracker. The
 * ledger ends with the last commit before a new checkpoint, so that no other costs much more. */
#include "base/clock.h"
#include "base/log.h"
#include "entry_fixture.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/member/ledger_follower.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm/wire/wire_service.h"
#include "transport/messages/messages.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    FEW_MEMBERS = 8,
    MANY_MEMBERS = SWARM_MEMBERS_MAX,
    SLICES_MAX = 969,
    EPOCH_AT = 1, /* index of the OPEN with the roster epoch */
    FEW_CHECKPOINTS = 2,
    MANY_CHECKPOINTS = 79, /* 10,112 rounds */
    /* Right before a checkpoint that is due for the bytes of the records. */
    LEASES_ENTRIES = 503,
    MANY_MEMBERS_ENTRIES = 125,
    BYTES_MAX = 1 << 20,
    WAIT_MS = 20,
    WITHIN_S = 60,
};

static struct entry_slice slices[SLICES_MAX], joiner_slices[2 * SLICES_MAX];
static struct entry_slice catch_up_slices[REPLAY_ROUNDS_MAX * SLICES_MAX];
static struct entry_fixture fixture;
static struct entry entry;
static struct hash genesis_root;
static struct region region;
static struct tracker_loop *loop;
static struct fault fault;
static char folder[64], store_path[128], list_path[128];
static int stop_pipe[2];
static pthread_t thread;

/* The ledger that the tracker has. */
static struct ledger_case {
    uint32_t member_count, slice_count, entry_count;
    uint64_t start; /* of the tracker, in the leases of each OPEN; 0: there are none */
} given;

static void write_store(void) {
    struct ledger_store store;
    assert_int_equal(ledger_store_open(store_path, &region, &store, &fault), OK);
    entry_fixture_init(&fixture, given.member_count, slices, given.slice_count);
    fixture.start = given.start;
    for (uint32_t i = 0; i < given.entry_count; i++) {
        if (i == EPOCH_AT) {
            entry_fixture_enroll(&fixture, 1, given.member_count, false);
        }
        entry_fixture_next(&fixture, i, &entry);
        genesis_root = i == 0 ? entry.root : genesis_root;
        if (i + 2 * (REPLAY_ROUNDS_MAX + 2) < given.entry_count) {
            entry.slice_count = 0; /* the store keeps the rows of the newest eight commits */
        }
        assert_int_equal(ledger_store_append(&store, &entry, &fault), OK);
    }
    ledger_store_close(&store);
}

static void *run_tracker(void *unused) {
    (void)unused;
    assert_int_equal(tracker_loop_run(loop, &fault), OK);
    return NULL;
}

static void start_tracker(const struct key_pairs *keys) {
    char key[KEYS_TEXT_BYTES];
    FILE *list = fopen(list_path, "w");
    assert_non_null(list);
    fputs("members:\n", list);
    fclose(list);
    assert_int_equal(
        allow_list_add(list_path, public_keys_write(&keys->public_keys, key), NULL, &fault), OK);
    assert_int_equal(pipe(stop_pipe), 0);
    const struct tracker_loop_options options = {
        .keys = &fixture.tracker,
        .name = "join",
        .listen = "tcp://127.0.0.1:*",
        .store_path = store_path,
        .allow_list_path = list_path,
        .manifest = (const uint8_t *)"manifest",
        .manifest_bytes = 8,
        .manifest_hash = hash_of("manifest", 8),
        .genesis_root = genesis_root,
        .settings = {.slice_count = given.slice_count,
                     .slice_elements = 1000,
                     .parameter_count = 1000 * given.slice_count,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = 1,
                     .shrink_after_ms = 3000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = given.member_count,
        .queued_frames = 8,
        .stop_fd = stop_pipe[0],
    };
    assert_int_equal(tracker_loop_open(&options, &region, &loop, &fault), OK);
    assert_int_equal(pthread_create(&thread, NULL, run_tracker, NULL), 0);
}

/* ---- the joiner ---- */

static struct joiner {
    struct key_pairs keys;
    struct messenger *messenger;
    struct member_loop_options options;
    struct replica replica;
    struct catch_up catch_up;
    struct idle_reason reason;
    struct ledger_follower follower;
    struct wire_chunks chunks;
    uint64_t bytes, entries; /* received: bytes with the frames' headers, entries */
} joiner;
static void *member;

static bool count_entry(void *context, const struct ledger_chain *checkpoint,
                        const struct entry *added) {
    (void)context;
    (void)checkpoint;
    joiner.entries += added != NULL;
    return true;
}

static void make_follower(void) {
    joiner.replica.shape.slices.count = given.slice_count;
    joiner.options = (struct member_loop_options){.keys = &joiner.keys,
                                                  .replica = &joiner.replica,
                                                  .manifest = hash_of("manifest", 8),
                                                  .tracker_address = "the tracker",
                                                  .append_ledger_entry = count_entry};
    memcpy(joiner.options.operator_key, fixture.operator_keys.public_keys.sign, KEY_BYTES);
    const struct member_initial_state start = {
        .start_id = 1, .slice_count = given.slice_count, .root = genesis_root};
    free(member);
    member = aligned_alloc(64, (member_memory_bytes(given.slice_count) + 63) / 64 * 64);
    catch_up_init(&joiner.catch_up, &joiner.replica.shape.slices, catch_up_slices);
    ledger_follower_init(&joiner.follower,
                         &(struct ledger_follower_args){.options = &joiner.options,
                                                        .member = member_init(member, &start),
                                                        .catch_up = &joiner.catch_up,
                                                        .reason = &joiner.reason},
                         joiner_slices);
    assert_int_equal(ledger_follower_restore(&joiner.follower, &fault), OK);
}

static void open_joiner(void) {
    struct messenger_options options = {.keys = &joiner.keys, .peers_max = 1, .queued_frames = 8};
    char address[64];
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    make_follower();
    const size_t capacity = wire_ledger_page_bytes_max(given.slice_count);
    joiner.chunks =
        (struct wire_chunks){.bytes = region_alloc(&region, capacity, 1), .capacity = capacity};
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", tracker_loop_port(loop));
    assert_int_equal(messenger_open(&options, &region, &joiner.messenger, &fault), OK);
    assert_int_equal(messenger_register_peer(joiner.messenger, fixture.tracker.public_keys.curve,
                                             region_copy_text(&region, address), &fault),
                     OK);
}

static void receive(const struct messenger_event *event) {
    const uint8_t *payload = NULL;
    joiner.bytes += FRAME_HEADER_BYTES + event->frame.length;
    if (!wire_is_chunked(event->frame.kind) ||
        wire_chunks_add(&joiner.chunks, &event->frame, event->payload, &payload) != WIRE_COMPLETE) {
        return;
    }
    const size_t count = joiner.chunks.payload_bytes - WIRE_LENGTH_BYTES;
    if (event->frame.kind == WIRE_CHECKPOINT) {
        ledger_follower_on_checkpoint(&joiner.follower, payload + WIRE_LENGTH_BYTES, count);
    } else if (event->frame.kind == WIRE_LEDGER) {
        (void)ledger_follower_on_page(&joiner.follower, payload + WIRE_LENGTH_BYTES, count);
    }
}

static void request(void) {
    struct frame frame;
    const int64_t now_ns = clock_monotonic_ns();
    if (ledger_follower_fill_request(&joiner.follower, now_ns, &frame) &&
        messenger_send(joiner.messenger, fixture.tracker.public_keys.curve, CHANNEL_CONTROL, &frame,
                       NULL) == SEND_OK) {
        ledger_follower_record_request(&joiner.follower, now_ns);
    }
}

/* Reads the tracker's ledger to its end. */
static void run_joiner(void) {
    const int64_t begun_ns = clock_monotonic_ns();
    bool is_open = false;
    while (joiner.follower.needs_entries) {
        struct messenger_event event;
        assert_true(clock_seconds_since(begun_ns) < WITHIN_S);
        messenger_wait(joiner.messenger, -1, WAIT_MS);
        while (messenger_next_event(joiner.messenger, &event)) {
            is_open |= event.kind == MESSENGER_OPENED;
            if (event.kind == MESSENGER_FRAME) {
                receive(&event);
            }
        }
        if (is_open) {
            request();
        }
    }
    messenger_close(joiner.messenger, 0);
}

static void join(struct ledger_case ledger) {
    memset(&joiner, 0, sizeof joiner);
    keys_generate(&joiner.keys);
    given = ledger;
    write_store();
    start_tracker(&joiner.keys);
    open_joiner();
    run_joiner();
    print_message("%u members, %u slices, %u rounds: %llu bytes, %llu of %u entries\n",
                  given.member_count, given.slice_count, given.entry_count / 2,
                  (unsigned long long)joiner.bytes, (unsigned long long)joiner.entries,
                  given.entry_count);
    assert_string_equal(joiner.reason.text, "");
    assert_true(ledger_follower_is_synced(&joiner.follower));
    assert_int_equal(joiner.follower.chain.entry_count, given.entry_count);
    const struct hash found = ledger_chain_hash(&joiner.follower.chain);
    const struct hash expected = ledger_chain_hash(&fixture.chain);
    assert_true(hash_equal(&found, &expected));
    close(stop_pipe[1]);
    pthread_join(thread, NULL);
    tracker_loop_close(loop);
    close(stop_pipe[0]);
    unlink(store_path);
    region_finish(&region);
}

static void a_join_fetches_at_most_1_mib(void **state) {
    (void)state;
    static const uint32_t SLICES[] = {32, SLICES_MAX};
    const uint32_t checkpoints = getenv("SKEP_LONG") != NULL ? MANY_CHECKPOINTS : FEW_CHECKPOINTS;
    const uint32_t entries = checkpoints * LEDGER_CHECKPOINT_ENTRIES - 1;
    for (size_t i = 0; i < ARRAY_COUNT(SLICES); i++) {
        join((struct ledger_case){FEW_MEMBERS, SLICES[i], entries, 0});
        assert_int_equal(joiner.entries, LEDGER_CHECKPOINT_ENTRIES - 1);
        assert_true(joiner.bytes <= BYTES_MAX);
    }
}

/* Leases make an OPEN longer, so there are fewer entries between two checkpoints. */
static void leases_do_not_make_a_join_longer(void **state) {
    (void)state;
    join((struct ledger_case){FEW_MEMBERS, SLICES_MAX, LEASES_ENTRIES, 7});
    assert_int_equal(joiner.follower.chain.needs_leases, 1);
    assert_true(joiner.bytes <= BYTES_MAX);
}

/* Entries with 64 seats are longer, so there are fewer between two checkpoints. */
static void a_large_roster_does_not_make_a_join_longer(void **state) {
    (void)state;
    join((struct ledger_case){MANY_MEMBERS, SLICES_MAX, MANY_MEMBERS_ENTRIES, 0});
    assert_true(joiner.bytes <= BYTES_MAX);
}

static void a_join_before_the_first_checkpoint_fetches_all(void **state) {
    (void)state;
    const uint32_t entries = LEDGER_CHECKPOINT_ENTRIES - 9;
    join((struct ledger_case){FEW_MEMBERS, 4, entries, 0});
    assert_int_equal(joiner.entries, entries);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-ledger-join-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/tracker.db", folder);
    snprintf(list_path, sizeof list_path, "%s/roster.yaml", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    free(member);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_fetches_at_most_1_mib),
        cmocka_unit_test(leases_do_not_make_a_join_longer),
        cmocka_unit_test(a_large_roster_does_not_make_a_join_longer),
        cmocka_unit_test(a_join_before_the_first_checkpoint_fetches_all),
    };
    log_init(0);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
