/* elementwise: activation functions and sums; each output element depends on one element of each
 * input. */
#include "runtime/ops/operation.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#endif

static union kernel_args make_elementwise_args(const struct op_source *source) {
    const struct tensor *shape = source->shape;
    ASSERT(shape->stride == shape->columns);
    return (union kernel_args){
        .elementwise = {.count = shape->rows * shape->columns, .dtype = shape->dtype}};
}

void op_append_elementwise_text(const union kernel_args *args, struct text *line) {
    text_add(line, " %lld %s", (long long)args->elementwise.count,
             dtype_name(args->elementwise.dtype));
}

KERNEL_CALLS(swiglu, swiglu_forward, &call->args->elementwise, call->addresses[SWIGLU_GATE],
             call->addresses[SWIGLU_UP], call->addresses[SWIGLU_OUT])

KERNEL_CALLS(swiglu_backward, swiglu_backward, &call->args->elementwise,
             call->addresses[SWIGLU_BACKWARD_DOUT], call->addresses[SWIGLU_BACKWARD_GATE],
             call->addresses[SWIGLU_BACKWARD_UP], call->addresses[SWIGLU_BACKWARD_DGATE],
             call->addresses[SWIGLU_BACKWARD_DUP])

KERNEL_CALLS(gelu, gelu_forward, &call->args->elementwise, call->addresses[GELU_X],
             call->addresses[GELU_OUT])

KERNEL_CALLS(gelu_backward, gelu_backward, &call->args->elementwise,
             call->addresses[GELU_BACKWARD_DOUT], call->addresses[GELU_BACKWARD_X],
             call->addresses[GELU_BACKWARD_DX])

KERNEL_CALLS(add, add_run, &call->args->elementwise, call->addresses[ADD_A], call->addresses[ADD_B],
             call->addresses[ADD_OUT])

OPERATION(swiglu, .shape_operand = SWIGLU_GATE, .args = make_elementwise_args,
          .text = op_append_elementwise_text);

OPERATION(swiglu_backward, .shape_operand = SWIGLU_BACKWARD_DOUT, .args = make_elementwise_args,
          .text = op_append_elementwise_text);

OPERATION(gelu, .shape_operand = GELU_X, .args = make_elementwise_args,
          .text = op_append_elementwise_text);

OPERATION(gelu_backward, .shape_operand = GELU_BACKWARD_DOUT, .args = make_elementwise_args,
          .text = op_append_elementwise_text);

OPERATION(add, .shape_operand = ADD_A, .args = make_elementwise_args,
          .text = op_append_elementwise_text);
