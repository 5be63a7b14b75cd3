/* Sharded schedules: what every way to split a model over ranks must keep to. */
#include "rig.h"

#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 400 };

static uint64_t seed(void) {
    const char *wanted = getenv("SKEP_TEST_SEED");
    return wanted == NULL ? 4 : strtoull(wanted, NULL, 10);
}

/* Some case of them all: what it is follows from the seed and its number. */
static struct rig_case draw_case(uint64_t index) {
    static const int WORLDS[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {8, 1},
                                    {1, 2}, {1, 3}, {2, 2}, {2, 3}, {4, 2}};
    static const unsigned OFFLOADS[] = {
        0,
        OFFLOAD_ACTIVATIONS,
        OFFLOAD_OPTIMIZER,
        OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER,
        OFFLOAD_OPTIMIZER | OFFLOAD_PARAMS,
        OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER | OFFLOAD_PARAMS,
    };
    uint32_t words[4];
    uint32_t more[4];
    random_block(random_key(seed(), "sharded schedules"), 2 * index, words);
    random_block(random_key(seed(), "sharded schedules"), 2 * index + 1, more);
    const int *world = WORLDS[words[0] % ARRAY_COUNT(WORLDS)];
    struct rig_case of = {.family = (int)(words[1] % RIG_FAMILIES),
                          .zero = (int)(words[2] % ZERO_STAGE_COUNT),
                          .shard = world[0],
                          .replicate = world[1],
                          .prefetch = (int)(words[3] % 4),
                          .live = (int)(more[0] % 4),
                          .keep_gathered = more[0] >> 8 & 1,
                          .recompute = (enum recompute)(more[1] % RECOMPUTE_COUNT),
                          .offload = OFFLOADS[(more[1] >> 8) % ARRAY_COUNT(OFFLOADS)],
                          .compute = more[2] & 1 ? DTYPE_BF16 : DTYPE_F32,
                          .reduce = more[2] & 2 ? DTYPE_BF16 : DTYPE_F32,
                          .separate = (more[2] & 12) == 0,
                          .mixed = more[3] % 5 == 0,
                          .frozen = (more[3] >> 12 & 3) == 0,
                          .no_training = more[3] >> 8 & 1 && more[3] >> 9 & 1};
    if (of.zero <= 1 && !of.mixed && (more[3] >> 16 & 1)) {
        of.reduce_at = REDUCE_AT_STEP;
    }
    return of;
}

static void plan_and_order_are_sound_in_every_case(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++) {
        static struct rig rig;
        struct rig_case of = draw_case(i);
        rig_init(&rig, &of);
        rig_prove(&rig);
        rig_finish(&rig);
    }
}

static void frozen_units_have_neither_gradients_nor_optimizer(void **state) {
    (void)state;
    for (int zero = 0; zero < ZERO_STAGE_COUNT; zero++) {
        static struct rig rig;
        struct rig_case of = {
            .family = 1, .zero = zero, .shard = 2, .frozen = true, .compute = DTYPE_BF16};
        rig_init(&rig, &of);
        int frozen = 0;
        for (int unit = 0; unit < rig.units.unit_count; unit++) {
            bool trains = !rig.units.units[unit].frozen;
            frozen += !trains;
            for (int view = VIEW_GRADIENT; view <= VIEW_MOMENT2; view++) {
                struct unit_view found =
                    schedule_unit_view(&rig.schedule, unit, (enum param_view)view);
                assert_int_equal(found.extent != EXTENT_NONE, trains);
            }
            struct unit_view master = schedule_unit_view(&rig.schedule, unit, VIEW_MASTER);
            assert_int_equal(master.dtype, trains ? DTYPE_F32 : DTYPE_BF16);
        }
        assert_int_equal(frozen, 1);
        rig_finish(&rig);
    }
}

/* A view's extent holds what it says: the unit, or the slot. */
static void unit_views_hold_the_unit_or_a_slot_of_it(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++) {
        static struct rig rig;
        struct rig_case of = draw_case(i);
        rig_init(&rig, &of);
        for (int unit = 0; unit < rig.units.unit_count; unit++) {
            int64_t elements = rig.units.units[unit].elements;
            for (int view = VIEW_PARAMS; view <= VIEW_MOMENT2; view++) {
                struct unit_view found =
                    schedule_unit_view(&rig.schedule, unit, (enum param_view)view);
                assert_int_equal(found.shard_elements * of.shard, elements);
                if (found.extent != EXTENT_NONE) {
                    int64_t held =
                        (found.split ? found.shard_elements : elements) * dtype_bytes(found.dtype);
                    assert_int_equal(rig.schedule.extents[found.extent].bytes, held);
                }
            }
        }
        rig_finish(&rig);
    }
}

/* ---- bytes between ranks ---- */

/* What the rank receives in a step, by the list: every collective but those of tallies. */
static struct step_volumes volumes_by_list(const struct schedule *schedule) {
    struct step_volumes sum = {.gather_forward = 0};
    for (int i = 0; i < schedule->instruction_count; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        const struct collective_args *args = &instruction->args.collective;
        const struct operand *to = &instruction->operands[instruction->op == OP_ALL_GATHER ? 0 : 1];
        bool counts =
            instruction->lane == LANE_COLLECTIVE && to->extent != schedule->tallies &&
            (instruction->segment == SEGMENT_MICROBATCH || instruction->segment == SEGMENT_FINISH);
        if (!counts) {
            continue;
        }
        int ranks = args->axis == AXIS_SHARD ? schedule->options.sharding.shard
                                             : schedule->options.sharding.replicate;
        uint64_t bytes = args->slot_bytes * (uint64_t)(ranks - 1) *
                         (uint64_t)schedule->segments[instruction->segment].repeat;
        enum extent_role role = schedule->extents[to->extent].role;
        uint64_t *kind = args->axis == AXIS_REPLICATE           ? &sum.between_replicas
                         : instruction->op == OP_REDUCE_SCATTER ? &sum.reduce
                         : role == ROLE_GATHERED                ? &sum.gather_forward
                         : role == ROLE_GRADIENTS               ? &sum.gather_reduced_gradients
                                                                : &sum.gather_params;
        *kind += bytes;
    }
    return sum;
}

