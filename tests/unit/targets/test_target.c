/* Tests of targets/target: opening by name, path and detection; capacities and what fits. */
#include "base/limits.h"
#include "targets/os/machine.h"
#include "targets/probe/detect.h"
#include "targets/profile.h"
#include "targets/profiles.h"
#include "targets/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct region region;
static struct fault fault;

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static const struct target *open_target(const char *name) {
    const struct target *target = NULL;
    if (target_open(name, &region, &target, &fault) != OK) {
        fail_msg("%s: %s; %s", fault.subject, fault.reason, fault.remedy);
    }
    return target;
}

static void every_shipped_profile_opens_and_is_plausible(void **state) {
    (void)state;
    assert_true(EMBEDDED_PROFILE_COUNT >= 2);
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        const struct target *target = open_target(EMBEDDED_PROFILES[i].name);
        const struct target_space *device = &target->spaces[SPACE_DEVICE];
        bool cuda = target->kind == TARGET_CUDA;
        bool plausible = strcmp(target->name, EMBEDDED_PROFILES[i].name) == 0 &&
                         target->align_bytes >= ARENA_ALIGN_BYTES &&
                         device->capacity_bytes > 1u << 30 && device->declared_use_count > 0 &&
                         target_declared_bytes(target, SPACE_DEVICE) < device->capacity_bytes / 2 &&
                         target->bf16_flops.value >= target->f32_flops.value &&
                         target->bf16_flops.value <= 20 * target->f32_flops.value &&
                         target->host_link_bandwidth.value < target->memory_bandwidth.value &&
                         target->peer_link_bandwidth.value < target->memory_bandwidth.value &&
                         target->f32_flops.value > target->memory_bandwidth.value &&
                         (target->multiprocessor_count > 0) == cuda &&
                         (target->compute_major > 0) == cuda && (target->isa[0] == '\0') == cuda &&
                         (target->spaces[SPACE_HOST].capacity_bytes == 0) == target->unified &&
                         (target->spaces[SPACE_PINNED].capacity_bytes == 0) == target->unified;
        if (!plausible) {
            fail_msg("%s breaks a relation that every profile must keep", target->name);
        }
    }
}

static void open_names_the_nearest_and_lists_all_when_the_name_is_unknown(void **state) {
    (void)state;
    const struct target *target = NULL;
    assert_int_equal(target_open("cpu-zen5-2c-24gb", &region, &target, &fault), STATUS_INPUT);
    assert_null(target);
    assert_string_equal(fault.subject, "target cpu-zen5-2c-24gb");
    assert_non_null(strstr(fault.remedy, "did you mean cpu-zen5-2c-24g?"));
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        assert_non_null(strstr(fault.reason, EMBEDDED_PROFILES[i].name));
    }
}

