/* The norm of a contribution, states that are not finite, and outer momenta by the number of
 * members. */
#include "base/check.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 300000 }; /* several leaves and slices */

static void make_replica(enum codec codec, struct fixture_replica *made) {
    struct fixture_shape shape = {COUNT, codec, 3, 0.7F, 0.9F};
    memset(made, 0, sizeof *made);
    fixture_replica_make(&shape, made);
    replica_init_state(&made->replica);
}

static void the_norm_is_that_of_the_decoded_contribution(void **state) {
    (void)state;
    static float decoded[COUNT];
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        static struct fixture_replica made;
        make_replica((enum codec)codec, &made);
        struct replica *replica = &made.replica;
        for (int64_t i = 0; i < COUNT; i++) {
            *fixture_inner(&made, i) += 0.01F * fixture_noise(3, i);
        }
        assert_true(replica_encode_contribution(replica));
        long double energy = 0;
        codec_decode(replica->compute, (enum codec)codec, COUNT, replica->contribution, decoded);
        for (int64_t i = 0; i < COUNT; i++) {
            energy += (long double)decoded[i] * (long double)decoded[i];
        }
        double norm = 0;
        (void)replica_declare_contribution(replica, &norm);
        assert_true(fabs(norm / (double)sqrtl(energy) - 1) < 1e-6);
        double sum = 0;
        for (uint32_t s = 0; s < replica->shape.slices.count; s++) {
            double slice = replica_slice_energy(replica, s, replica_own_contribution(replica, s));
            assert_true(sqrt(slice) <= norm);
            sum += slice;
        }
        assert_true(sqrt(sum) == norm);
        fixture_replica_free(&made);
    }
}

static void every_slice_is_proven_with_the_hash_and_norm_of_its_bytes(void **state) {
    (void)state;
    static struct fixture_replica made;
    make_replica(CODEC_INT8, &made);
    struct replica *replica = &made.replica;
    const struct slices *slices = &replica->shape.slices;
    for (int64_t i = 0; i < COUNT; i++) {
        *fixture_inner(&made, i) += 0.01F * fixture_noise(4, i);
    }
    assert_true(replica_encode_contribution(replica));
    double norm = 0;
    const struct hash root = replica_declare_contribution(replica, &norm);
    assert_true(slices->count > 1);
    for (uint32_t s = 0; s < slices->count; s++) {
        const uint8_t *bytes = replica_own_contribution(replica, s);
        const struct hash hash = hash_of(bytes, slices_range(slices, s).bytes);
        struct slice_proof proof;
        replica_prove_slice(replica, s, &proof);
        assert_true(contribution_is_proven(&root, slices->count, s, &hash, &proof));
        assert_true(proof.norm == sqrt(replica_slice_energy(replica, s, bytes)));
    }
    fixture_replica_free(&made);
}

/* The last slice is shorter than the others. */
static void a_contribution_of_zeros_has_the_zero_root(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        static struct fixture_replica made;
        make_replica((enum codec)codec, &made);
        struct replica *replica = &made.replica;
        *fixture_inner(&made, COUNT - 1) = NAN;
        assert_false(replica_encode_contribution(replica));
        double norm = 1;
        const struct hash root = replica_declare_contribution(replica, &norm);
        const struct hash zero_root = slices_zero_root(&replica->shape.slices);
        assert_true(hash_equal(&root, &zero_root) && norm == 0);
        fixture_replica_free(&made);
    }
}

/* Encodes a result of one value everywhere. */
static void fill_results(struct replica *replica, uint32_t round, float value) {
    static float values[COUNT];
    for (int64_t i = 0; i < COUNT; i++) {
        values[i] = i == COUNT - 1 ? value : 0;
    }
    struct codec_encode_args args = {
        .codec = replica->shape.slices.codec, .count = COUNT, .source = values};
    assert_true(codec_encode(replica->compute, &args, replica_result(replica, round, 0)));
}

static void a_state_that_is_not_finite_has_no_root_and_no_vote(void **state) {
    (void)state;
    static struct fixture_replica made;
    make_replica(CODEC_FP32, &made);
    struct replica *replica = &made.replica;
    const struct hash before = replica->root;
    fill_results(replica, 1, FLT_MAX / 4);
    struct hash root = replica_root_after(replica, 1, 1);
    assert_false(hash_is_zero(&root)); /* large, but finite */
    assert_int_equal(replica->voted_round, 1);
    fill_results(replica, 2, FLT_MAX);
    root = replica_root_after(replica, 2, 1);
    assert_true(hash_is_zero(&root)); /* the momentum term overflows */
    assert_int_equal(replica->voted_round, 0);
    assert_true(hash_equal(&replica->root, &before));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(isfinite(replica->params[i]));
    }
    replica->momentum[COUNT - 1] = NAN;
    fill_results(replica, 3, 0);
    root = replica_root_after(replica, 3, 1);
    assert_true(hash_is_zero(&root));
    fixture_replica_free(&made);
}

