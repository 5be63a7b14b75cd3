/* test_messages_guests: contract B: keys that nobody named: whom a listener lets in, for whom it
 * keeps places, and what those hear for whom there is none. */
#include "ends.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct end a, b, c, d;

static int setup(void **state) {
    struct end *const all[] = {&a, &b, &c, &d};
    (void)state;
    for (int i = 0; i < 4; i++) {
        end_init(all[i]);
        all[i]->options.listen = all[i] == &b ? "tcp://127.0.0.1:*" : NULL;
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    end_close(&a);
    end_close(&b);
    end_close(&c);
    end_close(&d);
    return 0;
}

static enum send_result say(struct end *from, const struct end *to) {
    const struct frame frame = {.kind = 1};
    return messenger_send(from->messenger, end_curve(to), CHANNEL_CONTROL, &frame, NULL);
}

static void guests_are_let_in_where_they_are_wanted(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    b.options.guests.slots[0] = b.options.peers_max;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    assert_true(heard_last(&b, MESSENGER_OPENED)->is_guest);
    assert_false(heard_last(&a, MESSENGER_OPENED)->is_guest);
    assert_int_equal(say(&a, &b), SEND_OK);
    assert_true(hears(both, 2, &b, MESSENGER_FRAME, 1));
    assert_true(heard_last(&b, MESSENGER_FRAME)->is_guest);
    end_names(&b, &a, NULL);
    assert_int_equal(say(&a, &b), SEND_OK);
    assert_true(hears(both, 2, &b, MESSENGER_FRAME, 2));
    assert_false(heard_last(&b, MESSENGER_FRAME)->is_guest);
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, NULL), 1);
}

static void beyond_the_last_place_nobody_is_let_in(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c};
    struct fault fault;
    b.options.peers_max = 1;
    b.options.guests.slots[0] = 1;
    for (int i = 0; i < 3; i++) {
        end_open(all[i]);
    }
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&c, &b, end_address(&b));
    assert_true(hears(all, 3, &c, MESSENGER_FULL, 1));
    assert_int_equal(messenger_register_peer(b.messenger, end_curve(&c), NULL, &fault), STATUS_FIT);
    end_close(&a); /* its place is free again */
    assert_true(hears(all, 3, &c, MESSENGER_OPENED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, &c), 1);
    assert_int_equal(heard_count(&c, MESSENGER_REJECTED, NULL), 0);
}

/* What b takes each key for. */
static uint32_t classes[2];

static uint32_t class_of(const void *context, const uint8_t curve[static KEY_BYTES]) {
    (void)context;
    return memcmp(curve, end_curve(&a), KEY_BYTES) == 0   ? classes[0]
           : memcmp(curve, end_curve(&d), KEY_BYTES) == 0 ? classes[1]
                                                          : 0;
}

static void open_with_classes(uint32_t class_of_a, uint32_t class_of_d) {
    struct end *const all[] = {&a, &b, &c, &d};
    classes[0] = class_of_a;
    classes[1] = class_of_d;
    b.options.peers_max = 3;
    b.options.guests =
        (struct messenger_guests){.slots = {1, 2, 3}, .class_of = class_of, .context = NULL};
    for (int i = 0; i < 4; i++) {
        end_open(all[i]);
    }
}

static void strangers_leave_the_places_of_those_who_are_expected(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c, &d};
    open_with_classes(0, 1);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&c, &b, end_address(&b)); /* two places are free, but not for strangers */
    assert_true(hears(all, 4, &c, MESSENGER_FULL, 1));
    end_names(&d, &b, end_address(&b));
    assert_true(hears(all, 4, &d, MESSENGER_OPENED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, &c), 0);
    end_close(&d); /* and comes back, though strangers go on trying */
    end_open(&d);
    end_names(&d, &b, end_address(&b));
    assert_true(hears(all, 4, &d, MESSENGER_OPENED, 2));
    assert_int_equal(heard_count(&b, MESSENGER_OPENED, &c), 0);
}

static void who_is_a_stranger_no_more_makes_place_for_another(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c};
    open_with_classes(0, 1);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&c, &b, end_address(&b));
    assert_true(hears(all, 3, &c, MESSENGER_FULL, 1));
    classes[0] = 2;
    messenger_reclassify_guests(b.messenger);
    assert_true(hears(all, 3, &c, MESSENGER_OPENED, 1));
    assert_int_equal(heard_count(&b, MESSENGER_CLOSED, &a), 0);
}

static void one_that_was_hung_up_on_comes_again(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    b.options.guests.slots[0] = 1;
    end_open(&a);
    end_open(&b);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    messenger_disconnect_peer(b.messenger, end_curve(&a));
    messenger_disconnect_peer(b.messenger, end_curve(&c)); /* one that never was */
    assert_int_equal(say(&b, &a), SEND_NO_PEER);
    assert_true(hears(both, 2, &b, MESSENGER_CLOSED, 1));
    assert_true(hears(both, 2, &a, MESSENGER_OPENED, 2));
    assert_true(hears(both, 2, &b, MESSENGER_OPENED, 2));
    assert_int_equal(heard_count(&a, MESSENGER_REJECTED, NULL), 0);
}

