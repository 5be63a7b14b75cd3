/* Schedules: lives, order between lanes, and what a step is estimated to take. */
#include "arena/arena.h"
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "runtime/schedule/estimate.h"
#include "runtime/schedule/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCE = 64, ROWS = 2, ACCUMULATION = 3 };

struct rig {
    struct region region;
    struct blueprint blueprint;
    struct unit_table units;
    struct schedule schedule;
    struct target target;
    struct plan plan;
};

static void rig_init(struct rig *rig, bool unified) {
    char folder[PATH_BYTES];
    struct fault fault;
    memset(rig, 0, sizeof *rig);
    if (blueprint_open(CONFIGS "/qwen3-0.6b.json", &rig->region, &rig->blueprint, folder, &fault) !=
        OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    size_t layers = (size_t)rig->blueprint.layers;
    struct schedule_options options = {
        .sequence = SEQUENCE,
        .microbatch = ROWS,
        .accumulation = ACCUMULATION,
        .context = 32,
        .prefill = 8,
        .train = true,
        .evaluate = true,
        .compute = DTYPE_F32,
        .moments = DTYPE_F32,
        .recompute = region_alloc(&rig->region, layers, sizeof(enum recompute)),
        .staging_bytes = 4096};
    if (unit_table_init(&rig->blueprint, &(struct unit_options){.world = 1}, &rig->region,
                        &rig->units, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    rig->target =
        (struct target){.unified = unified, .align_bytes = ARENA_ALIGN_BYTES, .threads = 2};
    schedule_build(&rig->blueprint, &rig->units, &rig->target, &options, &rig->region,
                   &rig->schedule);
    arena_plan(&(struct arena_problem){rig->schedule.extents, rig->schedule.extent_count},
               &rig->region, &rig->plan);
}

static void every_operand_lies_within_a_living_extent(void **state) {
    (void)state;
    for (int unified = 0; unified < 2; unified++) {
        static struct rig rig;
        rig_init(&rig, unified);
        const struct schedule *schedule = &rig.schedule;
        for (int i = 0; i < schedule->instruction_count; i++) {
            for (int k = 0; k < OPERANDS_MAX; k++) {
                const struct operand *operand = &schedule->instructions[i].operands[k];
                if (operand->extent == EXTENT_NONE) {
                    continue;
                }
                const struct extent *extent = &schedule->extents[operand->extent];
                assert_true(operand->offset + operand->bytes <= extent->bytes);
                assert_true(extent->first <= (uint32_t)i && (uint32_t)i < extent->last);
            }
        }
        region_finish(&rig.region);
    }
}

static void gradients_live_from_begin_to_finish_only(void **state) {
    (void)state;
    static struct rig rig;
    rig_init(&rig, true);
    const struct schedule *schedule = &rig.schedule;
    for (int unit = 0; unit < rig.units.unit_count; unit++) {
        const struct extent *gradients = &schedule->extents[schedule->unit_extents[unit].gradients];
        assert_int_equal(gradients->first, schedule->segments[SEGMENT_BEGIN].first);
        assert_int_equal(gradients->last, schedule->segments[SEGMENT_FINISH].end);
        const struct extent *params = &schedule->extents[schedule->unit_extents[unit].params];
        assert_int_equal(params->first, 0);
        assert_int_equal(params->last, schedule->instruction_count);
    }
    region_finish(&rig.region);
}

static void lanes_are_ordered_where_they_share_bytes(void **state) {
    (void)state;
    static struct rig rig;
    struct fault fault;
    rig_init(&rig, false);
    assert_int_equal(schedule_verify(&rig.schedule, rig.plan.offsets, &rig.region, &fault), OK);
    region_finish(&rig.region);
}

/* Take away each wait in turn: unless another wait covers it, the proof must fail. */
static void a_missing_wait_is_found(void **state) {
    (void)state;
    static struct rig rig;
    struct fault fault;
    int waits = 0;
    int found = 0;
    rig_init(&rig, false);
    for (int i = 0; i < rig.schedule.instruction_count; i++) {
        for (int k = 0; k < WAITS_MAX; k++) {
            uint32_t *wait = &rig.schedule.instructions[i].waits[k];
            uint32_t kept = *wait;
            if (kept == EVENT_NONE) {
                continue;
            }
            *wait = EVENT_NONE;
            waits++;
            if (schedule_verify(&rig.schedule, rig.plan.offsets, &rig.region, &fault) != OK) {
                found++;
                assert_non_null(strstr(fault.reason, "may use the same bytes concurrently"));
            }
            *wait = kept;
        }
    }
    assert_true(waits >= 5);
    assert_true(found >= 5); /* at least one for each segment that copies */
    region_finish(&rig.region);
}

static void a_step_has_the_operations_that_the_model_counts(void **state) {
    (void)state;
    static struct rig rig;
    rig_init(&rig, true);
    struct target target = {.f32_flops = {.value = 1e12},
                            .bf16_flops = {.value = 2e12},
                            .memory_bandwidth = {.value = 1e30},
                            .host_link_bandwidth = {.value = 1e30},
                            .matmul_efficiency = {.value = 0.5},
                            .memory_efficiency = {.value = 1},
                            .link_efficiency = {.value = 1}};
    struct segment_estimate step = estimate_step(&rig.schedule, &target);
    struct token_flops counted = counts_flops_per_token(&rig.blueprint, SEQUENCE);
    /* Attention's backward pass makes the scores again: five products where the count has four. */
    double again = counted.attention / 2;
    double expected = (counted.training + again) * SEQUENCE * ROWS * ACCUMULATION;
    assert_true(fabs(step.flops - expected) < 1e-3 * expected);
    /* With memory and links infinitely fast, arithmetic at half the peak is all there is. */
    assert_true(fabs(step.seconds - step.flops / 0.5e12) < 1e-6 * step.seconds);
    region_finish(&rig.region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operand_lies_within_a_living_extent),
        cmocka_unit_test(gradients_live_from_begin_to_finish_only),
        cmocka_unit_test(lanes_are_ordered_where_they_share_bytes),
        cmocka_unit_test(a_missing_wait_is_found),
        cmocka_unit_test(a_step_has_the_operations_that_the_model_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
