/* test_messages_hostile: contract B against those who keep no contract: other mechanisms, unknown
 * keys, frames that are none, bytes that are not even ZeroMQ's. Whoever is let in meanwhile must
 * not notice. */
#include "curve_peer.h"

#include "base/clock.h"
#include "base/random.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum { OWN_KIND = 255, HELLO = 1 }; /* what a messenger says first on each connection */

static struct end a, b;
static struct end *const both[] = {&a, &b};
static void *context;

static int setup(void **state) {
    (void)state;
    context = zmq_ctx_new();
    end_init(&a);
    end_init(&b);
    a.options.listen = NULL;
    end_open(&b);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    end_close(&a);
    end_close(&b);
    zmq_ctx_term(context);
    return 0;
}

static void set(void *socket, int option, int value) {
    assert_int_equal(zmq_setsockopt(socket, option, &value, sizeof value), 0);
}

/* A connection without a messenger around it, of another context. */
struct raw {
    void *socket, *monitor;
};

static void raw_close(struct raw *raw) {
    zmq_socket_monitor(raw->socket, NULL, 0);
    zmq_close(raw->monitor);
    zmq_close(raw->socket);
}

static struct raw raw_new(void) {
    const struct raw raw = {.socket = zmq_socket(context, ZMQ_DEALER),
                            .monitor = zmq_socket(context, ZMQ_PAIR)};
    static unsigned serial;
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%u", serial++);
    set(raw.socket, ZMQ_LINGER, 0);
    assert_int_equal(zmq_socket_monitor(raw.socket, name, ZMQ_EVENT_ALL), 0);
    assert_int_equal(zmq_connect(raw.monitor, name), 0);
    return raw;
}

static void raw_dial(const struct raw *raw) {
    assert_int_equal(zmq_connect(raw->socket, end_address(&b)), 0);
}

/* With CURVE, as `a` would dial. */
static struct raw raw_of_a(void) {
    const struct raw raw = raw_new();
    const struct key_pairs *keys = &a.keys;
    zmq_setsockopt(raw.socket, ZMQ_CURVE_PUBLICKEY, keys->public_keys.curve, KEY_BYTES);
    zmq_setsockopt(raw.socket, ZMQ_CURVE_SECRETKEY, keys->curve_secret, KEY_BYTES);
    zmq_setsockopt(raw.socket, ZMQ_CURVE_SERVERKEY, end_curve(&b), KEY_BYTES);
    raw_dial(&raw);
    return raw;
}

/* Pump b until the monitor says one of these. */
static bool comes_to(const struct raw *raw, uint16_t wanted) {
    bool came = false;
    const int64_t until_ns = clock_monotonic_ns() + WITHIN_MS * INT64_C(1000000);
    while (!came && clock_monotonic_ns() < until_ns) {
        uint8_t bytes[64];
        uint16_t event = 0;
        if (zmq_recv(raw->monitor, bytes, sizeof bytes, ZMQ_DONTWAIT) == 6) {
            memcpy(&event, bytes, sizeof event);
        } else {
            ends_pump(both, 2);
        }
        came = (event & wanted) != 0;
    }
    return came;
}

static void say(const struct raw *raw, const struct frame *frame, size_t bytes, int flags) {
    static uint8_t message[4 * FRAME_BYTES_MAX];
    assert_true(bytes <= sizeof message && bytes >= FRAME_HEADER_BYTES);
    frame_write(frame, message);
    assert_int_equal(zmq_send(raw->socket, message, bytes, flags | ZMQ_DONTWAIT), bytes);
}

static const struct frame RIGHT = {.kind = 2};

/* The end comes before its reason is read, or after. */
static void other_mechanisms_get_nothing(void **state) {
    (void)state;
    const uint16_t failed =
        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    uint8_t bytes[64];
    end_close(&b);
    b.options.guests.slots[0] = b.options.peers_max; /* even where every key would do */
    end_open(&b);
    struct raw null = raw_new();
    struct raw plain = raw_new();
    zmq_setsockopt(plain.socket, ZMQ_PLAIN_USERNAME, "admin", 5);
    zmq_setsockopt(plain.socket, ZMQ_PLAIN_PASSWORD, "admin", 5);
    raw_dial(&null);
    raw_dial(&plain);
    say(&null, &RIGHT, FRAME_HEADER_BYTES, 0);
    say(&plain, &RIGHT, FRAME_HEADER_BYTES, 0);
    assert_true(comes_to(&null, failed));
    assert_true(comes_to(&plain, failed));
    assert_int_equal(zmq_recv(null.socket, bytes, sizeof bytes, ZMQ_DONTWAIT), -1);
    assert_int_equal(zmq_recv(plain.socket, bytes, sizeof bytes, ZMQ_DONTWAIT), -1);
    assert_int_equal(b.count, 0);
    raw_close(&null);
    raw_close(&plain);
}

static void an_unknown_key_gets_nothing(void **state) {
    (void)state;
    struct raw raw = raw_of_a();
    say(&raw, &RIGHT, FRAME_HEADER_BYTES, 0);
    assert_true(comes_to(&raw, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH));
    assert_int_equal(messenger_counts(b.messenger).rejected_keys, 1);
    assert_int_equal(b.count, 0);
    raw_close(&raw);
}

