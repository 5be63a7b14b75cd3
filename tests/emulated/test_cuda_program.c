/* Whole programs of small models on the emulated device, drawn as for the CPU: the CPU's losses,
 * the same bits in every order that the schedule's events allow, the plan's peak to the byte, no
 * call that takes memory once it is bound, and what is left of a device that fails. */
#include "tests/emulated/device.h"
#include "tests/support/small_program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20, CONFIGURATIONS = 10, ORDERED = 5, ORDERS = 3, MEMORY_MIB = 256 };

static struct cuda_driver driver;

static void open_device(uint64_t seed) {
    const struct emulated_options options = {
        .seed = seed, .memory_bytes = (uint64_t)MEMORY_MIB << 20, .find = emulated_device_find};
    emulated_driver_open(&options, &driver);
}

static struct target device_target(void) {
    const struct target_space space = {.capacity_bytes = (uint64_t)MEMORY_MIB << 20,
                                       .capacity_source = "the test"};
    return (struct target){.name = "emulated",
                           .description = "",
                           .origin = "the test",
                           .kind = TARGET_CUDA,
                           .align_bytes = ARENA_ALIGN_BYTES,
                           .threads = 1,
                           .spaces = {space, space, space},
                           .isa = "",
                           .compute_major = 9,
                           .multiprocessor_count = 4};
}

/* One configuration on the device, in the order that `order` draws. */
static void run_on_device(struct small_program *small, uint64_t index, uint64_t order) {
    const struct target target = device_target();
    struct fault fault;
    open_device(order);
    small_program_init_on(small, SEED, index, &target);
    small_program_run(small, NULL, NULL);
    if (program_failure(&small->bound, &fault) != OK) {
        fail_msg("%s: %s: %s (%s)", small->title, fault.subject, fault.reason,
                 emulated_driver_reason());
    }
}

static void finish_on_device(struct small_program *small) {
    small_program_finish(small);
    assert_int_equal(emulated_driver_live(), 0);
    emulated_driver_close();
}

/* Sums of losses and norms after up to two steps of AdamW; in bf16 every tensor on the way is
 * rounded to 8 bits. */
static void expect_near(const struct small_program *small, const char *what, double here,
                        double there) {
    double tolerance = small->options.compute == DTYPE_F32 ? 2e-3 : 6e-2;
    if (!(fabs(here - there) <= tolerance * (fabs(there) + 1e-3))) {
        fail_msg("%s: %s is %.9g, on the CPU %.9g", small->title, what, here, there);
    }
}

static void results_are_those_of_the_cpu(void **state) {
    (void)state;
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program host;
        static struct small_program device;
        small_program_init(&host, SEED, index);
        small_program_run(&host, NULL, NULL);
        run_on_device(&device, index, index);
        for (int i = 0; i < SMALL_LOSSES; i++) {
            expect_near(&device, "a loss", device.losses[i], host.losses[i]);
        }
        for (int i = 0; i < 2; i++) {
            expect_near(&device, "a norm", device.norms[i], host.norms[i]);
        }
        finish_on_device(&device);
        small_program_finish(&host);
    }
}

static void every_order_gives_the_same_bits(void **state) {
    (void)state;
    for (uint64_t index = 0; index < ORDERED; index++) {
        struct hash first;
        for (uint64_t order = 0; order < ORDERS; order++) {
            static struct small_program device;
            run_on_device(&device, index, 100 + order);
            struct hash found = small_program_result(&device);
            if (order > 0 && !hash_equal(&first, &found)) {
                fail_msg("%s: order %llu gives other bits", device.title,
                         (unsigned long long)order);
            }
            first = found;
            finish_on_device(&device);
        }
    }
}

static void nothing_is_taken_once_bound(void **state) {
    (void)state;
    static const char *const CALLS[] = {
        "cuMemAlloc",          "cuMemCreate",       "cuMemHostAlloc",
        "cuMemAddressReserve", "cuStreamCreate",    "cuStreamCreateWithPriority",
        "cuEventCreate",       "cuLibraryLoadData", "cuGraphInstantiateWithFlags",
        "cuGraphUpload",       "cuFuncLoad",        "cuStreamBeginCapture"};
    const struct target target = device_target();
    static struct small_program small;
    uint64_t before[ARRAY_COUNT(CALLS)];
    open_device(1);
    small_program_init_on(&small, SEED, 1, &target);
    for (size_t i = 0; i < ARRAY_COUNT(CALLS); i++) {
        before[i] = emulated_driver_calls(CALLS[i]);
    }
    uint64_t peak_bytes = emulated_driver_peak_bytes(0);
    small_program_run(&small, NULL, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(CALLS); i++) {
        assert_int_equal(emulated_driver_calls(CALLS[i]), before[i]);
    }
    assert_int_equal(emulated_driver_peak_bytes(0), peak_bytes);
    finish_on_device(&small);
}

