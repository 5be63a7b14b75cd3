/* Sums that are checked by sketches: true sums of all codecs and CPU levels pass, wrong ones do
 * not. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
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

enum { COUNT = 66000, MEMBERS = 4, ROUND = 6 };

static const enum codec CODECS[] = {CODEC_FP32, CODEC_BF16, CODEC_INT8};
static const uint64_t WEIGHTS[MEMBERS] = {3000, 1000, 2048, 1777};
static const float CLIPS[MEMBERS] = {1, 0.5F, 1, 0.75F};

/* Contributions of several members to all slices, and the replica that adds them. */
static struct scene {
    struct fixture_replica made;
    struct replica *replica;
    uint8_t *bytes[MEMBERS]; /* encoded */
    double norms[MEMBERS];   /* of the whole contribution */
    float values[COUNT];
    uint8_t sketches[MEMBERS][SKETCH_BYTES];
    struct sum_part parts[MEMBERS];
    struct addend addends[MEMBERS];
} scene;

static void make_scene(enum codec codec) {
    struct fixture_shape shape = {COUNT, codec, MEMBERS, 0.7F, 0.9F};
    memset(&scene, 0, sizeof scene);
    fixture_replica_make(&shape, &scene.made);
    scene.replica = &scene.made.replica;
    replica_init_state(scene.replica);
    for (int m = 0; m < MEMBERS; m++) {
        scene.bytes[m] = malloc(scene.replica->shape.slices.bytes);
        assert_non_null(scene.bytes[m]);
    }
}

static void free_scene(void) {
    for (int m = 0; m < MEMBERS; m++) {
        free(scene.bytes[m]);
    }
    fixture_replica_free(&scene.made);
}

/* Contributions that agree in part and have heavy tails and zeros, as gradients have. */
static void make_contributions(uint64_t seed) {
    for (int m = 0; m < MEMBERS; m++) {
        for (int64_t i = 0; i < COUNT; i++) {
            float noise = fixture_noise(seed * MEMBERS + (uint64_t)m, i);
            float shared = fixture_noise(seed + 1000000, i);
            float value = shared * shared * shared + 0.5F * noise * noise * noise;
            scene.values[i] = i % 7 == 0 ? 0 : i % 1000 == 5 ? 20 * value : 0.01F * value;
        }
        struct codec_encode_args args = {
            .codec = scene.replica->shape.slices.codec, .count = COUNT, .source = scene.values};
        assert_true(codec_encode(scene.replica->compute, &args, scene.bytes[m]));
        scene.norms[m] = sqrt(codec_energy(args.codec, COUNT, scene.bytes[m]));
    }
}

static const uint8_t *contribution(int member, uint32_t slice) {
    return scene.bytes[member] + slices_range(&scene.replica->shape.slices, slice).offset;
}

/* Sketches the contributions to a slice and computes its result. */
static void prepare_slice(uint32_t slice, const struct hash *seed) {
    for (int m = 0; m < MEMBERS; m++) {
        const uint8_t *bytes = contribution(m, slice);
        sum_check_sketch(scene.replica, slice, seed, bytes, scene.sketches[m]);
        scene.parts[m] = (struct sum_part){scene.sketches[m], WEIGHTS[m], CLIPS[m], scene.norms[m]};
        scene.addends[m] = (struct addend){.bytes = bytes, .weight = WEIGHTS[m], .clip = CLIPS[m]};
    }
    (void)replica_sum(scene.replica, ROUND, slice, scene.addends, MEMBERS);
}

static bool is_allowed(uint32_t slice, const struct hash *seed) {
    return sum_check_matches_parts(scene.replica, ROUND, slice, seed, scene.parts, MEMBERS);
}

static struct hash seed_of(uint64_t number) {
    return hash_of(&number, sizeof number);
}

