#include "runtime/program/cuda_ranks.h"

#include "runtime/program/cuda_program_state.h"
#include "runtime/program/execute.h"
#include "transport/collectives/nccl.h"

/* ---- a program's collectives ---- */

static void record_failure(struct cuda_program *program, enum status status) {
    program->ranks_failed = program->ranks_failed || status != OK;
}

void cuda_ranks_enqueue(struct cuda_program *program, uint32_t index, CUstream stream) {
    struct communicator *communicator = program->bound->communicator;
    struct fault kept;
    ASSERT(communicator != NULL);
    nccl_enqueue(communicator, &program->bound->calls[index], stream);
    record_failure(program, nccl_failure(communicator, &kept));
}

CUresult cuda_ranks_wait_for_stream(struct cuda_program *program, CUstream stream) {
    CUresult result = CUDA_SUCCESS;
    struct fault kept;
    record_failure(program, nccl_wait(program->bound->communicator, stream, &result, &kept));
    return program->ranks_failed ? CUDA_SUCCESS : result;
}

void cuda_ranks_count_collectives(const struct cuda_program *program, enum segment_kind kind) {
    const struct schedule *schedule = &program->bound->program->schedule;
    const struct segment *segment = &schedule->segments[kind];
    for (uint32_t i = segment->first; program->bound->calls != NULL && i < segment->end; i++) {
        if (call_is_collective(&schedule->instructions[i])) {
            collective_count_call(program->bound->communicator, &program->bound->calls[i]);
        }
    }
}

enum status cuda_ranks_failure(const struct cuda_program *program, struct fault *fault) {
    return nccl_failure(program->bound->communicator, fault);
}

/* ---- opening ---- */

/* Sums the ranks' slots with a kernel of this project, in the order of the group. */
static CUresult sum_slots(void *context, const struct nccl_sum *sum) {
    struct cuda_program *program = context;
    struct cuda_compute compute = program->compute;
    compute.stream = sum->stream;
    cuda_wire_sum_run(&compute,
                      &(struct cuda_wire_sum_args){.wire = sum->wire,
                                                   .size = sum->size,
                                                   .index = sum->index,
                                                   .others_stride = (int64_t)sum->stride_bytes /
                                                                    dtype_bytes(sum->wire),
                                                   .count = (int64_t)sum->elements,
                                                   .own = sum->own,
                                                   .others = sum->others,
                                                   .to = sum->to});
    return program->failure.result;
}

static void disconnect_device(void *context) {
    struct cuda_program *program = context;
    program->device.methods->disconnect(&program->device);
}

static void set_staging(const struct bound_program *bound, struct nccl_args *args) {
    const struct schedule *schedule = &bound->program->schedule;
    if (schedule->sum_staging != EXTENT_NONE) {
        args->staging = program_extent_address(bound, schedule->sum_staging);
        args->staging_bytes = schedule->extents[schedule->sum_staging].bytes;
    }
}

enum status cuda_ranks_open(struct bound_program *bound, struct site *site,
                            const struct collective_group groups[static AXIS_COUNT],
                            struct region *region, struct communicator *communicator,
                            struct fault *fault) {
    const struct launch_info *launch = site_launch_info(site);
    const struct schedule *schedule = &bound->program->schedule;
    struct nccl_args args = {.rank = launch->rank,
                             .world = launch->world,
                             .groups = groups,
                             .group_count = AXIS_COUNT,
                             .exchange = groups_exchange_on_site,
                             .context = site,
                             .device = bound->port.cuda,
                             .add = sum_slots,
                             .release_graphs = disconnect_device,
                             .callback_context = bound->device,
                             .sum_in_rings = schedule->options.sharding.wire_sum == WIRE_SUM_RING};
    set_staging(bound, &args);
    TRY(cuda_device_enter_context(bound->port.cuda, fault));
    TRY(nccl_open(&args, region, communicator, fault));
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (bound->shared[space]) {
            TRY(nccl_register(communicator, (enum space)space, bound->base[space],
                              bound->program->plan.peak_bytes[space], fault));
        }
    }
    return OK;
}
