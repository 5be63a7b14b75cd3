/* The rule that turns the declared norms of a round into weights and clip factors. */
#include "base/random.h"
#include "runtime/swarm/ledger/norms.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS_MAX = 8, FULL = 4096, CASES = 20000 };

struct round {
    uint32_t count;
    uint64_t voters;
    double last; /* the last reference norm */
    struct entry_member members[SEATS_MAX];
    enum norm_position positions[SEATS_MAX];
    double reference;
};

/* A round in which all members have full weight. */
static struct round make_round(uint32_t count, double last, const double *norms) {
    struct round round = {.count = count, .voters = UINT64_MAX, .last = last};
    for (uint32_t i = 0; i < count; i++) {
        round.members[i] = (struct entry_member){.tokens = FULL, .weight = FULL, .norm = norms[i]};
    }
    return round;
}

static void weigh(struct round *round) {
    round->reference = norms_limit_weights(round->members, round->count, round->voters, round->last,
                                           round->positions);
    assert_null(
        norms_error(round->members, round->count, round->voters, round->last, round->reference));
}

/* The members without a weight, as bits. */
static uint32_t excluded(const struct round *round) {
    uint32_t seats = 0;
    for (uint32_t i = 0; i < round->count; i++) {
        seats |= round->members[i].weight == 0 ? 1U << i : 0;
        assert_true((round->members[i].weight == 0) == (round->positions[i] != 0));
    }
    return seats;
}

