/* Tests of targets/detect_cuda, targets/probe_cuda and `skep probe` on an emulated GPU: what a
 * machine with one is taken for, what is measured, and the profile that comes of it. */
#include "runtime/cli/cli.h"
#include "runtime/diagnose/probe_gpu.h"
#include "targets/probe/detect.h"
#include "targets/probe/probe_cuda.h"
#include "targets/profile.h"
#include "tests/emulated/device.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20, DEVICE_MIB = 480 };

static struct region region;
static struct fault fault;
static struct cuda_driver driver;

/* ---- an NVML that reports the free memory of the device, and that of this process ---- */

static bool has_nvml;
static uint64_t nvml_free, nvml_own;

static int nvml_find(const char *bus, void **device) {
    static int one;
    *device = &one;
    return strcmp(bus, "0000:01:00.0") == 0 ? 0 : 1;
}

static int nvml_report_memory(void *device, struct nvml_memory *memory) {
    (void)device;
    uint64_t total = 40ull << 30; /* includes what the driver keeps for itself */
    *memory = (struct nvml_memory){.total = total, .free = nvml_free, .used = total - nvml_free};
    return 0;
}

static int nvml_list(void *device, unsigned *count, struct nvml_process *processes) {
    (void)device;
    *count = nvml_own > 0;
    processes[0] = (struct nvml_process){.pid = (unsigned)getpid(), .bytes = nvml_own};
    return 0;
}

bool __wrap_nvml_open(struct nvml *nvml);
bool __wrap_nvml_open(struct nvml *nvml) {
    if (has_nvml) {
        *nvml = (struct nvml){.device_by_bus = nvml_find,
                              .memory = nvml_report_memory,
                              .compute_processes = nvml_list};
    }
    return has_nvml;
}

/* ---- devices ---- */

static void open_driver(void) {
    emulated_driver_open(&(struct emulated_options){.memory_bytes = DEVICE_MIB * (uint64_t)MIB,
                                                    .context_bytes = 3ull * MIB,
                                                    .code_bytes = 1ull * MIB,
                                                    .multiprocessors = 12,
                                                    .compute_capability = 89,
                                                    .find = emulated_device_find},
                         &driver);
}

/* ---- detection ---- */

static const struct target_declared_use *declared(const struct target *target, const char *name) {
    for (int i = 0; i < target->spaces[SPACE_DEVICE].declared_use_count; i++) {
        if (strcmp(target->spaces[SPACE_DEVICE].declared[i].name, name) == 0) {
            return &target->spaces[SPACE_DEVICE].declared[i];
        }
    }
    return NULL;
}

static const struct target *detect_with(uint64_t memory_bytes, bool has_display) {
    emulated_driver_open(
        &(struct emulated_options){.memory_bytes = memory_bytes, .has_display = has_display},
        &driver);
    const struct target *target = target_detect_cuda(&region);
    assert_non_null(target);
    emulated_driver_close();
    return target;
}

static const char DESKTOP[] = "desktop and other programs";
static const char HEADROOM[] = "headroom for the display";

static void a_display_keeps_some_memory_free(void **state) {
    (void)state;
    static const struct {
        uint64_t memory_bytes, headroom_bytes;
    } CASES[] = {{12ull << 30, 1ull << 30}, {20ull << 30, 1ull << 30}, {40ull << 30, 2ull << 30}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        const struct target *target = detect_with(CASES[i].memory_bytes, true);
        assert_non_null(declared(target, HEADROOM));
        assert_int_equal(declared(target, HEADROOM)->bytes, CASES[i].headroom_bytes);
        assert_string_equal(declared(target, HEADROOM)->source,
                            "the device drives a display: 5 % of its memory, at least 1 GiB");
        assert_int_equal(declared(target, DESKTOP)->bytes, 512ull * MIB);
        assert_string_equal(declared(target, DESKTOP)->source,
                            "estimate: the device drives a display, and NVML is not available");
    }
    const struct target *without = detect_with(40ull << 30, false);
    assert_null(declared(without, HEADROOM));
    assert_null(declared(without, DESKTOP));
}

static void memory_of_other_programs_is_declared(void **state) {
    (void)state;
    has_nvml = true;
    nvml_free = 20ull << 30;
    nvml_own = 0;
    const struct target *target = detect_with(24ull << 30, false);
    assert_non_null(declared(target, DESKTOP));
    assert_int_equal(declared(target, DESKTOP)->bytes, 4ull << 30);
    assert_string_equal(declared(target, DESKTOP)->source, "in use now, reported by NVML");
    assert_null(declared(target, HEADROOM));
    nvml_own = 3ull << 30; /* this process is not another program */
    target = detect_with(24ull << 30, true);
    assert_int_equal(declared(target, DESKTOP)->bytes, 1ull << 30);
    assert_int_equal(declared(target, HEADROOM)->bytes, (24ull << 30) / 20);
    nvml_own = 0;
    nvml_free = 30ull << 30; /* a part of a larger device */
    assert_null(declared(detect_with(24ull << 30, true), DESKTOP));
    has_nvml = false;
}

