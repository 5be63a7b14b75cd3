#include "runtime/program/cuda_program.h"

#include "base/log.h"
#include "kernels/elementwise.h"
#include "runtime/program/cuda_program_state.h"
#include "runtime/program/execute.h"

#include <string.h>

static struct cuda_program *get_cuda_program(struct device *device) {
    return (struct cuda_program *)device;
}

static CUdeviceptr device_pointer(const void *address) {
    return (CUdeviceptr)(uintptr_t)address;
}

static bool has_failed(const struct cuda_program *program) {
    return program->failure.result != CUDA_SUCCESS || program->ranks_failed;
}

static void record_result(struct cuda_program *program, CUresult result, const char *action) {
    cuda_record_result(&program->compute, result, action);
}

static const struct cuda_driver *get_driver(const struct cuda_program *program) {
    return &program->gpu->driver;
}

/* Makes the GPU's context current: a thread that has not executed the program before has none. */
static void enter_context(struct cuda_program *program) {
    record_result(program, get_driver(program)->cuCtxSetCurrent(program->gpu->context),
                  "enter the context");
}

static void wait_for_stream(struct cuda_program *program, enum lane lane, const char *action) {
    if (has_failed(program)) {
        return;
    }
    CUstream stream = program->streams[lane];
    CUresult result = program->bound->communicator == NULL
                          ? get_driver(program)->cuStreamSynchronize(stream)
                          : cuda_ranks_wait_for_stream(program, stream);
    record_result(program, result, action);
}

static enum status report_failure(const struct device *device, struct fault *fault) {
    const struct cuda_program *program = (const struct cuda_program *)device;
    if (program->ranks_failed) {
        return cuda_ranks_failure(program, fault);
    }
    return has_failed(program) ? cuda_device_fault(program->gpu, program->failure.result,
                                                   STATUS_FAILED, program->failure.action, fault)
                               : OK;
}

/* ---- enqueueing ---- */

static const struct instruction *instruction_at(const struct cuda_program *program,
                                                uint32_t index) {
    return &program->bound->program->schedule.instructions[index];
}

static void execute_on_cpu(void *context) {
    const struct cpu_call *call = context;
    const struct bound_program *bound = call->bound;
    struct op_call op_call = call_at(bound, call->index);
    op_run(&bound->compute, &op_call);
}

static bool does_nothing(const struct instruction *instruction) {
    return op_work(instruction->op) == OP_WORK_NONE;
}

static void enqueue_instruction(struct cuda_program *program, uint32_t index) {
    const struct bound_program *bound = program->bound;
    const struct instruction *instruction = instruction_at(program, index);
    program->compute.stream = program->streams[instruction->lane];
    if (does_nothing(instruction) || has_failed(program)) {
        return;
    }
    if (schedule_executes_on_cpu(&bound->program->schedule, instruction)) {
        record_result(program,
                      get_driver(program)->cuLaunchHostFunc(program->compute.stream, execute_on_cpu,
                                                            &program->cpu_calls[index]),
                      "enqueue work for the CPU");
        return;
    }
    if (call_is_collective(instruction)) {
        cuda_ranks_enqueue(program, index, program->compute.stream);
    } else {
        struct op_call call = call_at(bound, index);
        op_enqueue(&program->compute, &call);
    }
}

static void enqueue_with_waits(struct cuda_program *program, uint32_t index) {
    const struct cuda_driver *driver = get_driver(program);
    const struct instruction *instruction = instruction_at(program, index);
    CUstream stream = program->streams[instruction->lane];
    for (int k = 0; k < WAITS_MAX; k++) {
        if (instruction->waits[k] != EVENT_NONE) {
            record_result(
                program,
                driver->cuStreamWaitEvent(stream, program->events[instruction->waits[k]], 0),
                "wait for an event");
        }
    }
    enqueue_instruction(program, index);
    if (instruction->signal != EVENT_NONE) {
        record_result(program, driver->cuEventRecord(program->events[instruction->signal], stream),
                      "record an event");
    }
    record_high_water(program->bound, (enum lane)instruction->lane, index);
}

/* ---- capturing a segment as a graph ---- */

static bool lane_has_instructions(const struct cuda_program *program, enum segment_kind kind,
                                  int lane) {
    return lane != LANE_COMPUTE && program->bound->lists[kind][lane].count > 0;
}

