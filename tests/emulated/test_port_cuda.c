/* Tests of targets/port_cuda and cuda_device on an emulated device: blocks are zeroed, aligned,
 * given back, and refused in words before anything is taken. */
#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/ports/ports.h"
#include "tests/emulated/driver.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20, DEVICE_MIB = 64 };

static const struct target TARGET = {
    .name = "test-gpu", .kind = TARGET_CUDA, .compute_major = 8, .compute_minor = 6};

static struct fault fault;
static bool has_nvml;

/* ---- an NVML that knows one other process: the test's parent ---- */

static int nvml_init(void) {
    return 0;
}

static int nvml_find(const char *bus, void **device) {
    static int one;
    *device = &one;
    return strcmp(bus, "0000:01:00.0") == 0 ? 0 : 1;
}

static int nvml_list(void *device, unsigned *count, struct nvml_process *processes) {
    (void)device;
    *count = 2;
    processes[0] = (struct nvml_process){.pid = (unsigned)getpid(), .bytes = 9ull << 30};
    processes[1] = (struct nvml_process){.pid = (unsigned)getppid(), .bytes = 3ull << 30};
    return 0;
}

bool __wrap_nvml_open(struct nvml *nvml);
bool __wrap_nvml_open(struct nvml *nvml) {
    if (has_nvml) {
        *nvml = (struct nvml){.init = nvml_init,
                              .device_by_bus = nvml_find,
                              .compute_processes = nvml_list,
                              .graphics_processes = nvml_list};
    }
    return has_nvml;
}

/* ---- devices ---- */

static void open_driver(const struct emulated_options *options) {
    struct cuda_driver driver;
    struct emulated_options set = *options;
    set.memory_bytes = (uint64_t)DEVICE_MIB * MIB;
    emulated_driver_open(&set, &driver);
}

static void close_driver(void) {
    assert_int_equal(emulated_driver_live(), 0);
    emulated_driver_close();
}

static void assert_zeroed(const struct port *port, enum space space, uint64_t bytes) {
    unsigned char *copy = calloc(1, bytes);
    assert_non_null(copy);
    const char *address = port->blocks[space].address;
    if (space == SPACE_DEVICE) {
        emulated_driver_read(copy, (CUdeviceptr)(uintptr_t)address, bytes);
    } else {
        memcpy(copy, address, bytes);
    }
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_equal(copy[i], 0);
    }
    free(copy);
}

static void reserve_everywhere(bool without_mapping) {
    static const uint64_t SIZES[] = {1, 4096, (3 << 20) + 7};
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        struct port port;
        void *address[SPACE_COUNT];
        open_driver(&(struct emulated_options){.without_mapping = without_mapping});
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        for (int space = 0; space < SPACE_COUNT; space++) {
            assert_int_equal(
                port_reserve(&port, (enum space)space, SIZES[i], &address[space], &fault), OK);
            assert_zeroed(&port, (enum space)space, SIZES[i]);
        }
        assert_int_equal((uintptr_t)address[SPACE_DEVICE] % (without_mapping ? 256 : 2 << 20), 0);
        assert_int_equal(emulated_driver_calls("cuMemAlloc"), without_mapping);
        port_release(&port, SPACE_DEVICE);
        assert_int_equal(port_reserve(&port, SPACE_DEVICE, SIZES[i], address, &fault), OK);
        port_finish(&port);
        close_driver();
    }
}

static void each_space_is_reserved_zeroed_and_given_back(void **state) {
    (void)state;
    reserve_everywhere(false);
    reserve_everywhere(true);
}

static void shared_device_memory_has_no_descriptor(void **state) {
    (void)state;
    struct port port;
    void *address;
    int fd = 7;
    open_driver(&(struct emulated_options){.seed = 1});
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(port_reserve_shared(&port, SPACE_DEVICE, 100, &address, &fd, &fault), OK);
    assert_int_equal(fd, -1);
    port_finish(&port);
    close_driver();
}

