/* Contributions that point away from those of the others are found by their sketches, and those of
 * honest members are not: with little in common, with unlike data at the end of training, and with
 * a minority that works against them. */
#include "base/check.h"
#include "runtime/swarm/replica/opposition.h"
#include "runtime/swarm/replica/sum_check.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 66000, MEMBERS = 8, LIAR = 5, ROUNDS = 60 };

static struct scene {
    struct fixture_replica made;
    struct replica *replica;
    float values[MEMBERS][COUNT];
    uint8_t *sketches[MEMBERS]; /* of all slices */
    uint64_t silent;
    struct entry entry;
    struct opposition_measure measures[SWARM_MEMBERS_MAX];
} scene;

static void scene_begin(uint32_t members) {
    const struct fixture_shape shape = {COUNT, CODEC_FP32, 4, 0.7F, 0.9F};
    memset(&scene, 0, sizeof scene);
    fixture_replica_make(&shape, &scene.made);
    scene.replica = &scene.made.replica;
    struct entry *entry = &scene.entry;
    entry->kind = ENTRY_COMMIT;
    entry->seat_count = members;
    entry->reference_norm = 1;
    entry->slice_count = scene.replica->shape.slices.count;
    entry->slices = calloc(entry->slice_count, sizeof *entry->slices);
    assert_non_null(entry->slices);
    for (uint32_t m = 0; m < members; m++) {
        scene.sketches[m] = calloc(entry->slice_count, SKETCH_BYTES);
        assert_non_null(scene.sketches[m]);
        entry->members[m] = (struct entry_member){.tokens = 8, .weight = 8, .norm = 1};
        for (uint32_t s = 0; s < entry->slice_count; s++) {
            entry->slices[s].contributors |= (uint64_t)1 << m;
        }
    }
}

static void scene_end(void) {
    for (uint32_t m = 0; m < scene.entry.seat_count; m++) {
        free(scene.sketches[m]);
    }
    free(scene.entry.slices);
    fixture_replica_free(&scene.made);
}

static float noise_at(uint64_t round, int64_t which, int64_t element) {
    return fixture_noise(round * 1000 + (uint64_t)which, element);
}

/* Each member has the same part `shared`, and noise of a part 1. */
static void make_contributions(uint64_t round, float shared) {
    for (uint32_t m = 0; m < scene.entry.seat_count; m++) {
        for (int64_t i = 0; i < COUNT; i++) {
            scene.values[m][i] = shared * noise_at(round, MEMBERS, i) + noise_at(round, m, i);
        }
    }
}

static void scale(uint32_t member, float factor) {
    for (int64_t i = 0; i < COUNT; i++) {
        scene.values[member][i] *= factor;
    }
}

/* A multiple of another member's contribution is added to that of `member`. */
static void add(uint32_t member, float factor, uint32_t other) {
    for (int64_t i = 0; i < COUNT; i++) {
        scene.values[member][i] += factor * scene.values[other][i];
    }
}

static uint64_t find(uint64_t round) {
    const struct hash seed = hash_of(&round, sizeof round);
    const uint8_t *sketches[SWARM_MEMBERS_MAX] = {NULL};
    for (uint32_t m = 0; m < scene.entry.seat_count; m++) {
        sketches[m] = scene.sketches[m];
        for (uint32_t s = 0; s < scene.entry.slice_count; s++) {
            const struct slice_range range = slices_range(&scene.replica->shape.slices, s);
            sum_check_sketch(scene.replica, s, &seed,
                             (const uint8_t *)&scene.values[m][range.begin],
                             scene.sketches[m] + (size_t)s * SKETCH_BYTES);
        }
    }
    const struct opposition_round found = {&scene.entry, sketches, scene.silent};
    return opposition_find(&found, scene.measures);
}

static double true_cosine(uint32_t member) {
    double own = 0, others = 0, product = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double rest = 0;
        for (uint32_t m = 0; m < scene.entry.seat_count; m++) {
            rest += m == member ? 0 : (double)scene.values[m][i];
        }
        const double value = (double)scene.values[member][i];
        own += value * value;
        others += rest * rest;
        product += value * rest;
    }
    return product / sqrt(own * others);
}

/* Also its measure: against all 66,000 values, in terms of its own standard deviation. */
static void a_contribution_with_the_opposite_sign_is_found(void **state) {
    (void)state;
    for (uint32_t members = OPPOSITION_VOTERS_MIN; members <= MEMBERS; members += 4) {
        const uint32_t liar = members - 1;
        double worst = 0;
        scene_begin(members);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            make_contributions(round, 2);
            scale(liar, -1);
            assert_int_equal(find(round), 1 << liar);
            for (uint32_t m = 0; m < members; m++) {
                const struct opposition_measure *measure = &scene.measures[m];
                worst = fmax(worst, fabs(measure->cosine - true_cosine(m)) / measure->deviation);
            }
        }
        printf("%u members: cosines within %.1f standard deviations\n", members, worst);
        assert_true(worst > 0.5 && worst < 4.5);
        scene_end();
    }
}

/* With little in common there is nothing to tell. */
static void honest_members_are_not_found_however_much_they_agree(void **state) {
    (void)state;
    static const float SHARED[] = {0, 0.05F, 0.2F, 0.5F, 1, 4};
    scene_begin(MEMBERS);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        make_contributions(round, SHARED[round % ARRAY_COUNT(SHARED)]);
        assert_int_equal(find(round), 0);
    }
    scene_end();
}

/* One member has the opposite of what the others share, times a factor, and noise. It is found only
 * if the others agree enough, and it opposes them enough, also in proportion to that: an honest
 * member whose data are unlike theirs rarely does all of this. */
