/* Tests of swarm_setup/member_rates, and of the keys from which the rates of a swarm follow. */
#include "runtime/swarm_setup/member_rates.h"

#include "runtime/swarm_setup/manifest_make.h"
#include "runtime/swarm_setup/swarm_setup.h"
#include "scratch.h"
#include "swarm_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fault fault;
static struct region region;
static struct manifest_draft plain;
static struct manifest manifest;

static int make_swarm(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        (void)swarm_fixture_make(&region, &plain, &manifest);
    }
    return failed;
}

static int forget_swarm(void **state) {
    region_finish(&region);
    return scratch_close(state);
}

static struct manifest_draft draft_with(const char *const *overrides, int count) {
    struct manifest_draft draft;
    if (manifest_draft_read("tracker/run.yaml", overrides, count, &region, &draft, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return draft;
}

/* ---- formulas ---- */

static void rates_follow_from_the_number_of_members(void **state) {
    (void)state;
    /* worked out by hand: 1 - (1 - 0.9) / M, 1 - (1 - 0.99) / M, 0.1 / M */
    static const struct {
        uint32_t members;
        double first, second, decay;
    } ROWS[] = {
        {1, 0.9, 0.99, 0.1},
        {2, 0.95, 0.995, 0.05},
        {3, 29.0 / 30, 299.0 / 300, 1.0 / 30},
        {4, 0.975, 0.9975, 0.025},
        {8, 0.9875, 0.99875, 0.0125},
        {64, 0.9984375, 0.99984375, 0.0015625},
    };
    const struct settings settings = {.betas = {0.9, 0.99},
                                      .weight_decay = 0.1,
                                      .swarm_member_betas = MEMBER_AUTO,
                                      .swarm_member_decay = MEMBER_AUTO,
                                      .swarm_member_variance = MEMBER_AUTO};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        const struct member_adamw_rates rates = member_adamw_rates_of(&settings, ROWS[i].members);
        assert_true(fabs(rates.betas.first - ROWS[i].first) < 1e-15);
        assert_true(fabs(rates.betas.second - ROWS[i].second) < 1e-15);
        assert_true(fabs(rates.weight_decay - ROWS[i].decay) < 1e-16);
        assert_true(fabs(rates.mean_share - (1 - 1.0 / ROWS[i].members)) < 1e-15);
    }
}

/* 1 - (1 - beta) is not beta for all of these. */
static void one_member_and_fixed_settings_keep_every_bit(void **state) {
    (void)state;
    static const double BETAS[] = {0, 0.1, 0.3, 0.5, 0.9, 0.95, 0.999, 0.99999999};
    for (size_t i = 0; i < ARRAY_COUNT(BETAS); i++) {
        struct settings settings = {.betas = {BETAS[i], BETAS[i]}, .weight_decay = 0.3};
        for (uint32_t members = 1; members <= 64; members++) {
            const struct member_adamw_rates rates = member_adamw_rates_of(&settings, members);
            assert_true(rates.betas.first == BETAS[i] && rates.betas.second == BETAS[i]);
            assert_true(rates.weight_decay == 0.3);
        }
        settings.swarm_member_betas = settings.swarm_member_decay = MEMBER_AUTO;
        settings.swarm_member_variance = MEMBER_AUTO;
        const struct member_adamw_rates rates = member_adamw_rates_of(&settings, 1);
        assert_true(rates.betas.first == BETAS[i] && rates.betas.second == BETAS[i]);
        assert_true(rates.mean_share == 0);
        assert_true(rates.weight_decay == 0.3);
    }
}

static void each_key_changes_its_own_rates_only(void **state) {
    (void)state;
    struct settings settings = {
        .betas = {0.9, 0.99}, .weight_decay = 0.1, .swarm_member_betas = MEMBER_AUTO};
    struct member_adamw_rates rates = member_adamw_rates_of(&settings, 4);
    assert_true(rates.betas.first == 0.975 && rates.weight_decay == 0.1);
    assert_true(rates.mean_share == 0);
    settings.swarm_member_betas = MEMBER_FIXED;
    settings.swarm_member_decay = MEMBER_AUTO;
    rates = member_adamw_rates_of(&settings, 4);
    assert_true(rates.betas.first == 0.9 && rates.weight_decay == 0.025);
}

/* ---- keys ---- */

static void a_manifest_has_the_keys_only_if_they_are_not_the_defaults(void **state) {
    (void)state;
    static const char *const DEFAULTS[] = {"swarm.member_betas=fixed", "swarm.member_decay=fixed",
                                           "swarm.outer_gain=0", "swarm.member_variance=fixed"};
    static const char *const OTHERS[] = {"swarm.member_betas=auto", "swarm.member_decay=auto",
                                         "swarm.outer_gain=2",
                                         "swarm.outer_momentum=", "swarm.member_variance=auto"};
    assert_null(strstr(plain.run_text, "member_"));
    assert_null(strstr(plain.run_text, "outer_gain"));
    const struct manifest_draft defaults = draft_with(DEFAULTS, 4);
    assert_string_equal(defaults.run_text, plain.run_text);
    const struct manifest_draft others = draft_with(OTHERS, 5);
    assert_non_null(strstr(others.run_text, "\nswarm.member_betas: auto\n"));
    assert_non_null(strstr(others.run_text, "\nswarm.member_decay: auto\n"));
    assert_non_null(strstr(others.run_text, "\nswarm.outer_gain: 2\n"));
    assert_non_null(strstr(others.run_text, "\nswarm.member_variance: auto\n"));
    assert_true(fabs(others.terms.shape.rate_per_gain - 0.35) < 1e-15);
    assert_true(plain.terms.shape.rate_per_gain == 0);
    assert_int_equal(manifest_draft_compare(&others, &manifest, "it", &fault), STATUS_INPUT);
    assert_int_equal(manifest_draft_compare(&defaults, &manifest, "it", &fault), OK);
}

static void a_member_reads_the_keys(void **state) {
    (void)state;
    static const char *const OTHERS[] = {"swarm.member_betas=auto", "swarm.outer_gain=2"};
    const struct manifest_draft others = draft_with(OTHERS, 2);
    struct manifest of = manifest;
    of.run_text = others.run_text;
    const struct swarm_member_source source = {.manifest = &of, .subject = "it.skep"};
    struct settings settings;
    assert_int_equal(swarm_settings_read(&source, &region, &settings, &fault), OK);
    assert_int_equal(settings.swarm_member_betas, MEMBER_AUTO);
    assert_int_equal(settings.swarm_member_decay, MEMBER_FIXED);
    assert_true(settings.swarm_outer_gain == 2);
}

/* What an older program does with a newer manifest. */
static void a_manifest_with_an_unknown_key_is_rejected(void **state) {
    (void)state;
    struct manifest of = manifest;
    char text[8192];
    struct text with = text_over(text, sizeof text);
    text_add(&with, "%sswarm.member_gammas: auto\n", manifest.run_text);
    assert_false(with.truncated);
    of.run_text = text;
    const struct swarm_member_source source = {.manifest = &of, .subject = "it.skep"};
    struct settings settings;
    assert_int_equal(swarm_settings_read(&source, &region, &settings, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "swarm.member_gammas"));
}

static void contradictions_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *overrides[3];
        const char *reason;
    } ROWS[] = {
        {{"swarm.outer_gain=1", "swarm.outer_momentum=0.5", "seed=5"},
         "swarm.outer_gain determines the momentum, but swarm.outer_momentum is also set"},
        {{"swarm.outer_gain=1", "swarm.outer_lr=0", "seed=5"},
         "swarm.outer_gain is set, but swarm.outer_lr is 0: the outer step would do nothing"},
        {{"swarm.member_betas=auto", "optimizer.betas=0.9,0.999999", "swarm.members_max=64"},
         "swarm.member_betas is auto, but with swarm.members_max members a beta rounds to 1"},
        {{"swarm.member_betas=sometimes", "seed=5", "seed=5"},
         "swarm.member_betas is \"sometimes\", not one of fixed|auto"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct manifest_draft draft;
        assert_int_equal(
            manifest_draft_read("tracker/run.yaml", ROWS[i].overrides, 3, &region, &draft, &fault),
            STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, "command line");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_from_the_number_of_members),
        cmocka_unit_test(one_member_and_fixed_settings_keep_every_bit),
        cmocka_unit_test(each_key_changes_its_own_rates_only),
        cmocka_unit_test(a_manifest_has_the_keys_only_if_they_are_not_the_defaults),
        cmocka_unit_test(a_member_reads_the_keys),
        cmocka_unit_test(a_manifest_with_an_unknown_key_is_rejected),
        cmocka_unit_test(contradictions_are_rejected),
    };
    return cmocka_run_group_tests(tests, make_swarm, forget_swarm);
}
