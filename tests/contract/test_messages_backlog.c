/* test_messages_ahead: what a messenger says of bulk that it took and that has not gone out. */
#include "ends.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FULL_LOOKS = 100, WAIT_MS = 5, PACED = 4 << 20 };

static struct end a, b;
static uint8_t bulk[FRAME_PAYLOAD_MAX];

static enum send_result send_bulk(void) {
    const struct frame frame = {.kind = 1, .length = FRAME_PAYLOAD_MAX};
    return messenger_send(a.messenger, end_curve(&b), CHANNEL_BULK, &frame, bulk);
}

static bool is_taken(void *context) {
    (void)context;
    return send_bulk() == SEND_OK;
}

static bool has_all_gone(void *context) {
    (void)context;
    return messenger_backlog_bytes(a.messenger, end_curve(&b)) == 0;
}

static bool has_arrived(void *context) {
    (void)context;
    return messenger_last_received_ns(b.messenger, end_curve(&a)) > 0;
}

/* Bulk for a peer that reads nothing is left here once its kernel and ours are full; it goes when
 * that one reads, which sees bytes come. */
static void what_is_left_goes_out_when_the_peer_reads(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    end_init(&a);
    end_init(&b);
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    assert_true(messenger_backlog_bytes(a.messenger, end_curve(&b)) == 0);
    assert_true(ends_until(both, 2, is_taken, NULL));
    for (int looks = 0; looks < FULL_LOOKS; looks++) {
        looks = send_bulk() == SEND_OK ? 0 : looks;
        (void)messenger_wait(a.messenger, -1, WAIT_MS);
    }
    assert_in_range(messenger_backlog_bytes(a.messenger, end_curve(&b)), 1, UINT32_MAX);
    assert_true(ends_until(both, 2, has_all_gone, NULL));
    assert_true(ends_until(both, 2, has_arrived, NULL));
    end_close(&a);
    end_close(&b);
}

/* A peer's bytes take as long as its rate says: both connections together, and no more than a
 * thirty-second part less; then as long as they like. */
static void bulk_goes_out_as_slowly_as_it_is_paced(void **state) {
    (void)state;
    struct end *const both[] = {&a, &b};
    end_init(&a);
    end_init(&b);
    end_open(&a);
    end_open(&b);
    end_names(&b, &a, NULL);
    end_names(&a, &b, end_address(&b));
    assert_true(ends_meet(&a, &b));
    messenger_set_rate_limit(a.messenger, end_curve(&b), PACED);
    assert_true(ends_until(both, 2, is_taken, NULL));
    messenger_set_rate_limit(a.messenger, end_curve(&b), PACED);
    const int64_t start_ns = clock_monotonic_ns();
    assert_true(hears(both, 2, &b, MESSENGER_FRAME, 1));
    const int64_t took_ns = clock_monotonic_ns() - start_ns;
    assert_true(took_ns > FRAME_PAYLOAD_MAX / 2 * INT64_C(1000000000) / PACED);
    messenger_set_rate_limit(a.messenger, end_curve(&b), MESSENGER_UNPACED);
    assert_true(ends_until(both, 2, is_taken, NULL));
    assert_true(hears(both, 2, &b, MESSENGER_FRAME, 2));
    end_close(&a);
    end_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_goes_out_when_the_peer_reads),
        cmocka_unit_test(bulk_goes_out_as_slowly_as_it_is_paced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