static void true_sums_pass_with_any_seed(void **state) {
    (void)state;
    uint32_t checks = 0;
    for (size_t c = 0; c < ARRAY_COUNT(CODECS); c++) {
        make_scene(CODECS[c]);
        for (uint64_t round = 0; round < 60; round++) {
            const struct hash seed = seed_of(round);
            make_contributions(round);
            for (uint32_t s = 0; s < scene.replica->shape.slices.count; s++, checks++) {
                prepare_slice(s, &seed);
                assert_true(is_allowed(s, &seed));
            }
        }
        free_scene();
    }
    printf("%u true sums, all allowed\n", checks);
}

/* Decodes the result of a slice, changes it, and encodes it again. */
static void change_result(uint32_t slice, double part, bool is_sparse, uint64_t number) {
    const struct slice_range range = slices_range(&scene.replica->shape.slices, slice);
    const enum codec codec = scene.replica->shape.slices.codec;
    const int64_t count = range.end - range.begin;
    uint8_t *result = replica_result(scene.replica, ROUND, slice);
    double norm = sqrt(codec_energy(codec, count, result));
    codec_decode(scene.replica->compute, codec, count, result, scene.values);
    for (int64_t i = 0; i < count; i++) {
        double noise = (double)fixture_noise(number, i) * sqrt(3.0 / (double)count);
        double change = !is_sparse ? noise : i == (int64_t)(number * 911 % (uint64_t)count) ? 1 : 0;
        scene.values[i] += (float)(part * norm * change);
    }
    struct codec_encode_args args = {.codec = codec, .count = count, .source = scene.values};
    assert_true(codec_encode(scene.replica->compute, &args, result));
}

static void changes_of_a_tenth_of_the_norm_are_refused(void **state) {
    (void)state;
    for (size_t c = 0; c < ARRAY_COUNT(CODECS); c++) {
        make_scene(CODECS[c]);
        make_contributions(9);
        for (uint64_t trial = 0; trial < 200; trial++) {
            const uint32_t slice = (uint32_t)trial % scene.replica->shape.slices.count;
            const struct hash seed = seed_of(trial);
            prepare_slice(slice, &seed);
            change_result(slice, 0.1, trial % 2 == 0, trial);
            assert_false(is_allowed(slice, &seed));
            prepare_slice(slice, &seed);
            assert_true(is_allowed(slice, &seed));
        }
        free_scene();
    }
}

static void claims_of_other_contributors_and_weights_are_refused(void **state) {
    (void)state;
    const struct hash seed = seed_of(77);
    for (size_t c = 0; c < ARRAY_COUNT(CODECS); c++) {
        make_scene(CODECS[c]);
        make_contributions(3);
        prepare_slice(0, &seed);
        for (uint32_t out = 0; out < MEMBERS; out++) {
            struct addend others[MEMBERS];
            uint32_t count = 0;
            for (uint32_t m = 0; m < MEMBERS; m++) {
                others[count] = scene.addends[m];
                count += m != out;
            }
            (void)replica_sum(scene.replica, ROUND, 0, others, count);
            assert_false(is_allowed(0, &seed)); /* one contribution is claimed and not added */
            prepare_slice(0, &seed);
            struct sum_part left_out = scene.parts[out];
            scene.parts[out] = scene.parts[MEMBERS - 1];
            assert_false(
                sum_check_matches_parts(scene.replica, ROUND, 0, &seed, scene.parts, MEMBERS - 1));
            scene.parts[out] = left_out;
        }
        scene.parts[1].weight *= 5;
        assert_false(is_allowed(0, &seed));
        free_scene();
    }
}

static void a_result_of_zeros_passes_only_without_weight(void **state) {
    (void)state;
    const struct hash seed = seed_of(1);
    make_scene(CODEC_INT8);
    make_contributions(1);
    prepare_slice(0, &seed);
    memset(replica_result(scene.replica, ROUND, 0), 0,
           slices_range(&scene.replica->shape.slices, 0).bytes);
    assert_false(is_allowed(0, &seed));
    for (int m = 0; m < MEMBERS; m++) {
        scene.parts[m].weight = 0;
    }
    assert_true(is_allowed(0, &seed));
    assert_true(sum_check_matches_parts(scene.replica, ROUND, 0, &seed, NULL, 0));
    prepare_slice(0, &seed);
    assert_false(sum_check_matches_parts(scene.replica, ROUND, 0, &seed, NULL, 0));
    free_scene();
}

