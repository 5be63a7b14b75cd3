/* Tallies: what a step's ranks tell each other, added up the same on each. */
#include "base/check.h"
#include "kernels/optimizer.h"
#include "kernels/tally.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 4, SHARD = 2, ONE_DIGIT = 10 /* 2^(32 * 10 - 320) = 1 */ };

/* Ranks 2 and 3 hold the same gradients as 0 and 1: squares 9 and 16 of one replica make a norm of
 * 5. Losses are such that only rank order gives 3 (from the right it would be 1). */
static void tallies_of_four(struct rank_tally tallies[static RANKS]) {
    static const double LOSSES[RANKS] = {1, 0x1p60, -0x1p60, 3};
    for (int rank = 0; rank < RANKS; rank++) {
        struct step_scalars scalars = {.loss_sum = LOSSES[rank], .valid_tokens = 10 + rank};
        scalars.norm.digits[ONE_DIGIT] = rank % SHARD == 0 ? 9 : 16;
        tally_out(&scalars, &tallies[rank]);
    }
}

static void a_tally_sums_every_rank_and_every_gradient_once(void **state) {
    (void)state;
    struct rank_tally tallies[RANKS];
    struct step_scalars scalars = {.learning_rate = 3, .loss_sum = 7};
    tallies_of_four(tallies);
    struct tally_args args = {
        .ranks = RANKS, .shard = SHARD, .parts = TALLY_TOKENS | TALLY_LOSS | TALLY_NORM};
    tally_in(&args, tallies, &scalars);
    assert_int_equal(scalars.valid_tokens, 10 + 11 + 12 + 13);
    assert_true(scalars.loss_scale == (float)(1.0 / 46));
    assert_true(scalars.loss_sum == 3);
    clip_run(0, &scalars);
    assert_true(scalars.gradient_norm == 5);
    assert_int_equal(scalars.skip, 0);
    assert_true(scalars.learning_rate == 3);
}

static void a_tally_leaves_what_it_does_not_name(void **state) {
    (void)state;
    static const unsigned PARTS[] = {TALLY_TOKENS, TALLY_LOSS, TALLY_NORM};
    struct rank_tally tallies[RANKS];
    tallies_of_four(tallies);
    for (size_t i = 0; i < ARRAY_COUNT(PARTS); i++) {
        struct step_scalars scalars = {.loss_sum = 7, .valid_tokens = 5, .loss_scale = 0.25F};
        scalars.norm.digits[0] = 3;
        struct step_scalars before = scalars;
        struct tally_args args = {.ranks = RANKS, .shard = SHARD, .parts = PARTS[i]};
        tally_in(&args, tallies, &scalars);
        bool tokens = scalars.valid_tokens != 5 && scalars.loss_scale != 0.25F;
        bool norm = memcmp(&scalars.norm, &before.norm, sizeof scalars.norm) != 0;
        assert_int_equal(tokens, PARTS[i] == TALLY_TOKENS);
        assert_int_equal(scalars.loss_sum != 7, PARTS[i] == TALLY_LOSS);
        assert_int_equal(norm, PARTS[i] == TALLY_NORM);
    }
}

static void one_rank_that_is_not_finite_makes_every_rank_skip(void **state) {
    (void)state;
    struct rank_tally tallies[RANKS];
    struct step_scalars scalars = {.loss_sum = 0};
    tallies_of_four(tallies);
    tallies[1].norm.nonfinite = 1;
    struct tally_args args = {.ranks = RANKS, .shard = SHARD, .parts = TALLY_NORM};
    tally_in(&args, tallies, &scalars);
    clip_run(1, &scalars);
    assert_int_equal(scalars.skip, 1);
}

static void no_valid_token_scales_nothing(void **state) {
    (void)state;
    struct rank_tally tallies[RANKS] = {{.loss_sum = 0}};
    struct step_scalars scalars = {.loss_scale = 1};
    struct tally_args args = {.ranks = RANKS, .shard = SHARD, .parts = TALLY_TOKENS};
    tally_in(&args, tallies, &scalars);
    assert_int_equal(scalars.valid_tokens, 0);
    assert_true(scalars.loss_scale == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tally_sums_every_rank_and_every_gradient_once),
        cmocka_unit_test(a_tally_leaves_what_it_does_not_name),
        cmocka_unit_test(one_rank_that_is_not_finite_makes_every_rank_skip),
        cmocka_unit_test(no_valid_token_scales_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