static void too_much_is_refused_before_anything_is_taken(void **state) {
    (void)state;
    struct port port;
    void *address = NULL;
    char holder[64];
    has_nvml = true;
    open_driver(&(struct emulated_options){.context_bytes = 4 * MIB});
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    uint64_t bytes = 61ull * MIB;
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, bytes, &address, &fault), STATUS_FIT);
    assert_null(address);
    assert_int_equal(emulated_driver_calls("cuMemCreate"), 0);
    assert_string_equal(fault.subject, "target test-gpu: device 0, emulated GPU 0");
    snprintf(holder, sizeof holder, " (pid %d) 3.00 GiB", getppid());
    assert_non_null(
        strstr(fault.reason, "device arena needs 61.0 MiB, but 60.0 MiB are free now; held"));
    assert_non_null(strstr(fault.reason, holder));
    assert_null(strstr(fault.reason, "9.00 GiB")); /* our own */
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 60ull * MIB, &address, &fault), OK);
    port_finish(&port);
    close_driver();
    has_nvml = false;
}

/* Kernels and libraries are loaded after the arena; the context and other programs are there. */
static void what_kernels_and_libraries_take_later_must_be_free_too(void **state) {
    (void)state;
    static const struct target_declared_use USES[] = {
        {"CUDA context", 40ull * MIB, "x", PER_PROCESS},
        {"cuBLAS handle and loaded kernels", 8ull * MIB, "x", PER_PROCESS},
        {"NCCL channels and proxies", 2ull * MIB, "x", PER_PROCESS},
        {"NCCL, further groups", 30ull * MIB, "x", PER_GROUP}, /* there is none */
        {"desktop and other programs", 50ull * MIB, "x", PER_PROCESS}};
    struct target target = TARGET;
    struct port port;
    void *address = NULL;
    target.spaces[SPACE_DEVICE] =
        (struct target_space){64ull * MIB, "x", USES, (int)ARRAY_COUNT(USES)};
    open_driver(&(struct emulated_options){.context_bytes = 4 * MIB});
    assert_int_equal(port_init(&port, &target, &fault), OK);
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 51ull * MIB, &address, &fault), STATUS_FIT);
    assert_null(address);
    assert_string_equal(fault.reason, "device arena needs 51.0 MiB, and kernels, cuBLASLt and NCCL "
                                      "10.0 MiB more, but 60.0 MiB are free now");
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 50ull * MIB, &address, &fault), OK);
    port_finish(&port);
    close_driver();
}

static void a_refused_reservation_leaves_nothing(void **state) {
    (void)state;
    static const char *const CALLS[] = {"cuMemAlloc", "cuMemsetD8Async", "cuMemGetInfo",
                                        "cuStreamSynchronize", "cuMemHostAlloc"};
    for (size_t i = 0; i < ARRAY_COUNT(CALLS); i++) {
        struct port port;
        void *address = NULL;
        enum space space = strcmp(CALLS[i], "cuMemHostAlloc") == 0 ? SPACE_PINNED : SPACE_DEVICE;
        open_driver(&(struct emulated_options){.seed = i, .without_mapping = i == 0});
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        int live = emulated_driver_live();
        emulated_driver_fail(CALLS[i], 1, CUDA_ERROR_OUT_OF_MEMORY);
        enum status status = port_reserve(&port, space, 100, &address, &fault);
        assert_true(status == STATUS_FIT || status == STATUS_FAILED);
        assert_null(address);
        assert_int_equal(emulated_driver_live(), live);
        assert_int_equal(port_reserve(&port, space, 100, &address, &fault), OK);
        port_finish(&port);
        close_driver();
    }
}

/* init and all three spaces, with the nth call of the driver failing. */
static bool survives_failure_of(int nth) {
    struct port port;
    void *address;
    int before = emulated_driver_live();
    emulated_driver_fail(NULL, nth, CUDA_ERROR_UNKNOWN);
    enum status status = port_init(&port, &TARGET, &fault);
    bool made = status == OK;
    for (int space = 0; space < SPACE_COUNT && status == OK; space++) {
        status = port_reserve(&port, (enum space)space, 100, &address, &fault);
    }
    emulated_driver_fail(NULL, INT_MAX, CUDA_ERROR_UNKNOWN);
    if (made) {
        port_finish(&port);
    }
    assert_int_equal(emulated_driver_live(), before);
    return status == OK;
}

static void whatever_call_fails_everything_is_given_back(void **state) {
    (void)state;
    int failures = 0;
    for (int nth = 1; nth <= 50; nth++) {
        open_driver(&(struct emulated_options){.seed = (uint64_t)nth});
        failures += !survives_failure_of(nth);
        close_driver();
    }
    /* Some calls may fail without harm: a clock not told, mapping refused. */
    assert_in_range(failures, 15, 49);
}