/* Makes all other lanes start when the compute lane starts. */
static void fork_lanes(struct cuda_program *program, enum segment_kind kind) {
    const struct cuda_driver *driver = get_driver(program);
    record_result(program,
                  driver->cuEventRecord(program->fork_event, program->streams[LANE_COMPUTE]),
                  "record the start of a segment");
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (lane_has_instructions(program, kind, lane)) {
            record_result(program,
                          driver->cuStreamWaitEvent(program->streams[lane], program->fork_event, 0),
                          "wait for the start of a segment");
        }
    }
}

static void join_lanes(struct cuda_program *program, enum segment_kind kind) {
    const struct cuda_driver *driver = get_driver(program);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (lane_has_instructions(program, kind, lane)) {
            record_result(program,
                          driver->cuEventRecord(program->join_events[lane], program->streams[lane]),
                          "record the end of a lane");
            record_result(program,
                          driver->cuStreamWaitEvent(program->streams[LANE_COMPUTE],
                                                    program->join_events[lane], 0),
                          "wait for the end of a lane");
        }
    }
}

/* Enqueues a segment in listed order, in which every signal precedes the waits for it. */
static void enqueue_segment(struct cuda_program *program, enum segment_kind kind) {
    const struct segment *segment = &program->bound->program->schedule.segments[kind];
    fork_lanes(program, kind);
    for (uint32_t i = segment->first; i < segment->end; i++) {
        enqueue_with_waits(program, i);
    }
    join_lanes(program, kind);
}

static bool has_instructions(const struct cuda_program *program, enum segment_kind kind) {
    const struct segment *segment = &program->bound->program->schedule.segments[kind];
    bool works = false;
    for (uint32_t i = segment->first; i < segment->end; i++) {
        works = works || !does_nothing(instruction_at(program, i));
    }
    return works;
}

static void capture_segment(struct cuda_program *program, enum segment_kind kind) {
    const struct cuda_driver *driver = get_driver(program);
    CUstream compute = program->streams[LANE_COMPUTE];
    CUgraph graph = NULL;
    record_result(program,
                  driver->cuStreamBeginCapture(compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "start capturing a segment");
    if (has_failed(program)) {
        return;
    }
    enqueue_segment(program, kind);
    record_result(program, driver->cuStreamEndCapture(compute, &graph), "capture a segment");
    if (!has_failed(program)) {
        record_result(
            program,
            driver->cuGraphInstantiateWithFlags(&program->graphs[kind], graph, KEEP_PRIORITIES),
            "instantiate a segment's graph");
    }
    if (!has_failed(program)) {
        record_result(program, driver->cuGraphUpload(program->graphs[kind], compute),
                      "upload a segment's graph");
    }
    if (graph != NULL) {
        record_result(program, driver->cuGraphDestroy(graph), "destroy a captured graph");
    }
    wait_for_stream(program, LANE_COMPUTE, "upload a segment's graph");
}

static void capture_all_segments(struct cuda_program *program) {
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        if (has_instructions(program, (enum segment_kind)kind) && !has_failed(program)) {
            capture_segment(program, (enum segment_kind)kind);
        }
    }
    merge_high_water(program->bound);
}

/* ---- executing ---- */

static void launch_segment(struct cuda_program *program, enum segment_kind kind) {
    if (program->graphs[kind] == NULL || has_failed(program)) {
        return;
    }
    enter_context(program);
    record_result(
        program,
        get_driver(program)->cuGraphLaunch(program->graphs[kind], program->streams[LANE_COMPUTE]),
        "launch a segment");
    wait_for_stream(program, LANE_COMPUTE, "finish a segment");
}

static void run_segment(struct device *device, enum segment_kind kind) {
    struct cuda_program *program = get_cuda_program(device);
    launch_segment(program, kind);
    if (!has_failed(program)) {
        cuda_ranks_count_collectives(program, kind);
    }
}

static void run_instruction(struct device *device, uint32_t index) {
    struct cuda_program *program = get_cuda_program(device);
    enter_context(program);
    enqueue_instruction(program, index);
    wait_for_stream(program, (enum lane)instruction_at(program, index)->lane,
                    "finish an instruction");
}

/* ---- between segments ---- */

struct staging_buffer {
    char *memory;   /* pinned host memory */
    uint64_t bytes; /* size of `memory` */
};

static struct staging_buffer get_staging_buffer(const struct cuda_program *program) {
    const struct schedule *schedule = &program->bound->program->schedule;
    int extent = schedule->host.device_staging;
    return (struct staging_buffer){program_extent_address(program->bound, extent),
                                   schedule->extents[extent].bytes};
}

