/* test_reach: who answers as ZeroMQ does is found, and nothing else is waited for in vain. */
#include "transport/messages/connect_probe.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 2000 };

static int listener, accepted;
static char address[64];

static int begin_listening(void **state) {
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
    struct text text = text_over(address, sizeof address);
    text_add(&text, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    accepted = -1;
    return 0;
}

static int end_listening(void **state) {
    (void)state;
    close(listener);
    if (accepted >= 0) {
        close(accepted);
    }
    return 0;
}

/* Looks whenever something came in, until it is no longer waiting. */
static enum connect_probe_state settle(struct connect_probe *reach) {
    enum connect_probe_state state = CONNECT_PROBE_PENDING;
    for (int i = 0; i < 10 && state == CONNECT_PROBE_PENDING; i++) {
        struct pollfd wanted = {.fd = reach->fd, .events = POLLIN};
        poll(&wanted, 1, PATIENCE_MS / 10);
        state = connect_probe_poll(reach);
    }
    return state;
}

static enum connect_probe_state try_against(const void *said, size_t count) {
    struct connect_probe reach;
    assert_true(connect_probe_start(address, &reach));
    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(connect_probe_poll(&reach), CONNECT_PROBE_PENDING);
    assert_int_equal(write(accepted, said, count), count);
    enum connect_probe_state state = settle(&reach);
    assert_true(state == CONNECT_PROBE_PENDING || reach.fd == -1);
    connect_probe_end(&reach);
    return state;
}

static void a_zeromq_socket_is_found(void **state) {
    (void)state;
    const unsigned char greeting[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0};
    assert_int_equal(try_against(greeting, sizeof greeting), CONNECT_PROBE_OK);
}

static void something_else_is_not(void **state) {
    (void)state;
    assert_int_equal(try_against("SSH-2.0-OpenSSH", 15), CONNECT_PROBE_FAILED);
}

static void who_says_half_is_waited_for(void **state) {
    (void)state;
    assert_int_equal(try_against("\xff\0\0\0", 4), CONNECT_PROBE_PENDING);
}

static void nobody_is_nothing(void **state) {
    (void)state;
    struct connect_probe reach;
    close(listener);
    assert_true(connect_probe_start(address, &reach));
    assert_int_equal(settle(&reach), CONNECT_PROBE_FAILED);
    assert_int_equal(reach.fd, -1);
}

static void what_is_no_numeric_address_is_refused(void **state) {
    (void)state;
    static const char *const WRONG[] = {"",
                                        "tcp://",
                                        "tcp://:80",
                                        "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:0",
                                        "tcp://127.0.0.1:65536",
                                        "tcp://127.0.0.1:80x",
                                        "tcp://example.org:80",
                                        "tcp://[::1:80",
                                        "tcp://[::1]80",
                                        "udp://127.0.0.1:80"};
    for (size_t i = 0; i < ARRAY_COUNT(WRONG); i++) {
        struct connect_probe reach = {.fd = 7};
        assert_false(connect_probe_start(WRONG[i], &reach));
        assert_int_equal(reach.fd, -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_zeromq_socket_is_found, begin_listening, end_listening),
        cmocka_unit_test_setup_teardown(something_else_is_not, begin_listening, end_listening),
        cmocka_unit_test_setup_teardown(who_says_half_is_waited_for, begin_listening,
                                        end_listening),
        cmocka_unit_test_setup_teardown(nobody_is_nothing, begin_listening, end_listening),
        cmocka_unit_test(what_is_no_numeric_address_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
