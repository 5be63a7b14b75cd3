/* test_tracker_guests: who has a place at a tracker: strangers keep nobody out who is expected, and
 * who does nothing with its place loses it. The tracker runs in a thread. */
#include "runtime/swarm/tracker/tracker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/wire/wire_service.h"
#include "scripted_member.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MEMBERS = 2, SCRIPTED = 3, VOTERS = 3, WITHIN_MS = 30000, WAIT_MS = 2, IDLE_MS = 300 };

static const char MANIFEST[] = "format: 1\nname: scripted\n";

/* Connects, and says nothing. */
struct stranger {
    struct key_pairs keys;
    struct region region;
    struct messenger *messenger;
    uint32_t opened, closed;
    uint32_t answers;       /* manifests and statuses */
    char status[64 * 1024]; /* the last status */
};

static struct scripted_member members[SCRIPTED];
static bool hangs[SCRIPTED]; /* stays connected, and says and hears nothing */
static struct stranger strangers[2];
static struct key_pairs tracker_keys;
static struct hash manifest_hash, genesis_root;
static struct region region;
static struct tracker_loop *loop;
static char folder[64], store_path[128], roster_path[128], address[64];
static int stop_pipe[2];
static pthread_t thread;
static bool is_running;
static uint32_t idle_ms;

static void *run(void *context) {
    struct fault fault;
    (void)context;
    return tracker_loop_run(loop, &fault) == OK ? NULL : loop;
}

static void go_on(void) {
    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    is_running = true;
}

static void pause_tracker(void) {
    void *failed = NULL;
    char byte = 0;
    assert_int_equal(write(stop_pipe[1], &byte, 1), 1);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_int_equal(read(stop_pipe[0], &byte, 1), 1);
    assert_null(failed);
    is_running = false;
}

static void open_tracker(uint32_t members_max) {
    struct fault fault;
    const struct tracker_loop_options options = {
        .keys = &tracker_keys,
        .name = "scripted",
        .listen = "tcp://127.0.0.1:*",
        .store_path = store_path,
        .allow_list_path = roster_path,
        .manifest = (const uint8_t *)MANIFEST,
        .manifest_bytes = sizeof MANIFEST - 1,
        .manifest_hash = manifest_hash,
        .genesis_root = genesis_root,
        .settings = {.slice_count = SCRIPTED_SLICES,
                     .slice_elements = 10,
                     .parameter_count = 10 * SCRIPTED_SLICES - 3,
                     .seat_samples = 4,
                     .sample_tokens = 4,
                     .members_min = MEMBERS,
                     .shrink_after_ms = 1000,
                     .training = {1, 2},
                     .times = {1, 1, 1, 1, 1}},
        .members_max = members_max,
        .queued_frames = 8,
        .strangers_max = 1,
        .idle_ms = idle_ms,
        .stop_fd = stop_pipe[0],
    };
    assert_int_equal(tracker_loop_open(&options, &region, &loop, &fault), OK);
    struct text text = text_over(address, sizeof address);
    text_add(&text, "tcp://127.0.0.1:%u", tracker_loop_port(loop));
    go_on();
}

