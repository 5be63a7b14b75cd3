/* extent: operations on ranges of bytes: zero, cast, copy, and two that only mark an extent as
 * used. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#endif

KERNEL_CALLS(zero, zero_run, call->addresses[ZERO_EXTENT], (uint64_t)call->args->count)

const struct operation zero_operation = {.run = run_zero, .enqueue = ON_CUDA(enqueue_zero)};

static void append_cast_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %lld %s>%s", (long long)args->cast.count, dtype_name(args->cast.from),
             dtype_name(args->cast.to));
}

KERNEL_CALLS(cast, cast_run, call->args->cast.count, call->args->cast.from,
             call->addresses[CAST_FROM], call->args->cast.to, call->addresses[CAST_TO])

OPERATION(cast, .text = append_cast_text);

static union kernel_args make_copy_args(const struct op_source *source) {
    const struct tensor *from = source->shape;
    return (union kernel_args){.count = from->rows * from->columns * dtype_bytes(from->dtype)};
}

static void run_copy(const struct compute *compute, const struct op_call *call) {
    (void)compute;
    memcpy(call->addresses[COPY_TO], call->addresses[COPY_FROM], (size_t)call->args->count);
}

#if SKEP_CUDA
/* Enqueues a copy. Source and destination are device or pinned memory; the driver infers the
 * direction from the addresses. */
static void enqueue_copy(const struct cuda_compute *compute, const struct op_call *call) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)call->addresses[COPY_TO];
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->addresses[COPY_FROM];
    cuda_record_result(
        compute,
        compute->driver->cuMemcpyAsync(to, from, (size_t)call->args->count, compute->stream),
        "copy");
}
#endif

OPERATION(copy, .work = OP_WORK_COPY, .shape_operand = COPY_FROM, .args = make_copy_args);

static union kernel_args make_empty_args(const struct op_source *source) {
    (void)source;
    return (union kernel_args){.count = 0};
}

const struct operation host_operation = {.work = OP_WORK_NONE};

const struct operation release_operation = {.work = OP_WORK_NONE, .args = make_empty_args};
