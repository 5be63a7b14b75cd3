/* test_messages: contract B between messengers on loopback: who is let in, what arrives, what
 * breaks. */
#include "ends.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct end a, b, c;
static uint8_t bulk[FRAME_PAYLOAD_MAX];

static int setup(void **state) {
    (void)state;
    end_init(&a);
    end_init(&b);
    end_init(&c);
    for (size_t i = 0; i < sizeof bulk; i++) {
        bulk[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    end_close(&a);
    end_close(&b);
    end_close(&c);
    return 0;
}

static enum send_result send_to(struct end *from, const struct end *to, enum channel channel,
                                uint32_t round, uint32_t length) {
    const struct frame frame = {.kind = 1,
                                .epoch = 0x0203,
                                .round = round,
                                .slice = 7,
                                .offset = UINT64_C(1) << 40,
                                .length = length,
                                .session = 9};
    return messenger_send(from->messenger, end_curve(to), channel, &frame, bulk);
}

static void check_frame(const struct heard *heard, const struct end *from, uint32_t round,
                        uint32_t length) {
    assert_non_null(heard);
    const struct hash hash = hash_of(bulk, length);
    assert_memory_equal(heard->curve, end_curve(from), KEY_BYTES);
    assert_int_equal(heard->frame.kind, 1);
    assert_int_equal(heard->frame.epoch, 0x0203);
    assert_int_equal(heard->frame.round, round);
    assert_int_equal(heard->frame.slice, 7);
    assert_true(heard->frame.offset == UINT64_C(1) << 40);
    assert_int_equal(heard->frame.length, length);
    assert_int_equal(heard->frame.session, 9);
    assert_true(hash_equal(&heard->payload, &hash));
}

/* Send it when there is room; bulk connections may still be in the making. */
static bool sends(struct end *const both[2], struct end *from, struct end *to, enum channel channel,
                  uint32_t round, uint32_t length) {
    const int64_t until_ns = clock_monotonic_ns() + WITHIN_MS * INT64_C(1000000);
    enum send_result sent = send_to(from, to, channel, round, length);
    while (sent == SEND_WOULD_BLOCK && clock_monotonic_ns() < until_ns) {
        ends_pump(both, 2);
        sent = send_to(from, to, channel, round, length);
    }
    return sent == SEND_OK;
}

/* Both channels, both directions, empty and longest frames. */
static void check_talk(struct end *one, struct end *other) {
    static const uint32_t LENGTHS[] = {0, 1, 4096, FRAME_PAYLOAD_MAX};
    struct end *const both[] = {one, other};
    for (uint32_t i = 0; i < 4 * ARRAY_COUNT(LENGTHS); i++) {
        struct end *from = both[i & 1];
        struct end *to = both[~i & 1];
        const uint32_t before = heard_count(to, MESSENGER_FRAME, NULL);
        const enum channel channel = (i & 2) != 0 ? CHANNEL_BULK : CHANNEL_CONTROL;
        assert_true(sends(both, from, to, channel, i, LENGTHS[i / 4]));
        assert_true(hears(both, 2, to, MESSENGER_FRAME, before + 1));
        check_frame(heard_last(to, MESSENGER_FRAME), from, i, LENGTHS[i / 4]);
    }
}

static void frames_go_both_ways_when_one_side_dials(void **state) {
    (void)state;
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    assert_string_equal(heard_last(&a, MESSENGER_OPENED)->address, "127.0.0.1");
    assert_string_equal(heard_last(&b, MESSENGER_OPENED)->address, "127.0.0.1");
    check_talk(&a, &b);
    const struct messenger_counts counts = messenger_counts(a.messenger);
    assert_int_equal(counts.sent_frames, 8);
    assert_int_equal(counts.received_frames, 8);
    assert_true(counts.sent_bytes == 2 * (4 * 32 + 0 + 1 + 4096 + FRAME_PAYLOAD_MAX));
    assert_true(counts.received_bytes == counts.sent_bytes);
    assert_true(ends_confirm(&a, &b)); /* on connections dialed, and on those accepted */
}

static void frames_go_both_ways_with_one_that_nobody_can_reach(void **state) {
    (void)state;
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    assert_int_equal(messenger_port(a.messenger), 0);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    check_talk(&a, &b);
}

static void bulk_goes_as_control_where_one_side_wants_no_connections_for_it(void **state) {
    (void)state;
    b.options.bulk_connections = 0;
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    check_talk(&a, &b);
}

static void two_that_dial_each_other_meet_once(void **state) {
    (void)state;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, end_address(&b));
    end_names(&b, &a, end_address(&a));
    assert_true(ends_meet(&a, &b));
    check_talk(&a, &b);
    assert_int_equal(heard_count(&a, MESSENGER_OPENED, NULL), 1);
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, NULL), 1);
    assert_int_equal(heard_count(&a, MESSENGER_CLOSED, NULL), 0);
    assert_int_equal(heard_count(&b, MESSENGER_CLOSED, NULL), 0);
}

