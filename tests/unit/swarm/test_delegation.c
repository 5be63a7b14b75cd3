/* test_delegation: a tracker's port for the delegation, and the processes that fetch from it. The
 * frame arrives, also among strangers that read nothing. Older, foreign and endless answers do no
 * harm. */
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/delegation/delegation_fetch.h"
#include "runtime/swarm/delegation/delegation_search.h"
#include "runtime/swarm/delegation/delegation_server.h"
#include "transport/identity/numeric_address.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 5000, STRANGERS = 200, ENDLESS_BYTES = 1 << 16 };

static struct key_pairs operator_keys, other_keys;
static struct delegation_server *server;
static struct region region;
static struct known_delegation served;
static char address[MESSAGE_ADDRESS_BYTES], folder[64];
static pthread_t thread;
static atomic_bool is_over;
static struct fault fault;

static struct known_delegation make_delegation(const struct key_pairs *signer, uint64_t serial,
                                               uint64_t expires_s) {
    struct known_delegation made = {.swarm = hash_of("swarm", 5)};
    made.delegation.serial = serial;
    made.delegation.expires_s = expires_s;
    memset(made.delegation.tracker.curve, (int)serial, KEY_BYTES);
    memset(made.delegation.tracker.sign, 0x51, KEY_BYTES);
    delegation_sign(signer, &made.swarm, &made.delegation);
    return made;
}

static void *run_server(void *context) {
    (void)context;
    while (!atomic_load(&is_over)) {
        delegation_server_serve(server, clock_monotonic_ms());
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

static void serve(const struct known_delegation *known) {
    served = *known;
    delegation_server_set_delegation(server, known);
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, run_server, NULL), 0);
}

static void stop_serving(void) {
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}

static int open_server(void **state) {
    (void)state;
    keys_generate(&operator_keys);
    keys_generate(&other_keys);
    region = (struct region){0};
    strcpy(folder, "/tmp/skep-delegation-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("STATE_DIRECTORY", folder, 1), 0);
    struct text text = text_over(address, sizeof address);
    text_add(&text, "tcp://127.0.0.1:%u", local_free_port());
    if (delegation_server_open(address, &region, &server, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return 0;
}

static int close_server(void **state) {
    (void)state;
    char command[128];
    delegation_server_close(server);
    region_finish(&region);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct join_string join_of(const struct key_pairs *keys) {
    struct join_string join = {.operator_keys = keys->public_keys};
    strcpy(join.address, address);
    return join;
}

static enum status search(const struct key_pairs *keys, struct tracker_contact *contact) {
    const struct delegation_search_args args = {.timeout_ms = WAIT_MS, .may_store = true};
    const struct join_string join = join_of(keys);
    return delegation_search(&join, &args, contact, &fault);
}

static int connect_to_server(void) {
    char next[MESSAGE_ADDRESS_BYTES];
    union numeric_address number;
    assert_true(address_next_port(address, next));
    const socklen_t length = numeric_address_parse(next, &number);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, &number.any, length), 0);
    return fd;
}

/* ---- the port ---- */

static void a_connection_gets_one_frame_and_ends(void **state) {
    (void)state;
    uint8_t expected[DELEGATION_FRAME_BYTES_MAX], got[2 * DELEGATION_FRAME_BYTES_MAX];
    const struct known_delegation known = make_delegation(&operator_keys, 7, 0);
    const size_t count = delegation_write(&known.swarm, &known.delegation, expected);
    serve(&known);
    const int fd = connect_to_server();
    size_t received = 0;
    ssize_t part = 1;
    while (part > 0 && received < sizeof got) {
        part = read(fd, got + received, sizeof got - received);
        received += part > 0 ? (size_t)part : 0;
    }
    close(fd);
    stop_serving();
    assert_int_equal(part, 0);
    assert_int_equal(received, count);
    assert_memory_equal(got, expected, count);
}

/* Strangers from another address, because a host with so many connections is blocked. */
static void strangers_that_read_nothing_keep_nobody_out(void **state) {
    (void)state;
    static int strangers[STRANGERS];
    char next[MESSAGE_ADDRESS_BYTES];
    union numeric_address number;
    struct tracker_contact contact;
    const struct known_delegation known = make_delegation(&operator_keys, 7, 0);
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8)};
    serve(&known);
    assert_true(address_next_port(address, next));
    const socklen_t length = numeric_address_parse(next, &number);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        assert_true(strangers[i] >= 0);
        assert_int_equal(bind(strangers[i], (const struct sockaddr *)&from, sizeof from), 0);
        (void)connect(strangers[i], &number.any, length);
    }
    const int64_t begin_ms = clock_monotonic_ms();
    assert_int_equal(search(&operator_keys, &contact), OK);
    assert_true(clock_monotonic_ms() - begin_ms < WAIT_MS / 2);
    for (int i = 0; i < STRANGERS; i++) {
        close(strangers[i]);
    }
    stop_serving();
}