/* Connections are forwarded here to nobody: each is taken, and ended at once. */
static int forward = -1;
static int forwarded;
static bool resets;

static void open_forward(char address[static MESSAGE_ADDRESS_BYTES]) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof place;
    forward = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int yes = 1; /* as ZeroMQ has it: another listens here later */
    assert_int_equal(setsockopt(forward, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(forward, (const struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(listen(forward, 8), 0);
    assert_int_equal(getsockname(forward, (struct sockaddr *)&place, &bytes), 0);
    snprintf(address, MESSAGE_ADDRESS_BYTES, "tcp://127.0.0.1:%u", ntohs(place.sin_port));
    forwarded = 0;
}

static bool has_forwarded(void *wanted) {
    const struct linger at_once = {.l_onoff = 1};
    int fd = accept(forward, NULL, NULL);
    for (; fd >= 0; fd = accept(forward, NULL, NULL)) {
        if (resets) {
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        }
        close(fd);
        forwarded++;
    }
    return forwarded >= *(const int *)wanted;
}

static void check_that_a_forward_to_nobody_is_no_answer(void) {
    struct end *const both[] = {&a, &b};
    struct end *const alone[] = {&a};
    char address[MESSAGE_ADDRESS_BYTES];
    int wanted = 5; /* ends without a word */
    open_forward(address);
    end_open(&a);
    end_names(&a, &b, address);
    assert_true(ends_until(alone, 1, has_forwarded, &wanted));
    assert_int_equal(a.count, 0);
    close(forward);
    b.options.listen = address; /* who was meant is back */
    b.options.guests.slots[0] = 1;
    end_open(&b);
    assert_true(hears(both, 2, &a, MESSENGER_OPENED, 1));
    assert_int_equal(heard_count(&a, MESSENGER_REJECTED, NULL), 0);
}

static void a_forward_to_nobody_is_no_answer(void **state) {
    (void)state;
    resets = false;
    check_that_a_forward_to_nobody_is_no_answer();
}

static void a_forward_that_resets_is_no_answer(void **state) {
    (void)state;
    resets = true;
    check_that_a_forward_to_nobody_is_no_answer();
}

static void a_stranger_gives_way_when_its_turn_is_over(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c};
    b.options.guests = (struct messenger_guests){.slots = {1}, .evict_after_ms = 300};
    for (int i = 0; i < 3; i++) {
        end_open(all[i]);
    }
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&c, &b, end_address(&b));
    assert_true(hears(all, 3, &c, MESSENGER_OPENED, 1));
    assert_true(hears(all, 3, &a, MESSENGER_CLOSED, 1));
    assert_true(hears(all, 3, &a, MESSENGER_OPENED, 2)); /* and has another turn */
    assert_int_equal(heard_count(&a, MESSENGER_REJECTED, NULL), 0);
}

static bool has_ipv6(void) {
    const struct sockaddr_in6 place = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&place, sizeof place) == 0;
    close(fd);
    return has;
}

static void a_network_with_more_strangers_gives_way_at_once(void **state) {
    (void)state;
    struct end *const all[] = {&a, &b, &c, &d};
    char address[MESSAGE_ADDRESS_BYTES];
    if (!has_ipv6()) {
        skip();
    }
    b.options.listen = "tcp://*:*";
    b.options.guests = (struct messenger_guests){.slots = {2}, .evict_after_ms = 3600 * 1000};
    for (int i = 0; i < 4; i++) {
        end_open(all[i]);
    }
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    end_names(&c, &b, end_address(&b));
    assert_true(hears(all, 4, &c, MESSENGER_OPENED, 1));
    snprintf(address, sizeof address, "tcp://[::1]:%u", messenger_port(b.messenger));
    end_names(&d, &b, address);
    assert_true(hears(all, 4, &d, MESSENGER_OPENED, 1));
    assert_true(hears(all, 4, &a, MESSENGER_CLOSED, 1)); /* it has been connected longest */
    assert_true(hears(all, 4, &a, MESSENGER_FULL, 1));   /* and has no more right than the others */
    assert_int_equal(heard_count(&c, MESSENGER_CLOSED, NULL), 0);
    assert_int_equal(heard_count(&d, MESSENGER_CLOSED, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(guests_are_let_in_where_they_are_wanted),
        TEST(beyond_the_last_place_nobody_is_let_in),
        TEST(strangers_leave_the_places_of_those_who_are_expected),
        TEST(who_is_a_stranger_no_more_makes_place_for_another),
        TEST(one_that_was_hung_up_on_comes_again),
        TEST(a_stranger_gives_way_when_its_turn_is_over),
        TEST(a_network_with_more_strangers_gives_way_at_once),
        TEST(a_forward_to_nobody_is_no_answer),
        TEST(a_forward_that_resets_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
