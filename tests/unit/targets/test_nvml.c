/* Tests of targets/nvml: what a management library says, and what it leaves out. */
#include "targets/ports/nvml.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char BUS[] = "0000:17:00.0";
static unsigned long long throttle_bits;

static int find(const char *bus, void **device) {
    static int one;
    *device = &one;
    return strcmp(bus, BUS) == 0 ? 0 : 6;
}

static int memory(void *device, struct nvml_memory *memory) {
    (void)device;
    *memory = (struct nvml_memory){.total = 24ull << 30, .free = 20ull << 30, .used = 4ull << 30};
    return 0;
}

static int temperature(void *device, int sensor, unsigned *celsius) {
    (void)device;
    *celsius = 71;
    return sensor;
}

static int power(void *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 123456;
    return 0;
}

static int throttle(void *device, unsigned long long *reasons) {
    (void)device;
    *reasons = throttle_bits;
    return 0;
}

static int no_ecc(void *device, int kind, int period, unsigned long long *errors) {
    (void)device, (void)kind, (void)period, (void)errors;
    return 3; /* not supported */
}

static int compute_list(void *device, unsigned *count, struct nvml_process *processes) {
    (void)device;
    assert_in_range(*count, 4, 1000);
    *count = 4;
    processes[0] = (struct nvml_process){.pid = 4000001, .bytes = 1ull << 30};
    processes[1] = (struct nvml_process){.pid = (unsigned)getpid(), .bytes = 9ull << 30};
    processes[2] = (struct nvml_process){.pid = (unsigned)getppid(), .bytes = 3ull << 30};
    processes[3] = (struct nvml_process){.pid = 4000002, .bytes = ~0ull};
    return 0;
}

static int graphics_list(void *device, unsigned *count, struct nvml_process *processes) {
    (void)device;
    *count = 2;
    processes[0] = (struct nvml_process){.pid = 4000001, .bytes = 1ull << 30};
    processes[1] = (struct nvml_process){.pid = 4000003, .bytes = 2ull << 30};
    return 0;
}

static const struct nvml NVML = {.device_by_bus = find,
                                 .memory = memory,
                                 .temperature = temperature,
                                 .power = power,
                                 .throttle = throttle,
                                 .ecc = no_ecc,
                                 .compute_processes = compute_list,
                                 .graphics_processes = graphics_list};

static void health_is_what_the_library_says(void **state) {
    (void)state;
    struct nvml_health health;
    throttle_bits = 0x1 | 0x4 | 0x40;
    assert_true(nvml_read_health(&NVML, BUS, &health));
    assert_int_equal(health.memory_total_bytes, 24ll << 30);
    assert_int_equal(health.memory_used_bytes, 4ll << 30);
    assert_int_equal(health.temperature_c, 71);
    assert_int_equal(health.power_w, 123);
    assert_int_equal(health.ecc_errors, -1);
    assert_true(health.is_throttled);
    assert_string_equal(health.throttle_reasons, "power limit, heat");
    throttle_bits = 0x1; /* idle */
    assert_true(nvml_read_health(&NVML, BUS, &health));
    assert_false(health.is_throttled);
    assert_string_equal(health.throttle_reasons, "");
}

static void what_is_not_known_is_left_out(void **state) {
    (void)state;
    const struct nvml bare = {.device_by_bus = find};
    struct nvml_health health;
    char list[128];
    struct text text = text_over(list, sizeof list);
    assert_true(nvml_read_health(&bare, BUS, &health));
    assert_int_equal(health.memory_total_bytes, -1);
    assert_int_equal(health.temperature_c, -1);
    assert_int_equal(health.power_w, -1);
    assert_false(health.is_throttled);
    assert_false(nvml_read_health(&bare, "0000:18:00.0", &health));
    nvml_list_largest_processes(&bare, BUS, 3, &text);
    assert_string_equal(list, "");
}

static void the_largest_processes_are_named_once_and_without_us(void **state) {
    (void)state;
    char list[256];
    char parent[64];
    struct text text = text_over(list, sizeof list);
    nvml_list_largest_processes(&NVML, BUS, 2, &text);
    snprintf(parent, sizeof parent, " (pid %d) 3.00 GiB, a process (pid 4000003) 2.00 GiB",
             getppid());
    const char *at = strstr(list, parent);
    assert_non_null(at);
    assert_int_equal(strlen(at), strlen(parent)); /* nothing behind */
    assert_true(at > list);                       /* the parent's name before */
}

static void our_own_share_is_told_where_it_is_seen(void **state) {
    (void)state;
    const struct nvml bare = {.device_by_bus = find};
    assert_int_equal(nvml_process_bytes(&NVML, BUS), 9ll << 30);
    assert_int_equal(nvml_process_bytes(&NVML, "0000:18:00.0"), -1);
    assert_int_equal(nvml_process_bytes(&bare, BUS), -1);
    assert_int_equal(nvml_free_bytes(&NVML, BUS), 20ll << 30);
    assert_int_equal(nvml_free_bytes(&NVML, "0000:18:00.0"), -1);
    assert_int_equal(nvml_free_bytes(&bare, BUS), -1);
}

static void a_machine_without_the_library_has_no_health(void **state) {
    (void)state;
    struct nvml nvml = {.init = NULL};
    if (nvml_open(&nvml)) {
        skip();
    }
    assert_null(nvml.init);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_what_the_library_says),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(the_largest_processes_are_named_once_and_without_us),
        cmocka_unit_test(our_own_share_is_told_where_it_is_seen),
        cmocka_unit_test(a_machine_without_the_library_has_no_health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