/* WSL2 and Windows refuse address space for mappings although device memory is free. */
static void memory_that_cannot_be_mapped_is_allocated_while_it_is_free(void **state) {
    (void)state;
    static const char *const CALLS[] = {"cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                                        "cuMemSetAccess"};
    static const CUresult CODES[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED};
    for (size_t i = 0; i < ARRAY_COUNT(CALLS) * ARRAY_COUNT(CODES); i++) {
        struct port port;
        void *address;
        uint64_t bytes = 40ull * MIB + 7;
        open_driver(&(struct emulated_options){.seed = i});
        emulated_driver_fail_always(CALLS[i / 2], CODES[i % 2]);
        assert_int_equal(port_init(&port, &TARGET, &fault), OK);
        int live = emulated_driver_live();
        assert_int_equal(port_reserve(&port, SPACE_DEVICE, bytes, &address, &fault), OK);
        assert_int_equal(emulated_driver_calls("cuMemAlloc"), 1);
        assert_int_equal(emulated_driver_live(), live + 1);
        assert_zeroed(&port, SPACE_DEVICE, bytes);
        port_finish(&port);
        close_driver();
    }
}

static void a_refusal_names_both_ways_that_failed(void **state) {
    (void)state;
    struct port port;
    void *address = NULL;
    open_driver(&(struct emulated_options){.context_bytes = 4 * MIB});
    emulated_driver_fail_always("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY);
    emulated_driver_fail_always("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 40ull * MIB, &address, &fault), STATUS_FIT);
    assert_null(address);
    assert_string_equal(fault.reason, "the driver refused a device arena of 40.0 MiB (60.0 MiB are "
                                      "free): cuMemAddressReserve: CUDA_ERROR_OUT_OF_MEMORY; "
                                      "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY");
    assert_non_null(strstr(fault.remedy, "lower limits.device"));
    port_finish(&port);
    close_driver();
}

/* Containers may forbid memory that can be exported, and systems memory that is mapped. */
static void what_cannot_be_mapped_is_allocated(void **state) {
    (void)state;
    struct port port;
    void *address;
    open_driver(&(struct emulated_options){.seed = 1});
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    emulated_driver_fail("cuMemCreate", 1, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, 100, &address, &fault), OK);
    assert_int_equal(emulated_driver_calls("cuMemCreate"), 2);
    assert_int_equal(emulated_driver_calls("cuMemAlloc"), 0);
    port_finish(&port);
    close_driver();
}

static void a_weaker_device_than_promised_is_refused(void **state) {
    (void)state;
    struct port port;
    open_driver(&(struct emulated_options){.compute_capability = 80});
    assert_int_equal(port_init(&port, &TARGET, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "has compute capability 8.0, but the profile requires 8.6");
    close_driver();
    open_driver(&(struct emulated_options){.compute_capability = 120});
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    port_finish(&port);
    close_driver();
}

static void no_room_for_a_context_is_said(void **state) {
    (void)state;
    struct port port;
    open_driver(&(struct emulated_options){.context_bytes = 65ull * MIB});
    assert_int_equal(port_init(&port, &TARGET, &fault), STATUS_FIT);
    assert_string_equal(fault.subject, "device 0, emulated GPU 0");
    assert_non_null(strstr(fault.reason, "cannot make a context: CUDA_ERROR_OUT_OF_MEMORY"));
    assert_non_null(strstr(fault.remedy, "free device memory"));
    close_driver();
}

/* A core that spins while the device computes is heat, or taken from other programs. */
static void a_thread_that_waits_for_the_device_sleeps(void **state) {
    (void)state;
    struct port port;
    open_driver(&(struct emulated_options){.seed = 1});
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(emulated_driver_context_flags(0), CU_CTX_SCHED_BLOCKING_SYNC);
    port_finish(&port);
    close_driver();
}

/* A library may hold the context already: it then keeps its flags. */
static void a_context_in_use_is_shared_as_it_is(void **state) {
    (void)state;
    struct port port;
    struct cuda_driver driver;
    CUcontext context;
    open_driver(&(struct emulated_options){.seed = 1});
    assert_true(emulated_driver_table(&driver));
    assert_int_equal(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(emulated_driver_context_flags(0), 0);
    port_finish(&port);
    assert_int_equal(driver.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    close_driver();
}

static void a_failed_device_is_told_with_what_to_do(void **state) {
    (void)state;
    struct port port;
    open_driver(&(struct emulated_options){.seed = 1});
    emulated_driver_fail("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_int_equal(port_init(&port, &TARGET, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.remedy, "compute mode"));
    assert_int_equal(port_init(&port, &TARGET, &fault), OK);
    assert_int_equal(cuda_device_fault(port.cuda, CUDA_ERROR_ECC_UNCORRECTABLE, STATUS_FAILED,
                                       "finish a segment", &fault),
                     STATUS_FAILED);
    assert_string_equal(fault.subject, "device 0, emulated GPU 0");
    assert_string_equal(fault.reason, "cannot finish a segment: CUDA_ERROR_ECC_UNCORRECTABLE, "
                                      "uncorrectable ECC error encountered");
    assert_non_null(strstr(fault.remedy, "last snapshot"));
    port_finish(&port);
    close_driver();
}

/* ---- which device ---- */

static void the_local_rank_names_the_device(void **state) {
    (void)state;
    static const struct {
        struct cuda_launcher launcher;
        int count, ordinal; /* -1: refused */
    } CASES[] = {
        {{NULL, NULL, NULL}, 8, 0}, {{"3", NULL, NULL}, 8, 3},   {{NULL, "2", "5"}, 8, 2},
        {{NULL, NULL, "5"}, 8, 5},  {{"3", NULL, NULL}, 1, 0},   {{"8", NULL, NULL}, 8, -1},
        {{"x", "1", NULL}, 2, 1},   {{"-1", NULL, NULL}, 2, -1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        int ordinal = -1;
        enum status status =
            cuda_device_choose(&CASES[i].launcher, CASES[i].count, &ordinal, &fault);
        assert_int_equal(status, CASES[i].ordinal >= 0 ? OK : STATUS_INPUT);
        assert_int_equal(ordinal, CASES[i].ordinal);
    }
}

static void ports_share_the_device_of_the_process(void **state) {
    (void)state;
    struct port first;
    struct port second;
    CUstream stream;
    CUevent event;
    setenv("LOCAL_RANK", "1", 1);
    open_driver(&(struct emulated_options){.devices = 2});
    assert_int_equal(port_init(&first, &TARGET, &fault), OK);
    assert_int_equal(port_init(&second, &TARGET, &fault), OK);
    assert_ptr_equal(first.cuda, second.cuda);
    assert_int_equal(first.cuda->ordinal, 1);
    assert_string_equal(first.cuda->bus, "0000:02:00.0");
    assert_int_equal(emulated_driver_calls("cuDevicePrimaryCtxRetain"), 1);
    port_finish(&first);
    assert_int_equal(cuda_device_create_stream(second.cuda, true, &stream, &fault), OK);
    assert_int_equal(cuda_device_create_event(second.cuda, false, &event, &fault), OK);
    assert_int_equal(second.cuda->driver.cuEventRecord(event, stream), CUDA_SUCCESS);
    assert_int_equal(second.cuda->driver.cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(second.cuda->driver.cuEventDestroy(event), CUDA_SUCCESS);
    port_finish(&second);
    close_driver();
    unsetenv("LOCAL_RANK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_space_is_reserved_zeroed_and_given_back),
        cmocka_unit_test(shared_device_memory_has_no_descriptor),
        cmocka_unit_test(too_much_is_refused_before_anything_is_taken),
        cmocka_unit_test(what_kernels_and_libraries_take_later_must_be_free_too),
        cmocka_unit_test(a_refused_reservation_leaves_nothing),
        cmocka_unit_test(whatever_call_fails_everything_is_given_back),
        cmocka_unit_test(memory_that_cannot_be_mapped_is_allocated_while_it_is_free),
        cmocka_unit_test(a_refusal_names_both_ways_that_failed),
        cmocka_unit_test(what_cannot_be_mapped_is_allocated),
        cmocka_unit_test(a_weaker_device_than_promised_is_refused),
        cmocka_unit_test(no_room_for_a_context_is_said),
        cmocka_unit_test(a_thread_that_waits_for_the_device_sleeps),
        cmocka_unit_test(a_context_in_use_is_shared_as_it_is),
        cmocka_unit_test(a_failed_device_is_told_with_what_to_do),
        cmocka_unit_test(the_local_rank_names_the_device),
        cmocka_unit_test(ports_share_the_device_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
