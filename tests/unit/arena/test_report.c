/* Tests of the arena's reports: sums are exact, and the tables agree with a count over all
 * steps. */
#include "arena/formats/formats.h"
#include "instances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 60, SEEDS = 25 };

static struct instance drawn_instance(uint64_t seed, struct region *region) {
    struct random_instance with = {.seed = seed,
                                   .count = 80,
                                   .steps = STEPS,
                                   .life_max = 30,
                                   .bytes_max = 100000,
                                   .unit = 1,
                                   .align_max = 64,
                                   .space_count = SPACE_COUNT};
    return instance_random(&with, region);
}

static uint64_t alive_bytes(const struct plan *plan, enum space space, int role, uint32_t step) {
    uint64_t bytes = 0;
    for (int i = 0; i < plan->problem.extent_count; i++) {
        const struct extent *extent = &plan->problem.extents[i];
        bool counted = extent->space == space && (int)extent->role == role;
        bytes += counted && extent->first <= step && step < extent->last ? extent->bytes : 0;
    }
    return bytes;
}

static void role_totals_are_those_of_counting_every_step(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct region region = {0};
        struct instance instance = drawn_instance(seed, &region);
        struct plan plan;
        instance_plan(&instance, &region, &plan);
        for (enum space space = 0; space < SPACE_COUNT; space++) {
            struct role_total totals[ROLE_COUNT];
            uint64_t sum = 0;
            compute_role_totals(&plan, space, &region, totals);
            for (int role = 0; role < ROLE_COUNT; role++) {
                uint64_t most = 0;
                for (uint32_t step = 0; step < STEPS; step++) {
                    uint64_t alive = alive_bytes(&plan, space, role, step);
                    most = alive > most ? alive : most;
                }
                assert_int_equal(totals[role].max_bytes, most);
                assert_int_equal(alive_bytes(&plan, space, role, totals[role].max_step), most);
                assert_int_equal(totals[role].peak_bytes,
                                 alive_bytes(&plan, space, role, plan.peak_step[space]));
                sum += totals[role].peak_bytes;
            }
            assert_int_equal(sum, plan.bound_bytes[space]);
        }
        region_finish(&region);
    }
}

static void tenants_add_up_to_the_peak_to_the_byte(void **state) {
    (void)state;
    int gaps = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct region region = {0};
        struct instance instance = drawn_instance(seed, &region);
        struct plan plan;
        instance_plan(&instance, &region, &plan);
        for (enum space space = 0; space < SPACE_COUNT; space++) {
            struct tenant_list list = list_tenants(&plan, space, &region);
            uint64_t sum = 0;
            for (int i = 0; i < list.count; i++) {
                sum += list.tenants[i].bytes;
                assert_true(i == 0 || list.tenants[i].bytes <= list.tenants[i - 1].bytes);
                gaps += list.tenants[i].extent < 0;
                if (list.tenants[i].extent < 0) {
                    assert_string_equal(list.tenants[i].name, "(gap)");
                    assert_int_equal(list.tenants[i].bytes,
                                     plan.peak_bytes[space] - plan.bound_bytes[space]);
                }
            }
            assert_int_equal(sum, plan.peak_bytes[space]);
        }
        region_finish(&region);
    }
    assert_true(gaps > 0); /* otherwise the case was not tested */
}

/* Two tenants with a gap for alignment: 3 + 5 bytes alive, 9 needed. */
static void draw_gap(struct extent extents[static 2], struct plan *plan) {
    static const uint64_t OFFSETS[2] = {0, 4};
    extents[0] = (struct extent){"odd", ROLE_PARAMS, SPACE_HOST, 3, 4, 0, 2};
    extents[1] = (struct extent){"even", ROLE_CACHE, SPACE_HOST, 5, 4, 1, 3};
    *plan = (struct plan){.problem = {extents, 2},
                          .offsets = OFFSETS,
                          .peak_bytes[SPACE_HOST] = 9,
                          .bound_bytes[SPACE_HOST] = 8,
                          .peak_step[SPACE_HOST] = 1,
                          .heuristic[SPACE_HOST] = "first fit by hand"};
}

static void tables_print_as_expected(void **state) {
    (void)state;
    struct region region = {0};
    struct extent extents[2];
    struct plan plan;
    draw_gap(extents, &plan);
    char buffer[2048];
    struct text text = text_over(buffer, sizeof buffer);
    report_spaces(&plan, &text);
    report_roles(&plan, &region, &text);
    report_tenants(&plan, SPACE_HOST, 0, &region, &text);
    report_tenants(&plan, SPACE_HOST, 2, &region, &text);
    assert_false(text.truncated);
    assert_string_equal(
        buffer,
        "space            peak                  bytes        gap  extents  laid out\n"
        "host              9 B                      9    12.50 %        2  first fit by hand\n"
        "host space, step 1\n"
        "  role                    at the peak         most    at step  extents\n"
        "  params                          3 B          3 B          0        1\n"
        "  cache                           5 B          5 B          1        1\n"
        "  (gap)                           1 B\n"
        "  total                           9 B\n"
        "host space, alive at step 1\n"
        "                       5          5 B  cache                 even\n"
        "                       3          3 B  params                odd\n"
        "                       1          1 B                        (gap)\n"
        "                       9          9 B                        (total)\n"
        "host space, alive at step 1\n"
        "                       5          5 B  cache                 even\n"
        "                       4          4 B                        (2 more)\n"
        "                       9          9 B                        (total)\n");
    region_finish(&region);
}

static void an_empty_plan_prints_headings_only(void **state) {
    (void)state;
    struct region region = {0};
    struct plan plan;
    arena_plan(&(struct arena_problem){0}, &region, &plan);
    char buffer[512];
    struct text text = text_over(buffer, sizeof buffer);
    report_roles(&plan, &region, &text);
    assert_string_equal(buffer, "");
    assert_true(peak_gap_percent(&plan, SPACE_DEVICE) == 0);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(role_totals_are_those_of_counting_every_step),
        cmocka_unit_test(tenants_add_up_to_the_peak_to_the_byte),
        cmocka_unit_test(tables_print_as_expected),
        cmocka_unit_test(an_empty_plan_prints_headings_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
