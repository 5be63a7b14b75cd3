/* test_reachability: the tracker connects to the address of a process that may join, and only of
 * such a process, at most to eight of them at a time. The tracker runs in a thread. */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/tracker/reachability.h"
#include "runtime/swarm/wire/wire_service.h"
#include "tracker_thread.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { GUESTS = GUEST_PROBES_MAX + 1, WITHIN_MS = 30000, WAIT_MS = 2, QUIET_MS = 1000 };

/* A connection to the tracker with a key that is on no list. */
struct guest {
    struct key_pairs keys;
    struct region region;
    struct messenger *messenger;
    bool is_open, has_status;
    uint32_t outcome; /* PROBE_REQUESTED: none yet */
};

static struct tracker_thread tracker;
static struct key_pairs listed_keys;
static struct region client_region;
static struct tracker_client *client;
static struct guest guests[GUESTS];
static int mute = -1; /* mute: a socket that accepts, and never says anything */
static char mute_address[MESSAGE_ADDRESS_BYTES];

static void open_mute(void) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof place;
    mute = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(mute, (struct sockaddr *)&place, size), 0);
    assert_int_equal(listen(mute, GUESTS), 0);
    assert_int_equal(getsockname(mute, (struct sockaddr *)&place, &size), 0);
    snprintf(mute_address, sizeof mute_address, "tcp://127.0.0.1:%u", ntohs(place.sin_port));
}

static bool mute_was_called(int timeout_ms) {
    struct pollfd waits = {.fd = mute, .events = POLLIN};
    return poll(&waits, 1, timeout_ms) > 0;
}

static int begin(void **state) {
    (void)state;
    scripted_keys(1, &listed_keys);
    memset(guests, 0, sizeof guests);
    setenv("SKEP_LOG", "error", 1);
    log_init(0);
    open_mute();
    return 0;
}

static void close_client(void) {
    if (client != NULL) {
        tracker_client_close(client);
        client = NULL;
    }
    region_finish(&client_region);
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < GUESTS; i++) {
        if (guests[i].messenger != NULL) {
            messenger_close(guests[i].messenger, 0);
            region_finish(&guests[i].region);
        }
    }
    close_client();
    tracker_thread_close(&tracker);
    return close(mute);
}

/* A client with the key on the allow-list, whose status query was answered. */
static void open_client(void) {
    const struct tracker_query_args args = {.request = WIRE_STATUS_REQUEST,
                                            .timeout_ms = WITHIN_MS};
    struct tracker_answer answer;
    struct fault fault;
    assert_int_equal(tracker_client_open(&listed_keys, &tracker.contact, "tcp://127.0.0.1:*",
                                         &client_region, &client, &fault),
                     OK);
    assert_int_equal(tracker_query(client, &args, &answer, &fault), OK);
}

/* The outcome for an address, from a new client. */
static struct wire_probe test_address(const char *address) {
    struct wire_probe probe = {.outcome = PROBE_REQUESTED};
    struct fault fault;
    open_client();
    assert_int_equal(tracker_test_address(client, address, &probe, &fault), OK);
    close_client();
    return probe;
}

static void a_process_that_listens_is_reached_with_its_key(void **state) {
    (void)state;
    tracker_thread_open(&tracker, "members:\n");
    const struct wire_probe own = test_address(NULL);
    assert_int_equal(own.outcome, PROBE_CONNECTED);
    assert_memory_equal(own.address, "tcp://127.0.0.1:", strlen("tcp://127.0.0.1:"));
    /* The tracker's own port has another key, and the third process has none. */
    assert_int_equal(test_address(tracker.contact.address).outcome, PROBE_FAILED);
    assert_int_equal(test_address(mute_address).outcome, PROBE_FAILED);
    assert_true(mute_was_called(0));
}

static void another_host_is_not_called(void **state) {
    (void)state;
    tracker_thread_open(&tracker, "members:\n");
    const struct wire_probe probe = test_address("tcp://127.0.0.2:7700");
    assert_int_equal(probe.outcome, PROBE_FOREIGN);
    assert_string_equal(probe.address, "");
}

/* Without a status query before, the tracker does not know that the key is on the list. */
static void a_test_without_an_outcome_times_out(void **state) {
    struct wire_probe probe = {.outcome = PROBE_REQUESTED};
    struct fault fault;
    (void)state;
    tracker_thread_open(&tracker, "members:\n");
    assert_int_equal(tracker_client_open(&listed_keys, &tracker.contact, "tcp://127.0.0.1:*",
                                         &client_region, &client, &fault),
                     OK);
    assert_int_equal(tracker_test_address(client, mute_address, &probe, &fault), STATUS_FAILED);
    assert_int_equal(probe.outcome, PROBE_REQUESTED);
    assert_false(mute_was_called(0));
}

