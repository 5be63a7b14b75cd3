/* Offload: copies out and in are complete in time, and the peak falls. */
#include "rig.h"

#include "base/random.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { DRAWN = 60, HIDDEN = 128, NOT_FOUND = -1 };

static struct rig rig;

static struct rig_case draw_case(uint64_t index) {
    static const int WORLDS[][2] = {{1, 1}, {2, 1}, {3, 1}, {1, 2}, {2, 2}, {4, 2}};
    uint32_t words[4];
    random_block(random_key(7, "offload"), index, words);
    const int *world = WORLDS[words[0] % ARRAY_COUNT(WORLDS)];
    return (struct rig_case){.family = (int)(words[1] % RIG_FAMILIES),
                             .zero = (int)(words[2] % ZERO_STAGE_COUNT),
                             .shard = world[0],
                             .replicate = world[1],
                             .prefetch = (int)(words[3] % 3),
                             .recompute = (enum recompute)(words[1] >> 8 & 1),
                             .compute = words[2] >> 8 & 1 ? DTYPE_BF16 : DTYPE_F32,
                             .frozen = (words[3] >> 8) % 4 == 0,
                             .separate = true,
                             .hidden = HIDDEN};
}

static const struct instruction *at(int index) {
    return &rig.schedule.instructions[index];
}

static enum space space_of(const struct operand *operand) {
    return rig.schedule.extents[operand->extent].space;
}

static bool names(const struct instruction *instruction, int extent) {
    for (int k = 0; k < OPERANDS_MAX; k++) {
        if (instruction->operands[k].extent == extent) {
            return true;
        }
    }
    return instruction->workspace.extent == extent;
}

/* The first instruction of the microbatch from `from` on that names the extent. */
static int next_use(int extent, int from) {
    int end = (int)rig.schedule.segments[SEGMENT_MICROBATCH].end;
    for (int i = from; i < end; i++) {
        if (names(at(i), extent)) {
            return i;
        }
    }
    return NOT_FOUND;
}

static bool is_copy_to(const struct instruction *instruction, enum space space) {
    return instruction->op == OP_COPY && instruction->segment == SEGMENT_MICROBATCH &&
           space_of(&instruction->operands[COPY_TO]) == space;
}

/* Layers that compute in [from, end), those of the first and the last included. */
static int layers_between(int from, int end) {
    int layers = 0;
    int newest = PARAM_NO_LAYER;
    for (int i = from; i < end; i++) {
        bool counts = at(i)->lane == LANE_COMPUTE && at(i)->op != OP_RELEASE &&
                      at(i)->layer != PARAM_NO_LAYER;
        layers += counts && at(i)->layer != newest;
        newest = counts ? at(i)->layer : newest;
    }
    return layers;
}

/* The list after the copy out at `out`: release, copy in, use; nothing else in between. */
static void expect_way_back(int out) {
    int device = at(out)->operands[COPY_FROM].extent;
    int host = at(out)->operands[COPY_TO].extent;
    int release = next_use(device, out + 1);
    assert_int_not_equal(release, NOT_FOUND);
    assert_int_equal(at(release)->op, OP_RELEASE);
    assert_int_equal(at(release)->lane, LANE_COMPUTE);
    assert_int_equal(next_use(device, release + 1), NOT_FOUND);
    assert_int_equal(rig.schedule.extents[device].last, release + 1);
    int in = next_use(host, out + 1);
    assert_true(in > release);
    assert_true(is_copy_to(at(in), SPACE_DEVICE));
    assert_int_equal(next_use(host, in + 1), NOT_FOUND);
    int back = at(in)->operands[COPY_TO].extent;
    int use = next_use(back, in + 1);
    assert_int_not_equal(use, NOT_FOUND);
    assert_int_equal(at(use)->lane, LANE_COMPUTE);
    assert_int_equal(rig.schedule.extents[back].first, in);
    assert_int_equal(rig.schedule.extents[back].bytes, rig.schedule.extents[device].bytes);
    /* A whole layer's time for each way, and no more. */
    assert_in_range(layers_between(out, release), 1, 2);
    assert_in_range(layers_between(in, use), 1, 2);
}

static int count_saved(const struct rig_case *of) {
    int saved = 0;
    rig_init(&rig, of);
    rig_prove(&rig);
    for (int i = 0; i < rig.schedule.instruction_count; i++) {
        if (is_copy_to(at(i), SPACE_PINNED)) {
            assert_int_equal(at(i)->lane, LANE_COPY);
            expect_way_back(i);
            saved++;
        }
    }
    rig_finish(&rig);
    return saved;
}

static void activations_leave_for_all_but_a_layer_on_either_side(void **state) {
    (void)state;
    for (uint64_t i = 0; i < DRAWN; i++) {
        struct rig_case of = draw_case(i);
        of.offload = OFFLOAD_ACTIVATIONS | (i % 2 == 0 ? OFFLOAD_OPTIMIZER : 0);
        assert_true(count_saved(&of) >= 2 * (RIG_LAYERS - 2));
    }
}

