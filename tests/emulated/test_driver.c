/* The emulated driver: what is allowed gives right results in every order, what a caller forgets
 * gives wrong ones in some, and what a caller gets wrong is refused with its reason. */
#include "tests/emulated/driver.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEEDS = 40, COUNT = 1000, MEMORY_BYTES = 64 << 20, GRANULE_BYTES = 2 << 20 };

/* to[i] = from[i] * factor + 1 */
struct scale_params {
    float *to;
    const float *from;
    float factor;
};

static void run_scale(const struct emulated_code *code, const unsigned grid[3], unsigned threads,
                      unsigned shared_bytes, const void *params) {
    (void)code, (void)grid, (void)threads, (void)shared_bytes;
    const struct scale_params *p = params;
    for (int i = 0; i < COUNT; i++) {
        p->to[i] = p->from[i] * p->factor + 1;
    }
}

static bool find(const char *name, struct emulated_code *code) {
    *code = (struct emulated_code){
        .params_bytes = sizeof(struct scale_params), .threads_max = 256, .run = run_scale};
    return strcmp(name, "scale") == 0;
}

struct device {
    struct cuda_driver driver;
    CUcontext context;
    CUstream streams[2];
    CUevent events[2];
    CUfunction scale;
    CUdeviceptr memory; /* 4 x COUNT floats */
    float *pinned;      /* the same */
};

static void must(CUresult result) {
    if (result != CUDA_SUCCESS) {
        fail_msg("error %d: %s", result, emulated_driver_reason());
    }
}

static void open_device(uint64_t seed, enum emulated_pace pace, struct device *device) {
    struct cuda_driver *driver = &device->driver;
    emulated_driver_open(
        &(struct emulated_options){
            .seed = seed, .pace = pace, .memory_bytes = MEMORY_BYTES, .find = find},
        driver);
    must(driver->cuDevicePrimaryCtxRetain(&device->context, 0));
    must(driver->cuCtxSetCurrent(device->context));
    for (int i = 0; i < 2; i++) {
        must(driver->cuStreamCreate(&device->streams[i], CU_STREAM_NON_BLOCKING));
        must(driver->cuEventCreate(&device->events[i], CU_EVENT_DISABLE_TIMING));
    }
    CUlibrary library;
    CUkernel kernel;
    must(driver->cuLibraryLoadData(&library, "code", NULL, NULL, 0, NULL, NULL, 0));
    must(driver->cuLibraryGetKernel(&kernel, library, "scale"));
    must(driver->cuKernelGetFunction(&device->scale, kernel));
    must(driver->cuFuncLoad(device->scale));
    must(driver->cuMemAlloc(&device->memory, 4 * COUNT * sizeof(float)));
    void *pinned;
    must(driver->cuMemHostAlloc(&pinned, 4 * COUNT * sizeof(float), CU_MEMHOSTALLOC_PORTABLE));
    device->pinned = pinned;
    for (int i = 0; i < 4 * COUNT; i++) {
        device->pinned[i] = (float)(i % COUNT);
    }
}

static CUdeviceptr part(const struct device *device, int index) {
    return device->memory + (CUdeviceptr)index * COUNT * sizeof(float);
}

static CUresult scale(const struct device *device, int to, int from, float factor, int stream) {
    struct scale_params params = {(float *)(uintptr_t)part(device, to),
                                  (const float *)(uintptr_t)part(device, from), factor};
    void *arguments[] = {&params};
    return device->driver.cuLaunchKernel(device->scale, 4, 1, 1, 256, 1, 1, 0,
                                         device->streams[stream], arguments, NULL);
}

static CUresult upload(const struct device *device, int to, int stream) {
    return device->driver.cuMemcpyAsync(part(device, to), (CUdeviceptr)(uintptr_t)device->pinned,
                                        COUNT * sizeof(float), device->streams[stream]);
}

static void refused(CUresult result, CUresult code, const char *saying) {
    assert_int_equal(result, code);
    if (strstr(emulated_driver_reason(), saying) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", emulated_driver_reason(), saying);
    }
}

/* ---- orders ---- */