static void the_reference_is_the_lower_median_of_the_norms_and_the_last_one(void **state) {
    (void)state;
    static const struct {
        uint32_t count;
        double last, norms[SEATS_MAX], expected;
    } TABLE[] = {
        {1, 0, {3}, 3},
        {1, 2, {3}, 3},   /* a member alone decides for itself, so its norm may rise */
        {1, 5, {3}, 5},   /* but the bounds do not fall for those that missed one round */
        {1, 64, {4}, 64}, /* as long as it has an effect by them */
        {1, 64, {3.99}, 3.99},
        {2, 0, {3, 2}, 2},
        {2, 2.5, {3, 2}, 2.5},
        {2, 1, {3, 2}, 2},
        {2, 9, {3, 2}, 3},
        {3, 100, {1, 2, 3}, 2}, /* an odd number needs no further vote */
        {3, 0, {3, 3, 3}, 3},
        {4, 0, {4, 1, 3, 2}, 2},
        {4, 2.5, {4, 1, 3, 2}, 2.5},
        {4, 1, {2, 2, 2, 2}, 2}, /* it follows at once when all norms rise */
        {4, 9, {2, 2, 2, 2}, 2},
        {8, 1, {1, 2, 3, 4, 5, 6, 7, 8}, 4},
        {8, 9, {1, 2, 3, 4, 5, 6, 7, 8}, 5},
        {5, 0, {0, 0, 0, 0, 0}, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(TABLE); i++) {
        struct round round = make_round(TABLE[i].count, TABLE[i].last, TABLE[i].norms);
        assert_true(norms_find_reference(round.members, round.count, round.voters, round.last) ==
                    TABLE[i].expected);
    }
    assert_true(norms_find_reference(NULL, 0, 0, 7) == 7);
}

static void every_bound_is_exact(void **state) {
    (void)state;
    struct round round = make_round(3, 0, (double[]){1, 1, 8});
    weigh(&round);
    assert_int_equal(excluded(&round), 0);
    round = make_round(3, 0, (double[]){1, 1, nextafter(8, 9)});
    weigh(&round);
    assert_int_equal(excluded(&round), 4);
    assert_int_equal(round.positions[2], NORM_ABOVE_BOUND);
    round = make_round(3, 0, (double[]){1, 1, 0x1p-4});
    weigh(&round);
    assert_int_equal(excluded(&round), 0);
    round = make_round(3, 0, (double[]){1, 1, nextafter(0x1p-4, 0)});
    weigh(&round);
    assert_int_equal(excluded(&round), 4);
    assert_int_equal(round.positions[2], NORM_WITHOUT_EFFECT);
}

/* Half of the tokens: a quarter of the effect bound. */
static void the_effect_bound_falls_with_the_square_of_the_weight(void **state) {
    (void)state;
    struct round round = make_round(3, 0, (double[]){1, 1, 0x1p-6});
    round.members[2].weight = FULL / 2;
    weigh(&round);
    assert_int_equal(excluded(&round), 0);
    round = make_round(3, 0, (double[]){1, 1, nextafter(0x1p-6, 0)});
    round.members[2].weight = FULL / 2;
    weigh(&round);
    assert_int_equal(excluded(&round), 4);
    round = make_round(3, 0, (double[]){1, 1, 0x1p-4}); /* more than the median is like full */
    round.members[2].weight = 100 * FULL;
    weigh(&round);
    assert_int_equal(excluded(&round), 0);
}

static void a_member_with_few_tokens_has_few_votes(void **state) {
    (void)state;
    struct round round = make_round(2, 0, (double[]){0.1, 1});
    round.members[0].weight = FULL / 8;
    weigh(&round);
    assert_true(round.reference == 1);
    assert_int_equal(excluded(&round), 0);
    /* Two members were slow; many tokens of a third give it no majority. */
    round = make_round(3, 0, (double[]){1, 1, 1000});
    round.members[0].weight = round.members[1].weight = FULL / 100;
    weigh(&round);
    assert_true(round.reference == 1);
    assert_int_equal(excluded(&round), 4);
}

/* Whatever one of three or more members declares, the reference stays within the honest norms and,
 * if their number is even, the last reference; no honest member is excluded. */
static void one_liar_moves_the_reference_at_most_to_an_honest_norm(void **state) {
    (void)state;
    static const double LIES[] = {0, DBL_MIN, 1e-3, 0.4, 0.9, 1.1, 2.4, 100, 1e38, DBL_MAX};
    for (uint64_t i = 0; i < CASES; i++) {
        uint32_t words[4];
        random_block(1, i, words);
        struct round round = {
            .count = 3 + words[0] % (SEATS_MAX - 2), .voters = UINT64_MAX, .last = 1};
        double least = 1;
        double most = 1;
        for (uint32_t seat = 1; seat < round.count; seat++) {
            double norm = 0.4 + 2 * (double)random_uniform(2 + i, seat);
            round.members[seat] =
                (struct entry_member){.weight = 1 + words[1] % (seat * FULL), .norm = norm};
            least = norm < least ? norm : least;
            most = norm > most ? norm : most;
        }
        round.members[0] = (struct entry_member){.weight = 1 + words[2] % UINT32_MAX,
                                                 .norm = LIES[words[3] % ARRAY_COUNT(LIES)]};
        weigh(&round);
        assert_true(round.reference >= least && round.reference <= most);
        assert_int_equal(excluded(&round) & ~1U, 0);
        float clip = norms_clip_factor(round.members[0].norm, round.reference);
        assert_true(round.members[0].weight == 0 ||
                    (double)clip * round.members[0].norm <= 2.001 * most);
    }
}

/* One of two cannot be told from the other in a first round; later, the last reference decides. */
static void one_of_two_moves_the_reference_no_further_than_the_last_one(void **state) {
    (void)state;
    static const double LIES[] = {0, 0.01, 1e3, 1e38, DBL_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
        double last = 1;
        for (int number = 0; number < 100; number++) {
            struct round round = make_round(2, last, (double[]){1.3, LIES[i]});
            weigh(&round);
            assert_int_equal(excluded(&round), 2);
            assert_true(round.reference == 1.3); /* the other one is alone then */
            last = round.reference;
        }
    }
    struct round round = make_round(2, 1, (double[]){1.3, 0.5});
    weigh(&round);
    assert_int_equal(excluded(&round), 0);
    assert_true(round.reference == 1);
    round = make_round(2, 0, (double[]){1.3, 0});
    weigh(&round);
    assert_int_equal(excluded(&round), 1); /* the honest one: documented */
}

/* Two honest members with unlike data, whose norms differ by a factor of 10. One misses rounds, as
 * every member does. */
static void a_member_that_missed_rounds_returns_with_its_weight(void **state) {
    (void)state;
    double last = 1;
    for (int number = 0; number < 100; number++) {
        struct round alone = make_round(1, last, (double[]){0.1});
        weigh(&alone);
        assert_int_equal(excluded(&alone), 0);
        struct round both = make_round(2, alone.reference, (double[]){0.1, 1});
        weigh(&both);
        assert_int_equal(excluded(&both), 0);
        last = both.reference;
    }
}

/* The only voter sets the bounds of guests, whatever the norm of earlier rounds. */
static void a_voter_among_guests_decides_alone(void **state) {
    (void)state;
    struct round round = make_round(3, 5, (double[]){3, 3, 3});
    round.voters = 1;
    weigh(&round);
    assert_true(round.reference == 3);
}

static void other_weights_and_references_are_errors(void **state) {
    (void)state;
    struct round round = make_round(5, 0, (double[]){1, 2, 3, 4, 1e38});
    weigh(&round);
    assert_int_equal(excluded(&round), 16);
    assert_true(round.reference == 2);
    assert_non_null(norms_error(round.members, round.count, round.voters, 0, nextafter(2, 3)));
    assert_non_null(norms_error(round.members, round.count, round.voters, 2.5, round.reference));
    round.members[4].weight = FULL;
    assert_non_null(norms_error(round.members, round.count, round.voters, 0, 3));
    round.members[4].weight = 0;
    round.members[1].weight = 0; /* the tracker may withhold a weight */
    assert_null(norms_error(round.members, round.count, round.voters, 0, 3));
    memset(round.members, 0, sizeof round.members);
    assert_null(norms_error(round.members, round.count, round.voters, 6, 6));
    assert_non_null(norms_error(round.members, round.count, round.voters, 6, 0));
}

static uint64_t sum_of_guests(const struct round *round) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < round->count; i++) {
        sum += (round->voters >> i & 1) == 0 ? round->members[i].weight : 0;
    }
    return sum;
}