static void copy_and_wait(struct cuda_program *program, const void *from, const void *to,
                          size_t bytes, const char *action) {
    record_result(program,
                  get_driver(program)->cuMemcpyAsync(device_pointer(to), device_pointer(from),
                                                     bytes, program->streams[LANE_COPY]),
                  action);
    wait_for_stream(program, LANE_COPY, action);
}

static enum status read_device(void *context, const void *device, void *host, size_t bytes,
                               struct fault *fault) {
    struct cuda_program *program = context;
    const struct staging_buffer staging = get_staging_buffer(program);
    enter_context(program);
    for (size_t done = 0; done < bytes && !has_failed(program); done += staging.bytes) {
        size_t some = bytes - done < staging.bytes ? bytes - done : staging.bytes;
        copy_and_wait(program, (const char *)device + done, staging.memory, some,
                      "read the device's memory");
        memcpy((char *)host + done, staging.memory, some);
    }
    return report_failure(&program->device, fault);
}

static enum status write_device(void *context, void *device, const void *host, size_t bytes,
                                struct fault *fault) {
    struct cuda_program *program = context;
    const struct staging_buffer staging = get_staging_buffer(program);
    enter_context(program);
    for (size_t done = 0; done < bytes && !has_failed(program); done += staging.bytes) {
        size_t some = bytes - done < staging.bytes ? bytes - done : staging.bytes;
        memcpy(staging.memory, (const char *)host + done, some);
        copy_and_wait(program, staging.memory, (char *)device + done, some,
                      "write the device's memory");
    }
    return report_failure(&program->device, fault);
}

static bool is_on_device(const struct cuda_program *program, const void *address) {
    uint64_t begin = device_pointer(program->bound->base[SPACE_DEVICE]);
    uint64_t bytes = program->bound->program->plan.peak_bytes[SPACE_DEVICE];
    return device_pointer(address) - begin < bytes;
}

/* Casts params whose masters are in host memory. The CPU rounds them, before the copy. */
static void cast_from_host(struct cuda_program *program, const struct program_cast *cast) {
    const struct staging_buffer staging = get_staging_buffer(program);
    int64_t width = dtype_bytes(cast->to_dtype);
    int64_t most = (int64_t)staging.bytes / width;
    for (int64_t done = 0; done < cast->count && !has_failed(program); done += most) {
        int64_t some = cast->count - done < most ? cast->count - done : most;
        const char *from = (const char *)cast->from + done * dtype_bytes(cast->from_dtype);
        cast_run(&program->bound->compute, some, cast->from_dtype, from, cast->to_dtype,
                 staging.memory);
        copy_and_wait(program, staging.memory, (char *)cast->to + done * width,
                      (size_t)(some * width), "write the device's memory");
    }
}

static void cast_params(struct device *device, const struct program_cast *cast) {
    struct cuda_program *program = get_cuda_program(device);
    enter_context(program);
    if (!is_on_device(program, cast->from)) {
        cast_from_host(program, cast);
        return;
    }
    program->compute.stream = program->streams[LANE_COMPUTE];
    cuda_cast_run(&program->compute, cast->count, cast->from_dtype, cast->from, cast->to_dtype,
                  cast->to);
    wait_for_stream(program, LANE_COMPUTE, "round parameters");
}

/* ---- opening and releasing ---- */

static void destroy_event(struct cuda_program *program, CUevent event) {
    if (event != NULL) {
        (void)get_driver(program)->cuEventDestroy(event);
    }
}

/* Destroys all graphs. Those with captured collectives must go before NCCL's communicators. */
static void destroy_graphs(struct device *device) {
    struct cuda_program *program = get_cuda_program(device);
    enter_context(program);
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        if (program->graphs[kind] != NULL) {
            (void)get_driver(program)->cuGraphExecDestroy(program->graphs[kind]);
            program->graphs[kind] = NULL;
        }
    }
}

/* Releases the objects of the device that exist; some do not if the bind failed partway. Errors of
 * a failed device are ignored. */
static void release_device(struct device *device) {
    struct cuda_program *program = get_cuda_program(device);
    const struct cuda_driver *driver = get_driver(program);
    uint32_t event_count = program->bound->program->schedule.event_count;
    destroy_graphs(device);
    for (uint32_t i = 1; program->events != NULL && i <= event_count; i++) {
        destroy_event(program, program->events[i]);
    }
    destroy_event(program, program->fork_event);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        destroy_event(program, program->join_events[lane]);
        if (program->streams[lane] != NULL) {
            (void)driver->cuStreamDestroy(program->streams[lane]);
        }
    }
    if (program->has_products) {
        cuda_products_finish(&program->products);
    }
    program->bound->device = NULL;
}