/* ---- without a proven identity ---- */

static void open_guest(struct guest *guest) {
    struct fault fault;
    struct messenger_options options = {.keys = &guest->keys, .peers_max = 1, .queued_frames = 8};
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    keys_generate(&guest->keys);
    assert_int_equal(messenger_open(&options, &guest->region, &guest->messenger, &fault), OK);
    assert_int_equal(messenger_register_peer(guest->messenger, tracker.keys.public_keys.curve,
                                             tracker.contact.address, &fault),
                     OK);
}

static void send_to_tracker(struct guest *guest, enum wire_kind kind, const char *address) {
    uint8_t payload[WIRE_PROBE_BYTES_MAX];
    struct frame frame = {.kind = (uint8_t)kind};
    struct wire_probe probe = {.outcome = PROBE_REQUESTED};
    if (address != NULL) {
        strcpy(probe.address, address);
        frame.length = (uint32_t)wire_write_probe(&probe, payload);
    }
    assert_int_equal(messenger_send(guest->messenger, tracker.keys.public_keys.curve,
                                    CHANNEL_CONTROL, &frame, payload),
                     SEND_OK);
}

static void look(struct guest *guest) {
    struct messenger_event event;
    (void)messenger_wait(guest->messenger, -1, WAIT_MS);
    while (messenger_next_event(guest->messenger, &event)) {
        struct wire_probe probe;
        guest->is_open |= event.kind == MESSENGER_OPENED;
        if (event.kind == MESSENGER_FRAME && event.frame.kind == WIRE_STATUS) {
            guest->has_status = true;
        } else if (event.kind == MESSENGER_FRAME && event.frame.kind == WIRE_PROBE_ADDRESS) {
            assert_null(wire_read_probe(event.payload, event.frame.length, &probe));
            guest->outcome = probe.outcome;
        }
    }
}

static void wait_for(struct guest *guest, const bool *flag) {
    const int64_t until_ms = clock_monotonic_ms() + WITHIN_MS;
    while (!*flag) {
        assert_true(clock_monotonic_ms() < until_ms);
        look(guest);
    }
}

static void one_who_may_not_join_cannot_make_the_tracker_call(void **state) {
    (void)state;
    tracker_thread_open(&tracker, "members:\n");
    open_guest(&guests[0]);
    wait_for(&guests[0], &guests[0].is_open);
    send_to_tracker(&guests[0], WIRE_STATUS_REQUEST, NULL); /* is rejected */
    send_to_tracker(&guests[0], WIRE_PROBE_ADDRESS, mute_address);
    assert_false(mute_was_called(QUIET_MS));
    look(&guests[0]);
    assert_int_equal(guests[0].outcome, PROBE_REQUESTED);
}

static void the_tracker_calls_eight_at_a_time(void **state) {
    uint32_t busy = 0, failed = 0;
    (void)state;
    tracker_thread_open(&tracker, "open: true\n");
    for (int i = 0; i < GUESTS; i++) {
        open_guest(&guests[i]);
        wait_for(&guests[i], &guests[i].is_open);
        send_to_tracker(&guests[i], WIRE_STATUS_REQUEST, NULL);
        wait_for(&guests[i], &guests[i].has_status);
    }
    for (int i = 0; i < GUESTS; i++) {
        send_to_tracker(&guests[i], WIRE_PROBE_ADDRESS, mute_address);
        send_to_tracker(&guests[i], WIRE_PROBE_ADDRESS, mute_address); /* repeated: no other test */
    }
    const int64_t until_ms = clock_monotonic_ms() + WITHIN_MS;
    while (busy + failed < GUESTS) {
        assert_true(clock_monotonic_ms() < until_ms);
        busy = failed = 0;
        for (int i = 0; i < GUESTS; i++) {
            look(&guests[i]);
            busy += guests[i].outcome == PROBE_BUSY;
            failed += guests[i].outcome == PROBE_FAILED;
        }
    }
    assert_int_equal(busy, 1);
    assert_int_equal(failed, GUEST_PROBES_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_that_listens_is_reached_with_its_key, begin, end),
        cmocka_unit_test_setup_teardown(another_host_is_not_called, begin, end),
        cmocka_unit_test_setup_teardown(a_test_without_an_outcome_times_out, begin, end),
        cmocka_unit_test_setup_teardown(one_who_may_not_join_cannot_make_the_tracker_call, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_tracker_calls_eight_at_a_time, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