static void write_roster(const char *text) {
    FILE *file = fopen(roster_path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void let_in(int count) {
    for (int i = 1; i <= count; i++) {
        struct key_pairs keys;
        struct fault fault;
        char key[KEYS_TEXT_BYTES];
        scripted_keys((uint8_t)i, &keys);
        public_keys_write(&keys.public_keys, key);
        assert_int_equal(allow_list_add(roster_path, key, NULL, &fault), OK);
    }
}

/* An open list with this many named members. */
static void open_list(int count) {
    write_roster("open: true\n");
    let_in(count);
}

static int begin(void **state) {
    (void)state;
    strcpy(folder, "/tmp/skep-guests-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct text text = text_over(store_path, sizeof store_path);
    text_add(&text, "%s/tracker.db", folder);
    text = text_over(roster_path, sizeof roster_path);
    text_add(&text, "%s/roster.yaml", folder);
    scripted_keys(0, &tracker_keys);
    manifest_hash = hash_of(MANIFEST, sizeof MANIFEST - 1);
    genesis_root = hash_of("root", 4);
    idle_ms = IDLE_MS;
    memset(members, 0, sizeof members);
    memset(hangs, 0, sizeof hangs);
    memset(strangers, 0, sizeof strangers);
    setenv("SKEP_LOG", "error", 1);
    log_init(0);
    return pipe(stop_pipe);
}

static int end(void **state) {
    char command[128];
    (void)state;
    for (int i = 0; i < SCRIPTED; i++) {
        if (members[i].messenger != NULL) {
            scripted_close(&members[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (strangers[i].messenger != NULL) {
            messenger_close(strangers[i].messenger, 0);
            region_finish(&strangers[i].region);
        }
    }
    if (is_running) {
        pause_tracker();
    }
    tracker_loop_close(loop);
    region_finish(&region);
    close(stop_pipe[0]);
    close(stop_pipe[1]);
    struct text text = text_over(command, sizeof command);
    text_add(&text, "rm -r %s", folder);
    return system(command);
}

static void open_member(int at) {
    scripted_open(&members[at], (uint8_t)(at + 1), &tracker_keys.public_keys, address,
                  &manifest_hash, &genesis_root);
}

static void open_stranger(struct stranger *stranger) {
    struct fault fault;
    struct messenger_options options = {
        .keys = &stranger->keys, .peers_max = 1, .queued_frames = 8};
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    keys_generate(&stranger->keys);
    assert_int_equal(messenger_open(&options, &stranger->region, &stranger->messenger, &fault), OK);
    assert_int_equal(messenger_register_peer(stranger->messenger, tracker_keys.public_keys.curve,
                                             address, &fault),
                     OK);
}

static void look(struct stranger *stranger) {
    struct messenger_event event;
    if (stranger->messenger == NULL || !messenger_wait(stranger->messenger, -1, WAIT_MS)) {
        return;
    }
    while (messenger_next_event(stranger->messenger, &event)) {
        stranger->opened += event.kind == MESSENGER_OPENED;
        stranger->closed += event.kind == MESSENGER_CLOSED;
        if (event.kind != MESSENGER_FRAME) {
            continue;
        }
        stranger->answers += event.frame.kind == WIRE_MANIFEST || event.frame.kind == WIRE_STATUS ||
                             event.frame.kind == WIRE_CHECKPOINT;
        if (event.frame.kind == WIRE_STATUS) {
            const uint8_t *status;
            size_t length;
            assert_null(wire_read_document(WIRE_STATUS, event.payload + WIRE_LENGTH_BYTES,
                                           event.frame.length - WIRE_LENGTH_BYTES, &status,
                                           &length));
            assert_in_range(length, 1, sizeof stranger->status - 1);
            memset(stranger->status, 0, sizeof stranger->status);
            memcpy(stranger->status, status, length);
        }
    }
}

/* Everybody who is there but those behind `count` runs until `done`. */
static void run_until(int count, bool (*done)(void)) {
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)WITHIN_MS * 1000000;
    while (!done()) {
        assert_true(clock_monotonic_ns() < until_ns);
        for (int i = 0; i < count; i++) {
            if (!hangs[i]) {
                scripted_run(&members[i], WAIT_MS);
            }
        }
        for (int i = 0; i < 2; i++) {
            look(&strangers[i]);
        }
    }
}

static bool first_stranger_is_there(void) {
    return strangers[0].opened > 0;
}

static bool both_have_committed(void) {
    return members[0].commits >= 2 && members[1].commits >= 2;
}

static bool second_is_admitted(void) {
    return members[1].is_admitted;
}

static void a_stranger_keeps_nobody_out_who_is_on_the_roster(void **state) {
    (void)state;
    let_in(MEMBERS);
    open_tracker(4);
    open_stranger(&strangers[0]);
    run_until(0, first_stranger_is_there);
    open_stranger(&strangers[1]); /* both want the one place again and again */
    open_member(0);
    open_member(1);
    run_until(MEMBERS, both_have_committed);
    scripted_close(&members[1]); /* killed: it comes back to its own place */
    open_member(1);
    run_until(MEMBERS, second_is_admitted);
}

static bool both_strangers_were_there(void) {
    return strangers[0].opened > 0 && strangers[0].closed > 0 && strangers[1].opened > 0;
}

static void a_stranger_that_says_nothing_makes_place_for_the_next(void **state) {
    (void)state;
    open_tracker(4);
    open_stranger(&strangers[0]);
    run_until(0, first_stranger_is_there);
    open_stranger(&strangers[1]);
    run_until(0, both_strangers_were_there);
}

static int64_t waited_from_ns;

static bool has_waited_long(void) {
    return clock_monotonic_ns() - waited_from_ns > 4 * (int64_t)IDLE_MS * 1000000;
}

static void a_member_keeps_its_place_whatever_it_asks(void **state) {
    (void)state;
    let_in(MEMBERS);
    open_tracker(4);
    open_member(0);
    open_member(1);
    run_until(MEMBERS, both_have_committed);
    waited_from_ns = clock_monotonic_ns();
    run_until(MEMBERS, has_waited_long);
    assert_int_equal(members[0].opened, 1);
    assert_int_equal(members[1].opened, 1);
}

/* The first entry of a ledger page. */
static uint64_t first_of(const struct messenger_event *event) {
    struct wire_ledger_page page;
    assert_true(event->frame.kind == WIRE_LEDGER && event->frame.length > WIRE_LENGTH_BYTES);
    assert_null(wire_read_ledger_page(event->payload + WIRE_LENGTH_BYTES,
                                      event->frame.length - WIRE_LENGTH_BYTES, &page));
    return page.first;
}

/* Asks that all lie before the tracker when it looks; how many of them it answered. */
static uint32_t answers_to(struct stranger *asker, uint64_t asks) {
    const uint64_t last = 1000 + asks - 1;
    struct messenger_event event = {.kind = MESSENGER_CLOSED};
    uint32_t answers = 0;
    pause_tracker();
    for (uint64_t i = 0; i < asks; i++) {
        const struct frame ask = {.kind = WIRE_LEDGER_REQUEST, .offset = 1000 + i};
        assert_int_equal(messenger_send(asker->messenger, tracker_keys.public_keys.curve,
                                        CHANNEL_CONTROL, &ask, NULL),
                         SEND_OK);
    }
    go_on();
    const int64_t until_ns = clock_monotonic_ns() + (int64_t)WITHIN_MS * 1000000;
    for (bool is_last = false; !is_last;) {
        assert_true(clock_monotonic_ns() < until_ns);
        (void)messenger_wait(asker->messenger, -1, WAIT_MS);
        while (messenger_next_event(asker->messenger, &event)) {
            answers += event.kind == MESSENGER_FRAME;
            is_last = event.kind == MESSENGER_FRAME && first_of(&event) == last;
        }
    }
    return answers;
}

static bool have_tokens_returned(void) {
    return clock_monotonic_ns() - waited_from_ns > 4 * NS_PER_SECOND;
}

/* Were each answered, there would be as many answers in every try. */
static void asks_that_come_at_once_have_one_answer_the_last_one_s(void **state) {
    uint32_t answers = 4;
    (void)state;
    open_list(VOTERS);
    idle_ms = 0; /* as by default: longer than the tracker pauses */
    open_tracker(4);
    open_stranger(&strangers[0]);
    run_until(0, first_stranger_is_there);
    for (int tries = 0; tries < 20 && answers == 4; tries++) {
        waited_from_ns = clock_monotonic_ns();
        if (tries > 0) { /* a stranger may ask once a second */
            run_until(0, have_tokens_returned);
        }
        answers = answers_to(&strangers[0], 4);
    }
    assert_true(answers >= 1 && answers < 4);
}

static void ask(struct stranger *stranger, enum wire_kind kind, const struct key_pairs *identity) {
    uint8_t payload[WIRE_PROOF_BYTES_MAX];
    struct frame frame = {.kind = (uint8_t)kind};
    struct wire_proof proof;
    if (identity != NULL) {
        wire_sign_proof(identity, &tracker_keys.public_keys, stranger->keys.public_keys.curve,
                        &proof);
        frame.length = (uint32_t)wire_write_proof(&proof, payload);
    }
    (void)messenger_send(stranger->messenger, tracker_keys.public_keys.curve, CHANNEL_CONTROL,
                         &frame, payload);
}

static enum wire_kind asked_kind = WIRE_MANIFEST_REQUEST;

static bool asks_for_two_seconds(void) {
    ask(&strangers[0], asked_kind, NULL);
    return clock_monotonic_ns() - waited_from_ns > 2 * NS_PER_SECOND;
}

static void a_stranger_gets_four_manifests_and_then_one_a_second(void **state) {
    (void)state;
    idle_ms = 0;
    open_tracker(4);
    open_stranger(&strangers[0]);
    run_until(0, first_stranger_is_there);
    waited_from_ns = clock_monotonic_ns();
    run_until(0, asks_for_two_seconds);
    const double waited_s = (double)(clock_monotonic_ns() - waited_from_ns) / NS_PER_SECOND;
    assert_in_range(strangers[0].answers, 4, 4 + (uint32_t)waited_s);
}

static uint32_t count_checkpoints(void) {
    idle_ms = 0;
    open_tracker(4);
    open_stranger(&strangers[0]);
    run_until(0, first_stranger_is_there);
    waited_from_ns = clock_monotonic_ns();
    asked_kind = WIRE_CHECKPOINT_REQUEST;
    run_until(0, asks_for_two_seconds);
    asked_kind = WIRE_MANIFEST_REQUEST;
    return strangers[0].answers;
}

static void checkpoints_are_for_members(void **state) {
    (void)state;
    write_roster("members:\n");
    assert_int_equal(count_checkpoints(), 0);
}

/* As many as of other documents: four, and then one a second. */
static void a_stranger_of_an_open_swarm_gets_few_checkpoints(void **state) {
    (void)state;
    open_list(VOTERS);
    const uint32_t answers = count_checkpoints();
    const double waited_s = (double)(clock_monotonic_ns() - waited_from_ns) / NS_PER_SECOND;
    assert_in_range(answers, 4, 4 + (uint32_t)waited_s);
}

static bool has_status(void) {
    return strangers[0].status[0] != '\0';
}

static void addresses_are_for_members_only(void **state) {
    struct key_pairs keys;
    (void)state;
    open_list(VOTERS);
    idle_ms = 0;
    open_tracker(4);
    open_member(0);
    open_member(1);
    run_until(MEMBERS, both_have_committed);
    open_stranger(&strangers[0]);
    run_until(MEMBERS, first_stranger_is_there);
    ask(&strangers[0], WIRE_STATUS_REQUEST, NULL);
    run_until(MEMBERS, has_status);
    assert_non_null(strstr(strangers[0].status, "\"members\": [{"));
    assert_null(strstr(strangers[0].status, "\"address\""));
    memset(strangers[0].status, 0, sizeof strangers[0].status);
    scripted_keys(1, &keys); /* the identity of the first member */
    ask(&strangers[0], WIRE_STATUS_REQUEST, &keys);
    run_until(MEMBERS, has_status);
    assert_non_null(strstr(strangers[0].status, "\"address\""));
}

static bool some_have_committed(void) {
    return members[0].commits >= 1 && members[1].commits >= 1;
}

static bool both_are_told_why(void) {
    return members[0].reason[0] != '\0' && members[1].reason[0] != '\0';
}

/* An editor renames it, a server of files is gone for a moment. */
static void a_roster_that_is_not_there_for_a_while_throws_nobody_out(void **state) {
    char away[160];
    (void)state;
    struct text text = text_over(away, sizeof away);
    text_add(&text, "%s.away", roster_path);
    let_in(MEMBERS);
    open_tracker(4);
    open_member(0);
    open_member(1);
    run_until(MEMBERS, both_have_committed);
    assert_int_equal(rename(roster_path, away), 0);
    waited_from_ns = clock_monotonic_ns();
    run_until(MEMBERS, has_waited_long); /* longer than between two looks at it */
    assert_int_equal(rename(away, roster_path), 0);
    members[0].commits = members[1].commits = 0;
    run_until(MEMBERS, some_have_committed);
    assert_int_equal(members[0].roster_count, MEMBERS);
    assert_int_equal(members[1].roster_count, MEMBERS);
    assert_string_equal(members[0].reason, "");
    assert_string_equal(members[1].reason, "");
    write_roster("members:\n");
    run_until(MEMBERS, both_are_told_why);
}

static bool third_is_admitted(void) {
    return members[2].is_admitted;
}

static void a_member_that_hangs_keeps_no_joiner_out(void **state) {
    (void)state;
    let_in(SCRIPTED);
    open_tracker(MEMBERS);
    open_member(0);
    open_member(1);
    run_until(MEMBERS, both_have_committed);
    hangs[1] = true;
    open_member(2);
    run_until(SCRIPTED, third_is_admitted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(a_stranger_keeps_nobody_out_who_is_on_the_roster),
        TEST(a_stranger_that_says_nothing_makes_place_for_the_next),
        TEST(a_member_keeps_its_place_whatever_it_asks),
        TEST(a_roster_that_is_not_there_for_a_while_throws_nobody_out),
        TEST(a_member_that_hangs_keeps_no_joiner_out),
        TEST(asks_that_come_at_once_have_one_answer_the_last_one_s),
        TEST(a_stranger_gets_four_manifests_and_then_one_a_second),
        TEST(checkpoints_are_for_members),
        TEST(a_stranger_of_an_open_swarm_gets_few_checkpoints),
        TEST(addresses_are_for_members_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
