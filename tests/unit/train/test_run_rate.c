/* Tests of train/settings_learning_rate: learning rates against their closed forms, worked out by
 * hand. */
#include "runtime/settings/settings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* rate of step `step` in a run of 1000 steps at lr 0.5, divided by lr */
static double share(enum learning_rate_kind kind, int64_t warmup_steps, int64_t step) {
    const struct settings settings = {.learning_rate = 0.5,
                                      .learning_rate_kind = kind,
                                      .warmup_steps = warmup_steps,
                                      .steps = 1000};
    return settings_learning_rate(&settings, step) / 0.5;
}

static void expect(double got, double wanted) {
    if (fabs(got - wanted) > 1e-14) {
        fail_msg("%.17g, not %.17g", got, wanted);
    }
}

static void warm_up_is_linear_from_the_first_step_in_every_schedule(void **state) {
    (void)state;
    for (int kind = RATE_CONSTANT; kind <= RATE_WSD; kind++) {
        expect(share((enum learning_rate_kind)kind, 100, 0), 0.01);
        expect(share((enum learning_rate_kind)kind, 100, 49), 0.5);
        expect(share((enum learning_rate_kind)kind, 100, 99), 1);
        expect(share((enum learning_rate_kind)kind, 100, 100), 1);
        expect(share((enum learning_rate_kind)kind, 0, 0), 1);
    }
}

static void constant_stays(void **state) {
    (void)state;
    expect(share(RATE_CONSTANT, 10, 500), 1);
    expect(share(RATE_CONSTANT, 10, 999), 1);
}

static void cosine_falls_to_a_tenth(void **state) {
    (void)state;
    expect(share(RATE_COSINE, 0, 500), 0.55);                                /* half way */
    expect(share(RATE_COSINE, 200, 400), 0.1 + 0.9 * 0.5 * (1 + sqrt(0.5))); /* a quarter */
    expect(share(RATE_COSINE, 200, 600), 0.55);
    expect(share(RATE_COSINE, 100, 1000), 0.1);
    expect(share(RATE_COSINE, 100, 5000), 0.1);
    assert_true(share(RATE_COSINE, 0, 999) > 0.1 && share(RATE_COSINE, 0, 999) < 0.1001);
}

static void wsd_holds_then_falls_to_zero_over_the_last_fifth(void **state) {
    (void)state;
    expect(share(RATE_WSD, 100, 799), 1);
    expect(share(RATE_WSD, 100, 800), 1);
    expect(share(RATE_WSD, 100, 850), 0.75);
    expect(share(RATE_WSD, 100, 999), 0.005);
    expect(share(RATE_WSD, 100, 1000), 0);
    expect(share(RATE_WSD, 100, 1001), 0);
}

static void a_warm_up_longer_than_the_run_only_rises(void **state) {
    (void)state;
    expect(share(RATE_COSINE, 4000, 999), 0.25);
    expect(share(RATE_CONSTANT, 4000, 999), 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_linear_from_the_first_step_in_every_schedule),
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(cosine_falls_to_a_tenth),
        cmocka_unit_test(wsd_holds_then_falls_to_zero_over_the_last_fifth),
        cmocka_unit_test(a_warm_up_longer_than_the_run_only_rises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
