/* Tallies: what a step's ranks tell each other, added up the same on each. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/optimizer.h"
#include "kernels/tally.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/optimizer.h"
#include "tests/kernels/device_scalars.h"
#endif

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
        .ranks = RANKS, .shard_size = SHARD, .parts = TALLY_TOKENS | TALLY_LOSS | TALLY_NORM};
    tally_in(&args, tallies, &scalars);
    assert_int_equal(scalars.valid_tokens, 10 + 11 + 12 + 13);
    assert_true(scalars.loss_scale == (float)(1.0 / 46));
    assert_true(scalars.loss_sum == 3);
    clip_run(0, &scalars);
    assert_true(scalars.gradient_norm == 5);
    assert_int_equal(scalars.skip, 0);
    assert_true(scalars.learning_rate == 3);
}

/* ---- the same by every kernel ---- */

struct tally_context {
    struct step_scalars of_rank[RANKS];
    struct tensor scalars; /* a struct step_scalars */
};

static const struct tally_args WHOLE = {
    .ranks = RANKS, .shard_size = SHARD, .parts = TALLY_TOKENS | TALLY_LOSS | TALLY_NORM};

static void run_tally(const struct compute *compute, void *context) {
    (void)compute;
    struct tally_context *tally = context;
    struct rank_tally tallies[RANKS];
    struct step_scalars scalars;
    memcpy(&scalars, tally->scalars.data, sizeof scalars);
    for (int rank = 0; rank < RANKS; rank++) {
        tally_out(&tally->of_rank[rank], &tallies[rank]);
    }
    tally_in(&WHOLE, tallies, &scalars);
    clip_run(2, &scalars);
    memcpy(tally->scalars.data, &scalars, sizeof scalars);
}

#if SKEP_CUDA
static void run_tally_cuda(const struct cuda_compute *compute, struct device_run *device,
                           void *context) {
    struct tally_context *tally = context;
    struct step_scalars *ranks = device_put(compute, device, tally->of_rank, sizeof tally->of_rank);
    struct rank_tally *tallies = device_workspace(device, RANKS * sizeof *tallies);
    struct step_scalars *scalars =
        device_put(compute, device, tally->scalars.data, sizeof *scalars);
    for (int rank = 0; rank < RANKS; rank++) {
        cuda_tally_out(compute, ranks + rank, tallies + rank);
    }
    cuda_tally_in(compute, &WHOLE, tallies, scalars);
    cuda_clip_run(compute, 2, scalars);
    device_copy(compute, tally->scalars.data, scalars, sizeof *scalars);
}
#endif

static void expect_scalars(const struct step_scalars *scalars, struct tensor *tensor) {
    int32_t words[sizeof *scalars / 4];
    memcpy(words, scalars, sizeof words);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        tensor->exact[i] = words[i];
    }
}

static void every_kernel_tallies_and_clips_the_same(void **state) {
    (void)state;
    static const double LOSSES[RANKS] = {1, 0x1p60, -0x1p60, 3};
    struct step_scalars scalars = {.learning_rate = 3, .loss_sum = 7};
    struct tally_context tally = {
        .scalars = tensor_zeros(DTYPE_I32, (int64_t)sizeof(struct step_scalars) / 4)};
    memcpy(tally.scalars.data, &scalars, sizeof scalars);
    for (int rank = 0; rank < RANKS; rank++) {
        tally.of_rank[rank].loss_sum = LOSSES[rank];
        tally.of_rank[rank].valid_tokens = 10 + rank;
        /* With what the digit below carries: 9 and 16. */
        tally.of_rank[rank].norm.digits[ONE_DIGIT] = rank % SHARD == 0 ? 8 : 15;
        tally.of_rank[rank].norm.digits[ONE_DIGIT - 1] = (int64_t)1 << 32;
    }
    scalars.valid_tokens = 46;
    scalars.loss_scale = (float)(1.0 / 46);
    scalars.loss_sum = 3;
    scalars.norm.digits[ONE_DIGIT] = 25;
    scalars.gradient_norm = 5;
    scalars.clip_factor = (float)(2.0 / 5.0);
    expect_scalars(&scalars, &tally.scalars);
    struct operation operation = {.name = "fill",
                                  .run = run_tally,
                                  .run_cuda = ON_CUDA(run_tally_cuda),
                                  .context = &tally,
                                  .output_count = 1,
                                  .outputs = {{"scalars", &tally.scalars, tally.scalars.exact}}};
    operation_check(&operation);
    tensor_free(&tally.scalars);
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
        struct tally_args args = {.ranks = RANKS, .shard_size = SHARD, .parts = PARTS[i]};
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
    struct tally_args args = {.ranks = RANKS, .shard_size = SHARD, .parts = TALLY_NORM};
    tally_in(&args, tallies, &scalars);
    clip_run(1, &scalars);
    assert_int_equal(scalars.skip, 1);
}

static void no_valid_token_scales_nothing(void **state) {
    (void)state;
    struct rank_tally tallies[RANKS] = {{.loss_sum = 0}};
    struct step_scalars scalars = {.loss_scale = 1};
    struct tally_args args = {.ranks = RANKS, .shard_size = SHARD, .parts = TALLY_TOKENS};
    tally_in(&args, tallies, &scalars);
    assert_int_equal(scalars.valid_tokens, 0);
    assert_true(scalars.loss_scale == 0);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tally_sums_every_rank_and_every_gradient_once),
        cmocka_unit_test(every_kernel_tallies_and_clips_the_same),
        cmocka_unit_test(a_tally_leaves_what_it_does_not_name),
        cmocka_unit_test(one_rank_that_is_not_finite_makes_every_rank_skip),
        cmocka_unit_test(no_valid_token_scales_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
