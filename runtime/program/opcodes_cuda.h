/* opcodes_cuda: what each instruction does on a GPU: one call of one kernel, enqueued. */
#ifndef SKEP_PROGRAM_OPCODES_CUDA_H
#define SKEP_PROGRAM_OPCODES_CUDA_H

#include "kernels/cuda/launch/products.h"
#include "runtime/schedule/schedule.h"

/* opcode_enqueue: opcode_run on compute->stream, with the device's addresses. */
void opcode_enqueue(const struct cuda_compute *compute, const struct instruction *instruction,
                    const union kernel_args *args, void *const *address);

/* opcode_choose: at bind, the library's algorithm for each product that `instruction` is made
 * of. False: it is made of none. */
bool opcode_choose(struct cuda_products *products, const struct instruction *instruction,
                   const union kernel_args *args, void *const *address);

#endif