static void auto_is_the_gpu_where_there_is_one(void **state) {
    (void)state;
    const struct target *target;
    open_driver();
    assert_int_equal(target_open("auto", &region, &target, &fault), OK);
    assert_int_equal(target->kind, TARGET_CUDA);
    assert_string_equal(target->description, "emulated GPU 0");
    assert_int_equal(target->compute_major * 10 + target->compute_minor, 89);
    assert_int_equal(target->multiprocessor_count, 12);
    assert_int_equal(target->spaces[SPACE_DEVICE].capacity_bytes, DEVICE_MIB * (uint64_t)MIB);
    /* 1 GHz, 12 multiprocessors of 128 lanes; 64 bits at 1 GHz twice a clock */
    assert_true(target->f32_flops.value == 12 * 256e9);
    assert_true(target->memory_bandwidth.value == 16e9);
    assert_int_equal(emulated_driver_calls("cuDevicePrimaryCtxRetain"), 0);
    assert_int_equal(target_detect(&region)->kind, TARGET_CPU);
    emulated_driver_close();
}

static void auto_is_the_processor_where_the_driver_has_no_device(void **state) {
    (void)state;
    const struct target *target;
    open_driver();
    emulated_driver_fail("cuDeviceGetCount", 1, CUDA_ERROR_NO_DEVICE);
    assert_int_equal(target_open(NULL, &region, &target, &fault), OK);
    assert_int_equal(target->kind, TARGET_CPU);
    emulated_driver_close();
}

/* ---- measuring ---- */

static void measure(struct probed *probed) {
    open_driver();
    *probed = (struct probed){.target = target_detect_cuda(&region)};
    assert_int_equal(probe_gpu_run("box", NULL, &region, probed, &fault), OK);
}

static void a_profile_holds_what_context_and_kernels_took(void **state) {
    (void)state;
    struct probed probed;
    measure(&probed);
    const struct target *target = probed.measured;
    uint64_t libraries = emulated_driver_calls("cuLibraryLoadData");
    assert_true(libraries > 0);
    assert_string_equal(target->name, "box");
    assert_int_equal(declared(target, "CUDA context")->bytes, 3 * MIB);
    assert_int_equal(declared(target, "cuBLAS handle and loaded kernels")->bytes, libraries * MIB);
    assert_string_equal(declared(target, "cuBLAS handle and loaded kernels")->source,
                        "measured by skep probe on emulated GPU 0, driver (CUDA 13.0)");
    assert_non_null(strstr(target->memory_bandwidth.source, "measured by skep probe"));
    assert_non_null(strstr(target->host_link_bandwidth.source, "measured by skep probe"));
    assert_true(target->memory_bandwidth.value > 0 && target->host_link_bandwidth.value > 0);
    assert_true(target->f32_flops.value >= 1e6 && target->bf16_flops.value >= 1e6);
    assert_int_equal(emulated_driver_calls("cuDevicePrimaryCtxRelease"), 1);
    emulated_driver_close();
}

/* Without NVML the context's figure has the memory of all programs in it. */
static void other_programs_are_declared_once(void **state) {
    (void)state;
    struct probed probed;
    emulated_driver_open(&(struct emulated_options){.memory_bytes = DEVICE_MIB * (uint64_t)MIB,
                                                    .context_bytes = 3ull * MIB,
                                                    .multiprocessors = 12,
                                                    .compute_capability = 89,
                                                    .has_display = true,
                                                    .find = emulated_device_find},
                         &driver);
    probed = (struct probed){.target = target_detect_cuda(&region)};
    assert_int_equal(probe_gpu_run("box", NULL, &region, &probed, &fault), OK);
    assert_null(declared(probed.measured, DESKTOP));
    assert_non_null(declared(probed.measured, HEADROOM));
    assert_int_equal(declared(probed.measured, "CUDA context")->bytes, 3 * MIB);
    emulated_driver_close();
}