/* Stream 0 uploads and scales, stream 1 scales that again and brings it back. */
static void run_pipeline(const struct device *device, bool wait) {
    const struct cuda_driver *driver = &device->driver;
    must(upload(device, 0, 0));
    must(scale(device, 1, 0, 2, 0));
    must(driver->cuEventRecord(device->events[0], device->streams[0]));
    if (wait) {
        must(driver->cuStreamWaitEvent(device->streams[1], device->events[0], 0));
    }
    must(scale(device, 2, 1, 3, 1));
    must(driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)(device->pinned + COUNT), part(device, 2),
                               COUNT * sizeof(float), device->streams[1]));
}

static bool pipeline_is_right(const struct device *device) {
    for (int i = 0; i < COUNT; i++) {
        if (device->pinned[COUNT + i] != ((float)i * 2 + 1) * 3 + 1) {
            return false;
        }
    }
    return true;
}

static int right_pipelines(bool wait) {
    int right = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct device device;
        open_device(seed, EMULATED_MIXED, &device);
        run_pipeline(&device, wait);
        must(device.driver.cuStreamSynchronize(device.streams[1]));
        right += pipeline_is_right(&device);
        emulated_driver_close();
    }
    return right;
}

static void streams_joined_by_an_event_are_right_in_every_order(void **state) {
    (void)state;
    assert_int_equal(right_pipelines(true), SEEDS);
}

static void a_forgotten_wait_is_wrong_in_some_order(void **state) {
    (void)state;
    int right = right_pipelines(false);
    assert_in_range(right, 1, SEEDS - 1);
}

static void work_runs_when_somebody_waits_for_it(void **state) {
    (void)state;
    struct device device;
    open_device(1, EMULATED_LATE, &device);
    run_pipeline(&device, true);
    assert_true(device.pinned[COUNT + 5] == 5);
    int questions = 0;
    while (device.driver.cuStreamQuery(device.streams[1]) == CUDA_ERROR_NOT_READY) {
        assert_in_range(++questions, 1, 100);
    }
    assert_true(pipeline_is_right(&device));
    emulated_driver_close();
}

/* ---- graphs ---- */