/* A connection as a's that b takes for open. */
static struct raw met_as_a(void) {
    const struct frame hello = {.kind = OWN_KIND, .epoch = HELLO, .slice = 2};
    end_names(&b, &a, NULL);
    const struct raw raw = raw_of_a();
    say(&raw, &hello, FRAME_HEADER_BYTES, 0);
    assert_true(hears(both, 2, &b, MESSENGER_OPENED, 1));
    return raw;
}

/* Closed, cut off, its key refused, and nothing else heard of it. */
static void check_cut_off(struct raw *raw, uint32_t frames) {
    assert_true(hears(both, 2, &b, MESSENGER_CLOSED, 1));
    assert_int_equal(messenger_counts(b.messenger).banned_peers, 1);
    assert_int_equal(heard_count(&b, MESSENGER_FRAME, NULL), frames);
    raw_close(raw);
    struct raw again = raw_of_a();
    assert_true(comes_to(&again, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH));
    raw_close(&again);
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, NULL), 1);
}

struct bad {
    enum frame_verdict verdict;
    size_t at; /* of the byte that is changed in a right message */
    uint8_t value;
    size_t bytes; /* of the message */
};

static void three_bad_frames_cut_a_peer_off(void **state) {
    (void)state;
    static const struct bad BAD[] = {
        {FRAME_TRUNCATED, 0, 'S', FRAME_HEADER_BYTES - 1},
        {FRAME_TRUNCATED, 0, 'S', 0},
        {FRAME_BAD_MAGIC, 0, 's', FRAME_HEADER_BYTES},
        {FRAME_BAD_VERSION, 4, 99, FRAME_HEADER_BYTES},
        {FRAME_BAD_KIND, 5, 200, FRAME_HEADER_BYTES},
        {FRAME_BAD_KIND, 5, 0, FRAME_HEADER_BYTES},
        {FRAME_BAD_LENGTH, 24, 1, FRAME_HEADER_BYTES},
        {FRAME_BAD_LENGTH, 0, 'S', FRAME_HEADER_BYTES + 5},
        {FRAME_BAD_LENGTH, 27, 255, FRAME_BYTES_MAX},
        {FRAME_BAD_OFFSET, 23, 255, FRAME_HEADER_BYTES},
        {FRAME_BAD_KIND, 5, OWN_KIND, FRAME_HEADER_BYTES},
    };
    static uint8_t message[FRAME_BYTES_MAX];
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        teardown(NULL);
        setup(NULL);
        struct raw raw = met_as_a();
        say(&raw, &RIGHT, FRAME_HEADER_BYTES, 0);
        frame_write(&RIGHT, message);
        message[BAD[i].at] = BAD[i].value;
        for (int k = 0; k < MESSAGE_STRIKES_MAX; k++) {
            assert_int_equal(zmq_send(raw.socket, message, BAD[i].bytes, ZMQ_DONTWAIT),
                             BAD[i].bytes);
        }
        say(&raw, &RIGHT, FRAME_HEADER_BYTES, 0); /* too late */
        check_cut_off(&raw, 1);
        const struct messenger_counts counts = messenger_counts(b.messenger);
        assert_int_equal(counts.verdicts[BAD[i].verdict], MESSAGE_STRIKES_MAX);
        assert_int_equal(counts.received_frames, 1);
    }
}

static void a_message_of_many_parts_cuts_a_peer_off(void **state) {
    (void)state;
    struct raw raw = met_as_a();
    say(&raw, &RIGHT, FRAME_HEADER_BYTES, 0);
    for (int i = 0; i < 8; i++) {
        say(&raw, &RIGHT, FRAME_HEADER_BYTES, i < 7 ? ZMQ_SNDMORE : 0);
    }
    check_cut_off(&raw, 1);
}

static void a_message_that_is_too_long_is_not_taken(void **state) {
    (void)state;
    struct raw raw = met_as_a();
    say(&raw, &RIGHT, FRAME_BYTES_MAX + 1, 0);
    assert_true(hears(both, 2, &b, MESSENGER_CLOSED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_FRAME, NULL), 0);
    raw_close(&raw);
}

static void whoever_does_not_say_hello_is_not_heard(void **state) {
    (void)state;
    const struct frame bulk_hello = {.kind = OWN_KIND, .epoch = HELLO, .round = 1};
    const struct frame wild_hello = {.kind = OWN_KIND, .epoch = HELLO, .round = UINT32_MAX};
    end_names(&b, &a, NULL);
    struct raw silent = raw_of_a();
    struct raw bulk = raw_of_a();
    struct raw wild = raw_of_a();
    for (int i = 0; i < 4; i++) {
        say(&silent, &RIGHT, FRAME_HEADER_BYTES, 0);
    }
    say(&bulk, &bulk_hello, FRAME_HEADER_BYTES, 0);
    say(&wild, &wild_hello, FRAME_HEADER_BYTES, 0);
    assert_true(comes_to(&silent, ZMQ_EVENT_HANDSHAKE_SUCCEEDED));
    assert_true(comes_to(&bulk, ZMQ_EVENT_DISCONNECTED));
    assert_true(comes_to(&wild, ZMQ_EVENT_DISCONNECTED));
    assert_int_equal(b.count, 0);
    raw_close(&silent);
    raw_close(&bulk);
    raw_close(&wild);
    end_open(&a); /* who says it is */
    end_names(&a, &b, end_address(&b));
    assert_true(hears(both, 2, &b, MESSENGER_OPENED, 1));
}