static void a_port_that_is_in_use_is_reported(void **state) {
    (void)state;
    struct delegation_server *second = NULL;
    assert_int_equal(delegation_server_open(address, &region, &second, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.reason, "in use"));
    assert_int_equal(delegation_server_open("tcp://127.0.0.1:65535", &region, &second, &fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "is the last port number"));
}

/* ---- the search ---- */

static void the_trackers_keys_are_found_and_kept(void **state) {
    (void)state;
    struct tracker_contact contact;
    const struct known_delegation known = make_delegation(&operator_keys, 7, 0);
    serve(&known);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    assert_true(public_keys_equal(&contact.keys, &known.delegation.tracker));
    assert_memory_equal(&contact.delegation, &known, sizeof known);
    assert_string_equal(contact.address, address);
    memset(&contact, 0, sizeof contact); /* no tracker answers now */
    assert_int_equal(search(&operator_keys, &contact), OK);
    assert_true(public_keys_equal(&contact.keys, &known.delegation.tracker));
}

static void an_older_delegation_is_not_followed_again(void **state) {
    (void)state;
    struct tracker_contact contact;
    const struct known_delegation older = make_delegation(&operator_keys, 7, 0);
    const struct known_delegation newer = make_delegation(&operator_keys, 8, 0);
    serve(&newer);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    serve(&older);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    assert_memory_equal(&contact.delegation, &newer, sizeof newer);
    assert_ptr_equal(delegation_choose(&newer, &older), &newer);
    assert_ptr_equal(delegation_choose(&older, &newer), &newer);
    assert_ptr_equal(delegation_choose(&newer, &newer), &newer);
}

static void a_delegation_of_another_operator_is_refused(void **state) {
    (void)state;
    struct tracker_contact contact;
    const struct known_delegation forged = make_delegation(&other_keys, 9, 0);
    serve(&forged);
    assert_int_equal(search(&operator_keys, &contact), STATUS_INPUT);
    stop_serving();
    assert_non_null(strstr(fault.reason, "is signed with a key other than"));
    assert_true(fault.remedy[0] != '\0');
    const struct known_delegation known = make_delegation(&operator_keys, 7, 0);
    serve(&known);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    serve(&forged); /* the known one is used */
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    assert_memory_equal(&contact.delegation, &known, sizeof known);
}

static void an_expired_delegation_is_named(void **state) {
    (void)state;
    struct tracker_contact contact;
    const uint64_t now_s = (uint64_t)clock_unix_s();
    const struct known_delegation expired = make_delegation(&operator_keys, 7, now_s - 1);
    serve(&expired);
    assert_int_equal(search(&operator_keys, &contact), STATUS_FAILED);
    stop_serving();
    assert_non_null(strstr(fault.reason, "has expired"));
    const struct known_delegation renewed = make_delegation(&operator_keys, 8, now_s + 3600);
    serve(&renewed);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
}

/* No file can grow, as on a full disk: the search continues, and the older file stays. */
static void a_full_disk_loses_nothing_but_the_copy(void **state) {
    (void)state;
    struct tracker_contact contact;
    struct rlimit limit, full;
    char path[PATH_BYTES];
    const struct join_string join = join_of(&operator_keys);
    const struct known_delegation older = make_delegation(&operator_keys, 7, 0);
    const struct known_delegation newer = make_delegation(&operator_keys, 8, 0);
    struct known_delegation kept;
    assert_true(delegation_cache_path(&join, path));
    delegation_cache_store(path, &older);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    full = limit;
    full.rlim_cur = 0;
    serve(&newer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    const enum status status = search(&operator_keys, &contact);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    stop_serving();
    assert_int_equal(status, OK);
    assert_memory_equal(&contact.delegation, &newer, sizeof newer);
    assert_int_equal(delegation_file_read(path, operator_keys.public_keys.sign, &kept, &fault), OK);
    assert_memory_equal(&kept, &older, sizeof kept);
}

static void a_damaged_file_is_fetched_anew(void **state) {
    (void)state;
    struct tracker_contact contact;
    char path[PATH_BYTES];
    const struct join_string join = join_of(&operator_keys);
    const struct known_delegation known = make_delegation(&operator_keys, 7, 0);
    struct known_delegation kept;
    assert_true(delegation_cache_path(&join, path));
    delegation_cache_store(path, &known);
    assert_int_equal(truncate(path, 100), 0);
    serve(&known);
    assert_int_equal(search(&operator_keys, &contact), OK);
    stop_serving();
    assert_int_equal(delegation_file_read(path, operator_keys.public_keys.sign, &kept, &fault), OK);
}

/* ---- hostile servers ---- */

static void *send_without_end(void *context) {
    static const uint8_t BYTES[ENDLESS_BYTES] = {'S', 'K', 'E', 'P', 1, 1, 0xff, 0xff};
    const int listener = *(const int *)context;
    const int fd = accept(listener, NULL, NULL);
    while (send(fd, BYTES, sizeof BYTES, MSG_NOSIGNAL) > 0) {
    }
    close(fd);
    return NULL;
}

static void *send_nothing(void *context) {
    const int listener = *(const int *)context;
    const int fd = accept(listener, NULL, NULL);
    while (!atomic_load(&is_over)) {
        (void)poll(NULL, 0, 1);
    }
    close(fd);
    return NULL;
}

static enum download_state fetch_from(void *(*serve_one)(void *), int64_t *took_ms) {
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof bound;
    char text[MESSAGE_ADDRESS_BYTES];
    struct delegation_fetch fetch = {.state = DOWNLOAD_NONE};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&bound, sizeof bound), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&bound, &length), 0);
    snprintf(text, sizeof text, "tcp://127.0.0.1:%u", ntohs(bound.sin_port) - 1U);
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&thread, NULL, serve_one, &listener), 0);
    const int64_t begin_ms = clock_monotonic_ms();
    delegation_fetch_begin(&fetch, text, begin_ms);
    while (delegation_fetch_step(&fetch, clock_monotonic_ms()) == DOWNLOAD_PENDING) {
        (void)poll(NULL, 0, 1);
    }
    *took_ms = clock_monotonic_ms() - begin_ms;
    assert_true(fetch.count <= sizeof fetch.bytes);
    stop_serving();
    close(listener);
    return fetch.state;
}

