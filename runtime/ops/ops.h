/* ops: everything that the runtime knows about an operation, in one file for each family of
 * operations. runtime/model/op_list.h lists the operations with their operands; a file here holds
 * for each of its operations the kernel's arguments from the graph, the workspace, the arithmetic
 * and traffic for the estimate, the text of listings, the call of the CPU kernel and, in a build
 * with CUDA, of the CUDA kernel. The functions below look up an operation and use these
 * definitions. runtime/schedule and runtime/program call the first half without a device, and
 * runtime/program executes instructions with the second half.
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

/* The way in which an operation is executed. */
enum op_work {
    OP_WORK_KERNEL,     /* one call of one kernel */
    OP_WORK_COPY,       /* bytes from one memory space to another */
    OP_WORK_COLLECTIVE, /* a collective with the other ranks */
    OP_WORK_NONE        /* no work: the instruction only names extents and waits */
};
enum op_work op_work(enum op_kind kind);

/* op_args: the kernel's arguments for an op of the graph, from its tensors' shapes. device  the GPU
 * target; NULL: a CPU. It determines the size of chunks errors  none; the op must be of a kind that
 * graphs contain */
union kernel_args op_args(const struct graph *graph, const struct op *op,
                          const struct target *device);

/* op_args_of_rank: the arguments of `instruction` on the rank with these indices along the axes.
 * All ranks have the same instructions; only these arguments and the positions of operands with a
 * stride differ. */
union kernel_args op_args_of_rank(const struct instruction *instruction,
                                  const int index[static AXIS_COUNT]);

/* The executing hardware: `device`, or if NULL a CPU with `threads` threads. */
struct op_machine {
    const struct target *device;
    int threads;
};

/* op_workspace_bytes: scratch bytes of one execution; 0: none. Operands and arguments must be
 * set. */
uint64_t op_workspace_bytes(const struct instruction *instruction,
                            const struct op_machine *machine);

/* op_flops: floating-point operations of the matrix products, a multiply-add counting 2. op_bytes:
 * bytes read from and written to memory. Both are for estimates and ignore packed documents. */
double op_flops(const struct instruction *instruction);
double op_bytes(const struct instruction *instruction);

/* op_collective_from, op_collective_to: the operands that a collective reads and writes. An
 * all-gather has one, which is both. */
const struct operand *op_collective_from(const struct instruction *instruction);
const struct operand *op_collective_to(const struct instruction *instruction);

/* op_text: append the arguments as listings print them, each part after a space. The text
 * determines the plan's hash. */
void op_text(const struct instruction *instruction, struct text *line);

/* ---- on addresses ---- */

enum { OP_WORKSPACE = OPERANDS_MAX };

/* One execution of an instruction. */
struct op_call {
    const struct instruction *instruction;
    const union kernel_args *args; /* op_args_of_rank of this rank */
    void *const *at; /* by the op's operand enum; NULL: absent. at[OP_WORKSPACE]: the workspace */
};

/* op_run: execute on the CPU. Does nothing for OP_WORK_NONE. limits  no collective, which
 * runtime/program passes to the communicator */
void op_run(const struct compute *compute, const struct op_call *call);

/* op_enqueue: enqueue on compute->stream, on device addresses.
 * limits  OP_WORK_KERNEL and OP_WORK_COPY; a build with CUDA */
void op_enqueue(const struct cuda_compute *compute, const struct op_call *call);

/* op_choose: choose algorithms for the matrix products of this call, at bind. returns  false: the
 * operation has no products
 * limits   a build with CUDA */
bool op_choose(struct cuda_products *products, const struct op_call *call);

#endif
