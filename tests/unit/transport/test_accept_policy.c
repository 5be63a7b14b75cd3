/* test_accept_policy: which connection is closed for a new one, driven directly. */
#include "transport/messages/accept_policy.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct accept_policy policy;

static int begin(void **state) {
    (void)state;
    memset(&policy, 0, sizeof policy);
    return 0;
}

static struct source host(const char *ip) {
    struct source source;
    assert_true(source_of_text(ip, &source));
    return source;
}

/* Host k of network n: 10.N.N.K */
static struct source host_of(uint32_t network, uint32_t k) {
    char ip[32];
    struct text text = text_over(ip, sizeof ip);
    text_add(&text, "10.%u.%u.%u", network / 256, network % 256, k);
    return host(ip);
}

static uint32_t add(const struct source *from, uint32_t connection) {
    return accept_policy_add_pending(&policy, from, connection);
}

static void hosts_and_networks_are_compared_by_their_prefixes(void **state) {
    (void)state;
    const struct source a = host("10.1.2.3"), mapped = host("::ffff:10.1.2.3");
    const struct source near = host("10.1.2.4"), far = host("10.1.3.3");
    const struct source v6 = host("2001:db8:1:2::1"), v6_same = host("2001:db8:1:2:ffff::9");
    const struct source v6_far = host("2001:db8:1:3::1"), zero = host("::");
    assert_true(source_is_same_host(&a, &mapped));
    assert_false(source_is_same_host(&a, &near));
    assert_true(source_is_same_network(&a, &near));
    assert_false(source_is_same_network(&a, &far));
    assert_true(source_is_same_host(&v6, &v6_same));
    assert_false(source_is_same_network(&v6, &v6_far));
    assert_false(source_is_same_network(&a, &zero));
    assert_false(source_is_same_network(&zero, &a));
}

static void the_ninth_of_a_network_evicts_the_oldest(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const struct source from = host_of(1, 10 + i); /* each from another host */
        assert_int_equal(add(&from, 100 + i), ACCEPT_NONE);
    }
    const struct source other = host_of(2, 1);
    assert_int_equal(add(&other, 200), ACCEPT_NONE);
    for (uint32_t i = 0; i < 8; i++) {
        const struct source from = host_of(1, 30 + i);
        assert_int_equal(add(&from, 300 + i), 100 + i);
    }
}

static void a_flooding_host_evicts_only_its_own_connections(void **state) {
    (void)state;
    const struct source flooder = host("127.0.0.9"), honest = host("127.0.0.1");
    for (uint32_t i = 0; i < 1000; i++) {
        (void)add(&flooder, i);
    }
    assert_int_equal(add(&honest, 5000), 1000 - 8); /* the oldest that is left */
    assert_int_equal(add(&honest, 5001), 1000 - 7);
    for (uint32_t i = 1000; i < 3000; i++) {
        const uint32_t evicted = add(&flooder, i);
        assert_true(evicted < 3000);
    }
    for (uint32_t i = 0; i < 2; i++) {
        accept_policy_remove_pending(&policy, 5000 + i); /* both were still pending */
    }
    assert_int_equal(add(&flooder, 3000), ACCEPT_NONE);
    assert_int_equal(add(&flooder, 3001), ACCEPT_NONE);
    assert_in_range(add(&flooder, 3002), 0, 3001);
}

static void a_full_group_evicts_from_the_network_with_most(void **state) {
    (void)state;
    uint32_t next = 0;
    for (uint32_t network = 0; network < 120; network++) {
        const struct source from = host_of(network, 1);
        assert_int_equal(add(&from, next++), ACCEPT_NONE);
    }
    const struct source crowd = host_of(500, 1);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(add(&crowd, 1000 + i), ACCEPT_NONE);
    }
    const struct source newcomer = host_of(600, 1);
    assert_int_equal(add(&newcomer, 2000), 1000);
    assert_int_equal(add(&newcomer, 2001), 1001);
}

static void expected_hosts_have_places_of_their_own(void **state) {
    (void)state;
    const struct source member = host("10.0.0.7"), neighbour = host("10.0.0.8");
    accept_policy_add_expected_host(&policy, &member);
    for (uint32_t i = 0; i < 20; i++) { /* more than 8 members behind one address */
        assert_int_equal(add(&member, i), ACCEPT_NONE);
    }
    for (uint32_t i = 0; i < 5000; i++) { /* strangers, also in the member's network */
        const struct source from = i % 2 == 0 ? neighbour : host_of(i % 997, i % 250);
        const uint32_t evicted = add(&from, 1000 + i);
        assert_true(evicted == ACCEPT_NONE || evicted >= 1000);
    }
    for (uint32_t i = 20; i < ACCEPT_EXPECTED_MAX; i++) {
        assert_int_equal(add(&member, i), ACCEPT_NONE);
    }
    assert_int_equal(add(&member, 900), 0);
}