static void a_missing_sketch_allows_its_share_of_the_norm_and_no_more(void **state) {
    (void)state;
    const struct hash seed = seed_of(5);
    make_scene(CODEC_INT8);
    make_contributions(5);
    const uint32_t slice = 1;
    prepare_slice(slice, &seed);
    scene.parts[3].sketch = NULL;
    assert_true(is_allowed(slice, &seed));
    change_result(slice, 4, false, 3);
    assert_false(is_allowed(slice, &seed));
    free_scene();
}

static void sketches_that_are_no_encoding_or_too_large_are_refused(void **state) {
    (void)state;
    const struct hash seed = seed_of(6);
    make_scene(CODEC_INT8);
    make_contributions(6);
    prepare_slice(0, &seed);
    const float negative = -1;
    memcpy(scene.sketches[0], &negative, sizeof negative);
    assert_false(is_allowed(0, &seed));
    prepare_slice(0, &seed);
    scene.parts[2].norm /= 1e3; /* the norm is less than that of the slice */
    assert_false(is_allowed(0, &seed));
    free_scene();
}

static void recomputing_gives_the_hash_of_the_sum_and_changes_nothing(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        make_scene((enum codec)codec);
        make_contributions(8);
        struct replica *replica = scene.replica;
        const uint32_t slice = replica->shape.slices.count - 1;
        for (int m = 0; m < MEMBERS; m++) {
            scene.addends[m] = (struct addend){
                .bytes = contribution(m, slice), .weight = WEIGHTS[m], .clip = CLIPS[m]};
        }
        struct hash sum = replica_sum(replica, ROUND, slice, scene.addends, MEMBERS);
        const size_t bytes = slices_range(&replica->shape.slices, slice).bytes;
        uint8_t *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, replica_result(replica, ROUND, slice), bytes);
        struct hash again = sum_check_recompute(replica, slice, scene.addends, MEMBERS);
        assert_true(hash_equal(&sum, &again));
        again = sum_check_recompute(replica, slice, scene.addends, MEMBERS - 1);
        assert_false(hash_equal(&sum, &again));
        assert_memory_equal(before, replica_result(replica, ROUND, slice), bytes);
        free(before);
        free_scene();
    }
}

static void sketches_have_equal_bytes_at_every_level(void **state) {
    (void)state;
    const struct hash seed = seed_of(2);
    make_scene(CODEC_INT8);
    make_contributions(2);
    prepare_slice(1, &seed);
    for (int level = CPU_SCALAR; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_supports_level((enum cpu_level)level)) {
            continue;
        }
        struct kernel_table table;
        struct compute compute = *scene.replica->compute;
        struct replica replica = *scene.replica;
        uint8_t found[SKETCH_BYTES];
        kernel_table_init(&table, (enum cpu_level)level);
        compute.table = &table;
        replica.compute = &compute;
        sum_check_sketch(&replica, 1, &seed, contribution(0, 1), found);
        assert_memory_equal(found, scene.sketches[0], sizeof found);
    }
    free_scene();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(true_sums_pass_with_any_seed),
        cmocka_unit_test(changes_of_a_tenth_of_the_norm_are_refused),
        cmocka_unit_test(claims_of_other_contributors_and_weights_are_refused),
        cmocka_unit_test(a_result_of_zeros_passes_only_without_weight),
        cmocka_unit_test(a_missing_sketch_allows_its_share_of_the_norm_and_no_more),
        cmocka_unit_test(sketches_that_are_no_encoding_or_too_large_are_refused),
        cmocka_unit_test(recomputing_gives_the_hash_of_the_sum_and_changes_nothing),
        cmocka_unit_test(sketches_have_equal_bytes_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
