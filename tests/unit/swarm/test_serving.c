/* test_serving: what strangers, clients and members get of a tracker over a long time. */
#include "runtime/swarm/tracker/serving.h"

#include "runtime/swarm/wire/serving_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SECONDS = 600, STRANGERS = 96, MANIFEST_BYTES = 20000 };

static void strangers_together_get_one_mbit_a_second(void **state) {
    (void)state;
    struct serving_buckets buckets = {.strangers = {.missing_tokens = 0}};
    uint64_t bytes = 0, listed_bytes = 0;
    for (int64_t ms = 0; ms < SECONDS * 1000; ms += 1000) {
        for (int i = 0; i < STRANGERS; i++) {
            if (serving_may_send_bytes(&buckets, REQUESTER_STRANGER, ms)) {
                serving_charge_bytes(&buckets, REQUESTER_STRANGER, MANIFEST_BYTES, ms);
                bytes += MANIFEST_BYTES;
            }
        }
        if (serving_may_send_bytes(&buckets, REQUESTER_LISTED, ms)) {
            serving_charge_bytes(&buckets, REQUESTER_LISTED, MANIFEST_BYTES, ms);
            listed_bytes += MANIFEST_BYTES;
        }
    }
    assert_in_range(bytes, 125000 * (SECONDS - 1), 125000 * SECONDS + 256000 + MANIFEST_BYTES);
    assert_int_equal(listed_bytes, MANIFEST_BYTES * SECONDS); /* whatever strangers request */
}

static void a_long_answer_is_followed_by_a_pause(void **state) {
    (void)state;
    struct serving_buckets buckets = {.strangers = {.missing_tokens = 0}};
    serving_charge_bytes(&buckets, REQUESTER_STRANGER, 1 << 20, 0);
    assert_false(serving_may_send_bytes(&buckets, REQUESTER_STRANGER, 6000));
    assert_true(serving_may_send_bytes(&buckets, REQUESTER_STRANGER, 7000));
}

static void a_connection_asks_once_a_second(void **state) {
    (void)state;
    struct guest_usage usage = {.queries = {.missing_tokens = 0}};
    uint32_t queries = 0, pings = 0;
    for (int64_t ms = 0; ms < 60000; ms++) {
        queries += serving_permit_query(&usage, ms);
        pings += serving_permit_ping(&usage, ms);
    }
    assert_in_range(queries, 4 + 59, 4 + 60);
    assert_in_range(pings, 64 + 20 * 60 - 1, 64 + 20 * 60);
}

/* An identity costs nothing to make, so all of them have one limit. */
static void new_guests_are_limited(void **state) {
    (void)state;
    struct serving_buckets buckets = {.new_guests = {.missing_tokens = 0}};
    uint32_t at_once = 0, in_a_day = 0;
    for (int i = 0; i < 10000; i++) {
        at_once += serving_permit_guest(&buckets, 0);
    }
    for (int64_t ms = 0; ms < 86400000; ms += 500) {
        in_a_day += serving_permit_guest(&buckets, ms);
    }
    assert_int_equal(at_once, 64);
    assert_in_range(in_a_day, 32 * 24 - 1, 32 * 24 + 1);
}

static void a_start_is_counted_once_and_starts_are_limited(void **state) {
    (void)state;
    struct member_usage usage = {.start_number = 0};
    uint32_t sessions = 0;
    for (int i = 0; i < 100; i++) { /* repeats until the tracker answers */
        assert_true(serving_permit_start(&usage, 7, 10 * i));
    }
    for (uint64_t number = 100; number < 10100; number++) { /* 100 new ones a second */
        sessions += serving_permit_start(&usage, number, 1000 + 10 * (int64_t)(number - 100));
    }
    assert_in_range(sessions, 3 + 99, 4 + 100);
}

static void a_member_gets_the_ledger_twice_a_day(void **state) {
    (void)state;
    const uint64_t entries = 30000;
    struct member_usage usage = {.start_number = 0};
    uint64_t sent = 0;
    for (int64_t ms = 0; ms < 24 * 3600 * 1000; ms += 100) {
        if (serving_may_send_entries(&usage, entries, ms)) {
            serving_charge_entries(&usage, entries, 500, ms);
            sent += 500;
        }
        assert_true(ms > 10000 || sent >= (uint64_t)(ms < 9000 ? ms / 100 : 0) * 500 ||
                    sent >= 2 * entries);
    }
    assert_in_range(sent, 4 * entries, 4 * entries + 1024 + 500); /* the first two at once */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_together_get_one_mbit_a_second),
        cmocka_unit_test(a_long_answer_is_followed_by_a_pause),
        cmocka_unit_test(a_connection_asks_once_a_second),
        cmocka_unit_test(new_guests_are_limited),
        cmocka_unit_test(a_start_is_counted_once_and_starts_are_limited),
        cmocka_unit_test(a_member_gets_the_ledger_twice_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
