/* Tests of arena_verify: a sound plan passes, and every planted fault is found and named. */
#include "arena/plan.h"
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
    struct plan plan;
};

static void draw_plan(struct drawn *drawn) {
    *drawn = (struct drawn){
        .extents =
            {
                {"a", ROLE_PARAMS, SPACE_DEVICE, 512, 256, 0, 4, 0},
                {"b", ROLE_BATCH, SPACE_DEVICE, 512, 256, 2, 6, 512},
                {"c", ROLE_CACHE, SPACE_DEVICE, 512, 256, 4, 8, 0},
                {"d", ROLE_STAGING, SPACE_HOST, 100, 4, 1, 3, 8},
            },
        .plan = {.extent_count = EXTENTS,
                 .peak_bytes = {1024, 0, 108},
                 .bound_bytes = {1024, 0, 100},
                 .peak_step = {2, 0, 1},
                 .heuristic = {"hand", "empty", "hand"}},
    };
    drawn->plan.extents = drawn->extents;
}

static enum status verify(struct drawn *drawn, struct fault *fault) {
    struct region region = {0};
    enum status status = arena_verify(&drawn->plan, &region, fault);
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
        if (strstr(fault.reason, words[i]) == NULL && strstr(fault.place, words[i]) == NULL) {
            print_error("no \"%s\" in \"%s: %s\"\n", words[i], fault.place, fault.reason);
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
            drawn.extents[1].offset = 256; /* from above, aligned */
        }
        assert_refused(&drawn, (const char *[]){"device", "'a'", "'b'", "overlap", NULL});
    }
}

static void verify_names_both_when_one_lies_within_the_other(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].offset = 256;
    drawn.extents[1].bytes = 16;
    assert_refused(&drawn, (const char *[]){"'a'", "'b'", "overlap", NULL});
}

static void verify_names_both_when_offsets_are_equal(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].offset = 0;
    assert_refused(&drawn, (const char *[]){"'a'", "'b'", "overlap", NULL});
}

static void verify_refuses_misalignment(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[3].offset = 6;
    assert_refused(&drawn, (const char *[]){"host", "'d'", "not aligned to 4", NULL});
}

static void verify_refuses_alignment_that_is_no_power_of_two(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].align = 3;
    drawn.extents[1].offset = 513;
    assert_refused(&drawn, (const char *[]){"'b'", "not aligned", NULL});
}

static void verify_refuses_malformed_extents(void **state) {
    (void)state;
    struct drawn drawn;
    draw_plan(&drawn);
    drawn.extents[1].last = 2;
    assert_refused(&drawn, (const char *[]){"'b'", "empty life", NULL});
    draw_plan(&drawn);
    drawn.extents[1].bytes = 0;
    assert_refused(&drawn, (const char *[]){"'b'", "0 bytes", NULL});
    draw_plan(&drawn);
    drawn.extents[1].space = SPACE_COUNT;
    assert_refused(&drawn, (const char *[]){"'b'", "no space", NULL});
    draw_plan(&drawn);
    drawn.extents[1].offset = (uint64_t)0 - 256;
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
        4; /* as many are alive there, but not for the first time */
    assert_refused(&drawn, (const char *[]){"device", "step 4", "step 2", NULL});
    draw_plan(&drawn);
    drawn.plan.peak_bytes[SPACE_PINNED] = 1;
    assert_refused(&drawn, (const char *[]){"pinned", NULL});
}

static bool meets(const struct extent *a, const struct extent *b) {
    return a->space == b->space && a->first < b->last && b->first < a->last &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
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
        arena_plan(instance.extents, instance.count, &region, &plan);
        struct extent *moved = &instance.extents[seed % 40];
        if (plan.peak_bytes[moved->space] < moved->bytes + 1) {
            region_finish(&region);
            continue;
        }
        moved->offset = seed * 31 % (plan.peak_bytes[moved->space] - moved->bytes);
        uint64_t peak = 0;
        bool sound = true;
        for (int i = 0; i < instance.count; i++) {
            const struct extent *other = &instance.extents[i];
            sound = sound && (other == moved || !meets(moved, other));
            if (other->space == moved->space && other->offset + other->bytes > peak) {
                peak = other->offset + other->bytes;
            }
        }
        plan.peak_bytes[moved->space] = peak;
        struct fault fault;
        assert_int_equal(arena_verify(&plan, &region, &fault), sound ? OK : STATUS_FAILED);
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