static void open_reads_a_path_and_names_it_when_it_is_not_there(void **state) {
    (void)state;
    const struct target *target = NULL;
    assert_int_equal(target_open("./no-such.yaml", &region, &target, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "./no-such.yaml");
}

static void detect_agrees_with_the_machine(void **state) {
    (void)state;
    struct machine machine;
    machine_read("", &machine);
    const struct target *target = open_target(NULL);
    assert_int_equal(target->spaces[SPACE_DEVICE].capacity_bytes, machine.memory_total_bytes);
    assert_int_equal(target->threads, machine.cpu_count);
    assert_string_equal(target->isa, machine.isa);
    assert_int_equal(open_target("auto")->threads, machine.cpu_count);
}

static void short_of_sums_the_spaces_of_a_unified_target(void **state) {
    (void)state;
    static const struct target_declared_use LINES[] = {{"a", 10, "x", PER_PROCESS},
                                                       {"b", 20, "x", PER_PROCESS}};
    struct target target = {.unified = true};
    target.spaces[SPACE_DEVICE] = (struct target_space){100, "x", LINES, 2};
    enum space space = SPACE_COUNT;
    assert_int_equal(target_available_bytes(&target, SPACE_DEVICE), 70);
    assert_int_equal(target_shortage(&target, (uint64_t[]){50, 10, 10}, &space), 0);
    assert_int_equal(space, SPACE_COUNT);
    assert_int_equal(target_shortage(&target, (uint64_t[]){50, 10, 11}, &space), 1);
    assert_int_equal(space, SPACE_DEVICE);
    target.unified = false;
    target.spaces[SPACE_HOST] = (struct target_space){5, "x", NULL, 0};
    assert_int_equal(target_shortage(&target, (uint64_t[]){70, 0, 5}, &space), 0);
    assert_int_equal(target_shortage(&target, (uint64_t[]){70, 0, 12}, &space), 7);
    assert_int_equal(space, SPACE_HOST);
}

static void a_declared_line_more_leaves_as_much_less_room(void **state) {
    (void)state;
    static const struct target_declared_use LINES[] = {{"a", 10, "x", PER_PROCESS}};
    static const struct target_declared_use MORE = {"messages", 30, "x", PER_PROCESS};
    struct target target = {.unified = true};
    target.spaces[SPACE_DEVICE] = (struct target_space){100, "x", LINES, 1};
    const struct target *with = target_with_declared_use(&target, SPACE_HOST, &MORE, &region);
    assert_int_equal(target_available_bytes(with, SPACE_DEVICE), 60);
    assert_string_equal(with->spaces[SPACE_DEVICE].declared[1].name, "messages");
    assert_int_equal(target_available_bytes(&target, SPACE_DEVICE), 90);
    target.unified = false;
    target.spaces[SPACE_HOST] = (struct target_space){50, "x", NULL, 0};
    with = target_with_declared_use(&target, SPACE_HOST, &MORE, &region);
    assert_int_equal(target_available_bytes(with, SPACE_DEVICE), 90);
    assert_int_equal(target_available_bytes(with, SPACE_HOST), 20);
}

static void lines_of_groups_are_there_as_often_as_they_count(void **state) {
    (void)state;
    static const struct target_declared_use LINES[] = {
        {"always", 1, "x", PER_PROCESS}, {"first", 10, "x", PER_SITE}, {"more", 7, "x", PER_GROUP}};
    static const struct {
        int groups, lines;
        uint64_t bytes;
    } CASES[] = {{0, 1, 1}, {1, 2, 11}, {2, 3, 18}, {3, 3, 25}};
    struct target target = {.unified = false};
    target.spaces[SPACE_DEVICE] = (struct target_space){100, "x", LINES, 3};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        const struct target *of = target_with_groups(&target, CASES[i].groups, &region);
        assert_int_equal(of->spaces[SPACE_DEVICE].declared_use_count, CASES[i].lines);
        assert_int_equal(target_declared_bytes(of, SPACE_DEVICE), CASES[i].bytes);
        const struct target *again = target_with_groups(of, 0, &region);
        assert_int_equal(target_declared_bytes(again, SPACE_DEVICE), CASES[i].bytes);
    }
}

static void lower_capacity_never_raises_and_refuses_what_leaves_no_room(void **state) {
    (void)state;
    const struct target *target = open_target("cpu");
    const struct target *lowered = NULL;
    uint64_t declared = target_declared_bytes(target, SPACE_DEVICE);
    uint64_t capacity = target->spaces[SPACE_DEVICE].capacity_bytes;
    assert_int_equal(target_lower_capacity(target, declared + 5, &region, &lowered, &fault), OK);
    assert_int_equal(target_available_bytes(lowered, SPACE_DEVICE), 5);
    assert_int_equal(target->spaces[SPACE_DEVICE].capacity_bytes, capacity);
    assert_int_equal(target_lower_capacity(target, 2 * capacity, &region, &lowered, &fault), OK);
    assert_int_equal(lowered->spaces[SPACE_DEVICE].capacity_bytes, capacity);
    lowered = NULL;
    assert_int_equal(target_lower_capacity(target, declared, &region, &lowered, &fault),
                     STATUS_FIT);
    assert_null(lowered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_shipped_profile_opens_and_is_plausible, finish_region),
        cmocka_unit_test_teardown(open_names_the_nearest_and_lists_all_when_the_name_is_unknown,
                                  finish_region),
        cmocka_unit_test_teardown(open_reads_a_path_and_names_it_when_it_is_not_there,
                                  finish_region),
        cmocka_unit_test_teardown(detect_agrees_with_the_machine, finish_region),
        cmocka_unit_test_teardown(short_of_sums_the_spaces_of_a_unified_target, finish_region),
        cmocka_unit_test_teardown(lines_of_groups_are_there_as_often_as_they_count, finish_region),
        cmocka_unit_test_teardown(a_declared_line_more_leaves_as_much_less_room, finish_region),
        cmocka_unit_test_teardown(lower_capacity_never_raises_and_refuses_what_leaves_no_room,
                                  finish_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