/* Whether b hangs up, before CURVE's handshake would have run out of time or after. */
static bool is_hung_up(int fd) {
    const int64_t until_ns = clock_monotonic_ns() + WITHIN_MS * INT64_C(1000000);
    while (clock_monotonic_ns() < until_ns) {
        uint8_t bytes[256];
        const ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return true;
        }
        ends_pump(both, 2);
    }
    return false;
}

static void bytes_that_are_not_of_zeromq_disturb_nobody(void **state) {
    (void)state;
    static uint32_t words[1024];
    uint8_t *const noise = (uint8_t *)words;
    /* ZMTP 3.1's greeting for CURVE, so that what follows is taken for a command */
    static const uint8_t GREETING[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                         0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
    int fds[48];
    end_open(&a);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        fds[i] = tcp_to(&b);
        for (size_t k = 0; k < ARRAY_COUNT(words); k += 4) {
            random_block(1645, i * ARRAY_COUNT(words) + k, words + k);
        }
        if (i % 3 != 0) {
            (void)send(fds[i], GREETING, i % 3 == 1 ? sizeof GREETING : i + 1, MSG_NOSIGNAL);
        }
        noise[0] = i % 2 == 0 ? noise[0] : 4; /* a short command of ZMTP */
        (void)send(fds[i], noise, words[1] % sizeof words, MSG_NOSIGNAL);
    }
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        (void)shutdown(fds[i], SHUT_WR);
        assert_true(is_hung_up(fds[i]));
        close(fds[i]);
    }
    const struct frame frame = {.kind = 3};
    assert_int_equal(messenger_send(a.messenger, end_curve(&b), CHANNEL_CONTROL, &frame, NULL),
                     SEND_OK);
    assert_true(hears(both, 2, &b, MESSENGER_FRAME, 1));
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, NULL), 1);
    assert_int_equal(messenger_counts(b.messenger).banned_peers, 0);
}

static void a_stranger_who_says_much_is_cut_before_it_is_known(void **state) {
    (void)state;
    /* A command of 512 KiB where CURVE's hello of 200 bytes belongs. */
    static const uint8_t GREETING[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                         0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
    static const uint8_t COMMAND[9] = {6, 0, 0, 0, 0, 0, 8, 0, 0};
    static uint8_t noise[200 * 1024];
    const int fd = tcp_to(&b);
    assert_int_equal(send(fd, GREETING, sizeof GREETING, MSG_NOSIGNAL), sizeof GREETING);
    assert_int_equal(send(fd, COMMAND, sizeof COMMAND, MSG_NOSIGNAL), sizeof COMMAND);
    assert_int_equal(send(fd, noise, sizeof noise, MSG_NOSIGNAL), sizeof noise);
    const int64_t start_ns = clock_monotonic_ns();
    assert_true(is_hung_up(fd));
    assert_in_range(clock_monotonic_ns() - start_ns, 0, 2000000000); /* ZeroMQ waits for 3 s */
    close(fd);
}

static int open_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void connections_that_come_and_go_leave_nothing(void **state) {
    (void)state;
    end_open(&a);
    end_names(&b, &a, NULL);
    int before = 0;
    for (uint32_t i = 1; i <= 12; i++) {
        end_names(&a, &b, end_address(&b));
        assert_true(hears(both, 2, &a, MESSENGER_OPENED, i));
        assert_true(hears(both, 2, &b, MESSENGER_OPENED, i));
        messenger_ban_peer(a.messenger, end_curve(&b));
        assert_true(hears(both, 2, &a, MESSENGER_CLOSED, i));
        assert_true(hears(both, 2, &b, MESSENGER_CLOSED, i));
        before = i == 2 ? open_descriptors() : before;
    }
    /* ZeroMQ's reaper closes in its own time */
    const int64_t until_ns = clock_monotonic_ns() + WITHIN_MS * INT64_C(1000000);
    while (open_descriptors() > before && clock_monotonic_ns() < until_ns) {
        ends_pump(both, 2);
    }
    assert_in_range(open_descriptors(), 0, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(other_mechanisms_get_nothing),
        TEST(an_unknown_key_gets_nothing),
        TEST(three_bad_frames_cut_a_peer_off),
        TEST(a_message_of_many_parts_cuts_a_peer_off),
        TEST(a_message_that_is_too_long_is_not_taken),
        TEST(whoever_does_not_say_hello_is_not_heard),
        TEST(bytes_that_are_not_of_zeromq_disturb_nobody),
        TEST(a_stranger_who_says_much_is_cut_before_it_is_known),
        TEST(connections_that_come_and_go_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
