/* extent: operations on ranges of bytes: fill with zeros, convert, copy, and two that only
 * name an extent. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#endif

KERNEL_CALLS(zero, zero_run, call->at[ZERO_EXTENT], (uint64_t)call->args->count)

const struct operation zero_operation = {.run = run_zero, .enqueue = ON_CUDA(enqueue_zero)};

static void cast_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %lld %s>%s", (long long)args->cast.count, dtype_name(args->cast.from),
             dtype_name(args->cast.to));
}

KERNEL_CALLS(cast, cast_run, call->args->cast.count, call->args->cast.from, call->at[CAST_FROM],
             call->args->cast.to, call->at[CAST_TO])

OPERATION(cast, .text = cast_text);

static union kernel_args copy_args(const struct op_source *source) {
    const struct tensor *from = source->shape;
    return (union kernel_args){.count = from->rows * from->columns * dtype_bytes(from->dtype)};
}

static void run_copy(const struct compute *compute, const struct op_call *call) {
    (void)compute;
    memcpy(call->at[COPY_TO], call->at[COPY_FROM], (size_t)call->args->count);
}

#if SKEP_CUDA
/* Source and destination are device or pinned memory; the driver infers the direction from the
 * addresses. */
static void enqueue_copy(const struct cuda_compute *compute, const struct op_call *call) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)call->at[COPY_TO];
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)call->at[COPY_FROM];
    cuda_record_result(
        compute,
        compute->driver->cuMemcpyAsync(to, from, (size_t)call->args->count, compute->stream),
        "copy");
}
#endif

OPERATION(copy, .work = OP_WORK_COPY, .shaped_by = COPY_FROM, .args = copy_args);

static union kernel_args no_args(const struct op_source *source) {
    (void)source;
    return (union kernel_args){.count = 0};
}

const struct operation host_operation = {.work = OP_WORK_NONE};

const struct operation release_operation = {.work = OP_WORK_NONE, .args = no_args};
