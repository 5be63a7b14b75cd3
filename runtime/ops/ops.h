/* ops: the definition of every operation, in one file for each family of operations.
 * runtime/model/op_list.h lists the operations with their operands; each file defines for its
 * operations how to derive the kernel's arguments from the graph, the workspace size, the
 * arithmetic and memory traffic for the estimate, the text of listings, and the calls of the CPU
 * kernel and, in a build with CUDA, of the CUDA kernel. The functions below look up an operation
 * and use its definition. runtime/schedule and runtime/program call op_work to op_append_text
 * without a device; runtime/program executes instructions with op_run and op_enqueue.
 *
 * public   instruction.h */
#ifndef SKEP_OPS_OPS_H
#define SKEP_OPS_OPS_H

#include "base/text.h"
#include "runtime/ops/instruction.h"
#include "targets/targets.h"

struct cuda_compute;
struct cuda_products;

/* ---- without a device ---- */

/* How an operation is executed. */
enum op_work {
    OP_WORK_KERNEL,     /* one call of one kernel */
    OP_WORK_COPY,       /* a copy of bytes from one memory space to another */
    OP_WORK_COLLECTIVE, /* a collective with the other ranks */
    OP_WORK_NONE        /* no work: the instruction only names extents and waits */
};
enum op_work op_work(enum op_kind kind);

/* op_args: compute the kernel's arguments for an op of the graph from the shapes of its tensors.
 * device  the GPU target, which determines the size of chunks; NULL: a CPU
 * errors  none; the op must be of a kind that graphs contain */
union kernel_args op_args(const struct graph *graph, const struct op *op,
                          const struct target *device);

/* op_args_of_rank: return the arguments of `instruction` on the rank with these indices along
 * the axes. All ranks have the same instructions; only these arguments and the positions of
 * operands with a stride differ. */
union kernel_args op_args_of_rank(const struct instruction *instruction,
                                  const int index[static AXIS_COUNT]);

/* The hardware that executes an operation: `device`, or, if that is NULL, a CPU with `threads`
 * threads. */
struct op_hardware {
    const struct target *device; /* NULL: a CPU */
    int threads;                 /* number of threads of the CPU pool */
};

/* op_workspace_bytes: return the scratch bytes that one execution needs. The operands and
 * arguments of the instruction must be set. */
uint64_t op_workspace_bytes(const struct instruction *instruction,
                            const struct op_hardware *machine);

/* op_flops: return the floating-point operations of the matrix products; a multiply-add counts
 * as 2. op_traffic_bytes: return the bytes read from and written to memory. Both are for estimates
 * and ignore packed documents. */
double op_flops(const struct instruction *instruction);
double op_traffic_bytes(const struct instruction *instruction);

/* op_collective_from, op_collective_to: return the operand that a collective reads, and the one
 * that it writes. For an all-gather, both are its only operand. */
const struct operand *op_collective_from(const struct instruction *instruction);
const struct operand *op_collective_to(const struct instruction *instruction);

/* op_append_text: append the instruction's arguments in the form of listings, each preceded by a
 * space. The text determines the plan's hash. */
void op_append_text(const struct instruction *instruction, struct text *line);

/* ---- on addresses ---- */

enum { OP_WORKSPACE = OPERANDS_MAX }; /* operand index of the workspace */

/* One execution of an instruction. */
struct op_call {
    const struct instruction *instruction;
    const union kernel_args *args; /* result of op_args_of_rank for this rank */
    /* addresses of operands and workspace, by the op's operand enum and OP_WORKSPACE; NULL:
     * absent */
    void *const *addresses;
};

/* op_run: execute one instruction on the CPU. Does nothing for OP_WORK_NONE.
 * limits  not for a collective, which runtime/program passes to the communicator */
void op_run(const struct compute *compute, const struct op_call *call);

/* op_enqueue: enqueue one instruction on compute->stream; all addresses are device addresses.
 * limits  only for OP_WORK_KERNEL and OP_WORK_COPY, in a build with CUDA */
void op_enqueue(const struct cuda_compute *compute, const struct op_call *call);

/* op_choose_algorithms: choose algorithms for the matrix products of this call, if there are any.
 * Called once when the program is bound.
 * limits  only in a build with CUDA */
void op_choose_algorithms(struct cuda_products *products, const struct op_call *call);

#endif
