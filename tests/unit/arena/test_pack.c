/* Tests of arena_pack: lowest peaks equal those of an independent exhaustive search, or are known
 * from how the problem was made. */
#include "arena/arena.h"
#include "instances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SMALL = 7 };

static bool meet(const struct extent *a, const struct extent *b) {
    return a->first < b->last && b->first < a->last;
}

/* The lowest offset, above `below`, at which no placed item overlaps. */
static uint64_t drop(const struct extent *extents, const uint64_t *offsets, const int *order,
                     int placed) {
    const struct extent *item = &extents[order[placed]];
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < placed; i++) {
            const struct extent *other = &extents[order[i]];
            uint64_t other_offset = offsets[order[i]];
            if (meet(item, other) && offset < other_offset + other->bytes &&
                other_offset < offset + item->bytes) {
                offset = other_offset + other->bytes;
                moved = true;
            }
        }
        uint64_t aligned = (offset + item->align - 1) / item->align * item->align;
        moved = moved || aligned != offset;
        offset = aligned;
    }
    return offset;
}

static bool next_permutation(int *order, int count) {
    int i = count - 2;
    while (i >= 0 && order[i] > order[i + 1]) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    int j = count - 1;
    while (order[j] < order[i]) {
        j--;
    }
    int kept = order[i];
    order[i] = order[j];
    order[j] = kept;
    for (int low = i + 1, high = count - 1; low < high; low++, high--) {
        kept = order[low];
        order[low] = order[high];
        order[high] = kept;
    }
    return true;
}

/* An optimal layout results from placing the items in order of its offsets, each as low as
 * possible. Trying all sequences therefore finds it. */
static uint64_t least_peak(const struct extent *extents, int count) {
    uint64_t offsets[SMALL];
    int order[SMALL];
    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    uint64_t least = UINT64_MAX;
    do {
        uint64_t peak = 0;
        for (int i = 0; i < count; i++) {
            offsets[order[i]] = drop(extents, offsets, order, i);
            uint64_t end = offsets[order[i]] + extents[order[i]].bytes;
            peak = end > peak ? end : peak;
        }
        least = peak < least ? peak : least;
    } while (next_permutation(order, count));
    return least;
}

static void assert_packed(struct instance *instance, const struct pack_request *request,
                          struct region *region, struct plan *plan, struct pack_outcome *outcome) {
    struct fault fault;
    struct arena_problem problem = instance_problem(instance);
    arena_pack(&problem, request, region, plan, outcome);
    enum status status = arena_verify(&problem, plan, region, &fault);
    if (status != OK) {
        fault_print(&fault, 2);
    }
    assert_int_equal(status, OK);
    assert_true(outcome->lowest_bytes >= plan->bound_bytes[SPACE_DEVICE]);
    assert_true(outcome->lowest_bytes <= plan->peak_bytes[SPACE_DEVICE]);
}

static void pack_finds_the_least_peak_of_small_problems(void **state) {
    (void)state;
    int plans_at_least = 0, above_bound = 0, cases = 0;
    for (uint64_t seed = 0; seed < 250; seed++) {
        struct region region = {0};
        struct random_instance with = {.seed = seed,
                                       .count = 2 + (int)(seed % (SMALL - 1)),
                                       .steps = 8,
                                       .life_max = 5,
                                       .bytes_max = 12,
                                       .unit = 1,
                                       .align_max = seed % 3 == 0 ? 8 : 1,
                                       .space_count = 1};
        struct instance instance = instance_random(&with, &region);
        struct plan plan;
        struct pack_outcome outcome;
        uint64_t least = least_peak(instance.extents, instance.count);
        instance_plan(&instance, &region, &plan);
        plans_at_least += plan.peak_bytes[SPACE_DEVICE] == least;
        struct pack_request request = {.time_limit_s = 2};
        assert_packed(&instance, &request, &region, &plan, &outcome);
        if (with.align_max == 1) {
            assert_int_equal(plan.peak_bytes[SPACE_DEVICE], least);
            assert_int_equal(outcome.lowest_bytes, least);
        } else {
            assert_true(outcome.lowest_bytes <= least);
            assert_true(plan.peak_bytes[SPACE_DEVICE] <= least + 7);
        }
        above_bound += least > plan.bound_bytes[SPACE_DEVICE];
        cases++;
        region_finish(&region);
    }
    print_message("arena_plan: least peak in %d of %d; the bound is out of reach in %d\n",
                  plans_at_least, cases, above_bound);
    assert_true(above_bound > 0); /* otherwise no proof was needed */
}

static void pack_solves_tilings(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct region region = {0};
        struct instance tiling = instance_tiling(seed, 60, 80, 1 << 20, &region);
        struct plan plan;
        struct pack_outcome outcome;
        struct pack_request request = {.time_limit_s = 10};
        assert_packed(&tiling, &request, &region, &plan, &outcome);
        assert_int_equal(plan.bound_bytes[SPACE_DEVICE], 1 << 20);
        assert_int_equal(plan.peak_bytes[SPACE_DEVICE], 1 << 20);
        region_finish(&region);
    }
}

static void pack_stops_at_the_capacity(void **state) {
    (void)state;
    struct region region = {0};
    struct instance tiling = instance_tiling(2, 200, 100, 1 << 20, &region);
    struct plan plan;
    struct pack_outcome outcome;
    struct pack_request request = {.capacity_bytes = 3 << 19, .time_limit_s = 100};
    assert_packed(&tiling, &request, &region, &plan, &outcome);
    assert_true(plan.peak_bytes[SPACE_DEVICE] <= 3 << 19);
    assert_true(outcome.seconds < 10);
    region_finish(&region);
}

static void pack_stops_when_the_capacity_is_out_of_reach(void **state) {
    (void)state;
    struct region region = {0};
    struct instance tiling = instance_tiling(3, 200, 100, 1 << 20, &region);
    struct plan plan;
    struct pack_outcome outcome;
    struct pack_request request = {.capacity_bytes = (1 << 20) - 1, .time_limit_s = 100};
    assert_packed(&tiling, &request, &region, &plan, &outcome);
    assert_int_equal(outcome.lowest_bytes, 1 << 20);
    assert_true(outcome.seconds < 10);
    region_finish(&region);
}

static void pack_lays_out_at_once_when_there_is_no_time(void **state) {
    (void)state;
    struct region region = {0};
    struct instance tiling = instance_tiling(4, 300, 100, 1 << 20, &region);
    struct plan plan;
    struct pack_outcome outcome;
    struct pack_request request = {.time_limit_s = 0};
    assert_packed(&tiling, &request, &region, &plan, &outcome);
    assert_true(outcome.seconds < 2);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_finds_the_least_peak_of_small_problems),
        cmocka_unit_test(pack_solves_tilings),
        cmocka_unit_test(pack_stops_at_the_capacity),
        cmocka_unit_test(pack_stops_when_the_capacity_is_out_of_reach),
        cmocka_unit_test(pack_lays_out_at_once_when_there_is_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