/* Else collectives, which other ranks wait for, would run at the priority of the compute lane. */
static void graphs_keep_the_priorities_of_their_streams(void **state) {
    (void)state;
    const struct target target = device_target();
    static struct small_program small;
    open_device(1);
    small_program_init_on(&small, SEED, 1, &target);
    assert_true(emulated_driver_calls("cuGraphInstantiateWithFlags") > 0);
    assert_int_equal(emulated_driver_flat_graphs(), 0);
    finish_on_device(&small);
}

static void the_device_is_used_to_the_plans_peak_and_no_further(void **state) {
    (void)state;
    for (uint64_t index = 0; index < ORDERED; index++) {
        static struct small_program device;
        run_on_device(&device, index, index);
        assert_int_equal(device.bound.high_water[SPACE_DEVICE],
                         device.program.plan.peak_bytes[SPACE_DEVICE]);
        finish_on_device(&device);
    }
}

static void arenas_are_zero_when_a_program_is_bound(void **state) {
    (void)state;
    const struct target target = device_target();
    static struct small_program small;
    open_device(3);
    small_program_init_on(&small, SEED, 2, &target);
    const struct schedule *schedule = &small.program.schedule;
    struct fault fault;
    for (int unit = 0; unit < schedule->units->unit_count; unit++) {
        const struct extent *moment = &schedule->extents[schedule->unit_extents[unit].moment1];
        char *bytes = region_alloc(&small.region, moment->bytes, 1);
        memset(bytes, 1, moment->bytes);
        assert_int_equal(
            device_read(program_device_memory(&small.bound, moment->space),
                        program_extent_address(&small.bound, schedule->unit_extents[unit].moment1),
                        bytes, moment->bytes, &fault),
            OK);
        for (uint64_t i = 0; i < moment->bytes; i++) {
            assert_int_equal(bytes[i], 0);
        }
    }
    finish_on_device(&small);
}

static void a_device_that_fails_is_told_and_does_nothing_more(void **state) {
    (void)state;
    const struct target target = device_target();
    static struct small_program small;
    struct fault fault;
    char byte;
    open_device(1);
    small_program_init_on(&small, SEED, 1, &target);
    assert_int_equal(program_failure(&small.bound, &fault), OK);
    emulated_driver_fail_work(5, CUDA_ERROR_ILLEGAL_ADDRESS);
    program_execute_segment(&small.bound, SEGMENT_BEGIN);
    program_execute_segment(&small.bound, SEGMENT_MICROBATCH);
    assert_int_equal(program_failure(&small.bound, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.reason, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    uint64_t launches = emulated_driver_calls("cuGraphLaunch");
    program_execute_segment(&small.bound, SEGMENT_FINISH);
    assert_int_equal(emulated_driver_calls("cuGraphLaunch"), launches);
    assert_int_equal(device_read(program_device_memory(&small.bound, SPACE_DEVICE),
                                 small.bound.base[SPACE_DEVICE], &byte, 1, &fault),
                     STATUS_FAILED);
    small_program_finish(&small);
    emulated_driver_close();
}

static void whatever_fails_while_binding_leaves_nothing(void **state) {
    (void)state;
    static const char *const CALLS[] = {"cuStreamCreateWithPriority",
                                        "cuEventCreate",
                                        "cuStreamBeginCapture",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphUpload",
                                        "cuGraphLaunch",
                                        "cuLibraryLoadData"};
    const struct target target = device_target();
    for (size_t i = 0; i < ARRAY_COUNT(CALLS); i++) {
        static struct small_program small;
        struct fault fault;
        open_device(1);
        small_program_init_on(&small, SEED, 0, &target);
        struct bound_program again;
        program_release(&small.bound);
        emulated_driver_fail(CALLS[i], 1, CUDA_ERROR_OPERATING_SYSTEM);
        assert_int_not_equal(program_bind(&small.program, NULL, &small.region, &again, &fault), OK);
        if (emulated_driver_live() != 0) {
            fail_msg("%s fails: %d things are still held", CALLS[i], emulated_driver_live());
        }
        region_finish(&small.region);
        emulated_driver_close();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_cpu),
        cmocka_unit_test(every_order_gives_the_same_bits),
        cmocka_unit_test(nothing_is_taken_once_bound),
        cmocka_unit_test(graphs_keep_the_priorities_of_their_streams),
        cmocka_unit_test(the_device_is_used_to_the_plans_peak_and_no_further),
        cmocka_unit_test(arenas_are_zero_when_a_program_is_bound),
        cmocka_unit_test(a_device_that_fails_is_told_and_does_nothing_more),
        cmocka_unit_test(whatever_fails_while_binding_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
