/* test_listener_filter: the kernel drops connection attempts of the listed hosts, and nothing
 * else. */
#include "transport/messages/listener_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONNECT_MS = 2000, DROPPED_MS = 300 };

static int listener;
static struct sockaddr_in6 address; /* dual-stack, as ZeroMQ listens */

static int begin(void **state) {
    (void)state;
    const int no = 0;
    socklen_t bytes = sizeof address;
    address = (struct sockaddr_in6){.sin6_family = AF_INET6};
    listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0) {
        skip(); /* no IPv6 */
    }
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    close(listener);
    return 0;
}

/* Connect from a host; -1: the attempt was dropped. */
static int connect_from(const char *ip, int wait_ms) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = address.sin6_port,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    const struct sockaddr_in6 to_v6 = {.sin6_family = AF_INET6,
                                       .sin6_port = address.sin6_port,
                                       .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const bool is_v4 = inet_pton(AF_INET, ip, &from.sin_addr) == 1;
    const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (is_v4) {
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
        (void)connect(fd, (const struct sockaddr *)&to, sizeof to);
    } else {
        (void)connect(fd, (const struct sockaddr *)&to_v6, sizeof to_v6);
    }
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    if (poll(&wanted, 1, wait_ms) == 1 && (wanted.revents & POLLERR) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

static void check_open(const char *ip) {
    const int fd = connect_from(ip, CONNECT_MS);
    assert_true(fd >= 0);
    const int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    close(fd);
}

static struct source host(const char *ip) {
    struct source source;
    assert_true(source_of_text(ip, &source));
    return source;
}

static void only_listed_hosts_are_dropped(void **state) {
    (void)state;
    const struct source hosts[] = {host("10.0.0.1"), host("2001:db8::1"), host("127.0.0.9")};
    listener_filter_set_hosts(listener, hosts, 3);
    check_open("127.0.0.1");
    check_open("127.0.0.8");
    check_open("::1");
    assert_int_equal(connect_from("127.0.0.9", DROPPED_MS), -1);
    listener_filter_set_hosts(listener, hosts, 0);
    check_open("127.0.0.9");
}

static void an_ipv6_host_is_a_prefix(void **state) {
    (void)state;
    const struct source hosts[] = {host("::5"), host("127.0.0.9")}; /* ::1 is in ::/64, too */
    listener_filter_set_hosts(listener, hosts, 2);
    check_open("127.0.0.1");
    assert_int_equal(connect_from("::1", DROPPED_MS), -1);
}

static void an_established_connection_keeps_its_packets(void **state) {
    (void)state;
    const int fd = connect_from("127.0.0.9", CONNECT_MS);
    const int accepted = accept(listener, NULL, NULL);
    const struct source flooder = host("127.0.0.9");
    listener_filter_set_hosts(listener, &flooder, 1);
    char byte = 0;
    assert_int_equal(send(fd, "x", 1, 0), 1);
    assert_int_equal(recv(accepted, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    close(accepted);
    close(fd);
}

static void the_filter_has_room_for_all_hosts(void **state) {
    (void)state;
    struct source hosts[LISTENER_FILTER_HOSTS_MAX];
    for (uint32_t i = 0; i < LISTENER_FILTER_HOSTS_MAX; i++) {
        hosts[i] = host("2001:db8::");
        hosts[i].bytes[7] = (uint8_t)i;
    }
    hosts[LISTENER_FILTER_HOSTS_MAX - 1] = host("127.0.0.9");
    listener_filter_set_hosts(listener, hosts, LISTENER_FILTER_HOSTS_MAX);
    check_open("::1");
    assert_int_equal(connect_from("127.0.0.9", DROPPED_MS), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(only_listed_hosts_are_dropped),
        TEST(an_ipv6_host_is_a_prefix),
        TEST(an_established_connection_keeps_its_packets),
        TEST(the_filter_has_room_for_all_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