static void a_measured_profile_is_read_back(void **state) {
    (void)state;
    struct probed probed;
    static char buffer[16384];
    struct text text = text_over(buffer, sizeof buffer);
    struct target read;
    measure(&probed);
    profile_write(probed.measured, &text);
    if (profile_read(buffer, text.length, "box.yaml", &region, &read, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_int_equal(read.kind, TARGET_CUDA);
    assert_int_equal(read.compute_major * 10 + read.compute_minor, 89);
    assert_int_equal(target_declared_bytes(&read, SPACE_DEVICE),
                     target_declared_bytes(probed.measured, SPACE_DEVICE));
    emulated_driver_close();
}

/* ---- comparing ---- */

static struct probe_gpu exactly_enough(void) {
    return (struct probe_gpu){.multiprocessor_count = 100,
                              .memory_total_bytes = 1000,
                              .memory_free_bytes = 600,
                              .context_bytes = 200,
                              .kernels_bytes = 40,
                              .products_bytes = 60,
                              .memory_bandwidth = 0.9 * 0.8 * 50,
                              .host_to_device = 0.9 * 0.5 * 20,
                              .device_to_host = 0.9 * 0.5 * 20};
}

static const struct target_declared_use LINES[] = {{"CUDA context", 250, "x", PER_PROCESS},
                                                   {"cuBLAS handle", 50, "x", PER_PROCESS},
                                                   {"NCCL", 100, "x", PER_SITE}};

static struct target promises(void) {
    struct target target = {.name = "t",
                            .origin = "built in",
                            .kind = TARGET_CUDA,
                            .multiprocessor_count = 100,
                            .f32_flops = {100, "x"},
                            .memory_bandwidth = {50, "x"},
                            .host_link_bandwidth = {20, "x"},
                            .matmul_efficiency = {0.5, "x"},
                            .memory_efficiency = {0.8, "x"},
                            .link_efficiency = {0.5, "x"}};
    target.spaces[SPACE_DEVICE] = (struct target_space){1000, "x", LINES, 3};
    return target;
}

static int lower_of(const struct probe_gpu *result) {
    struct target target = promises();
    struct probe_comparison lines[PROBE_GPU_COMPARISONS_MAX];
    int lower;
    (void)probe_gpu_compare(&target, result, lines, &lower);
    return lower;
}

static void what_is_promised_is_enough_and_less_is_not(void **state) {
    (void)state;
    struct probe_gpu result = exactly_enough();
    assert_int_equal(lower_of(&result), 0);
    result.memory_total_bytes = 999;
    assert_int_equal(lower_of(&result), 1);
    result.context_bytes = 201; /* one more than declared */
    assert_int_equal(lower_of(&result), 2);
    result.memory_free_bytes = 599;
    result.memory_bandwidth *= 0.99;
    result.device_to_host *= 0.99;
    result.multiprocessor_count = 99;
    assert_int_equal(lower_of(&result), 6);
    result.f32_flops = 44; /* of 50, nine tenths are 45 */
    assert_int_equal(lower_of(&result), 7);
}

/* ---- the command ---- */

static int run_command(char *const *arguments, int count, char *output, size_t capacity) {
    char path[] = "/tmp/skep-probe-XXXXXX";
    char *argv[8];
    memcpy(argv, arguments, (size_t)count * sizeof *argv);
    argv[count] = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(fd, STDOUT_FILENO);
    int code = command_run(&COMMAND_PROBE, count, argv);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    ssize_t length = pread(fd, output, capacity - 1, 0);
    output[length > 0 ? length : 0] = '\0';
    close(fd);
    unlink(path);
    return code;
}

static void the_command_reports_the_gpu(void **state) {
    (void)state;
    char output[8192];
    char *plain[] = {"probe"};
    char *json[] = {"probe", "--json"};
    char *other[] = {"probe", "--target", "h200-141g"};
    open_driver();
    assert_int_equal(run_command(plain, 1, output, sizeof output), 0);
    assert_non_null(strstr(output, "machine  emulated GPU 0, compute capability 8.9, driver"));
    assert_non_null(strstr(output, "copies to the device"));
    assert_non_null(strstr(output, "matmul   no cuBLASLt: is not for an emulated device; our own"));
    assert_non_null(strstr(output, "bf16 products"));
    assert_int_equal(run_command(json, 2, output, sizeof output), 0);
    assert_non_null(strstr(output, "\"machine\": {\"gpu\": \"emulated GPU 0\""));
    assert_non_null(strstr(output, "\"context_bytes\": 3145728"));
    assert_non_null(strstr(output, "\"own_bf16_flops\": "));
    assert_int_equal(run_command(other, 3, output, sizeof output), 3); /* has less */
    assert_non_null(strstr(output, "LOWER"));
    emulated_driver_close();
}

static int finish(void **state) {
    (void)state;
    region_finish(&region);
    region = (struct region){0};
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(auto_is_the_gpu_where_there_is_one, finish),
        cmocka_unit_test_teardown(a_display_keeps_some_memory_free, finish),
        cmocka_unit_test_teardown(memory_of_other_programs_is_declared, finish),
        cmocka_unit_test_teardown(auto_is_the_processor_where_the_driver_has_no_device, finish),
        cmocka_unit_test_teardown(a_profile_holds_what_context_and_kernels_took, finish),
        cmocka_unit_test_teardown(other_programs_are_declared_once, finish),
        cmocka_unit_test_teardown(a_measured_profile_is_read_back, finish),
        cmocka_unit_test(what_is_promised_is_enough_and_less_is_not),
        cmocka_unit_test(the_command_reports_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