static enum status create_streams(struct cuda_program *program, struct fault *fault) {
    TRY(cuda_device_create_event(program->gpu, false, &program->fork_event, fault));
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        bool urgent = lane != LANE_COMPUTE;
        TRY(cuda_device_create_stream(program->gpu, urgent, &program->streams[lane], fault));
        TRY(cuda_device_create_event(program->gpu, false, &program->join_events[lane], fault));
    }
    return OK;
}

static enum status create_events(struct cuda_program *program, struct region *region,
                                 struct fault *fault) {
    uint32_t count = program->bound->program->schedule.event_count;
    program->events = region_alloc(region, (size_t)count + 1, sizeof *program->events);
    for (uint32_t i = 1; i <= count; i++) {
        TRY(cuda_device_create_event(program->gpu, false, &program->events[i], fault));
    }
    return OK;
}

static void zero_arenas(struct cuda_program *program) {
    const struct bound_program *bound = program->bound;
    const uint64_t *bytes = bound->program->plan.peak_bytes;
    record_result(program,
                  get_driver(program)->cuMemsetD8Async(device_pointer(bound->base[SPACE_DEVICE]), 0,
                                                       bytes[SPACE_DEVICE],
                                                       program->streams[LANE_COMPUTE]),
                  "zero the arena");
    wait_for_stream(program, LANE_COMPUTE, "zero the arena");
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (space != SPACE_DEVICE && bound->base[space] != NULL) {
            memset(bound->base[space], 0, bytes[space]);
        }
    }
}

/* Launches every segment once, so that drivers and libraries do the work of a first launch now. */
static enum status rehearse_segments(struct device *device, struct fault *fault) {
    struct cuda_program *program = get_cuda_program(device);
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        warm_up_scalars(program);
        launch_segment(program, (enum segment_kind)kind);
    }
    zero_arenas(program);
    if (program->has_products) {
        cuda_products_log(&program->products);
    }
    return report_failure(device, fault);
}

/* Captures all segments. With several ranks, all ranks do so before any rank rehearses. */
static enum status connect_device(struct device *device, struct fault *fault) {
    struct cuda_program *program = get_cuda_program(device);
    enter_context(program);
    capture_all_segments(program);
    return report_failure(device, fault);
}

static enum status prepare_segments(struct cuda_program *program, struct region *region,
                                    struct fault *fault) {
    TRY(cuda_kernel_table_init(get_driver(program), &program->kernels, fault));
    TRY(create_streams(program, fault));
    TRY(create_events(program, region, fault));
    choose_product_algorithms(program, region);
    if (log_is_enabled(LOG_DEBUG)) {
        warm_up_instructions(program);
    }
    zero_arenas(program);
    if (program->bound->calls == NULL) {
        TRY(connect_device(&program->device, fault));
        TRY(rehearse_segments(&program->device, fault));
    }
    return OK;
}

const struct cuda_compute *cuda_program_compute(const struct bound_program *bound) {
    return bound->device == NULL ? NULL : &get_cuda_program(bound->device)->compute;
}

static const struct device_methods METHODS = {.run_segment = run_segment,
                                              .run_instruction = run_instruction,
                                              .cast = cast_params,
                                              .failure = report_failure,
                                              .connect = connect_device,
                                              .rehearse = rehearse_segments,
                                              .disconnect = destroy_graphs,
                                              .release = release_device};

enum status cuda_program_bind(struct bound_program *bound, struct region *region,
                              struct fault *fault) {
    struct cuda_program *program = region_alloc(region, 1, sizeof *program);
    program->device =
        (struct device){.methods = &METHODS, .memory = {read_device, write_device, program}};
    program->bound = bound;
    program->gpu = bound->port.cuda;
    program->compute = (struct cuda_compute){.driver = get_driver(program),
                                             .table = &program->kernels,
                                             .failure = &program->failure,
                                             .multiprocessors = program->gpu->multiprocessor_count};
    int count = bound->program->schedule.instruction_count;
    program->cpu_calls = region_alloc(region, (size_t)count, sizeof *program->cpu_calls);
    for (int i = 0; i < count; i++) {
        program->cpu_calls[i] = (struct cpu_call){bound, (uint32_t)i};
    }
    bound->device = &program->device;
    enum status status = prepare_segments(program, region, fault);
    if (status != OK) {
        release_device(&program->device);
    }
    return status;
}
