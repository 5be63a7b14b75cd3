/* Programs of small models on a GPU, the one of this machine or the emulated one: the CPU's losses,
 * the same bits twice, device memory as planned and declared, nothing taken once bound. Skipped
 * (exit 77) where there is no GPU. */
#include "runtime/diagnose/probe_gpu.h"
#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/probe/detect.h"
#include "tests/support/small_program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20, CONFIGURATIONS = 5, SKIPPED = 77 };
/* What the driver rounds each reservation to: the arena, each family of kernels, the library of
 * products, the graph of each segment, streams with events. */
enum {
    GRANULE_BYTES = 2 << 20,
    FAMILIES = 13,
    RESERVATIONS = 1 + FAMILIES + 1 + SEGMENT_COUNT + 1
};

static struct region region;
static struct cuda_device *device;
static struct fault fault;

static const struct target *detected(void) {
    const struct target *target = target_detect_cuda(&region);
    assert_non_null(target);
    return target;
}

static void run_on(struct small_program *small, uint64_t index, const struct target *target) {
    small_program_init_on(small, SEED, index, target);
    small_program_run(small, NULL, NULL);
    if (program_failure(&small->bound, &fault) != OK) {
        fail_msg("%s: %s: %s", small->title, fault.subject, fault.reason);
    }
}

/* Sums of losses and norms after up to two steps of AdamW; in bf16 every tensor on the way is
 * rounded to 8 bits. */
static void expect_near(const struct small_program *small, double here, double there) {
    double tolerance = small->options.compute == DTYPE_F32 ? 2e-3 : 6e-2;
    if (!(fabs(here - there) <= tolerance * (fabs(there) + 1e-3))) {
        fail_msg("%s: %.9g, on the CPU %.9g", small->title, here, there);
    }
}

static void results_are_those_of_the_cpu(void **state) {
    (void)state;
    const struct target *target = detected();
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program host;
        static struct small_program there;
        small_program_init(&host, SEED, index);
        small_program_run(&host, NULL, NULL);
        run_on(&there, index, target);
        for (int i = 0; i < SMALL_LOSSES; i++) {
            expect_near(&there, there.losses[i], host.losses[i]);
        }
        for (int i = 0; i < 2; i++) {
            expect_near(&there, there.norms[i], host.norms[i]);
        }
        small_program_finish(&there);
        small_program_finish(&host);
    }
}

static void a_second_run_gives_the_same_bits(void **state) {
    (void)state;
    const struct target *target = detected();
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        struct hash first = {{0}};
        for (int run = 0; run < 2; run++) {
            static struct small_program small;
            run_on(&small, index, target);
            struct hash found = small_program_result(&small);
            if (run > 0 && !hash_equal(&first, &found)) {
                fail_msg("%s: other bits", small.title);
            }
            first = found;
            small_program_finish(&small);
        }
    }
}

/* ---- memory ---- */

/* This process's share by NVML where it is told; else what all processes hold. */
static uint64_t held_bytes(void) {
    struct nvml nvml;
    uint64_t left;
    int64_t own = nvml_open(&nvml) ? nvml_process_bytes(&nvml, device->bus) : -1;
    assert_int_equal(cuda_device_free_bytes(device, &left, &fault), OK);
    return own > 0 ? (uint64_t)own : device->memory_bytes - left;
}

/* What this process takes after its context; nothing of other programs or of a display. */
static uint64_t declared_for_libraries(const struct target *target) {
    const struct target_space *space = &target->spaces[SPACE_DEVICE];
    uint64_t sum = 0;
    for (int i = 0; i < space->declared_use_count; i++) {
        const struct target_declared_use *line = &space->declared[i];
        sum += strncmp(line->name, "cuBLAS", 6) == 0 ? line->bytes : 0;
    }
    return sum;
}

static void a_bound_program_holds_its_plan_and_what_is_declared(void **state) {
    (void)state;
    struct probed probed = {.target = detected()};
    static struct small_program small;
    if (probe_gpu_run("here", NULL, &region, &probed, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    uint64_t before = held_bytes();
    small_program_init_on(&small, SEED, 1, probed.measured);
    uint64_t bound = held_bytes() - before;
    uint64_t planned = small.program.plan.peak_bytes[SPACE_DEVICE];
    uint64_t declared = declared_for_libraries(probed.measured);
    uint64_t room = (uint64_t)RESERVATIONS * GRANULE_BYTES;
    printf("device memory: planned %llu, declared for kernels and products %llu, taken %llu\n",
           (unsigned long long)planned, (unsigned long long)declared, (unsigned long long)bound);
    assert_true(bound >= planned);
    assert_true(bound <= planned + declared + room);
    small_program_run(&small, NULL, NULL);
    assert_int_equal(program_failure(&small.bound, &fault), OK);
    assert_int_equal(held_bytes() - before, bound);
    assert_int_equal(small.bound.high_water[SPACE_DEVICE], planned);
    small_program_finish(&small);
}

static int forbidden_calls;

/* Stands for any of the driver's functions: its arguments are not looked at. */
static CUresult refuse(void) {
    forbidden_calls++;
    return CUDA_ERROR_NOT_PERMITTED;
}

#define FORBID(name) driver->name = (__typeof__(driver->name))(void *)(uintptr_t)refuse

static void nothing_is_taken_once_bound(void **state) {
    (void)state;
    static struct small_program small;
    struct cuda_driver *driver = &device->driver;
    const struct cuda_driver kept = *driver;
    small_program_init_on(&small, SEED, 1, detected());
    FORBID(cuMemAlloc);
    FORBID(cuMemCreate);
    FORBID(cuMemMap);
    FORBID(cuMemHostAlloc);
    FORBID(cuMemAddressReserve);
    FORBID(cuStreamCreate);
    FORBID(cuStreamCreateWithPriority);
    FORBID(cuEventCreate);
    FORBID(cuLibraryLoadData);
    FORBID(cuFuncLoad);
    FORBID(cuFuncGetAttribute);
    FORBID(cuStreamBeginCapture);
    FORBID(cuGraphInstantiateWithFlags);
    FORBID(cuGraphUpload);
    small_program_run(&small, NULL, NULL);
    *driver = kept;
    assert_int_equal(program_failure(&small.bound, &fault), OK);
    assert_int_equal(forbidden_calls, 0);
    small_program_finish(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_cpu),
        cmocka_unit_test(a_second_run_gives_the_same_bits),
        cmocka_unit_test(a_bound_program_holds_its_plan_and_what_is_declared),
        cmocka_unit_test(nothing_is_taken_once_bound),
    };
    if (cuda_device_acquire(&device, &fault) != OK) {
        fprintf(stderr, "skipped: %s: %s\n", fault.subject, fault.reason);
        return SKIPPED;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_device_release(device);
    region_finish(&region);
    return failed;
}
