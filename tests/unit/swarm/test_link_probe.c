/* test_link_probe: round trips to a peer that answers late, and to one that does not answer. */
#include "base/clock.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/wire/wire.h"
#include "runtime/swarm/wire/wire_service.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { LATE_MS = 20, WAIT_MS = 20 };

/* A tracker that only answers pings. */
struct answerer {
    struct region region;
    struct key_pairs keys;
    struct messenger *messenger;
    struct tracker_contact contact;
    pthread_t thread;
    atomic_bool stop;
    bool silent;
};

static void answer(struct answerer *answerer, const struct messenger_event *event) {
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000L};
    struct frame frame = event->frame;
    uint8_t bytes[WIRE_SMALL_BYTES_MAX];
    if (event->kind != MESSENGER_FRAME || frame.kind != WIRE_PING || answerer->silent) {
        return;
    }
    assert_in_range(frame.length, 1, sizeof bytes);
    memcpy(bytes, event->payload, frame.length);
    nanosleep(&late, NULL); /* the link that is measured */
    frame.kind = WIRE_PONG;
    (void)messenger_send(answerer->messenger, event->curve, CHANNEL_CONTROL, &frame, bytes);
}

static void *serve(void *context) {
    struct answerer *answerer = context;
    while (!atomic_load(&answerer->stop)) {
        struct messenger_event event;
        messenger_wait(answerer->messenger, -1, WAIT_MS);
        while (messenger_next_event(answerer->messenger, &event)) {
            answer(answerer, &event);
        }
    }
    return NULL;
}

static void start(struct answerer *answerer, bool silent) {
    struct fault fault;
    struct messenger_options options = {.keys = &answerer->keys,
                                        .listen = "tcp://127.0.0.1:*",
                                        .peers_max = 4,
                                        .queued_frames = 4,
                                        .guests = {.slots = {4}}};
    *answerer = (struct answerer){.silent = silent};
    keys_generate(&answerer->keys);
    wire_accepted_kinds(WIRE_TRACKER, options.accepted_kinds);
    assert_int_equal(messenger_open(&options, &answerer->region, &answerer->messenger, &fault), OK);
    answerer->contact.keys = answerer->keys.public_keys;
    snprintf(answerer->contact.address, sizeof answerer->contact.address, "tcp://127.0.0.1:%u",
             messenger_port(answerer->messenger));
    assert_int_equal(pthread_create(&answerer->thread, NULL, serve, answerer), 0);
}

static void stop(struct answerer *answerer) {
    atomic_store(&answerer->stop, true);
    pthread_join(answerer->thread, NULL);
    messenger_close(answerer->messenger, 0);
    region_finish(&answerer->region);
}

static void a_late_answer_is_a_long_round_trip(void **state) {
    (void)state;
    static struct answerer answerer;
    double round_trip_s = 0;
    start(&answerer, false);
    assert_true(link_probe(&answerer.contact, &round_trip_s));
    stop(&answerer);
    assert_true(round_trip_s >= LATE_MS / 1e3 && round_trip_s < LINK_PROBE_MS / 1e3);
}

static void a_peer_that_does_not_answer_is_not_awaited_for_long(void **state) {
    (void)state;
    static struct answerer answerer;
    double round_trip_s = 77;
    start(&answerer, true);
    int64_t begin_ns = clock_monotonic_ns();
    assert_false(link_probe(&answerer.contact, &round_trip_s));
    assert_true(clock_monotonic_ns() - begin_ns < 2 * LINK_PROBE_MS * (int64_t)1000000);
    stop(&answerer);
    assert_true(round_trip_s == 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_answer_is_a_long_round_trip),
        cmocka_unit_test(a_peer_that_does_not_answer_is_not_awaited_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