static void three_talk_pairwise(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c};
    for (int i = 0; i < 3; i++) {
        end_open(all[i]);
    }
    for (int i = 0; i < 3; i++) {
        end_names(all[i], all[(i + 1) % 3], end_address(all[(i + 1) % 3]));
        end_names(all[i], all[(i + 2) % 3], end_address(all[(i + 2) % 3]));
    }
    for (int i = 0; i < 3; i++) {
        assert_true(hears(all, 3, all[i], MESSENGER_OPENED, 2));
    }
    for (int i = 0; i < 6; i++) {
        struct end *to = all[(i + 1 + i / 3) % 3];
        const uint32_t before = heard_count(to, MESSENGER_FRAME, NULL);
        assert_int_equal(send_to(all[i % 3], to, CHANNEL_CONTROL, (uint32_t)i, 100), SEND_OK);
        assert_true(hears(all, 3, to, MESSENGER_FRAME, before + 1));
        check_frame(heard_last(to, MESSENGER_FRAME), all[i % 3], (uint32_t)i, 100);
    }
}

static bool has_passed(void *until_ns) {
    return clock_monotonic_ns() >= *(const int64_t *)until_ns;
}

/* A listener with another key closes the connection, as a busy one does. */
static void another_key_is_redialed_without_a_verdict(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    char address[MESSAGE_ADDRESS_BYTES];
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    memcpy(address, end_address(&b), sizeof address);
    end_names(&a, &c, address); /* another process has this address */
    end_names(&b, &a, NULL);
    int64_t until_ns = clock_monotonic_ns() + 3 * NS_PER_SECOND; /* several dials */
    assert_true(ends_until(both, 2, has_passed, &until_ns));
    assert_int_equal(a.count, 0);
    assert_int_equal(b.count, 0);
    assert_int_equal(send_to(&a, &c, CHANNEL_CONTROL, 0, 0), SEND_NO_PEER);
    end_close(&b);
    c.options.listen = address; /* now the expected process has it */
    end_open(&c);
    end_names(&c, &a, NULL);
    assert_true(ends_meet(&a, &c));
}

static void an_unknown_key_is_refused_until_it_is_named(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, end_address(&b));
    assert_true(hears(both, 2, &a, MESSENGER_REJECTED, 1));
    assert_int_equal(b.count, 0);
    assert_true(messenger_counts(b.messenger).rejected_keys >= 1);
    end_names(&b, &a, NULL);
    assert_true(ends_meet(&a, &b));
    assert_false(heard_last(&b, MESSENGER_OPENED)->is_guest);
    check_talk(&a, &b);
}

/* Send bulk until nothing more is taken while nobody reads: how many were. */
static uint32_t fill(struct end *const both[2], struct end *from, struct end *to) {
    uint32_t taken = 1;
    assert_true(sends(both, from, to, CHANNEL_BULK, 0, FRAME_PAYLOAD_MAX));
    /* ZeroMQ's thread and the kernel go on taking for a while */
    for (int idle = 0; idle < 32; idle++) {
        ends_pump(&from, 1);
        if (send_to(from, to, CHANNEL_BULK, taken, FRAME_PAYLOAD_MAX) == SEND_OK) {
            assert_in_range(++taken, 0, 1000);
            idle = 0;
        }
    }
    return taken;
}

static void check_full(struct end *from, struct end *to) {
    struct end *const both[] = {from, to};
    const uint32_t before = heard_count(to, MESSENGER_FRAME, NULL);
    const uint32_t taken = fill(both, from, to);
    assert_true(hears(&to, 1, to, MESSENGER_FRAME, before + taken));
    assert_true(messenger_wait(from->messenger, -1, WITHIN_MS));
    assert_int_equal(send_to(from, to, CHANNEL_BULK, 0, FRAME_PAYLOAD_MAX), SEND_OK);
}

