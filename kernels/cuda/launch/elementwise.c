
#include "kernels/cuda/launch/elementwise.h"

#include "kernels/cuda/device/elementwise_params.h"
#include "kernels/cuda/launch/table.h"

enum { GRID_Y_MAX = 65535 }; /* CUDA's limit of blocks in dimension y */

CUDA_FAMILY(elementwise, CUDA_ENTRY_PAIR(add, kernels->add),
            CUDA_ENTRY_PAIR(swiglu_forward, kernels->swiglu_forward),
            CUDA_ENTRY_PAIR(swiglu_backward, kernels->swiglu_backward),
            CUDA_ENTRY_PAIR(gelu_forward, kernels->gelu_forward),
            CUDA_ENTRY_PAIR(gelu_backward, kernels->gelu_backward),
            CUDA_ENTRY_PAIR(column_sum, kernels->column_sum),
            CUDA_ENTRY_PAIR(column_sum_wide, kernels->column_sum_wide),
            CUDA_ENTRY_PAIR(rope, kernels->rope), CUDA_ENTRY_PAIR(rope_wide, kernels->rope_wide),
            CUDA_ENTRY(column_sum_add, kernels->column_sum_add),
            CUDA_ENTRY(cast_f32_bf16, kernels->cast[DTYPE_F32][DTYPE_BF16]),
            CUDA_ENTRY(cast_f32_f16, kernels->cast[DTYPE_F32][DTYPE_F16]),
            CUDA_ENTRY(cast_bf16_f32, kernels->cast[DTYPE_BF16][DTYPE_F32]),
            CUDA_ENTRY(cast_bf16_f16, kernels->cast[DTYPE_BF16][DTYPE_F16]),
            CUDA_ENTRY(cast_f16_f32, kernels->cast[DTYPE_F16][DTYPE_F32]),
            CUDA_ENTRY(cast_f16_bf16, kernels->cast[DTYPE_F16][DTYPE_BF16]))

/* ---- operations on single elements ---- */

static void run_elements(const struct cuda_compute *compute, const struct elementwise_args *args,
                         const CUfunction kernels[CUDA_DTYPE_COUNT],
                         const struct cuda_element_params *tensors) {
    ASSERT(args->count >= 0 && cuda_is_float(args->dtype));
    struct cuda_element_params params = *tensors;
    params.count = args->count;
    params.aligned = 1;
    for (int i = 0; i < 3; i++) {
        params.aligned = params.aligned && cuda_is_aligned(params.in[i]);
    }
    for (int i = 0; i < 2; i++) {
        params.aligned = params.aligned && cuda_is_aligned(params.out[i]);
    }
    struct cuda_shape shape = cuda_shape_for_elements(
        args->count, cuda_elements_per_access(args->dtype), CUDA_ELEMENT_THREADS);
    cuda_launch(compute, kernels[args->dtype], &shape, &params);
}

void cuda_add_run(const struct cuda_compute *compute, const struct elementwise_args *args,
                  const void *a, const void *b, void *out) {
    struct cuda_element_params tensors = {.in = {a, b}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.add, &tensors);
}

void cuda_swiglu_forward(const struct cuda_compute *compute, const struct elementwise_args *args,
                         const void *gate, const void *up, void *out) {
    struct cuda_element_params tensors = {.in = {gate, up}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.swiglu_forward, &tensors);
}

void cuda_swiglu_backward(const struct cuda_compute *compute, const struct elementwise_args *args,
                          const void *dout, const void *gate, const void *up, void *dgate,
                          void *dup) {
    struct cuda_element_params tensors = {.in = {dout, gate, up}, .out = {dgate, dup}};
    run_elements(compute, args, compute->table->elementwise.swiglu_backward, &tensors);
}

void cuda_gelu_forward(const struct cuda_compute *compute, const struct elementwise_args *args,
                       const void *x, void *out) {
    struct cuda_element_params tensors = {.in = {x}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.gelu_forward, &tensors);
}

void cuda_gelu_backward(const struct cuda_compute *compute, const struct elementwise_args *args,
                        const void *dout, const void *x, void *dx) {
    struct cuda_element_params tensors = {.in = {dout, x}, .out = {dx}};
    run_elements(compute, args, compute->table->elementwise.gelu_backward, &tensors);
}

/* ---- zero and cast ---- */

void cuda_zero_run(const struct cuda_compute *compute, void *bytes, uint64_t count) {
    if (count == 0 || compute->failure->result != CUDA_SUCCESS) {
        return;
    }
    cuda_record_result(
        compute, compute->driver->cuMemsetD8Async((CUdeviceptr)bytes, 0, count, compute->stream),
        "enqueue zeros");
}