static void a_member_is_found_only_beyond_all_bounds(void **state) {
    (void)state;
    static const struct {
        float shared, factor, noise;
        double agreement[2], cosine[2]; /* bounds of what the sketches then show */
        bool is_found;
    } CASES[] = {
        {0.5F, -1, 0, {0.2, 0.38}, {-0.9, -0.62}, false},
        {0.72F, -1, 1, {0.42, 0.55}, {-0.59, -0.44}, false},
        {0.72F, -1, 0.4F, {0.42, 0.55}, {-0.9, -0.62}, true},
        {2, -0.6F, 1, {0.8, 0.9}, {-0.82, -0.7}, false},
        {2, -1, 1, {0.8, 0.9}, {-1, -0.86}, true},
    };
    scene_begin(MEMBERS);
    for (uint32_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        for (uint64_t round = 0; round < ROUNDS / 6; round++) {
            make_contributions(round, CASES[c].shared);
            for (int64_t i = 0; i < COUNT; i++) {
                scene.values[LIAR][i] =
                    CASES[c].shared * CASES[c].factor * noise_at(round, MEMBERS, i) +
                    CASES[c].noise * noise_at(round, LIAR, i);
            }
            assert_int_equal(find(round), CASES[c].is_found ? 1 << LIAR : 0);
            double agreement = 0;
            for (uint32_t m = 0; m < MEMBERS; m++) {
                agreement += m == LIAR ? 0 : scene.measures[m].cosine / (MEMBERS - 1);
            }
            const double cosine = scene.measures[LIAR].cosine;
            assert_true(agreement > CASES[c].agreement[0] && agreement < CASES[c].agreement[1]);
            assert_true(cosine > CASES[c].cosine[0] && cosine < CASES[c].cosine[1]);
        }
    }
    scene_end();
}

/* Contributions that add up to zero: one member's is the opposite of the sum of the others, which
 * have all in common. */
static void unlike_data_at_the_end_of_training_are_not_found(void **state) {
    (void)state;
    scene_begin(MEMBERS);
    for (uint64_t round = 0; round < ROUNDS / 4; round++) {
        make_contributions(round, 4);
        scale(LIAR, 0);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            add(LIAR, m == LIAR ? 0 : -1, m);
        }
        assert_int_equal(find(round), 0);
        assert_true(scene.measures[LIAR].cosine < -0.99 && scene.measures[0].cosine < 0);
    }
    scene_end();
}

/* One member has little in common with the others. Three of eight contribute the opposite of the
 * rest of its contribution, and more than others of what all have in common. */
static void a_minority_cannot_make_another_member_seem_opposed(void **state) {
    (void)state;
    scene_begin(MEMBERS);
    for (uint64_t round = 0; round < ROUNDS / 4; round++) {
        make_contributions(round, 1);
        for (int64_t i = 0; i < COUNT; i++) {
            const float shared = noise_at(round, MEMBERS, i), own = noise_at(round, 0, i);
            scene.values[0][i] = 0.2F * shared + own;
            for (uint32_t liar = LIAR; liar < MEMBERS; liar++) {
                scene.values[liar][i] = 2 * shared - 4 * own;
            }
        }
        assert_int_equal(find(round), 0);
        assert_true(scene.measures[0].cosine < -0.5 && scene.measures[1].cosine > 0.3);
    }
    scene_end();
}

static void members_without_sketches_or_weight_are_left_out(void **state) {
    (void)state;
    scene_begin(MEMBERS);
    make_contributions(1, 2);
    scale(LIAR, -1);
    assert_int_equal(find(1), 1 << LIAR);
    scene.silent = 1 << LIAR;
    assert_int_equal(find(1), 0);
    assert_true(scene.measures[LIAR].deviation == 0);
    scene.silent = 0;
    scene.entry.members[LIAR].weight = 0;
    assert_int_equal(find(1), 0);
    scene.entry.members[LIAR].weight = 8;
    for (uint32_t s = 1; s < scene.entry.slice_count; s += 2) {
        scene.entry.slices[s].contributors &= ~((uint64_t)1 << LIAR);
    }
    assert_int_equal(find(1), 1 << LIAR); /* by half of the slices */
    scale(0, 0);
    assert_int_equal(find(1), 1 << LIAR);
    assert_true(scene.measures[0].deviation == 0);
    scene.silent = 0x0f; /* four voters are left, and then three */
    assert_int_equal(find(1), 1 << LIAR);
    scene.silent = 0x1f;
    assert_int_equal(find(1), 0);
    scene_end();
}

/* Guests are found, and are no part of what the others agree on. */
static void guests_are_judged_by_the_voters(void **state) {
    (void)state;
    scene_begin(MEMBERS);
    make_contributions(2, 2);
    for (uint32_t m = 4; m < MEMBERS; m++) {
        scene.entry.seats[m].is_guest = 1;
        scene.entry.members[m].weight = 4;
    }
    scale(LIAR, -1);
    assert_int_equal(find(2), 1 << LIAR);
    scene.entry.seats[3].is_guest = 1; /* three voters */
    assert_int_equal(find(2), 1 << LIAR);
    scene.entry.seats[2].is_guest = 1;
    assert_int_equal(find(2), 0);
    scene_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contribution_with_the_opposite_sign_is_found),
        cmocka_unit_test(honest_members_are_not_found_however_much_they_agree),
        cmocka_unit_test(a_member_is_found_only_beyond_all_bounds),
        cmocka_unit_test(unlike_data_at_the_end_of_training_are_not_found),
        cmocka_unit_test(a_minority_cannot_make_another_member_seem_opposed),
        cmocka_unit_test(members_without_sketches_or_weight_are_left_out),
        cmocka_unit_test(guests_are_judged_by_the_voters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