static CUresult capture_pipeline(const struct device *device, bool join, CUgraph *graph) {
    const struct cuda_driver *driver = &device->driver;
    must(driver->cuStreamBeginCapture(device->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    run_pipeline(device, true);
    if (join) {
        must(driver->cuEventRecord(device->events[1], device->streams[1]));
        must(driver->cuStreamWaitEvent(device->streams[0], device->events[1], 0));
    }
    return driver->cuStreamEndCapture(device->streams[0], graph);
}

static void a_graph_runs_what_was_captured_as_often_as_it_is_launched(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct device device;
        CUgraph graph;
        CUgraphExec executable;
        open_device(seed, EMULATED_MIXED, &device);
        must(capture_pipeline(&device, true, &graph));
        must(device.driver.cuCtxSynchronize());
        assert_true(device.pinned[COUNT + 5] == 5); /* nothing ran */
        must(device.driver.cuGraphInstantiate(&executable, graph, 0));
        must(device.driver.cuGraphDestroy(graph));
        must(device.driver.cuGraphUpload(executable, device.streams[0]));
        for (int i = 0; i < 3; i++) {
            memset(device.pinned + COUNT, 0, COUNT * sizeof(float));
            must(device.driver.cuGraphLaunch(executable, device.streams[0]));
            must(device.driver.cuGraphLaunch(executable, device.streams[0]));
            must(device.driver.cuStreamSynchronize(device.streams[0]));
            assert_true(pipeline_is_right(&device));
        }
        must(device.driver.cuGraphExecDestroy(executable));
        emulated_driver_close();
    }
}

static void a_capture_that_is_not_joined_is_refused(void **state) {
    (void)state;
    struct device device;
    CUgraph graph;
    open_device(1, EMULATED_MIXED, &device);
    refused(capture_pipeline(&device, false, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            "nothing waits for");
    assert_null(graph);
    run_pipeline(&device, true); /* the streams work as before */
    must(device.driver.cuStreamSynchronize(device.streams[1]));
    assert_true(pipeline_is_right(&device));
    emulated_driver_close();
}

static void captures_refuse_what_cuda_refuses(void **state) {
    (void)state;
    struct device device;
    CUgraph graph;
    CUdeviceptr more;
    open_device(1, EMULATED_MIXED, &device);
    const struct cuda_driver *driver = &device.driver;
    CUstream stream = device.streams[0];
    refused(driver->cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "legacy");
    must(driver->cuEventRecord(device.events[0], device.streams[1]));
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    refused(driver->cuStreamWaitEvent(stream, device.events[0], 0),
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "outside");
    refused(driver->cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            "broken");
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    refused(driver->cuMemAlloc(&more, 8), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "unsafe");
    assert_int_equal(driver->cuStreamEndCapture(stream, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    refused(driver->cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            "capturing");
    refused(driver->cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "capturing");
    assert_int_equal(driver->cuStreamEndCapture(stream, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    must(capture_pipeline(&device, true, &graph));
    refused(driver->cuStreamWaitEvent(device.streams[1], device.events[0], 0),
            CUDA_ERROR_CAPTURED_EVENT, "has ended");
    float pageable[8];
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    refused(driver->cuMemcpyAsync(device.memory, (CUdeviceptr)(uintptr_t)pageable, sizeof pageable,
                                  stream),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "pageable");
    emulated_driver_close();
}

static void count_up(void *context) {
    ++*(int *)context;
}

static void work_of_a_library_is_captured_like_a_kernel(void **state) {
    (void)state;
    struct device device;
    CUgraph graph;
    CUgraphExec executable;
    int count = 0;
    open_device(1, EMULATED_EARLY, &device);
    CUstream stream = device.streams[0];
    must(device.driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    must(emulated_driver_enqueue(stream, count_up, &count));
    must(device.driver.cuStreamEndCapture(stream, &graph));
    must(device.driver.cuGraphInstantiate(&executable, graph, 0));
    assert_int_equal(count, 0);
    must(device.driver.cuGraphLaunch(executable, stream));
    must(device.driver.cuGraphLaunch(executable, stream));
    must(device.driver.cuStreamSynchronize(stream));
    assert_int_equal(count, 2);
    emulated_driver_close();
}

/* ---- memory ---- */

static void touch(void *memory) {
    *(volatile float *)memory = 1;
}

static bool dies_of(const struct device *device, bool (*act)(const struct device *device)) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(act(device) ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    /* a sanitizer ends the process in its own way */
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0;
}

static bool touch_now(const struct device *device) {
    touch((void *)(uintptr_t)device->memory);
    return true;
}

static bool touch_from_a_host_function(const struct device *device) {
    const struct cuda_driver *driver = &device->driver;
    return driver->cuLaunchHostFunc(device->streams[0], touch, (void *)(uintptr_t)device->memory) ==
               CUDA_SUCCESS &&
           driver->cuStreamSynchronize(device->streams[0]) == CUDA_SUCCESS;
}

static bool touch_as_a_library(const struct device *device) {
    return emulated_driver_enqueue(device->streams[0], touch, (void *)(uintptr_t)device->memory) ==
               CUDA_SUCCESS &&
           device->driver.cuStreamSynchronize(device->streams[0]) == CUDA_SUCCESS;
}

static void the_host_cannot_touch_device_memory(void **state) {
    (void)state;
    struct device device;
    open_device(1, EMULATED_MIXED, &device);
    assert_true(dies_of(&device, touch_now));
    assert_true(dies_of(&device, touch_from_a_host_function));
    assert_false(dies_of(&device, touch_as_a_library));
    emulated_driver_close();
}

static void copies_outside_of_what_is_allocated_are_refused(void **state) {
    (void)state;
    struct device device;
    open_device(1, EMULATED_MIXED, &device);
    const struct cuda_driver *driver = &device.driver;
    CUstream stream = device.streams[0];
    CUdeviceptr pinned = (CUdeviceptr)(uintptr_t)device.pinned;
    refused(driver->cuMemcpyAsync(part(&device, 3), pinned, COUNT * sizeof(float) + 1, stream),
            CUDA_ERROR_INVALID_VALUE, "beyond");
    must(driver->cuMemFree(device.memory));
    refused(driver->cuMemcpyAsync(device.memory, pinned, 4, stream), CUDA_ERROR_INVALID_VALUE,
            "freed");
    refused(driver->cuMemsetD8Async(device.memory, 0, 4, stream), CUDA_ERROR_INVALID_VALUE,
            "freed");
    refused(driver->cuMemFree(device.memory), CUDA_ERROR_INVALID_VALUE, "twice");
    emulated_driver_close();
}

static void memory_that_is_not_there_is_refused(void **state) {
    (void)state;
    struct device device;
    CUdeviceptr most;
    size_t free_bytes;
    size_t total_bytes;
    open_device(1, EMULATED_MIXED, &device);
    must(device.driver.cuMemGetInfo(&free_bytes, &total_bytes));
    assert_int_equal(total_bytes, MEMORY_BYTES);
    assert_int_equal(device.driver.cuMemAlloc(&most, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
    must(device.driver.cuMemAlloc(&most, free_bytes));
    must(device.driver.cuMemGetInfo(&free_bytes, &total_bytes));
    assert_int_equal(free_bytes, 0);
    assert_int_equal(emulated_driver_peak_bytes(0), MEMORY_BYTES);
    must(device.driver.cuMemFree(most));
    emulated_driver_close();
}

static void mapped_memory_is_used_and_given_back(void **state) {
    (void)state;
    struct device device;
    open_device(1, EMULATED_LATE, &device);
    const struct cuda_driver *driver = &device.driver;
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = wanted.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr room;
    int live = emulated_driver_live();
    must(driver->cuMemAddressReserve(&room, 2 * GRANULE_BYTES, 0, 0, 0));
    must(driver->cuMemCreate(&handle, GRANULE_BYTES, &wanted, 0));
    refused(driver->cuMemsetD8Async(room, 7, 16, device.streams[0]), CUDA_ERROR_INVALID_VALUE,
            "nothing is mapped");
    must(driver->cuMemMap(room, GRANULE_BYTES, 0, handle, 0));
    must(driver->cuMemRelease(handle));
    refused(driver->cuMemsetD8Async(room, 7, 16, device.streams[0]), CUDA_ERROR_INVALID_VALUE,
            "no access");
    must(driver->cuMemSetAccess(room, GRANULE_BYTES, &access, 1));
    must(driver->cuMemsetD8Async(room, 7, GRANULE_BYTES, device.streams[0]));
    refused(driver->cuMemUnmap(room, GRANULE_BYTES), CUDA_ERROR_INVALID_VALUE, "queued");
    unsigned char byte;
    emulated_driver_read(&byte, room + GRANULE_BYTES - 1, 1);
    assert_int_equal(byte, 7);
    refused(driver->cuMemAddressFree(room, 2 * GRANULE_BYTES), CUDA_ERROR_INVALID_VALUE, "mapped");
    must(driver->cuMemUnmap(room, GRANULE_BYTES));
    must(driver->cuMemAddressFree(room, 2 * GRANULE_BYTES));
    assert_int_equal(emulated_driver_live(), live);
    emulated_driver_close();
}

/* ---- mistakes and injected errors ---- */

static void launches_that_cannot_be_are_refused(void **state) {
    (void)state;
    struct device device;
    CUlibrary library;
    CUkernel kernel;
    CUfunction unloaded;
    open_device(1, EMULATED_MIXED, &device);
    const struct cuda_driver *driver = &device.driver;
    struct scale_params params = {NULL, NULL, 0};
    void *arguments[] = {&params};
    must(driver->cuLibraryLoadData(&library, "code", NULL, NULL, 0, NULL, NULL, 0));
    assert_int_equal(driver->cuLibraryGetKernel(&kernel, library, "other"), CUDA_ERROR_NOT_FOUND);
    must(driver->cuLibraryGetKernel(&kernel, library, "scale"));
    must(driver->cuKernelGetFunction(&unloaded, kernel));
    CUstream stream = device.streams[0];
    refused(driver->cuLaunchKernel(unloaded, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL),
            CUDA_ERROR_INVALID_VALUE, "cuFuncLoad");
    refused(driver->cuLaunchKernel(device.scale, 1, 1, 1, 512, 1, 1, 0, stream, arguments, NULL),
            CUDA_ERROR_INVALID_VALUE, "threads");
    refused(driver->cuLaunchKernel(device.scale, 1, 70000, 1, 32, 1, 1, 0, stream, arguments, NULL),
            CUDA_ERROR_INVALID_VALUE, "blocks");
    CUfunction_attribute dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    refused(
        driver->cuLaunchKernel(device.scale, 1, 1, 1, 32, 1, 1, 64 << 10, stream, arguments, NULL),
        CUDA_ERROR_INVALID_VALUE, "shared");
    refused(driver->cuFuncSetAttribute(device.scale, dynamic, 228 << 10), CUDA_ERROR_INVALID_VALUE,
            "shared");
    must(driver->cuFuncSetAttribute(device.scale, dynamic, 64 << 10));
    refused(driver->cuStreamWaitEvent(stream, device.events[1], 0), CUDA_ERROR_INVALID_VALUE,
            "never recorded");
    must(driver->cuStreamDestroy(device.streams[1]));
    assert_int_equal(upload(&device, 0, 1), CUDA_ERROR_INVALID_HANDLE);
    must(driver->cuCtxSetCurrent(NULL));
    refused(upload(&device, 0, 0), CUDA_ERROR_INVALID_CONTEXT, "no context");
    emulated_driver_close();
}

static void errors_come_where_a_test_wants_them(void **state) {
    (void)state;
    struct device device;
    CUdeviceptr more;
    const char *text;
    open_device(1, EMULATED_LATE, &device);
    const struct cuda_driver *driver = &device.driver;
    emulated_driver_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
    must(driver->cuMemAlloc(&more, 8));
    assert_int_equal(driver->cuMemAlloc(&more, 8), CUDA_ERROR_OUT_OF_MEMORY);
    must(driver->cuMemAlloc(&more, 8));
    must(driver->cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    emulated_driver_fail_work(2, CUDA_ERROR_LAUNCH_FAILED);
    run_pipeline(&device, true);
    assert_int_equal(driver->cuStreamSynchronize(device.streams[1]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(driver->cuMemAlloc(&more, 8), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(emulated_driver_calls("cuStreamSynchronize"), 1);
    emulated_driver_close();
}

static void everything_given_back_leaves_nothing(void **state) {
    (void)state;
    struct device device;
    CUgraph graph;
    open_device(1, EMULATED_MIXED, &device);
    const struct cuda_driver *driver = &device.driver;
    must(capture_pipeline(&device, true, &graph));
    must(driver->cuGraphDestroy(graph));
    for (int i = 0; i < 2; i++) {
        must(driver->cuStreamDestroy(device.streams[i]));
        must(driver->cuEventDestroy(device.events[i]));
    }
    must(driver->cuMemFree(device.memory));
    must(driver->cuMemFreeHost(device.pinned));
    must(driver->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(emulated_driver_live(), 0); /* the library went with the context */
    assert_int_equal(driver->cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    emulated_driver_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_joined_by_an_event_are_right_in_every_order),
        cmocka_unit_test(a_forgotten_wait_is_wrong_in_some_order),
        cmocka_unit_test(work_runs_when_somebody_waits_for_it),
        cmocka_unit_test(a_graph_runs_what_was_captured_as_often_as_it_is_launched),
        cmocka_unit_test(a_capture_that_is_not_joined_is_refused),
        cmocka_unit_test(captures_refuse_what_cuda_refuses),
        cmocka_unit_test(work_of_a_library_is_captured_like_a_kernel),
        cmocka_unit_test(the_host_cannot_touch_device_memory),
        cmocka_unit_test(copies_outside_of_what_is_allocated_are_refused),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(mapped_memory_is_used_and_given_back),
        cmocka_unit_test(launches_that_cannot_be_are_refused),
        cmocka_unit_test(errors_come_where_a_test_wants_them),
        cmocka_unit_test(everything_given_back_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
