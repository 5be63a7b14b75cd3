/* test_messages_outsiders: connections without a key keep no peer out, and a probe accepts only the
 * process with the key. */
#include "ends.h"

#include "base/clock.h"
#include "transport/messages/accept_policy.h"
#include "transport/messages/connect_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct end a, b, c;
static struct end *const both[] = {&a, &b};

static int setup(void **state) {
    (void)state;
    end_init(&a);
    end_init(&b);
    end_init(&c);
    a.options.listen = NULL;
    a.options.probes_max = 1;
    end_open(&a);
    end_open(&b);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    end_close(&a);
    end_close(&b);
    end_close(&c);
    return 0;
}

/* Open a connection to b that sends nothing, from an address of this machine. */
static int connect_silently(const char *from_ip) {
    struct sockaddr_in from = {.sin_family = AF_INET};
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(messenger_port(b.messenger)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, from_ip, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    (void)connect(fd, (const struct sockaddr *)&to, sizeof to);
    return fd;
}

enum { SILENT_MAX = 200 };
static int silent[SILENT_MAX];

static bool is_closed(int fd) {
    uint8_t bytes[128];
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    while (got > 0) { /* ZeroMQ's greeting */
        got = recv(fd, bytes, sizeof bytes, 0);
    }
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static bool only_the_limit_is_open(void *count) {
    int open = 0;
    for (int i = 0; i < *(const int *)count; i++) {
        open += !is_closed(silent[i]);
    }
    return open <= ACCEPT_NETWORK_MAX;
}

static void the_ninth_silent_connection_of_a_network_closes_the_first(void **state) {
    (void)state;
    int count = 20;
    for (int i = 0; i < count; i++) {
        silent[i] = connect_silently("127.0.0.9");
        ends_pump(both, 2);
    }
    assert_true(ends_until(both, 2, only_the_limit_is_open, &count));
    for (int i = 0; i < count; i++) {
        assert_int_equal(is_closed(silent[i]), i < count - ACCEPT_NETWORK_MAX);
        close(silent[i]);
    }
}

/* Replaces one silent connection in each round of the pump. */
static bool a_flood_continues(void *opened) {
    static int next;
    close(silent[next]);
    silent[next] = connect_silently("127.0.0.9");
    next = (next + 1) % SILENT_MAX;
    return heard_count(&a, MESSENGER_OPENED, NULL) >= *(const uint32_t *)opened &&
           heard_count(&b, MESSENGER_OPENED, NULL) >= *(const uint32_t *)opened;
}

static void a_flood_of_silent_connections_keeps_no_peer_out(void **state) {
    (void)state;
    uint32_t opened = 1;
    for (int i = 0; i < SILENT_MAX; i++) {
        silent[i] = connect_silently("127.0.0.9");
    }
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    const int64_t start_ns = clock_monotonic_ns();
    assert_true(ends_until(both, 2, a_flood_continues, &opened));
    messenger_disconnect_peer(b.messenger, end_curve(&a));
    opened = 2;
    assert_true(ends_until(both, 2, a_flood_continues, &opened));
    assert_true(clock_monotonic_ns() - start_ns < 5 * NS_PER_SECOND);
    for (int i = 0; i < SILENT_MAX; i++) {
        close(silent[i]);
    }
}

static enum connect_probe_state result;

static bool has_result(void *probe) {
    result = connect_probe_poll(probe);
    return result != CONNECT_PROBE_PENDING;
}

static enum connect_probe_state probe(const struct end *expected, const char *address) {
    struct connect_probe started;
    assert_true(connect_probe_start(a.messenger, end_curve(expected), address, &started));
    assert_true(ends_until(both, 2, has_result, &started));
    return result;
}

static void a_probe_finds_the_process_with_the_key(void **state) {
    (void)state;
    end_names(&b, &a, NULL);
    assert_int_equal(probe(&b, end_address(&b)), CONNECT_PROBE_OK);
    assert_int_equal(b.count, 0); /* which does not count as connected */
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    assert_int_equal(probe(&b, end_address(&b)), CONNECT_PROBE_OK);
    assert_int_equal(heard_count(&b, MESSENGER_CLOSED, NULL), 0);
}

static void a_probe_rejects_a_process_with_another_key(void **state) {
    (void)state;
    end_names(&b, &a, NULL);
    assert_int_equal(probe(&c, end_address(&b)), CONNECT_PROBE_FAILED);
}

static void a_probe_rejects_a_process_that_does_not_admit_it(void **state) {
    (void)state;
    assert_int_equal(probe(&b, end_address(&b)), CONNECT_PROBE_FAILED);
}

static void a_probe_of_a_closed_port_fails(void **state) {
    (void)state;
    char address[MESSAGE_ADDRESS_BYTES];
    memcpy(address, end_address(&b), sizeof address);
    end_close(&b);
    struct end *const alone[] = {&a};
    struct connect_probe started;
    assert_true(connect_probe_start(a.messenger, end_curve(&b), address, &started));
    assert_true(ends_until(alone, 1, has_result, &started));
    assert_int_equal(result, CONNECT_PROBE_FAILED);
}

static void a_probe_needs_a_numeric_address(void **state) {
    (void)state;
    static const char *const WRONG[] = {"tcp://localhost:80", "tcp://:80", "tcp://[::1]", "",
                                        "tcp://127.0.0.1:0"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct connect_probe started;
        assert_false(connect_probe_start(a.messenger, end_curve(&b), WRONG[i], &started));
        connect_probe_end(&started);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(the_ninth_silent_connection_of_a_network_closes_the_first),
        TEST(a_flood_of_silent_connections_keeps_no_peer_out),
        TEST(a_probe_finds_the_process_with_the_key),
        TEST(a_probe_rejects_a_process_with_another_key),
        TEST(a_probe_rejects_a_process_that_does_not_admit_it),
        TEST(a_probe_of_a_closed_port_fails),
        TEST(a_probe_needs_a_numeric_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
