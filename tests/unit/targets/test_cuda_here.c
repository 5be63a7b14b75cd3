/* Tests of the cuda port on the GPU of this machine; without one they are skipped (exit 77). */
#include "targets/ports/cuda_device.h"
#include "targets/ports/ports.h"
#include "targets/probe/probe_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SKIPPED = 77, BYTES = (5 << 20) + 3 };

static const struct target TARGET = {.name = "here", .kind = TARGET_CUDA};

static struct fault fault;
static struct port port;
static char *far, *near;
static CUstream stream;

static void must(CUresult result) {
    assert_int_equal(result, CUDA_SUCCESS);
}

static CUdeviceptr at(const void *address) {
    return (CUdeviceptr)(uintptr_t)address;
}

static int open_port(void **state) {
    (void)state;
    void *blocks[2];
    if (port_init(&port, &TARGET, &fault) != OK ||
        port_reserve_shared(&port, SPACE_DEVICE, BYTES, &blocks[0], &(int){0}, &fault) != OK ||
        port_reserve(&port, SPACE_PINNED, BYTES, &blocks[1], &fault) != OK ||
        cuda_device_create_stream(port.cuda, true, &stream, &fault) != OK) {
        fprintf(stderr, "%s: %s\n", fault.subject, fault.reason);
        return 1;
    }
    far = blocks[0];
    near = blocks[1];
    return 0;
}

static int close_port(void **state) {
    (void)state;
    must(port.cuda->driver.cuStreamDestroy(stream));
    port_finish(&port);
    return 0;
}

static void a_reserved_block_is_zeroed_and_holds_what_is_copied(void **state) {
    (void)state;
    const struct cuda_driver *driver = &port.cuda->driver;
    assert_int_equal((uintptr_t)far % 256, 0);
    memset(near, 7, BYTES);
    must(driver->cuMemcpyAsync(at(near), at(far), BYTES, stream));
    must(driver->cuStreamSynchronize(stream));
    for (int i = 0; i < BYTES; i++) {
        assert_int_equal(near[i], 0);
    }
    for (int i = 0; i < BYTES; i++) {
        near[i] = (char)(i * 31 + (i >> 12));
    }
    must(driver->cuMemcpyAsync(at(far), at(near), BYTES, stream));
    must(driver->cuStreamSynchronize(stream));
    memset(near, 0, BYTES);
    must(driver->cuMemcpyAsync(at(near), at(far), BYTES, stream));
    must(driver->cuStreamSynchronize(stream));
    for (int i = 0; i < BYTES; i++) {
        assert_int_equal(near[i], (char)(i * 31 + (i >> 12)));
    }
}

/* The driver agrees with what the emulated one says of forks, joins and graphs. */
static void a_capture_over_two_streams_is_a_graph(void **state) {
    (void)state;
    const struct cuda_driver *driver = &port.cuda->driver;
    CUstream other;
    CUevent forked;
    CUevent joined;
    CUgraph graph;
    CUgraphExec executable;
    assert_int_equal(cuda_device_create_stream(port.cuda, false, &other, &fault), OK);
    assert_int_equal(cuda_device_create_event(port.cuda, false, &forked, &fault), OK);
    assert_int_equal(cuda_device_create_event(port.cuda, false, &joined, &fault), OK);
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    must(driver->cuMemsetD8Async(at(far), 3, BYTES, stream));
    must(driver->cuEventRecord(forked, stream));
    must(driver->cuStreamWaitEvent(other, forked, 0));
    must(driver->cuMemcpyAsync(at(near), at(far), BYTES, other));
    must(driver->cuEventRecord(joined, other));
    must(driver->cuStreamWaitEvent(stream, joined, 0));
    must(driver->cuStreamEndCapture(stream, &graph));
    must(driver->cuGraphInstantiate(&executable, graph, 0));
    must(driver->cuGraphUpload(executable, stream));
    memset(near, 0, BYTES);
    must(driver->cuGraphLaunch(executable, stream));
    must(driver->cuStreamSynchronize(stream));
    assert_int_equal(near[0], 3);
    assert_int_equal(near[BYTES - 1], 3);
    must(driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    must(driver->cuEventRecord(forked, stream));
    must(driver->cuStreamWaitEvent(other, forked, 0));
    must(driver->cuMemsetD8Async(at(far), 4, BYTES, other));
    assert_int_equal(driver->cuStreamEndCapture(stream, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    must(driver->cuGraphExecDestroy(executable));
    must(driver->cuEventDestroy(forked));
    must(driver->cuEventDestroy(joined));
    must(driver->cuStreamDestroy(other));
}

static void too_much_is_refused_and_leaves_the_device_as_it_was(void **state) {
    (void)state;
    void *address = NULL;
    uint64_t before;
    uint64_t behind;
    assert_int_equal(cuda_device_free_bytes(port.cuda, &before, &fault), OK);
    port_release(&port, SPACE_DEVICE);
    assert_int_equal(
        port_reserve(&port, SPACE_DEVICE, port.cuda->memory_bytes + 1, &address, &fault),
        STATUS_FIT);
    assert_null(address);
    assert_int_equal(port_reserve(&port, SPACE_DEVICE, BYTES, &address, &fault), OK);
    far = address;
    assert_int_equal(cuda_device_free_bytes(port.cuda, &behind, &fault), OK);
    assert_true(behind + (8 << 20) >= before);
}

static void the_device_is_measured(void **state) {
    (void)state;
    struct probe_gpu result;
    assert_int_equal(probe_gpu_read_device(port.cuda, &result, &fault), OK);
    assert_int_equal(probe_gpu_measure_copies(port.cuda, &result, &fault), OK);
    probe_gpu_read_health(port.cuda, &result);
    assert_true(result.memory_bandwidth > 0);
    assert_true(result.host_to_device > 0 && result.device_to_host > 0);
    assert_true(result.context_bytes > 0 && result.context_bytes < result.memory_total_bytes);
}

int main(void) {
    struct cuda_driver driver;
    if (cuda_driver_open(&driver, &fault) != OK) {
        fprintf(stderr, "skipped: %s: %s\n", fault.subject, fault.reason);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_block_is_zeroed_and_holds_what_is_copied),
        cmocka_unit_test(a_capture_over_two_streams_is_a_graph),
        cmocka_unit_test(too_much_is_refused_and_leaves_the_device_as_it_was),
        cmocka_unit_test(the_device_is_measured),
    };
    return cmocka_run_group_tests(tests, open_port, close_port);
}