/* What is made again is not saved: of a block only its input is. */
static void only_what_is_kept_is_saved(void **state) {
    (void)state;
    struct rig_case of = {.family = 1,
                          .separate = true,
                          .hidden = HIDDEN,
                          .recompute = RECOMPUTE_BLOCK,
                          .offload = OFFLOAD_ACTIVATIONS};
    assert_int_equal(count_saved(&of), RIG_LAYERS - 1);
    of.recompute = RECOMPUTE_NONE;
    assert_true(count_saved(&of) >= 7 * (RIG_LAYERS - 1));
}

static uint64_t peak_with(struct rig_case of, unsigned offload, enum space space) {
    of.offload = offload;
    rig_init(&rig, &of);
    rig_prove(&rig);
    uint64_t peak = rig.plan.peak_bytes[space];
    rig_finish(&rig);
    return peak;
}

static void the_devices_peak_falls_with_whatever_leaves_it(void **state) {
    (void)state;
    for (uint64_t i = 0; i < DRAWN; i++) {
        struct rig_case of = draw_case(i);
        uint64_t none = peak_with(of, 0, SPACE_DEVICE);
        uint64_t activations = peak_with(of, OFFLOAD_ACTIVATIONS, SPACE_DEVICE);
        uint64_t optimizer = peak_with(of, OFFLOAD_OPTIMIZER, SPACE_DEVICE);
        uint64_t both = peak_with(of, OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER, SPACE_DEVICE);
        uint64_t all =
            peak_with(of, OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER | OFFLOAD_PARAMS, SPACE_DEVICE);
        bool split = of.zero == 3 && of.shard > 1;
        if (activations > none || optimizer >= none || both > optimizer ||
            (split ? all >= both : all != both)) {
            fail_msg("%s: peak %" PRIu64 ", %" PRIu64 " without activations, %" PRIu64
                     " without the optimizer, %" PRIu64 " without both, %" PRIu64
                     " without params too",
                     rig_title(&of), none, activations, optimizer, both, all);
        }
    }
}

/* Masters and moments are the host's; of what passes between it and the device no more than three
 * units' are there at a time. */
static void an_offloaded_optimizer_lies_in_host_memory(void **state) {
    (void)state;
    for (uint64_t i = 0; i < DRAWN; i++) {
        struct rig_case of = draw_case(i);
        of.offload = OFFLOAD_OPTIMIZER;
        uint64_t before = peak_with(of, 0, SPACE_PINNED);
        rig_init(&rig, &of);
        uint64_t largest = 0;
        for (int unit = 0; unit < rig.units.unit_count; unit++) {
            bool trains = !rig.units.units[unit].frozen;
            for (int v = VIEW_MASTER; trains && v <= VIEW_MOMENT2; v++) {
                struct unit_view view = schedule_unit_view(&rig.schedule, unit, (enum param_view)v);
                assert_int_equal(view.space, v == VIEW_GRADIENT ? SPACE_DEVICE : SPACE_HOST);
            }
            const struct unit_extents *extents = &rig.schedule.unit_extents[unit];
            uint64_t bytes = !trains ? 0
                                     : rig.schedule.extents[extents->host_gradients].bytes +
                                           rig.schedule.extents[extents->host_params].bytes;
            largest = bytes > largest ? bytes : largest;
        }
        assert_true(rig.plan.peak_bytes[SPACE_PINNED] <= before + 3 * largest);
        for (int k = 0; k < rig.schedule.instruction_count; k++) {
            assert_true(at(k)->op != OP_ADAMW || schedule_executes_on_cpu(&rig.schedule, at(k)));
        }
        rig_finish(&rig);
    }
}

/* With one memory the copies are made all the same, into SPACE_HOST; without training nothing is
 * offloaded. */
static void offload_is_for_training_and_needs_no_device(void **state) {
    (void)state;
    struct rig_case of = {.family = 1, .hidden = HIDDEN};
    unsigned all = OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER;
    assert_int_equal(peak_with(of, 0, SPACE_HOST), 0);
    assert_true(peak_with(of, OFFLOAD_ACTIVATIONS, SPACE_HOST) > 0);
    assert_true(peak_with(of, all, SPACE_HOST) >= peak_with(of, OFFLOAD_OPTIMIZER, SPACE_HOST));
    assert_int_equal(peak_with(of, all, SPACE_PINNED), 0);
    of.no_training = true;
    assert_int_equal(peak_with(of, all, SPACE_HOST), 0);
    assert_int_equal(peak_with(of, all, SPACE_DEVICE), peak_with(of, 0, SPACE_DEVICE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_leave_for_all_but_a_layer_on_either_side),
        cmocka_unit_test(only_what_is_kept_is_saved),
        cmocka_unit_test(the_devices_peak_falls_with_whatever_leaves_it),
        cmocka_unit_test(an_offloaded_optimizer_lies_in_host_memory),
        cmocka_unit_test(offload_is_for_training_and_needs_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