static void a_full_queue_says_so_and_says_when_there_is_room(void **state) {
    (void)state;
    b.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, NULL);
    end_names(&b, &a, end_address(&a));
    assert_true(ends_meet(&a, &b));
    check_full(&a, &b); /* over what was accepted */
    check_full(&b, &a); /* over what was dialed */
}

static void control_does_not_wait_for_bulk(void **state) {
    (void)state;
    struct end *const ends[] = {&a, &b};
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    for (int k = 0; k < 2; k++) {
        struct end *from = ends[k];
        struct end *to = ends[1 - k];
        const uint32_t taken = fill(ends, from, to);
        uint32_t before_it = 0;
        struct messenger_event event = {.kind = MESSENGER_CLOSED};
        assert_int_equal(send_to(from, to, CHANNEL_CONTROL, 77, 10), SEND_OK);
        while (event.kind != MESSENGER_FRAME || event.frame.round != 77) {
            assert_true(messenger_wait(to->messenger, -1, WITHIN_MS));
            while (messenger_next_event(to->messenger, &event) && event.frame.round != 77) {
                before_it++;
                (void)send_to(from, to, CHANNEL_BULK, 0, FRAME_PAYLOAD_MAX);
            }
        }
        assert_in_range(before_it, 0, taken - 1);
    }
}

/* How long until `end` hears of its i-th loss, or `least_ns` where that is less: one of several may
 * well fall into a moment in which the machine has other things to do. */
static int64_t missed_after(struct end *end, uint32_t i, int64_t least_ns) {
    const int64_t start_ns = clock_monotonic_ns();
    assert_true(hears(&end, 1, end, MESSENGER_CLOSED, i));
    const int64_t took_ns = clock_monotonic_ns() - start_ns;
    return took_ns < least_ns ? took_ns : least_ns;
}

static void a_peer_that_goes_is_missed_at_once_and_comes_again(void **state) {
    (void)state;
    int64_t least_ns = INT64_MAX;
    struct end *const both[] = {&a, &b};
    char address[MESSAGE_ADDRESS_BYTES];
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    memcpy(address, end_address(&b), sizeof address);
    end_names(&b, &a, NULL);
    end_names(&a, &b, address);
    assert_true(ends_meet(&a, &b));
    for (uint32_t i = 1; i <= 2; i++) { /* the one that listens */
        end_close(&b);
        least_ns = missed_after(&a, i, least_ns);
        assert_int_equal(send_to(&a, &b, CHANNEL_CONTROL, 0, 0), SEND_NO_PEER);
        b.options.listen = address;
        end_open(&b);
        end_names(&b, &a, NULL);
        assert_true(hears(both, 2, &a, MESSENGER_OPENED, i + 1));
        assert_true(hears(both, 2, &b, MESSENGER_OPENED, i + 1));
    }
    assert_in_range(least_ns, 0, 100000000);
    least_ns = INT64_MAX;
    for (uint32_t i = 1; i <= 2; i++) { /* the one that dials */
        end_close(&a);
        least_ns = missed_after(&b, i, least_ns);
        end_open(&a);
        end_names(&a, &b, address);
        assert_true(hears(both, 2, &b, MESSENGER_OPENED, i + 3));
        assert_true(hears(both, 2, &a, MESSENGER_OPENED, i + 3));
    }
    assert_in_range(least_ns, 0, 100000000);
    check_talk(&a, &b);
}

static void a_last_word_is_heard_before_the_end(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    b.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, NULL);
    end_names(&b, &a, end_address(&a));
    assert_true(ends_meet(&a, &b));
    assert_int_equal(send_to(&b, &a, CHANNEL_CONTROL, 5, 1000), SEND_OK);
    messenger_close(b.messenger, WITHIN_MS);
    b.messenger = NULL;
    assert_true(hears(both, 1, &a, MESSENGER_CLOSED, 1));
    check_frame(heard_last(&a, MESSENGER_FRAME), &b, 5, 1000);
}

static void a_dropped_peer_is_cut_off_with_all_that_was_queued(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    for (uint32_t i = 0; i < 3; i++) {
        (void)send_to(&b, &a, CHANNEL_BULK, i, FRAME_PAYLOAD_MAX);
        assert_int_equal(send_to(&a, &b, CHANNEL_CONTROL, i, FRAME_PAYLOAD_MAX), SEND_OK);
    }
    messenger_ban_peer(b.messenger, end_curve(&a));
    assert_int_equal(send_to(&b, &a, CHANNEL_CONTROL, 0, 0), SEND_NO_PEER);
    assert_true(hears(both, 2, &b, MESSENGER_CLOSED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_FRAME, NULL), 0);
    assert_true(hears(both, 2, &a, MESSENGER_CLOSED, 1));
    assert_true(hears(both, 2, &a, MESSENGER_REJECTED, 1));
    end_names(&b, &a, NULL); /* until it is named again */
    assert_true(hears(both, 2, &a, MESSENGER_OPENED, 2));
    messenger_ban_peer(b.messenger, end_curve(&c)); /* one that never was */
}

