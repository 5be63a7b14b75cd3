/* Tests of arena_plan: every layout is checked by comparing all pairs, peaks are compared with
 * exhaustive search on small problems and with the bound where the bound can be met. */
#include "arena/arena.h"
#include "instances.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t higher(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Compares all pairs at all steps: slow, but independent of the planner. */
static void assert_plan_is_sound(const struct plan *plan) {
    const struct extent *e = plan->problem.extents;
    const uint64_t *offsets = plan->offsets;
    uint64_t peak[SPACE_COUNT] = {0}, bound[SPACE_COUNT] = {0};
    for (int i = 0; i < plan->problem.extent_count; i++) {
        assert_int_equal(offsets[i] % e[i].align, 0);
        peak[e[i].space] = higher(peak[e[i].space], offsets[i] + e[i].bytes);
        uint64_t alive = 0; /* the most bytes are alive at a birth */
        for (int j = 0; j < plan->problem.extent_count; j++) {
            if (e[j].space != e[i].space || j == i) {
                continue;
            }
            alive += e[j].first <= e[i].first && e[i].first < e[j].last ? e[j].bytes : 0;
            bool in_time = e[i].first < e[j].last && e[j].first < e[i].last;
            bool in_bytes =
                offsets[i] < offsets[j] + e[j].bytes && offsets[j] < offsets[i] + e[i].bytes;
            assert_false(in_time && in_bytes);
        }
        bound[e[i].space] = higher(bound[e[i].space], alive + e[i].bytes);
    }
    for (int s = 0; s < SPACE_COUNT; s++) {
        assert_int_equal(plan->peak_bytes[s], peak[s]);
        assert_int_equal(plan->bound_bytes[s], bound[s]);
        assert_true(peak[s] >= bound[s]);
    }
}

static void assert_verified(const struct plan *plan, struct region *region) {
    struct fault fault;
    enum status status = arena_verify(&plan->problem, plan, region, &fault);
    if (status != OK) {
        fault_print(&fault, 2);
    }
    assert_int_equal(status, OK);
}

static void plan_is_sound_for_random_extents(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct region region = {0};
        struct random_instance with = {.seed = seed,
                                       .count = 1 + (int)(seed * 7 % 150),
                                       .steps = 1 + (uint32_t)(seed * 13 % 90),
                                       .life_max = 1 + (uint32_t)(seed * 5 % 60),
                                       .bytes_max = 1 + seed * seed,
                                       .unit = 1,
                                       .align_max = 1ull << (seed % 10),
                                       .space_count = 1 + (int)(seed % SPACE_COUNT)};
        struct instance instance = instance_random(&with, &region);
        struct plan plan;
        instance_plan(&instance, &region, &plan);
        assert_plan_is_sound(&plan);
        assert_verified(&plan, &region);
        region_finish(&region);
    }
}

static void plan_of_nothing_is_empty(void **state) {
    (void)state;
    struct region region = {0};
    struct plan plan;
    arena_plan(&(struct arena_problem){0}, &region, &plan);
    for (int s = 0; s < SPACE_COUNT; s++) {
        assert_int_equal(plan.peak_bytes[s], 0);
        assert_int_equal(plan.bound_bytes[s], 0);
        assert_string_equal(plan.heuristic[s], "empty");
    }
    assert_verified(&plan, &region);
    region_finish(&region);
}

static void plan_is_the_same_when_made_again(void **state) {
    (void)state;
    struct region region = {0};
    struct instance a = instance_tiling(3, 120, 100, 100000, &region);
    struct instance b = instance_tiling(3, 120, 100, 100000, &region);
    struct plan plan_a, plan_b;
    instance_plan(&a, &region, &plan_a);
    instance_plan(&b, &region, &plan_b);
    for (int i = 0; i < a.count; i++) {
        assert_int_equal(plan_a.offsets[i], plan_b.offsets[i]);
    }
    assert_int_equal(plan_a.peak_bytes[0], plan_b.peak_bytes[0]);
    assert_string_equal(plan_a.heuristic[0], plan_b.heuristic[0]);
    region_finish(&region);
}

