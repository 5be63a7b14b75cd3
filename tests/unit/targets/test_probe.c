/* Tests of targets/probe: verdicts from figures, and what a measured profile holds. */
#include "base/text.h"
#include "targets/probe/probe.h"
#include "targets/probe/probe_loops.h"
#include "targets/profile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct region region;
static struct fault fault;

static struct target promises(void) {
    struct target target = {.name = "t",
                            .origin = "built in",
                            .unified = true,
                            .threads = 4,
                            .f32_flops = {100, "x"},
                            .bf16_flops = {200, "x"},
                            .memory_bandwidth = {50, "x"},
                            .host_link_bandwidth = {20, "x"},
                            .isa = "avx2"};
    static const struct target_declared_use SYSTEM = {"system", 300, "x", PER_PROCESS};
    target.spaces[SPACE_DEVICE] = (struct target_space){1000, "x", &SYSTEM, 1};
    return target;
}

static struct probe_result exactly_enough(void) {
    return (struct probe_result){.machine = {.memory_total_bytes = 1000,
                                             .memory_available_bytes = 700,
                                             .cpu_count = 4,
                                             .isa = "avx2"},
                                 .threads = 4,
                                 .f32_flops = 90,
                                 .bf16_flops = 180,
                                 .memory_bandwidth = 45,
                                 .copy_bandwidth = 18};
}

static const struct probe_comparison *line_named(const struct probe_comparison *lines,
                                                 const char *name) {
    for (int i = 0; i < PROBE_COMPARISONS_MAX; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            return &lines[i];
        }
    }
    fail_msg("no line %s", name);
    return NULL;
}

static void compare_accepts_full_memory_and_nine_tenths_of_a_speed(void **state) {
    (void)state;
    struct target target = promises();
    struct probe_result result = exactly_enough();
    struct probe_comparison lines[PROBE_COMPARISONS_MAX];
    assert_int_equal(probe_compare(&target, &result, lines), 0);
    assert_true(line_named(lines, "memory free for the arena")->profile_value == 700.0);
    assert_false(probe_isa_is_lower(&target, &result));
}

static void compare_names_each_line_that_is_lower(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
        bool counted; /* a whole number, not a double */
    } FIELDS[] = {
        {"f32 peak", offsetof(struct probe_result, f32_flops), false},
        {"bf16 peak", offsetof(struct probe_result, bf16_flops), false},
        {"memory bandwidth", offsetof(struct probe_result, memory_bandwidth), false},
        {"copy bandwidth", offsetof(struct probe_result, copy_bandwidth), false},
        {"memory", offsetof(struct probe_result, machine.memory_total_bytes), true},
        {"memory free for the arena", offsetof(struct probe_result, machine.memory_available_bytes),
         true},
    };
    struct target target = promises();
    for (size_t i = 0; i < ARRAY_COUNT(FIELDS); i++) {
        struct probe_result result = exactly_enough();
        struct probe_comparison lines[PROBE_COMPARISONS_MAX];
        char *field = (char *)&result + FIELDS[i].offset;
        if (FIELDS[i].counted) {
            (*(uint64_t *)(void *)field)--;
        } else {
            *(double *)(void *)field *= 0.99;
        }
        assert_int_equal(probe_compare(&target, &result, lines), 1);
        assert_int_equal(line_named(lines, FIELDS[i].name)->verdict, PROBE_LOWER);
    }
    struct probe_result fewer = exactly_enough();
    struct probe_comparison lines[PROBE_COMPARISONS_MAX];
    fewer.machine.cpu_count = 3;
    assert_int_equal(probe_compare(&target, &fewer, lines), 1);
    assert_int_equal(line_named(lines, "threads")->verdict, PROBE_LOWER);
}

static void compare_expects_nothing_of_a_detected_target(void **state) {
    (void)state;
    struct target target = promises();
    struct probe_result nothing = {.machine = {.isa = "scalar"}};
    struct probe_comparison lines[PROBE_COMPARISONS_MAX];
    target.origin = "detected";
    assert_int_equal(probe_compare(&target, &nothing, lines), 0);
    assert_int_equal(lines[0].verdict, PROBE_ASSUMED);
}

static void isa_lower_orders_the_levels_of_one_architecture(void **state) {
    (void)state;
    static const struct {
        const char *wanted, *found;
        bool lower;
    } CASES[] = {
        {"scalar", "neon", false},       {"avx2", "scalar", true}, {"avx2", "avx512_bf16", false},
        {"avx512_bf16", "avx512", true}, {"neon", "neon", false},  {"neon", "avx2", true},
        {"avx2", "neon", true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct target target = {.isa = CASES[i].wanted};
        struct probe_result result = {.machine = {.isa = CASES[i].found}};
        assert_int_equal(probe_isa_is_lower(&target, &result), CASES[i].lower);
    }
}

static void loops_converge_to_the_fixed_point_of_their_factors(void **state) {
    (void)state;
    struct machine machine;
    machine_read("", &machine);
    /* s -> s * 0.999999 + 1e-6 has fixed point 1: every accumulator stays there, so the sum is
     * their number, up to rounding. */
    float scalar = probe_loop_f32("scalar").run(100000);
    assert_true(fabsf(scalar - 8.0f) < 0.2f);
    float native = probe_loop_f32(machine.isa).run(100000);
    double accumulators = strcmp(machine.isa, "scalar") == 0 ? 8 : 12;
    assert_true(fabs((double)native - accumulators) < 0.3);
    assert_true(probe_loop_f32("scalar").operations_per_round == 16.0);
}

static void measured_profile_is_read_back_with_the_same_figures(void **state) {
    (void)state;
    struct probe_result result;
    struct target again;
    static char buffer[16384];
    if (probe_measure(1, &result, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_true(result.f32_flops > 1e8 && result.f32_flops < 1e12);
    assert_true(result.memory_bandwidth > 1e8 && result.memory_bandwidth < 1e12);
    struct text text = text_over(buffer, sizeof buffer);
    profile_write(probe_target(&result, "box", &region), &text);
    assert_false(text.truncated);
    if (profile_read(buffer, text.length, "box.yaml", &region, &again, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_string_equal(again.name, "box");
    assert_int_equal(again.threads, 1);
    assert_int_equal(again.spaces[SPACE_DEVICE].capacity_bytes, result.machine.memory_total_bytes);
    assert_true(fabs(again.f32_flops.value / result.f32_flops - 1) < 1e-8);
    assert_true(fabs(again.memory_bandwidth.value / result.memory_bandwidth - 1) < 1e-8);
    assert_non_null(strstr(again.f32_flops.source, "measured"));
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compare_accepts_full_memory_and_nine_tenths_of_a_speed),
        cmocka_unit_test(compare_names_each_line_that_is_lower),
        cmocka_unit_test(compare_expects_nothing_of_a_detected_target),
        cmocka_unit_test(isa_lower_orders_the_levels_of_one_architecture),
        cmocka_unit_test(loops_converge_to_the_fixed_point_of_their_factors),
        cmocka_unit_test(measured_profile_is_read_back_with_the_same_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
