/* test_token_bucket: amounts against the limit over any span, and amounts that were used before. */
#include "base/token_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct token_limit LIMIT = {.rate = 10, .burst = 40};

static void the_first_burst_is_taken_at_once(void **state) {
    (void)state;
    struct token_bucket bucket = {0};
    assert_true(token_bucket_take(&bucket, LIMIT, 40, 5000));
    assert_false(token_bucket_take(&bucket, LIMIT, 1, 5000));
    assert_false(token_bucket_has(&bucket, LIMIT, 5000));
}

static void tokens_return_at_the_rate_up_to_the_burst(void **state) {
    (void)state;
    struct token_bucket bucket = {0};
    assert_true(token_bucket_take(&bucket, LIMIT, 40, 5000));
    assert_false(token_bucket_take(&bucket, LIMIT, 1, 5099));
    assert_true(token_bucket_take(&bucket, LIMIT, 1, 5100));
    assert_false(token_bucket_take(&bucket, LIMIT, 41, 1000000));
    assert_true(token_bucket_take(&bucket, LIMIT, 40, 1000000));
}

static void no_span_of_any_length_exceeds_burst_and_rate(void **state) {
    (void)state;
    struct token_bucket bucket = {0};
    double taken = 0;
    for (int64_t ms = 0; ms < 60000; ms++) {
        taken += token_bucket_take(&bucket, LIMIT, 3, ms) ? 3 : 0;
        assert_true(taken <= LIMIT.burst + LIMIT.rate * (double)ms / 1000 + 1e-6);
    }
    assert_true(taken >= LIMIT.rate * 60 - 3);
}

static void what_was_used_before_is_owed(void **state) {
    (void)state;
    struct token_bucket bucket = {0};
    token_bucket_spend(&bucket, LIMIT, 100, 0);
    assert_false(token_bucket_has(&bucket, LIMIT, 6000));
    assert_true(token_bucket_has(&bucket, LIMIT, 6100));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_burst_is_taken_at_once),
        cmocka_unit_test(tokens_return_at_the_rate_up_to_the_burst),
        cmocka_unit_test(no_span_of_any_length_exceeds_burst_and_rate),
        cmocka_unit_test(what_was_used_before_is_owed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
