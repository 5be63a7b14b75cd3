/* generation: appends rows to the key-value cache, and copies the last valid row of a chunk. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/generation.h"
#endif

static union kernel_args generation_args(const struct op_source *source) {
    const struct tensor *rows = source->shape;
    return (union kernel_args){.generation = {.tokens = rows->rows,
                                              .width = rows->columns,
                                              .stride = rows->stride,
                                              .context = source->graph->shape.context,
                                              .dtype = rows->dtype}};
}

static void generation_text(const union kernel_args *args, struct text *line) {
    const struct generation_args *of = &args->generation;
    text_add(line, " [%lld,%lld] of %lld %s", (long long)of->tokens, (long long)of->width,
             (long long)of->context, dtype_name(of->dtype));
}

/* One thread copies a few rows, so these kernels take no struct compute on the CPU. */
static void run_cache_append(const struct compute *compute, const struct op_call *call) {
    (void)compute;
    cache_append(&call->args->generation, call->at[CACHE_APPEND_SCALARS],
                 call->at[CACHE_APPEND_ROWS], call->at[CACHE_APPEND_CACHE]);
}

static void run_select_last(const struct compute *compute, const struct op_call *call) {
    (void)compute;
    select_last(&call->args->generation, call->at[SELECT_LAST_SCALARS], call->at[SELECT_LAST_X],
                call->at[SELECT_LAST_OUT]);
}

#if SKEP_CUDA
static void enqueue_cache_append(const struct cuda_compute *compute, const struct op_call *call) {
    cuda_cache_append(compute, &call->args->generation, call->at[CACHE_APPEND_SCALARS],
                      call->at[CACHE_APPEND_ROWS], call->at[CACHE_APPEND_CACHE]);
}

static void enqueue_select_last(const struct cuda_compute *compute, const struct op_call *call) {
    cuda_select_last(compute, &call->args->generation, call->at[SELECT_LAST_SCALARS],
                     call->at[SELECT_LAST_X], call->at[SELECT_LAST_OUT]);
}
#endif

const struct operation cache_append_operation = {.shaped_by = CACHE_APPEND_ROWS,
                                                 .args = generation_args,
                                                 .text = generation_text,
                                                 .run = run_cache_append,
                                                 .enqueue = ON_CUDA(enqueue_cache_append)};

const struct operation select_last_operation = {.shaped_by = SELECT_LAST_X,
                                                .args = generation_args,
                                                .text = generation_text,
                                                .run = run_select_last,
                                                .enqueue = ON_CUDA(enqueue_select_last)};