static void plan_meets_the_bound_for_stacked_lives(void **state) {
    (void)state;
    for (int layers = 1; layers <= 40; layers++) {
        struct region region = {0};
        struct instance stack = instance_stack(layers, &region);
        struct plan plan;
        instance_plan(&stack, &region, &plan);
        assert_plan_is_sound(&plan);
        assert_int_equal(plan.peak_bytes[SPACE_DEVICE], plan.bound_bytes[SPACE_DEVICE]);
        region_finish(&region);
    }
}

static void plan_meets_the_bound_for_training_steps(void **state) {
    (void)state;
    for (int layers = 2; layers <= 32; layers += 5) {
        struct region region = {0};
        struct instance training = instance_training(layers, &region);
        struct plan plan;
        instance_plan(&training, &region, &plan);
        assert_plan_is_sound(&plan);
        double gap = (double)plan.peak_bytes[0] / (double)plan.bound_bytes[0] - 1;
        print_message("%d layers: %d extents, gap %.3f %%, %s\n", layers, training.count, 100 * gap,
                      plan.heuristic[0]);
        assert_true(gap == 0);
        region_finish(&region);
    }
}

/* When all alignments are 256, no item fits into the rest of an odd size. The layout of the rounded
 * sizes is therefore optimal, and the planner must not search for a better one. */
static void plan_rounds_odd_sizes_up_to_the_shared_alignment(void **state) {
    (void)state;
    struct region region = {0};
    struct instance round = instance_training(12, &region);
    struct instance odd = instance_training(12, &region);
    for (int i = 0; i < odd.count; i++) {
        odd.extents[i].bytes -= (uint64_t)(i % 200);
    }
    struct plan round_plan, odd_plan;
    instance_plan(&round, &region, &round_plan);
    instance_plan(&odd, &region, &odd_plan);
    assert_plan_is_sound(&odd_plan);
    for (int i = 0; i < odd.count; i++) {
        assert_int_equal(odd_plan.offsets[i], round_plan.offsets[i]);
    }
    assert_string_equal(odd_plan.heuristic[SPACE_DEVICE], round_plan.heuristic[SPACE_DEVICE]);
    assert_true(odd_plan.peak_bytes[SPACE_DEVICE] <= round_plan.bound_bytes[SPACE_DEVICE]);
    region_finish(&region);
}

/* The limits leave room for sanitizers and busy machines; 0.02 s and 0.4 s are usual. */
static void plan_is_quick(void **state) {
    (void)state;
    static const struct {
        int layers;
        double seconds_max;
    } CASES[] = {{71, 1}, {428, 10}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct region region = {0};
        struct instance training = instance_training(CASES[i].layers, &region);
        struct plan plan;
        int64_t start = clock_monotonic_ns();
        instance_plan(&training, &region, &plan);
        double seconds = (double)(clock_monotonic_ns() - start) * 1e-9;
        start = clock_monotonic_ns();
        assert_verified(&plan, &region);
        double verify_seconds = (double)(clock_monotonic_ns() - start) * 1e-9;
        print_message("%d extents: plan %.3f s, verify %.3f s, gap %.3f %% by %s\n", training.count,
                      seconds, verify_seconds,
                      100 * ((double)plan.peak_bytes[0] / (double)plan.bound_bytes[0] - 1),
                      plan.heuristic[0]);
        assert_true(seconds < CASES[i].seconds_max);
        region_finish(&region);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_is_sound_for_random_extents),
        cmocka_unit_test(plan_of_nothing_is_empty),
        cmocka_unit_test(plan_is_the_same_when_made_again),
        cmocka_unit_test(plan_meets_the_bound_for_stacked_lives),
        cmocka_unit_test(plan_meets_the_bound_for_training_steps),
        cmocka_unit_test(plan_rounds_odd_sizes_up_to_the_shared_alignment),
        cmocka_unit_test(plan_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