static void the_host_expected_longest_is_forgotten_first(void **state) {
    (void)state;
    for (uint32_t i = 0; i <= ACCEPT_HOSTS_MAX; i++) {
        const struct source from = host_of(i, 1);
        accept_policy_add_expected_host(&policy, &from);
        accept_policy_add_expected_host(&policy, &from);
    }
    const struct source first = host_of(0, 1), second = host_of(1, 1);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(add(&first, i), ACCEPT_NONE);
        assert_int_equal(add(&second, 100 + i), ACCEPT_NONE);
    }
    assert_int_equal(add(&first, 8), 0);
    assert_int_equal(add(&second, 108), ACCEPT_NONE);
}

static void never_more_are_pending_than_the_limits(void **state) {
    (void)state;
    static bool is_open[4096];
    static struct source hosts[4096];
    uint32_t random = 7;
    memset(is_open, 0, sizeof is_open);
    for (uint32_t step = 0; step < 20000; step++) {
        random = random * 1664525 + 1013904223;
        const uint32_t connection = step % 4096;
        if (is_open[connection]) {
            accept_policy_remove_pending(&policy, connection);
            is_open[connection] = false;
        }
        hosts[connection] = host_of((random >> 20) % 40, (random >> 12) % 4);
        is_open[connection] = true;
        const uint32_t evicted = add(&hosts[connection], connection);
        if (evicted != ACCEPT_NONE) {
            assert_true(is_open[evicted]);
            is_open[evicted] = false;
        }
        uint32_t all = 0, near = 0;
        for (uint32_t i = 0; i < 4096; i++) {
            all += is_open[i];
            near += is_open[i] && source_is_same_network(&hosts[i], &hosts[connection]);
        }
        assert_in_range(all, 0, ACCEPT_OUTSIDERS_MAX);
        assert_in_range(near, 0, ACCEPT_NETWORK_MAX);
    }
}

static void a_host_is_blocked_above_its_rate_and_unblocked_later(void **state) {
    (void)state;
    struct source blocked[ACCEPT_BLOCKED_MAX];
    const struct source flooder = host("127.0.0.9"), honest = host("127.0.0.1");
    uint32_t accepted = 0;
    for (int64_t ms = 0; ms < 1000; ms++) { /* 10,000 a second */
        for (int i = 0; i < 10; i++) {
            accepted += accept_policy_count_connection(&policy, &flooder, ms);
        }
        assert_true(ms % 50 != 0 || accept_policy_count_connection(&policy, &honest, ms));
    }
    assert_in_range(accepted, 256, 260);
    assert_int_equal(accept_policy_list_blocked(&policy, blocked), 1);
    assert_true(source_is_same_host(&blocked[0], &flooder));
    const uint32_t version = policy.blocked_version;
    accept_policy_unblock_hosts(&policy, ACCEPT_BLOCK_MS - 1);
    assert_int_equal(policy.blocked_version, version);
    accept_policy_unblock_hosts(&policy, 2 * ACCEPT_BLOCK_MS);
    assert_int_not_equal(policy.blocked_version, version);
    assert_int_equal(accept_policy_list_blocked(&policy, blocked), 0);
    assert_true(accept_policy_count_connection(&policy, &flooder, 2 * ACCEPT_BLOCK_MS));
}

static void many_hosts_are_counted_without_forgetting_the_blocked(void **state) {
    (void)state;
    struct source blocked[ACCEPT_BLOCKED_MAX];
    for (uint32_t k = 0; k < 2 * ACCEPT_BLOCKED_MAX; k++) {
        const struct source flooder = host_of(k, 9);
        uint32_t accepted = 0;
        for (int i = 0; i < 300; i++) {
            accepted += accept_policy_count_connection(&policy, &flooder, 1);
        }
        assert_int_equal(accepted, 256);
    }
    for (uint32_t k = 0; k < 1000; k++) {
        const struct source from = host_of(k, 1);
        assert_true(accept_policy_count_connection(&policy, &from, 2));
    }
    assert_int_equal(accept_policy_list_blocked(&policy, blocked), ACCEPT_BLOCKED_MAX);
    const struct source first = host_of(0, 9);
    assert_false(accept_policy_count_connection(&policy, &first, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, begin)
        TEST(hosts_and_networks_are_compared_by_their_prefixes),
        TEST(the_ninth_of_a_network_evicts_the_oldest),
        TEST(a_flooding_host_evicts_only_its_own_connections),
        TEST(a_full_group_evicts_from_the_network_with_most),
        TEST(expected_hosts_have_places_of_their_own),
        TEST(the_host_expected_longest_is_forgotten_first),
        TEST(never_more_are_pending_than_the_limits),
        TEST(a_host_is_blocked_above_its_rate_and_unblocked_later),
        TEST(many_hosts_are_counted_without_forgetting_the_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