static uint64_t bytes_in_all(const struct step_volumes *volumes) {
    return volumes->gather_forward + volumes->gather_backward + volumes->reduce +
           volumes->gather_reduced_gradients + volumes->between_replicas + volumes->gather_params;
}

static void the_list_receives_what_the_formulas_say(void **state) {
    (void)state;
    for (uint64_t i = 0; i < CASES; i++) {
        static struct rig rig;
        struct rig_case of = draw_case(i);
        rig_init(&rig, &of);
        struct step_volumes listed = volumes_by_list(&rig.schedule);
        struct step_volumes said = rig.schedule.volumes;
        said.gather_forward += said.gather_backward;
        said.gather_backward = 0;
        if (memcmp(&listed, &said, sizeof said) != 0) {
            fail_msg("%s: %" PRIu64 " bytes listed, %" PRIu64 " by the formulas", rig_title(&of),
                     bytes_in_all(&listed), bytes_in_all(&said));
        }
        rig_finish(&rig);
    }
}

/* ---- peaks ---- */

static uint64_t peak_at(struct rig_case of, int zero, bool *dominated) {
    static struct rig rig;
    of.zero = zero;
    rig_init(&rig, &of);
    rig_prove(&rig);
    uint64_t peak = rig.plan.peak_bytes[SPACE_DEVICE];
    int64_t sum = 0;
    int64_t largest = 0;
    for (int unit = 0; unit < rig.units.unit_count; unit++) {
        int64_t elements = rig.units.units[unit].elements;
        sum += elements;
        largest = elements > largest ? elements : largest;
    }
    *dominated = largest * of.shard > sum * (of.shard - 1);
    rig_finish(&rig);
    return peak;
}

/* Unless one unit has more than (1 - 1 / S) of the parameters, splitting more never needs more; but
 * for units that are to stay gathered over the forward pass, which is asking for their bytes. */
static void splitting_more_never_needs_more_memory(void **state) {
    (void)state;
    static const int SHARDS[] = {2, 3, 4, 8};
    for (uint64_t i = 0; i < CASES / 4; i++) {
        for (size_t s = 0; s < ARRAY_COUNT(SHARDS); s++) {
            struct rig_case of = draw_case(i);
            of.shard = SHARDS[s];
            of.reduce_at = REDUCE_AT_MICROBATCH;
            of.mixed = of.no_training = of.separate = of.keep_gathered = false;
            uint64_t below = UINT64_MAX;
            for (int zero = 0; zero < ZERO_STAGE_COUNT; zero++) {
                bool dominated;
                uint64_t peak = peak_at(of, zero, &dominated);
                if (peak > below && !dominated) {
                    of.zero = zero;
                    fail_msg("%s: peak %" PRIu64 ", one stage less %" PRIu64, rig_title(&of), peak,
                             below);
                }
                below = peak;
            }
        }
    }
}

static void resident_extents_share_their_bytes_with_nothing(void **state) {
    (void)state;
    static const struct resident_extent KEPT[] = {{"outer.params", ROLE_OUTER, SPACE_HOST, 70000},
                                                  {"outer.feedback", ROLE_OUTER, SPACE_HOST, 0},
                                                  {"exchange.own", ROLE_EXCHANGE, SPACE_HOST, 333}};
    for (int separate = 0; separate < 2; separate++) {
        struct rig_case of = {.family = 1, .shard = 1, .replicate = 1, .separate = separate == 1};
        struct rig without, with;
        rig_init(&without, &of);
        of.resident = KEPT;
        of.resident_count = 3;
        rig_init(&with, &of);
        rig_prove(&with);
        assert_int_equal(with.schedule.resident[1], EXTENT_NONE);
        enum space space = separate == 1 ? SPACE_HOST : SPACE_DEVICE;
        uint64_t bytes = 0;
        for (int i = 0; i < 3; i += 2) {
            const struct extent *extent = &with.schedule.extents[with.schedule.resident[i]];
            assert_string_equal(extent->name, KEPT[i].name);
            assert_int_equal(extent->bytes, KEPT[i].bytes);
            assert_int_equal(extent->space, space);
            assert_int_equal(extent->first, 0);
            assert_int_equal(extent->last, with.schedule.instruction_count);
            bytes += extent->bytes;
        }
        assert_true(with.plan.peak_bytes[space] >= without.plan.peak_bytes[space] + bytes);
        assert_int_equal(with.schedule.instruction_count, without.schedule.instruction_count);
        rig_finish(&with);
        rig_finish(&without);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resident_extents_share_their_bytes_with_nothing),
        cmocka_unit_test(plan_and_order_are_sound_in_every_case),
        cmocka_unit_test(frozen_units_have_neither_gradients_nor_optimizer),
        cmocka_unit_test(unit_views_hold_the_unit_or_a_slot_of_it),
        cmocka_unit_test(the_list_receives_what_the_formulas_say),
        cmocka_unit_test(splitting_more_never_needs_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
