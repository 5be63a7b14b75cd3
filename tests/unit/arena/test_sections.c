/* Tests of the sections: extents that are alive at a step are alive together in one section, and no
 * others are; life peaks equal a count over every step. */
#include "arena/sections.h"
#include "instances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 50, SEEDS = 100 };

static struct cluster drawn_cluster(uint64_t seed, struct region *region) {
    struct random_instance with = {.seed = seed,
                                   .count = 1 + (int)(seed % 60),
                                   .steps = STEPS,
                                   .life_max = 1 + (uint32_t)(seed * 7 % STEPS),
                                   .bytes_max = 1000,
                                   .unit = 1,
                                   .align_max = 1,
                                   .space_count = 1};
    struct instance instance = instance_random(&with, region);
    return cluster_of_space(&(struct arena_problem){instance.extents, instance.count}, SPACE_DEVICE,
                            region);
}

static bool meet_in_time(const struct cluster *cluster, int a, int b) {
    return cluster->first[a] < cluster->end[b] && cluster->first[b] < cluster->end[a];
}

static void items_meet_in_a_section_when_they_meet_in_time(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct region region = {0};
        struct cluster cluster = drawn_cluster(seed, &region);
        struct sections sections = sections_of_cluster(&cluster, &region);
        assert_in_range(sections.count, 1, cluster.count);
        for (int i = 0; i < cluster.count; i++) {
            assert_true(sections.first[i] >= 0 && sections.first[i] < sections.end[i] &&
                        sections.end[i] <= sections.count);
            for (int j = 0; j < cluster.count; j++) {
                bool meets =
                    sections.first[i] < sections.end[j] && sections.first[j] < sections.end[i];
                assert_int_equal(meets, meet_in_time(&cluster, i, j));
            }
        }
        region_finish(&region);
    }
}

static void life_peak_is_the_most_bytes_alive_at_one_step_of_the_life(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct region region = {0};
        struct cluster cluster = drawn_cluster(seed, &region);
        struct sections sections = sections_of_cluster(&cluster, &region);
        const uint64_t *life_peak_bytes = sections_life_peaks(&sections, cluster.count, &region);
        uint64_t alive[STEPS] = {0};
        for (int i = 0; i < cluster.count; i++) {
            for (uint32_t step = cluster.first[i]; step < cluster.end[i]; step++) {
                alive[step] += cluster.bytes[i];
            }
        }
        for (int i = 0; i < cluster.count; i++) {
            uint64_t most = 0;
            for (uint32_t step = cluster.first[i]; step < cluster.end[i]; step++) {
                most = alive[step] > most ? alive[step] : most;
            }
            assert_int_equal(life_peak_bytes[i], most);
        }
        region_finish(&region);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_meet_in_a_section_when_they_meet_in_time),
        cmocka_unit_test(life_peak_is_the_most_bytes_alive_at_one_step_of_the_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
