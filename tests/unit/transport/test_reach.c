/* test_reach: who answers as ZeroMQ does is found, and nothing else is waited for in vain. */
#include "transport/messages/reach.h"

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
static enum reach_state settle(struct reach *reach) {
    enum reach_state state = REACH_WAITING;
    for (int i = 0; i < 10 && state == REACH_WAITING; i++) {
        struct pollfd wanted = {.fd = reach->fd, .events = POLLIN};
        poll(&wanted, 1, PATIENCE_MS / 10);
        state = reach_look(reach);
    }
    return state;
}

static enum reach_state try_against(const void *said, size_t count) {
    struct reach reach;
    assert_true(reach_begin(address, &reach));
    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(reach_look(&reach), REACH_WAITING);
    assert_int_equal(write(accepted, said, count), count);
    enum reach_state state = settle(&reach);
    assert_true(state == REACH_WAITING || reach.fd == -1);
    reach_end(&reach);
    return state;
}

static void a_zeromq_socket_is_found(void **state) {
    (void)state;
    const unsigned char greeting[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0};
    assert_int_equal(try_against(greeting, sizeof greeting), REACH_FOUND);
}

static void something_else_is_not(void **state) {
    (void)state;
    assert_int_equal(try_against("SSH-2.0-OpenSSH", 15), REACH_NOTHING);
}

static void who_says_half_is_waited_for(void **state) {
    (void)state;
    assert_int_equal(try_against("\xff\0\0\0", 4), REACH_WAITING);
}

static void nobody_is_nothing(void **state) {
    (void)state;
    struct reach reach;
    close(listener);
    assert_true(reach_begin(address, &reach));
    assert_int_equal(settle(&reach), REACH_NOTHING);
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
        struct reach reach = {.fd = 7};
        assert_false(reach_begin(WRONG[i], &reach));
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