/* ---- outer gain ---- */

/* rate / (1 - momentum) is the gain times the square root of the number of members. The momenta are
 * worked out by hand. */
static void the_outer_momentum_follows_from_gain_and_members(void **state) {
    (void)state;
    static const struct {
        double rate, gain;
        uint32_t members;
        double momentum;
    } ROWS[] = {
        {1, 1, 1, 0},
        {1, 1, 4, 0.5},
        {1, 1, 2, 0.292893218813452},
        {1, 1, 8, 0.646446609406726},
        {1, 2, 4, 0.75},
        {0.7, 1.4, 16, 0.875},
        {0.7, 1, 3, 0.595854811567245},
        {1, 0.5, 1, 0}, /* -1 */
        {1, 0.5, 4, 0},
        {1, 0.5, 9, 1.0 / 3},
        {1, 1, 64, 0.875},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        const struct replica_shape shape = {.outer_momentum = 0.9F,
                                            .rate_per_gain = ROWS[i].rate / ROWS[i].gain};
        const double momentum = (double)replica_outer_momentum(&shape, ROWS[i].members);
        assert_true(fabs(momentum - ROWS[i].momentum) < 1e-7);
    }
    const struct replica_shape fixed = {.outer_momentum = 0.9F};
    for (uint32_t members = 1; members <= SWARM_MEMBERS_MAX; members++) {
        assert_true(replica_outer_momentum(&fixed, members) == 0.9F);
    }
}

enum { ROUNDS = 3 };
static const uint32_t MEMBERS[ROUNDS] = {2, 3, 2};

/* The outer step in plain arrays, with the momentum of a gain of 1 and a rate of 0.7. */
static void step_reference(float *params, float *moments, const float *mean, uint32_t members) {
    const float momentum = (float)(1 - 0.7 / sqrt((double)members));
    for (int64_t i = 0; i < COUNT; i++) {
        float kept = momentum * moments[i];
        moments[i] = kept + mean[i];
        float ahead = momentum * moments[i];
        float slope = mean[i] + ahead;
        float stride = 0.7F * slope;
        params[i] = params[i] - stride;
    }
}

/* A vote, an applied round and a replayed leaf use the number of members of their own round. */
static void each_round_is_applied_with_its_own_members(void **state) {
    (void)state;
    static struct fixture_replica made, replayed;
    static float params[COUNT], moments[COUNT], mean[COUNT];
    static struct entry entry;
    struct fixture_replica *const both[] = {&made, &replayed};
    for (size_t i = 0; i < ARRAY_COUNT(both); i++) {
        make_replica(CODEC_FP32, both[i]);
        both[i]->replica.shape.rate_per_gain = 0.7;
    }
    struct replica *replica = &made.replica;
    memcpy(params, replica->params, sizeof params);
    memcpy(replayed.replica.params, replica->params, sizeof params);
    memset(moments, 0, sizeof moments);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const uint32_t members = MEMBERS[round - 1];
        entry.kind = ENTRY_COMMIT;
        entry.round = round;
        entry.seat_count = members;
        for (int64_t i = 0; i < COUNT; i++) {
            mean[i] = fixture_noise(round, i);
        }
        memcpy(replica_result(replica, round, 0), mean, sizeof mean);
        memcpy(replica_result(&replayed.replica, round, 0), mean, sizeof mean);
        step_reference(params, moments, mean, members);
        const struct hash voted = replica_root_after(replica, round, members);
        entry.root = round == 2 ? voted : (struct hash){{0}}; /* with and without known hashes */
        const struct hash applied = replica_apply(replica, &entry, -1);
        assert_true(hash_equal(&voted, &applied));
        assert_memory_equal(replica->params, params, sizeof params);
        assert_memory_equal(replica->momentum, moments, sizeof moments);
        for (uint64_t leaf = 0; leaf < replica_leaf_count(&replica->shape.slices); leaf++) {
            replica_replay_leaf(replica->compute, &replayed.replica, leaf, round, members);
            assert_true(hash_equal(&replayed.replica.leaves[leaf], &replica->leaves[leaf]));
        }
    }
    fixture_replica_free(&made);
    fixture_replica_free(&replayed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_that_of_the_decoded_contribution),
        cmocka_unit_test(every_slice_is_proven_with_the_hash_and_norm_of_its_bytes),
        cmocka_unit_test(a_contribution_of_zeros_has_the_zero_root),
        cmocka_unit_test(a_state_that_is_not_finite_has_no_root_and_no_vote),
        cmocka_unit_test(the_outer_momentum_follows_from_gain_and_members),
        cmocka_unit_test(each_round_is_applied_with_its_own_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