void cuda_cast_run(const struct cuda_compute *compute, int64_t count, enum dtype from,
                   const void *in, enum dtype to, void *out) {
    ASSERT(count >= 0 && from < DTYPE_I32 && to < DTYPE_I32);
    ASSERT(in != out || from == to);
    if (in == out || count == 0 || compute->failure->result != CUDA_SUCCESS) {
        return;
    }
    if (from == to) {
        CUresult result =
            compute->driver->cuMemcpyAsync((CUdeviceptr)out, (CUdeviceptr)in,
                                           (size_t)(count * dtype_bytes(from)), compute->stream);
        cuda_record_result(compute, result, "enqueue a copy");
        return;
    }
    struct cuda_cast_params params = {.in = in,
                                      .out = out,
                                      .count = count,
                                      .aligned = cuda_is_aligned(in) && cuda_is_aligned(out)};
    struct cuda_shape shape =
        cuda_shape_for_elements(count, CUDA_CAST_ELEMENTS_PER_THREAD, CUDA_ELEMENT_THREADS);
    cuda_launch(compute, compute->table->elementwise.cast[from][to], &shape, &params);
}

/* ---- column sums ---- */

void cuda_column_sum_run(const struct cuda_compute *compute, const struct column_sum_args *args,
                         const void *x, float *sums, void *workspace) {
    ASSERT(args->rows >= 0 && args->columns > 0 && args->stride >= args->columns);
    ASSERT(cuda_is_float(args->dtype));
    const struct cuda_elementwise_kernels *kernels = &compute->table->elementwise;
    int64_t row_bytes = args->stride * dtype_bytes(args->dtype);
    struct cuda_column_sum_params params = {
        .x = x,
        .partials = workspace,
        .rows = args->rows,
        .columns = args->columns,
        .stride = args->stride,
        .aligned = cuda_is_aligned(x) && row_bytes % CUDA_ACCESS_BYTES == 0,
    };
    int64_t chunks = items_count(args->rows, CUDA_COLUMN_SUM_ROWS);
    ASSERT(chunks <= GRID_Y_MAX);
    int64_t width = params.aligned ? cuda_elements_per_access(args->dtype) : 1;
    struct cuda_shape shape = {
        .grid = {(unsigned)items_count(args->columns, CUDA_WARP * width), (unsigned)chunks, 1},
        .threads = CUDA_COLUMN_SUM_WARPS * CUDA_WARP,
    };
    cuda_launch(compute,
                (params.aligned ? kernels->column_sum_wide : kernels->column_sum)[args->dtype],
                &shape, &params);
    cuda_partials_add(compute, kernels->column_sum_add,
                      &(struct cuda_partials_params){workspace, sums, chunks, args->columns});
}

/* ---- rope ---- */

static bool rope_is_aligned(const struct rope_args *args, const void *in, const void *out) {
    int64_t width = cuda_elements_per_access(args->dtype);
    return cuda_is_aligned(in) && cuda_is_aligned(out) && args->in_stride % width == 0 &&
           args->out_stride % width == 0 && args->head_dim % width == 0 &&
           args->rotary_dim % (2 * width) == 0;
}

void cuda_rope_run(const struct cuda_compute *compute, const struct rope_args *args,
                   const float *table, const int32_t *positions, const void *in, void *out) {
    ASSERT(args->tokens >= 0 && args->heads > 0);
    ASSERT(args->rotary_dim % 2 == 0 && args->rotary_dim <= args->head_dim);
    ASSERT(cuda_is_float(args->dtype));
    const struct cuda_elementwise_kernels *kernels = &compute->table->elementwise;
    bool wide = rope_is_aligned(args, in, out);
    int64_t width = wide ? cuda_elements_per_access(args->dtype) : 1;
    int64_t others = in != out ? (args->head_dim - args->rotary_dim) / width : 0;
    int64_t pairs = args->rotary_dim / 2 / width;
    if (pairs + others == 0) {
        return;
    }
    struct cuda_rope_params params = {
        .table = table,
        .positions = positions,
        .in = in,
        .out = out,
        .in_stride = args->in_stride,
        .out_stride = args->out_stride,
        .units = args->tokens * args->heads * (pairs + others),
        .token_units = (int)(args->heads * (pairs + others)),
        .head_units = (int)(pairs + others),
        .pair_units = (int)pairs,
        .head_dim = (int)args->head_dim,
        .rotary_dim = (int)args->rotary_dim,
        .inverse = args->inverse,
    };
    struct cuda_shape shape = cuda_shape_for_elements(params.units, 1, CUDA_ELEMENT_THREADS);
    cuda_launch(compute, (wide ? kernels->rope_wide : kernels->rope)[args->dtype], &shape, &params);
}
