/* Estimates: lanes beside each other, with times that can be added up by hand. */
#include "rig.h"

#include "runtime/schedule/estimate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A byte takes a second, on the way to memory as between ranks. */
static const struct target SLOW = {.f32_flops = {.value = 1e30},
                                   .bf16_flops = {.value = 1e30},
                                   .memory_bandwidth = {.value = 1},
                                   .host_link_bandwidth = {.value = 1},
                                   .peer_link_bandwidth = {.value = 1},
                                   .matmul_efficiency = {.value = 1},
                                   .memory_efficiency = {.value = 1},
                                   .link_efficiency = {.value = 1}};

static struct instruction work(uint64_t seconds, uint32_t wait, uint32_t signal) {
    return (struct instruction){
        .op = OP_ZERO,
        .lane = LANE_COMPUTE,
        .segment = SEGMENT_MICROBATCH,
        .waits = {wait},
        .signal = signal,
        .operands = {{.extent = 0, .access = ACCESS_WRITE, .bytes = seconds}}};
}

static struct instruction gather(uint64_t seconds, uint32_t wait, uint32_t signal) {
    struct instruction made = work(0, wait, signal);
    made.op = OP_ALL_GATHER;
    made.lane = LANE_COLLECTIVE;
    made.args.collective.slot_bytes = seconds; /* from one other rank */
    return made;
}

/*   seconds     0   1   2   3   4   5   6   7
 *   compute     A---B-------        C---
 *   collective      1---------------2-------  */
static void lanes_run_beside_each_other_and_wait_for_events(void **state) {
    (void)state;
    struct instruction list[] = {work(1, EVENT_NONE, 1), gather(4, 1, 2), work(2, EVENT_NONE, 0),
                                 gather(2, EVENT_NONE, 3), work(1, 2, 0)};
    for (size_t i = 0; i < ARRAY_COUNT(list); i++) {
        for (int k = 1; k < OPERANDS_MAX; k++) {
            list[i].operands[k].extent = EXTENT_NONE;
        }
    }
    struct schedule schedule = {.instructions = list,
                                .instruction_count = ARRAY_COUNT(list),
                                .event_count = 3,
                                .options = {.sharding = {.shard = 2, .replicate = 1}}};
    schedule.segments[SEGMENT_MICROBATCH] = (struct segment){0, ARRAY_COUNT(list), 1};
    struct segment_estimate found = estimate_segment(&schedule, &SLOW, SEGMENT_MICROBATCH);
    assert_true(found.seconds == 7);
    assert_true(found.collective_seconds == 6);
    assert_true(found.hidden_seconds == 2 + 1);
    assert_true(found.seconds_bound[BOUND_PEERS] == 6);
    assert_true(found.seconds_bound[BOUND_MEMORY] == 4);
}

static struct segment_estimate step_of(struct rig_case of, const struct target *target) {
    static struct rig rig;
    rig_init(&rig, &of);
    struct segment_estimate step = estimate_step(&rig.schedule, target);
    rig_finish(&rig);
    return step;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Memory a thousand times as fast as the links leaves the links' time, and the other way round. */
static void a_step_takes_at_least_its_busiest_lane_and_at_most_all_in_turn(void **state) {
    (void)state;
    static const double PEERS[] = {1e-3, 1, 1e3};
    for (int prefetch = 0; prefetch < 4; prefetch++) {
        for (size_t i = 0; i < ARRAY_COUNT(PEERS); i++) {
            struct target target = SLOW;
            target.peer_link_bandwidth.value = PEERS[i];
            struct rig_case of = {.family = 1, .zero = 3, .shard = 4, .prefetch = prefetch};
            struct segment_estimate step = step_of(of, &target);
            double compute = step.seconds_bound[BOUND_MEMORY] + step.seconds_bound[BOUND_COMPUTE];
            assert_true(step.seconds >= step.collective_seconds && step.seconds >= compute);
            assert_true(near(step.seconds_bound[BOUND_PEERS], step.collective_seconds));
            /* With two lanes there is always one at work, as each waits for nothing but the other.
             */
            assert_true(
                near(step.seconds + step.hidden_seconds, compute + step.collective_seconds));
        }
    }
}

static void prefetching_hides_what_no_prefetching_leaves_bare(void **state) {
    (void)state;
    struct target target = SLOW;
    target.peer_link_bandwidth.value = 4;
    struct rig_case of = {.family = 1, .zero = 3, .shard = 4, .hidden = 64};
    struct segment_estimate bare = step_of(of, &target);
    of.prefetch = 1;
    struct segment_estimate ahead = step_of(of, &target);
    assert_true(near(bare.collective_seconds, ahead.collective_seconds));
    assert_true(ahead.seconds < bare.seconds);
    assert_true(ahead.hidden_seconds > bare.hidden_seconds);
    /* Only the first gathers and the last reductions of a microbatch, and tallies, have nothing to
     * hide behind. */
    assert_true(ahead.hidden_seconds > 0.6 * ahead.collective_seconds);
    assert_true(bare.hidden_seconds < 0.2 * bare.collective_seconds);
}

/* The same products take as long on both; only attention has another share of their rate. */
static void attention_takes_longer_on_hopper_than_on_other_gpus(void **state) {
    (void)state;
    struct target ada = SLOW;
    ada.kind = TARGET_CUDA;
    ada.compute_major = 8;
    ada.f32_flops.value = 1;
    ada.memory_bandwidth.value = 1e30;
    struct target hopper = ada;
    struct target cpu = ada;
    hopper.compute_major = 9;
    cpu.kind = TARGET_CPU;
    struct rig_case of = {.family = 1};
    struct segment_estimate on_ada = step_of(of, &ada);
    struct segment_estimate on_hopper = step_of(of, &hopper);
    struct segment_estimate on_cpu = step_of(of, &cpu);
    assert_true(on_ada.flops == on_hopper.flops && on_ada.flops == on_cpu.flops);
    assert_true(near(on_cpu.seconds, on_cpu.flops));
    assert_true(on_cpu.seconds < on_ada.seconds && on_ada.seconds < on_hopper.seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_takes_longer_on_hopper_than_on_other_gpus),
        cmocka_unit_test(lanes_run_beside_each_other_and_wait_for_events),
        cmocka_unit_test(a_step_takes_at_least_its_busiest_lane_and_at_most_all_in_turn),
        cmocka_unit_test(prefetching_hides_what_no_prefetching_leaves_bare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