static void a_changed_address_is_dialed_in_place_of_the_old_one(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    a.options.listen = NULL;
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, "tcp://127.0.0.1:1");
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&a, &b, end_address(&b)); /* the same: nothing happens */
    char other[MESSAGE_ADDRESS_BYTES] = "tcp://localhost:";
    strcat(other, strrchr(end_address(&b), ':') + 1);
    end_names(&a, &b, other);
    assert_true(hears(both, 2, &a, MESSENGER_OPENED, 2));
    assert_int_equal(heard_count(&a, MESSENGER_CLOSED, NULL), 1);
}

static bool has_ipv6(void) {
    const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
                                          .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

static void a_listener_on_all_addresses_is_reached_by_either_protocol(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c};
    char address[MESSAGE_ADDRESS_BYTES] = "tcp://[::1]:";
    a.options.listen = NULL;
    c.options.listen = NULL;
    b.options.listen = "tcp://*:*";
    for (int i = 0; i < 3; i++) {
        end_open(all[i]);
    }
    strcat(address, strrchr(end_address(&b), ':') + 1);
    end_names(&b, &a, NULL);
    end_names(&b, &c, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    assert_string_equal(heard_last(&b, MESSENGER_OPENED)->address, "127.0.0.1");
    if (has_ipv6()) {
        end_names(&c, &b, address);
        assert_true(hears(all, 3, &c, MESSENGER_OPENED, 1));
        assert_string_equal(heard_last(&c, MESSENGER_OPENED)->address, "::1");
        assert_true(hears(all, 3, &b, MESSENGER_OPENED, 2));
        assert_string_equal(heard_last(&b, MESSENGER_OPENED)->address, "::1");
    }
}

static void addresses_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const WRONG[] = {"",
                                        "127.0.0.1:5",
                                        "ipc:///tmp/x",
                                        "tcp://",
                                        "tcp://:5",
                                        "tcp://a",
                                        "tcp://a:",
                                        "tcp://a:0",
                                        "tcp://a:*",
                                        "tcp://*:5",
                                        "tcp://a:65536",
                                        "tcp://a:1x",
                                        "tcp://a;b:1",
                                        "tcp://::1:1",
                                        "tcp://[::1:1"};
    struct fault fault;
    end_open(&a);
    for (size_t i = 0; i < ARRAY_COUNT(WRONG); i++) {
        assert_int_equal(messenger_register_peer(a.messenger, end_curve(&b), WRONG[i], &fault),
                         STATUS_INPUT);
    }
    assert_int_equal(messenger_register_peer(a.messenger, end_curve(&b), "tcp://[::1]:1", &fault),
                     OK);
    b.options.listen = end_address(&a);
    assert_int_equal(messenger_open(&b.options, &b.region, &b.messenger, &fault), STATUS_FAILED);
    b.options.listen = "tcp://192.0.2.1:*"; /* nobody's */
    assert_int_equal(messenger_open(&b.options, &b.region, &b.messenger, &fault), STATUS_INPUT);
    assert_null(b.messenger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(frames_go_both_ways_when_one_side_dials),
        TEST(frames_go_both_ways_with_one_that_nobody_can_reach),
        TEST(bulk_goes_as_control_where_one_side_wants_no_connections_for_it),
        TEST(two_that_dial_each_other_meet_once),
        TEST(three_talk_pairwise),
        TEST(another_key_is_redialed_without_a_verdict),
        TEST(an_unknown_key_is_refused_until_it_is_named),
        TEST(a_full_queue_says_so_and_says_when_there_is_room),
        TEST(control_does_not_wait_for_bulk),
        TEST(a_peer_that_goes_is_missed_at_once_and_comes_again),
        TEST(a_last_word_is_heard_before_the_end),
        TEST(a_dropped_peer_is_cut_off_with_all_that_was_queued),
        TEST(a_changed_address_is_dialed_in_place_of_the_old_one),
        TEST(a_listener_on_all_addresses_is_reached_by_either_protocol),
        TEST(addresses_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