static void endless_and_silent_answers_end(void **state) {
    (void)state;
    int64_t took_ms = 0;
    struct known_delegation known;
    struct delegation_fetch none = {.state = DOWNLOAD_NONE};
    assert_int_equal(fetch_from(send_without_end, &took_ms), DOWNLOAD_DONE);
    assert_true(took_ms < DOWNLOAD_MS);
    assert_int_equal(fetch_from(send_nothing, &took_ms), DOWNLOAD_FAILED);
    assert_true(took_ms >= DOWNLOAD_MS && took_ms < 2 * DOWNLOAD_MS);
    delegation_fetch_begin(&none, "tcp://127.0.0.1:65535", 0);
    assert_int_equal(delegation_fetch_step(&none, 0), DOWNLOAD_FAILED);
    static const uint8_t ENDLESS[DELEGATION_FRAME_BYTES_MAX] = {'S', 'K', 'E', 'P', 1, 1};
    assert_non_null(
        delegation_read_verified(ENDLESS, sizeof ENDLESS, operator_keys.public_keys.sign, &known));
}

/* Each day of the last week, and an hour before the end. */
static void warnings_come_daily_and_an_hour_before_the_expiry(void **state) {
    (void)state;
    enum { DAY_S = 86400, HOUR_S = 3600, END_S = 100 * DAY_S + 7 };
    const struct delegation delegation = {.serial = 1, .expires_s = END_S},
                            for_ever = {.serial = 1};
    uint64_t warn_s = 0, times[16];
    uint32_t count = 0;
    for (uint64_t now_s = 80 * DAY_S; now_s < END_S + DAY_S; now_s++) {
        if (delegation_poll_warning(&delegation, now_s, &warn_s)) {
            assert_true(count < 16);
            times[count++] = now_s;
        }
    }
    assert_int_equal(count, 8);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(times[i], END_S - (7 - i) * DAY_S);
    }
    assert_int_equal(times[7], END_S - HOUR_S);
    warn_s = 0;
    assert_true(
        delegation_poll_warning(&delegation, END_S - 1, &warn_s)); /* a delegation for seconds */
    assert_false(delegation_poll_warning(&delegation, END_S - 1, &warn_s));
    assert_false(delegation_poll_warning(&for_ever, END_S, &warn_s));
    char text[24];
    assert_string_equal(delegation_time_left(&delegation, END_S - 2 * DAY_S, text), "2 days");
    assert_string_equal(delegation_time_left(&delegation, END_S - 2 * DAY_S + 1, text), "47 hours");
    assert_string_equal(delegation_time_left(&delegation, END_S - 119, text), "119 s");
    assert_string_equal(delegation_time_left(&delegation, END_S + 1, text), "0 s");
}

int main(void) {
#define DELEGATION_TEST(test) cmocka_unit_test_setup_teardown(test, open_server, close_server)
    const struct CMUnitTest tests[] = {
        DELEGATION_TEST(a_connection_gets_one_frame_and_ends),
        DELEGATION_TEST(strangers_that_read_nothing_keep_nobody_out),
        DELEGATION_TEST(a_port_that_is_in_use_is_reported),
        DELEGATION_TEST(the_trackers_keys_are_found_and_kept),
        DELEGATION_TEST(an_older_delegation_is_not_followed_again),
        DELEGATION_TEST(a_delegation_of_another_operator_is_refused),
        DELEGATION_TEST(an_expired_delegation_is_named),
        DELEGATION_TEST(a_full_disk_loses_nothing_but_the_copy),
        DELEGATION_TEST(a_damaged_file_is_fetched_anew),
        cmocka_unit_test(warnings_come_daily_and_an_hour_before_the_expiry),
        DELEGATION_TEST(endless_and_silent_answers_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
