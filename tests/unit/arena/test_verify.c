/* Tests of arena_verify: a correct plan passes, and every planted error is found and reported. */
#include "arena/arena.h"
#include "instances.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { EXTENTS = 4 };

/* Two of them share bytes one after the other, in the device space; one is in the host space.
 *   device: [0, 512) a over steps 0..4, then c over 4..8; [512, 1024) b over 2..6 */
struct drawn {
    struct extent extents[EXTENTS];
    uint64_t offsets[EXTENTS];
    struct plan plan;
};

static void draw_plan(struct drawn *drawn) {
    *drawn = (struct drawn){
        .extents =
            {
                {"a", ROLE_PARAMS, SPACE_DEVICE, 512, 256, 0, 4},
                {"b", ROLE_BATCH, SPACE_DEVICE, 512, 256, 2, 6},
                {"c", ROLE_CACHE, SPACE_DEVICE, 512, 256, 4, 8},
                {"d", ROLE_STAGING, SPACE_HOST, 100, 4, 1, 3},
            },
        .offsets = {0, 512, 0, 8},
        .plan = {.peak_bytes = {1024, 0, 108},
                 .bound_bytes = {1024, 0, 100},
                 .peak_step = {2, 0, 1},
                 .heuristic = {"hand", "empty", "hand"}},
    };
    drawn->plan.problem = (struct arena_problem){drawn->extents, EXTENTS};
    drawn->plan.offsets = drawn->offsets;
}

static enum status verify(struct drawn *drawn, struct fault *fault) {
    struct region region = {0};
    enum status status = arena_verify(&drawn->plan.problem, &drawn->plan, &region, fault);
    region_finish(&region);
    return status;
}

static void verify_accepts_a_sound_plan(void **state) {
    (void)state;
    struct drawn drawn;
    struct fault fault;
    draw_plan(&drawn);
    assert_int_equal(verify(&drawn, &fault), OK);
}

static void assert_refused(struct drawn *drawn, const char *const *words) {
    struct fault fault = {0};
    assert_int_equal(verify(drawn, &fault), STATUS_FAILED);
    assert_int_equal(fault.status, STATUS_FAILED);
    for (int i = 0; words[i] != NULL; i++) {
        if (strstr(fault.reason, words[i]) == NULL && strstr(fault.subject, words[i]) == NULL) {
            print_error("no \"%s\" in \"%s: %s\"\n", words[i], fault.subject, fault.reason);
            fail();
        }
    }
}

static void verify_names_both_when_lives_overlap(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[2].first = 3; /* c is born while a is alive, in the same bytes */
    assert_refused(&drawn, (const char *[]){"device", "'a'", "'c'", "overlap", NULL});
}

static void verify_names_both_when_bytes_overlap(void **state) {
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct drawn drawn;
        draw_plan(&drawn);
        if (side == 0) {
            drawn.extents[0].bytes = 513; /* from below */
        } else {
            drawn.offsets[1] = 256; /* from above, aligned */
        }
        assert_refused(&drawn, (const char *[]){"device", "'a'", "'b'", "overlap", NULL});
    }
}

static void verify_names_both_when_one_lies_within_the_other(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.offsets[1] = 256;
    drawn.extents[1].bytes = 16;
    assert_refused(&drawn, (const char *[]){"'a'", "'b'", "overlap", NULL});
}

static void verify_names_both_when_offsets_are_equal(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.offsets[1] = 0;
    assert_refused(&drawn, (const char *[]){"'a'", "'b'", "overlap", NULL});
}

static void verify_refuses_misalignment(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.offsets[3] = 6;
    assert_refused(&drawn, (const char *[]){"host", "'d'", "not aligned to 4", NULL});
}

static void verify_refuses_alignment_that_is_no_power_of_two(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].align = 3;
    drawn.offsets[1] = 513;
    assert_refused(&drawn, (const char *[]){"'b'", "not aligned", NULL});
}

