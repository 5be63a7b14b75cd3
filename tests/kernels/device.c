#include "tests/kernels/device.h"

#include "base/check.h"
#include "kernels/cuda/launch/table.h"
#include "tests/emulated/device.h"
#include "tests/emulated/launch.h"
#include "tests/kernels/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    HELD_MAX = 32, /* tensors of one operation */
    PLACE_ALIGN = 256,
    GUARD_BYTES = 256,
    GUARD_FILL = 0xFF,      /* NaN: what is read there spoils the result */
    POOL_BYTES = 256 << 10, /* small tensors lie there; others are allocated for a run */
    REPEATS = 30,
    OPERATIONS_MAX = 64, /* names of operations in one test */
};

/* A tensor's copy on the device. */
struct held {
    const struct tensor *tensor; /* NULL: a workspace */
    CUdeviceptr at;
    uint64_t bytes;
    CUdeviceptr allocated; /* 0: it lies in the pool */
};

struct device_run {
    uint64_t used; /* of the pool */
    bool misaligned;
    int64_t align;      /* where it is */
    int workspace_next; /* the first of held[] that may be the next workspace asked for */
    int count;
    struct held held[HELD_MAX];
};

/* The device of this process, opened once. */
static struct {
    bool is_open, is_emulated;
    struct cuda_driver driver;
    struct cuda_kernel_table table;
    struct cuda_failure failure;
    struct cuda_compute compute;
    CUdeviceptr pool;
    uint64_t runs;
} device;

static void must(CUresult result, const char *action) {
    if (result != CUDA_SUCCESS) {
        fail_msg("cannot %s: error %d%s%s", action, (int)result, device.is_emulated ? ": " : "",
                 device.is_emulated ? emulated_driver_reason() : "");
    }
}

/* ---- opening ---- */

bool device_is_wanted(void) {
    return getenv("SKEP_CUDA") != NULL;
}

static bool open_driver(void) {
    const char *wanted = getenv("SKEP_CUDA");
    struct fault fault;
    if (strcmp(wanted, "device") == 0) {
        return cuda_driver_open(&device.driver, &fault) == OK;
    }
    ASSERT(strcmp(wanted, "emulated") == 0);
    const struct emulated_options options = {.seed = harness_seed(), .find = emulated_device_find};
    emulated_driver_open(&options, &device.driver);
    device.is_emulated = true;
    return true;
}

