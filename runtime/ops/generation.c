/* generation: appends rows to the key-value cache, and copies the last valid row of a chunk. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/generation.h"
#endif

static union kernel_args make_generation_args(const struct op_source *source) {
    const struct tensor *rows = source->shape;
    return (union kernel_args){.generation = {.tokens = rows->rows,
                                              .width = rows->columns,
                                              .stride = rows->stride,
                                              .context = source->graph->shape.context,
                                              .dtype = rows->dtype}};
}

static void append_generation_text(const union kernel_args *args, struct text *line) {
    const struct generation_args *of = &args->generation;
    text_add(line, " [%lld,%lld] of %lld %s", (long long)of->tokens, (long long)of->width,
             (long long)of->context, dtype_name(of->dtype));
}

SERIAL_KERNEL_CALLS(cache_append, cache_append, &call->args->generation,
                    call->addresses[CACHE_APPEND_SCALARS], call->addresses[CACHE_APPEND_ROWS],
                    call->addresses[CACHE_APPEND_CACHE])
SERIAL_KERNEL_CALLS(select_last, select_last, &call->args->generation,
                    call->addresses[SELECT_LAST_SCALARS], call->addresses[SELECT_LAST_X],
                    call->addresses[SELECT_LAST_OUT])

OPERATION(cache_append, .shape_operand = CACHE_APPEND_ROWS, .args = make_generation_args,
          .text = append_generation_text);

OPERATION(select_last, .shape_operand = SELECT_LAST_X, .args = make_generation_args,
          .text = append_generation_text);