static void verify_refuses_malformed_extents(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].last = 2;
    assert_refused(&drawn, (const char *[]){"'b'", "is empty", NULL});
    draw_plan(&drawn);
    drawn.extents[1].bytes = 0;
    assert_refused(&drawn, (const char *[]){"'b'", "0 bytes", NULL});
    draw_plan(&drawn);
    drawn.extents[1].space = SPACE_COUNT;
    assert_refused(&drawn, (const char *[]){"'b'", "an invalid space", NULL});
    draw_plan(&drawn);
    drawn.offsets[1] = (uint64_t)0 - 256;
    assert_refused(&drawn, (const char *[]){"'b'", "beyond 2^64", NULL});
}

static void verify_refuses_wrong_peaks(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.plan.peak_bytes[SPACE_DEVICE] = 1023;
    assert_refused(&drawn, (const char *[]){"device", "1023", "1024", NULL});
    draw_plan(&drawn);
    drawn.plan.bound_bytes[SPACE_HOST] = 104;
    assert_refused(&drawn, (const char *[]){"host", "104", "100", NULL});
    draw_plan(&drawn);
    drawn.plan.peak_step[SPACE_DEVICE] =
        4; /* as many bytes are alive there, but not for the first time */
    assert_refused(&drawn, (const char *[]){"device", "step 4", "step 2", NULL});
    draw_plan(&drawn);
    drawn.plan.peak_bytes[SPACE_PINNED] = 1;
    assert_refused(&drawn, (const char *[]){"pinned", NULL});
}

static bool meets(const struct plan *plan, int i, int j) {
    const struct extent *a = &plan->problem.extents[i], *b = &plan->problem.extents[j];
    return a->space == b->space && a->first < b->last && b->first < a->last &&
           plan->offsets[i] < plan_extent_end(plan, j) &&
           plan->offsets[j] < plan_extent_end(plan, i);
}

/* Move one extent of a sound plan anywhere: the verdict must be that of comparing all pairs. */
static void verify_agrees_with_all_pairs_when_one_extent_is_moved(void **state) {
    (void)state;
    int refused = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct region region = {0};
        struct random_instance with = {.seed = seed,
                                       .count = 40,
                                       .steps = 30,
                                       .life_max = 12,
                                       .bytes_max = 64,
                                       .unit = 1,
                                       .align_max = 1,
                                       .space_count = 2};
        struct instance instance = instance_random(&with, &region);
        struct plan plan;
        instance_plan(&instance, &region, &plan);
        int index = (int)(seed % 40);
        const struct extent *moved = &instance.extents[index];
        if (plan.peak_bytes[moved->space] < moved->bytes + 1) {
            region_finish(&region);
            continue;
        }
        uint64_t offsets[40];
        memcpy(offsets, plan.offsets, sizeof offsets);
        offsets[index] = seed * 31 % (plan.peak_bytes[moved->space] - moved->bytes);
        plan.offsets = offsets;
        uint64_t peak = 0;
        bool sound = true;
        for (int i = 0; i < instance.count; i++) {
            sound = sound && (i == index || !meets(&plan, index, i));
            if (instance.extents[i].space == moved->space && plan_extent_end(&plan, i) > peak) {
                peak = plan_extent_end(&plan, i);
            }
        }
        plan.peak_bytes[moved->space] = peak;
        struct fault fault;
        assert_int_equal(arena_verify(&plan.problem, &plan, &region, &fault),
                         sound ? OK : STATUS_FAILED);
        refused += !sound;
        region_finish(&region);
    }
    assert_in_range(refused, 50, 299);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verify_accepts_a_sound_plan),
        cmocka_unit_test(verify_names_both_when_lives_overlap),
        cmocka_unit_test(verify_names_both_when_bytes_overlap),
        cmocka_unit_test(verify_names_both_when_one_lies_within_the_other),
        cmocka_unit_test(verify_names_both_when_offsets_are_equal),
        cmocka_unit_test(verify_refuses_misalignment),
        cmocka_unit_test(verify_refuses_alignment_that_is_no_power_of_two),
        cmocka_unit_test(verify_refuses_malformed_extents),
        cmocka_unit_test(verify_refuses_wrong_peaks),
        cmocka_unit_test(verify_agrees_with_all_pairs_when_one_extent_is_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