bool device_open(void) {
    if (device.is_open) {
        return true;
    }
    if (!open_driver()) {
        return false;
    }
    CUdevice ordinal;
    CUcontext context;
    CUstream stream;
    int multiprocessors;
    must(device.driver.cuDeviceGet(&ordinal, 0), "find the device");
    must(device.driver.cuDevicePrimaryCtxRetain(&context, ordinal), "open its context");
    must(device.driver.cuCtxSetCurrent(context), "enter its context");
    must(device.driver.cuDeviceGetAttribute(&multiprocessors,
                                            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal),
         "count its multiprocessors");
    must(device.driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "make a stream");
    must(device.driver.cuMemAlloc(&device.pool, POOL_BYTES), "allocate its memory");
    struct fault fault;
    if (cuda_kernel_table_init(&device.driver, &device.table, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    device.compute = (struct cuda_compute){.driver = &device.driver,
                                           .table = &device.table,
                                           .failure = &device.failure,
                                           .stream = stream,
                                           .multiprocessors = multiprocessors};
    device.is_open = true;
    return true;
}

const struct cuda_compute *device_compute(void) {
    ASSERT(device.is_open);
    return &device.compute;
}

bool device_is_emulated(void) {
    ASSERT(device.is_open);
    return device.is_emulated;
}

/* ---- memory ---- */

static struct held *hold(struct device_run *run, const struct tensor *tensor, uint64_t bytes,
                         uint64_t shift) {
    ASSERT(run->count < HELD_MAX);
    uint64_t span = GUARD_BYTES + shift + bytes + GUARD_BYTES;
    span = (span + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
    CUdeviceptr allocated = 0;
    CUdeviceptr base = device.pool + run->used;
    if (run->used + span > POOL_BYTES) {
        must(device.driver.cuMemAlloc(&allocated, span), "allocate memory for a tensor");
        base = allocated;
    } else {
        run->used += span;
    }
    must(device.driver.cuMemsetD8Async(base, GUARD_FILL, span, device.compute.stream),
         "fill guards");
    struct held *held = &run->held[run->count++];
    *held = (struct held){tensor, base + GUARD_BYTES + shift, bytes, allocated};
    return held;
}

static void release(struct device_run *run) {
    for (int i = 0; i < run->count; i++) {
        if (run->held[i].allocated != 0) {
            must(device.driver.cuMemFree(run->held[i].allocated), "free memory of a tensor");
        }
    }
}

static uint64_t bytes_of(const struct tensor *tensor) {
    return (uint64_t)(tensor->count * dtype_bytes(tensor->dtype));
}

void *device_of(struct device_run *run, const struct tensor *tensor) {
    if (tensor->data == NULL) {
        return NULL;
    }
    for (int i = 0; i < run->count; i++) {
        if (run->held[i].tensor == tensor) {
            return (void *)run->held[i].at;
        }
    }
    int64_t align = run->align > 0 ? run->align : dtype_bytes(tensor->dtype);
    struct held *held = hold(run, tensor, bytes_of(tensor), run->misaligned ? (uint64_t)align : 0);
    if (held->bytes > 0) {
        must(device.driver.cuMemcpyAsync(held->at, (CUdeviceptr)tensor->data, held->bytes,
                                         device.compute.stream),
             "copy a tensor to the device");
    }
    return (void *)held->at;
}

void *device_workspace(struct device_run *run, uint64_t bytes) {
    if (bytes == 0) {
        return NULL;
    }
    for (int i = run->workspace_next; i < run->count; i++) {
        if (run->held[i].tensor == NULL && run->held[i].bytes == bytes) {
            run->workspace_next = i + 1;
            return (void *)run->held[i].at;
        }
    }
    struct held *held = hold(run, NULL, bytes, 0);
    run->workspace_next = run->count;
    return (void *)held->at;
}

static bool is_filled(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != GUARD_FILL) {
            return false;
        }
    }
    return true;
}

static bool is_output(const struct operation *operation, const struct tensor *tensor) {
    for (int i = 0; i < operation->output_count; i++) {
        if (operation->outputs[i].tensor == tensor) {
            return true;
        }
    }
    return false;
}

/* Outputs come back; all else must be as it went. */
static void fetch(const struct operation *operation, const struct held *held) {
    unsigned char *bytes = malloc(held->bytes + 2 * GUARD_BYTES);
    assert_non_null(bytes);
    must(device.driver.cuMemcpyAsync((CUdeviceptr)bytes, held->at - GUARD_BYTES,
                                     held->bytes + 2 * GUARD_BYTES, device.compute.stream),
         "copy a tensor back");
    must(device.driver.cuStreamSynchronize(device.compute.stream), "wait for the device");
    if (!is_filled(bytes, GUARD_BYTES) ||
        !is_filled(bytes + GUARD_BYTES + held->bytes, GUARD_BYTES)) {
        fail_msg("%s (%s): bytes outside a tensor were written", operation->name,
                 operation->parameters);
    }
    if (held->tensor != NULL && is_output(operation, held->tensor)) {
        memcpy(held->tensor->data, bytes + GUARD_BYTES, held->bytes);
    } else if (held->tensor != NULL) {
        assert_memory_equal(held->tensor->data, bytes + GUARD_BYTES, held->bytes);
    }
    free(bytes);
}

/* ---- checking ---- */

static void run_once(const struct operation *operation, struct device_run *run) {
    emulated_seed(harness_seed() + device.runs++);
    operation->run_cuda(&device.compute, run, operation->context);
    must(device.driver.cuStreamSynchronize(device.compute.stream), "run the operation");
    must(device.failure.result, device.failure.action);
}

static void check_placed(const struct operation *operation, bool misaligned,
                         void *before[HARNESS_OUTPUTS_MAX]) {
    const char *place = misaligned ? "device, misaligned" : "device, aligned";
    void *first[HARNESS_OUTPUTS_MAX] = {NULL};
    for (int pass = 0; pass < 2; pass++) {
        struct device_run run = {.misaligned = misaligned, .align = operation->cuda_align};
        copy_outputs(operation, before, true);
        run_once(operation, &run);
        for (int i = 0; i < run.count; i++) {
            fetch(operation, &run.held[i]);
        }
        release(&run);
        if (pass == 0) {
            copy_outputs(operation, first, false);
            check_values(operation, place);
        } else {
            check_bits(operation, place, first, "other bits than the first run");
        }
    }
    for (int i = 0; i < operation->output_count; i++) {
        free(first[i]);
    }
}

/* Whether SKEP_SHAPES=N leaves this check out, because N of this operation were made. Sanitizers
 * slow a device down a hundred times. */
static bool is_left_out(const struct operation *operation) {
    static struct {
        const char *name;
        int count;
    } checked[OPERATIONS_MAX];
    const char *limit = getenv("SKEP_SHAPES");
    if (limit == NULL) {
        return false;
    }
    int i = 0;
    while (checked[i].name != NULL && strcmp(checked[i].name, operation->name) != 0) {
        i++;
        ASSERT(i < OPERATIONS_MAX);
    }
    checked[i].name = operation->name;
    return ++checked[i].count > atoi(limit);
}

void device_check(struct operation *operation) {
    if (operation->run_cuda == NULL || is_left_out(operation)) {
        return;
    }
    void *before[HARNESS_OUTPUTS_MAX] = {NULL};
    assert_true(device_open());
    copy_outputs(operation, before, false);
    check_placed(operation, false, before);
    check_placed(operation, true, before);
    copy_outputs(operation, before, true);
    for (int i = 0; i < operation->output_count; i++) {
        free(before[i]);
    }
}

/* ---- timing ---- */

static int compare_times(const void *a, const void *b) {
    float left = *(const float *)a;
    float right = *(const float *)b;
    return (left > right) - (left < right);
}

static float time_once(const struct operation *operation, struct device_run *run,
                       const CUevent events[2]) {
    float milliseconds = 0;
    must(device.driver.cuEventRecord(events[0], device.compute.stream), "record an event");
    operation->run_cuda(&device.compute, run, operation->context);
    must(device.driver.cuEventRecord(events[1], device.compute.stream), "record an event");
    must(device.driver.cuStreamSynchronize(device.compute.stream), "run the operation");
    must(device.driver.cuEventElapsedTime(&milliseconds, events[0], events[1]), "read a time");
    return milliseconds;
}

static double rate_of(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? strtod(value, NULL) : 0;
}

/* What the work would take at the rates that skep probe measured here, of SKEP_BANDWIDTH (bytes a
 * second), SKEP_F32_FLOPS and SKEP_BF16_FLOPS; 0: not told. */
static double roofline_seconds(const struct operation *operation, const double work[2]) {
    bool bf16 = strstr(operation->parameters, "bf16") != NULL;
    double bandwidth = rate_of("SKEP_BANDWIDTH");
    double flops = rate_of(bf16 ? "SKEP_BF16_FLOPS" : "SKEP_F32_FLOPS");
    double moving = bandwidth > 0 ? work[0] / bandwidth : 0;
    double computing = flops > 0 ? work[1] / flops : 0;
    return moving > computing ? moving : computing;
}

static void print_times(const struct operation *operation, const double work[2],
                        const float times[REPEATS]) {
    double least = (double)times[0] * 1e6;
    double median = (double)times[REPEATS / 2] * 1e6;
    double roofline = roofline_seconds(operation, work);
    printf("%-20s %-34s device  min %9.1f us  median %9.1f us", operation->name,
           operation->parameters, least / 1e3, median / 1e3);
    if (work[0] > 0) {
        printf("  %10.0f bytes %7.1f GB/s", work[0], work[0] / median);
    }
    if (work[1] > 0) {
        printf("  %12.0f flops %9.1f GFLOP/s", work[1], work[1] / median);
    }
    if (roofline > 0) {
        printf("  %5.1f %% of the roofline", 1e11 * roofline / median);
    }
    printf("\n");
}

void device_bench(struct operation *operation, const double work[2]) {
    if (operation->run_cuda == NULL || device.is_emulated || !device_open()) {
        return;
    }
    CUevent events[2];
    float times[REPEATS];
    struct device_run run = {.align = operation->cuda_align};
    run_once(operation, &run);
    for (int i = 0; i < 2; i++) {
        must(device.driver.cuEventCreate(&events[i], CU_EVENT_DEFAULT), "make an event");
    }
    for (int i = 0; i < REPEATS; i++) {
        run.workspace_next = 0; /* the same again */
        times[i] = time_once(operation, &run, events);
    }
    release(&run);
    qsort(times, REPEATS, sizeof times[0], compare_times);
    print_times(operation, work, times);
    for (int i = 0; i < 2; i++) {
        must(device.driver.cuEventDestroy(events[i]), "destroy an event");
    }
}
