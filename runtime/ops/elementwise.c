/* elementwise: activations and sums, in which each output depends on one element or pair. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#endif

static union kernel_args elementwise_args(const struct op_source *source) {
    const struct tensor *shape = source->shape;
    ASSERT(shape->stride == shape->columns);
    return (union kernel_args){
        .elementwise = {.count = shape->rows * shape->columns, .dtype = shape->dtype}};
}

void op_elementwise_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %lld %s", (long long)args->elementwise.count,
             dtype_name(args->elementwise.dtype));
}

KERNEL_CALLS(swiglu, swiglu_forward, &call->args->elementwise, call->at[SWIGLU_GATE],
             call->at[SWIGLU_UP], call->at[SWIGLU_OUT])

KERNEL_CALLS(swiglu_backward, swiglu_backward, &call->args->elementwise,
             call->at[SWIGLU_BACKWARD_DOUT], call->at[SWIGLU_BACKWARD_GATE],
             call->at[SWIGLU_BACKWARD_UP], call->at[SWIGLU_BACKWARD_DGATE],
             call->at[SWIGLU_BACKWARD_DUP])

KERNEL_CALLS(gelu, gelu_forward, &call->args->elementwise, call->at[GELU_X], call->at[GELU_OUT])

KERNEL_CALLS(gelu_backward, gelu_backward, &call->args->elementwise, call->at[GELU_BACKWARD_DOUT],
             call->at[GELU_BACKWARD_X], call->at[GELU_BACKWARD_DX])

KERNEL_CALLS(add, add_run, &call->args->elementwise, call->at[ADD_A], call->at[ADD_B],
             call->at[ADD_OUT])

OPERATION(swiglu, .shaped_by = SWIGLU_GATE, .args = elementwise_args, .text = op_elementwise_text);

OPERATION(swiglu_backward, .shaped_by = SWIGLU_BACKWARD_DOUT, .args = elementwise_args,
          .text = op_elementwise_text);

OPERATION(gelu, .shaped_by = GELU_X, .args = elementwise_args, .text = op_elementwise_text);

OPERATION(gelu_backward, .shaped_by = GELU_BACKWARD_DOUT, .args = elementwise_args,
          .text = op_elementwise_text);

OPERATION(add, .shaped_by = ADD_A, .args = elementwise_args, .text = op_elementwise_text);
