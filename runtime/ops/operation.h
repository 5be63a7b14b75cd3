/* operation: the functions and properties that each file of runtime/ops defines for its operations.
 * Private to runtime/ops. */
#ifndef SKEP_OPS_OPERATION_H
#define SKEP_OPS_OPERATION_H

#include "build_config.h"
#include "runtime/ops/ops.h"

/* The input from which the kernel's arguments of an op are computed. */
struct op_source {
    const struct graph *graph;
    const struct op *op;         /* the op to translate */
    const struct tensor *shape;  /* the tensor of the operand operation.shape_operand */
    const struct target *device; /* NULL: a CPU */
};

/* op_tensor: return the tensor of an operand, which must not be absent. */
const struct tensor *op_tensor(const struct op_source *source, int operand);

typedef union kernel_args op_args_function(const struct op_source *source);
typedef void op_args_of_rank_function(union kernel_args *args, const int index[static AXIS_COUNT]);
typedef uint64_t op_workspace_function(const struct instruction *instruction,
                                       const struct op_hardware *machine);
typedef double op_flops_function(const struct instruction *instruction);
typedef double op_bytes_function(const struct instruction *instruction, double operand_bytes);
typedef void op_text_function(const union kernel_args *args, struct text *line);
typedef void op_run_function(const struct compute *compute, const struct op_call *call);
typedef void op_enqueue_function(const struct cuda_compute *compute, const struct op_call *call);
typedef void op_choose_algorithms_function(struct cuda_products *products,
                                           const struct op_call *call);

struct operation {
    enum op_work work; /* how the operation is executed */
    int shape_operand; /* the operand whose tensor is op_source.shape */
    /* computes the kernel's arguments; NULL: graphs never contain the op */
    op_args_function *args;
    /* changes the arguments to those of one rank; NULL: they are equal on every rank */
    op_args_of_rank_function *args_of_rank;
    op_workspace_function *workspace_bytes; /* size of the workspace; NULL: the op needs none */
    /* floating-point operations of the op's matrix products; NULL: the op has none */
    op_flops_function *flops;
    /* memory traffic in bytes; NULL: each operand counts once per access */
    op_bytes_function *bytes;
    op_text_function *text; /* appends the arguments to a listing; NULL: only operands are listed */
    op_run_function *run;   /* calls the CPU kernel; NULL: a collective, or an op without work */
    /* calls the CUDA kernel; NULL: the op has none, or the build is without CUDA */
    op_enqueue_function *enqueue;
    /* chooses algorithms of matrix products on a GPU; NULL: the op has no matrix product */
    op_choose_algorithms_function *choose_algorithms;
};

#define OP(kind, name, operands) extern const struct operation name##_operation;
OP_LIST(OP)
#undef OP

/* KERNEL_CALLS(name, kernel, arguments...): define run_NAME, which calls kernel(compute,
 * arguments), and in a build with CUDA enqueue_NAME, which calls cuda_kernel(compute, arguments):
 * most kernels take the same arguments on CPU and GPU. The arguments may use `call`, the struct
 * op_call. SERIAL_KERNEL_CALLS: the same for a small kernel whose CPU version runs in one thread
 * and takes no struct compute. */
#if SKEP_CUDA
#define ENQUEUE_CALL(name, kernel, ...)                                                            \
    static void enqueue_##name(const struct cuda_compute *compute, const struct op_call *call) {   \
        cuda_##kernel(compute, __VA_ARGS__);                                                       \
    }
#define ON_CUDA(function) function
#else
#define ENQUEUE_CALL(name, kernel, ...)
#define ON_CUDA(function) NULL
#endif
#define KERNEL_CALLS(name, kernel, ...)                                                            \
    static void run_##name(const struct compute *compute, const struct op_call *call) {            \
        kernel(compute, __VA_ARGS__);                                                              \
    }                                                                                              \
    ENQUEUE_CALL(name, kernel, __VA_ARGS__)
#define SERIAL_KERNEL_CALLS(name, kernel, ...)                                                     \
    static void run_##name(const struct compute *compute, const struct op_call *call) {            \
        (void)compute;                                                                             \
        kernel(__VA_ARGS__);                                                                       \
    }                                                                                              \
    ENQUEUE_CALL(name, kernel, __VA_ARGS__)

/* OPERATION(name, properties...): define the operation that run_NAME and enqueue_NAME execute. */
#define OPERATION(name, ...)                                                                       \
    const struct operation name##_operation = {                                                    \
        .run = run_##name, .enqueue = ON_CUDA(enqueue_##name), __VA_ARGS__}

/* WORKSPACE_FUNCTION(function, kernel, arguments...): define an op_workspace_function that calls
 * kernel_workspace_bytes(arguments, threads) or, for a device, cuda_kernel_workspace_bytes. */
#define WORKSPACE_FUNCTION(function, kernel, ...)                                                  \
    static uint64_t function(const struct instruction *instruction,                                \
                             const struct op_hardware *machine) {                                  \
        return machine->device != NULL                                                             \
                   ? cuda_##kernel##_workspace_bytes(__VA_ARGS__, machine->device)                 \
                   : kernel##_workspace_bytes(__VA_ARGS__, machine->threads);                      \
    }

/* Print the arguments that all element-wise operations share. */
void op_append_elementwise_text(const union kernel_args *args, struct text *line);

#endif
