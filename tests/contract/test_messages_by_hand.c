/* test_messages_by_hand: contract B against a member with a right key that does not speak through
 * ZeroMQ, so that nothing of what it says has been made right by a library. */
#include "curve_peer.h"

#include "base/clock.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { OWN_KIND = 255, HELLO = 1 }; /* what a messenger says first on each connection */

static struct end a, b;
static struct end *const ends[] = {&b};
static struct curve_peer peer;

static int setup(void **state) {
    (void)state;
    end_init(&a);
    end_init(&b);
    end_open(&b);
    end_names(&b, &a, NULL);
    peer.fd = -1;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    curve_close(&peer);
    end_close(&b);
    return 0;
}

/* Open to b, and not the first time when `times` is more than 1. */
static void meet(uint32_t times) {
    const struct frame hello = {.kind = OWN_KIND, .epoch = HELLO, .slice = 2};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_write(&hello, header);
    assert_true(curve_dial(&peer, &b, &a.keys));
    assert_true(curve_say(&peer, 0, header, sizeof header));
    assert_true(hears(ends, 1, &b, MESSENGER_OPENED, times));
}

static void say_frame(uint32_t round) {
    const struct frame frame = {.kind = 3, .round = round};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_write(&frame, header);
    assert_true(curve_say(&peer, 0, header, sizeof header));
}

static void frames_made_by_hand_are_heard(void **state) {
    (void)state;
    meet(1);
    say_frame(1);
    say_frame(2);
    assert_true(hears(ends, 1, &b, MESSENGER_FRAME, 2));
    assert_int_equal(heard_last(&b, MESSENGER_FRAME)->frame.round, 2);
    assert_memory_equal(heard_last(&b, MESSENGER_FRAME)->curve, end_curve(&a), KEY_BYTES);
}

/* Resident memory of this process in bytes. */
static int64_t resident_bytes(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %lld", &pages), 1);
    fclose(file);
    return pages * 4096;
}

/* ZeroMQ shows no part before the last one has come, and keeps them all. */
static void check_parts_without_end(size_t part_bytes) {
    static uint8_t part[FRAME_BYTES_MAX];
    const int64_t sends_max = (INT64_C(4) << 30) / (int64_t)part_bytes;
    meet(1);
    const int64_t before = resident_bytes();
    int64_t most = 0;
    for (int64_t i = 0; i < sends_max && curve_say(&peer, CURVE_MORE, part, part_bytes); i++) {
        const int64_t now = i % 16 == 0 ? resident_bytes() : 0;
        most = now > most ? now : most;
        if (i % 16 == 0 && messenger_wait(b.messenger, -1, 0)) {
            ends_pump(ends, 1);
        }
    }
    assert_true(curve_ended(&peer));
    assert_true(hears(ends, 1, &b, MESSENGER_CLOSED, 1));
    assert_int_equal(messenger_counts(b.messenger).banned_peers, 1);
    assert_int_equal(heard_count(&b, MESSENGER_FRAME, NULL), 0);
    assert_in_range(most - before, 0, messenger_memory_bytes(&b.options));
    assert_false(curve_dial(&peer, &b, &a.keys)); /* nor is it let in again */
}

static void long_parts_without_end_are_cut_before_they_fill_memory(void **state) {
    (void)state;
    check_parts_without_end(FRAME_PAYLOAD_MAX);
}

static void short_parts_without_end_are_cut_before_they_fill_memory(void **state) {
    (void)state;
    check_parts_without_end(1);
}

static void what_was_said_once_cannot_be_said_again(void **state) {
    (void)state;
    meet(1);
    say_frame(5);
    assert_true(hears(ends, 1, &b, MESSENGER_FRAME, 1));
    (void)curve_repeat(&peer);
    assert_true(curve_ended(&peer));
    assert_true(hears(ends, 1, &b, MESSENGER_CLOSED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_FRAME, NULL), 1);
}

static void a_length_beyond_the_limit_ends_the_connection(void **state) {
    (void)state;
    static const uint8_t HEAD[9] = {2, 0, 0, 0, 1, 0, 0, 0, 0}; /* 4 GiB are to come */
    meet(1);
    assert_true(curve_write(&peer, HEAD, sizeof HEAD));
    assert_true(curve_ended(&peer));
    assert_true(hears(ends, 1, &b, MESSENGER_CLOSED, 1));
}

/* Frames with bytes changed inside and outside of the encryption; whatever comes of them, whoever
 * is let in can talk on. */
static void changed_bytes_do_no_harm(void **state) {
    (void)state;
    static uint8_t message[FRAME_HEADER_BYTES + 4096];
    const struct frame frame = {.kind = 3, .length = sizeof message - FRAME_HEADER_BYTES};
    uint32_t words[4];
    for (uint32_t i = 0; i < 200; i++) {
        if (peer.fd < 0) {
            teardown(NULL);
            setup(NULL);
            meet(1);
        }
        random_block(1755, i, words);
        frame_write(&frame, message);
        message[words[0] % FRAME_HEADER_BYTES] ^= (uint8_t)(1 + words[1] % 255);
        const size_t bytes = words[2] % 4 == 0 ? words[3] % sizeof message : sizeof message;
        (void)curve_say(&peer, words[2] % 16 == 1 ? CURVE_MORE : 0, message, bytes);
        if (words[2] % 8 == 2) {
            (void)curve_write(&peer, words, sizeof words);
        }
        ends_pump(ends, 1);
    }
    teardown(NULL);
    setup(NULL);
    meet(1);
    say_frame(9);
    assert_true(hears(ends, 1, &b, MESSENGER_FRAME, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(frames_made_by_hand_are_heard),
        TEST(long_parts_without_end_are_cut_before_they_fill_memory),
        TEST(short_parts_without_end_are_cut_before_they_fill_memory),
        TEST(what_was_said_once_cannot_be_said_again),
        TEST(a_length_beyond_the_limit_ends_the_connection),
        TEST(changed_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