/* Three voters of full weight, then guests. */
static void guests_share_half_of_the_weight_of_the_voters(void **state) {
    (void)state;
    struct round round = make_round(4, 0, (double[]){1, 1, 1, 1});
    round.voters = 7;
    weigh(&round);
    assert_int_equal(round.members[3].weight, FULL); /* below the limit */
    round = make_round(8, 0, (double[]){1, 1, 1, 1, 2, 3, 9, 0.01});
    round.voters = 7;
    round.members[3].weight = 3 * (uint64_t)FULL;
    weigh(&round);
    assert_true(round.reference == 1);
    assert_int_equal(excluded(&round), 0xc0); /* the bounds are the same for guests */
    assert_int_equal(round.members[3].weight, 3 * FULL * 3 / 2 / 5);
    assert_int_equal(round.members[4].weight, FULL * 3 / 2 / 5);
    round.members[3].weight += 3 * FULL / 2 - sum_of_guests(&round);
    assert_null(norms_error(round.members, round.count, round.voters, 0, 1));
    round.members[3].weight += 1;
    assert_non_null(norms_error(round.members, round.count, round.voters, 0, 1));
    round = make_round(3, 5, (double[]){1, 1, 1}); /* no voter trained */
    round.voters = 1;
    round.members[0].weight = 0;
    weigh(&round);
    assert_int_equal(sum_of_guests(&round), 0);
    assert_true(round.reference == 5);
}

/* Whatever guests declare, the reference is that of the voters alone, and no voter is excluded. */
static void guests_have_no_part_in_the_reference(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++) {
        uint32_t words[4];
        random_block(3, i, words);
        struct round round = make_round(8, 1, (double[]){1, 1, 1, 1, 1, 1, 1, 1});
        const uint32_t voters = 3 + words[0] % 3;
        round.voters = (1U << voters) - 1;
        for (uint32_t seat = 0; seat < round.count; seat++) {
            const double scale = seat < voters ? 1 : 100;
            round.members[seat].norm = (0.4 + 2 * (double)random_uniform(4 + i, seat)) * scale;
            round.members[seat].weight =
                1 + words[1 + seat % 3] % (seat < voters ? FULL : INT32_MAX);
        }
        const double expected = norms_find_reference(round.members, voters, UINT64_MAX, round.last);
        weigh(&round);
        assert_true(round.reference == expected);
        for (uint32_t seat = 0; seat < voters; seat++) {
            assert_int_equal(round.positions[seat], NORM_WITHIN_BOUNDS);
        }
    }
}

static void norms_that_cannot_be_are_not_valid(void **state) {
    (void)state;
    assert_true(norm_is_valid(0) && norm_is_valid(DBL_MIN) && norm_is_valid(DBL_MAX));
    assert_false(norm_is_valid(-0.0));
    assert_false(norm_is_valid(-1));
    assert_false(norm_is_valid((double)INFINITY));
    assert_false(norm_is_valid((double)NAN));
}

static void a_clip_factor_limits_the_norm_to_twice_the_reference(void **state) {
    (void)state;
    assert_true(norms_clip_factor(0, 0) == 1);
    assert_true(norms_clip_factor(2, 1) == 1);
    assert_true(norms_clip_factor(8, 1) == 0.25F);
    assert_true(norms_clip_factor(3, 1) == (float)(2.0 / 3.0));
    assert_true(norms_clip_factor(DBL_MAX, DBL_MAX) == 1);
    assert_true(norms_clip_factor(1, 0) == 0);
}

static void slices_and_results_are_no_larger_than_their_norms_allow(void **state) {
    (void)state;
    assert_true(norm_allows_slice(3, 3) && norm_allows_slice(0, 0));
    assert_false(norm_allows_slice(3, 3.0001));
    assert_false(norm_allows_slice(0, DBL_MIN));
    assert_false(norm_allows_slice(DBL_MAX, (double)INFINITY));
    assert_false(norm_allows_result(DBL_MAX, (double)INFINITY));
    assert_true(norm_allows_result(1, 4));
    assert_false(norm_allows_result(1, 4.1));
    assert_false(norm_allows_result(0, DBL_MIN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_is_the_lower_median_of_the_norms_and_the_last_one),
        cmocka_unit_test(every_bound_is_exact),
        cmocka_unit_test(the_effect_bound_falls_with_the_square_of_the_weight),
        cmocka_unit_test(a_member_with_few_tokens_has_few_votes),
        cmocka_unit_test(one_liar_moves_the_reference_at_most_to_an_honest_norm),
        cmocka_unit_test(one_of_two_moves_the_reference_no_further_than_the_last_one),
        cmocka_unit_test(a_member_that_missed_rounds_returns_with_its_weight),
        cmocka_unit_test(a_voter_among_guests_decides_alone),
        cmocka_unit_test(other_weights_and_references_are_errors),
        cmocka_unit_test(guests_share_half_of_the_weight_of_the_voters),
        cmocka_unit_test(guests_have_no_part_in_the_reference),
        cmocka_unit_test(norms_that_cannot_be_are_not_valid),
        cmocka_unit_test(a_clip_factor_limits_the_norm_to_twice_the_reference),
        cmocka_unit_test(slices_and_results_are_no_larger_than_their_norms_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
