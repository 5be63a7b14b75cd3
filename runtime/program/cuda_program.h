/* cuda_program: a bound program on a GPU: each segment captured once as one graph, from the
 * schedule's lanes and events, and launched as a whole from then on. */
#ifndef SKEP_PROGRAM_CUDA_PROGRAM_H
#define SKEP_PROGRAM_CUDA_PROGRAM_H

#include "kernels/cuda/launch/launch.h"
#include "runtime/program/program.h"

/* cuda_program_bind: load every kernel, choose every product, capture every segment, and launch
 * each once on arenas that are all zeros, and are so again afterwards; sets bound->device. With
 * collectives segments wait for program_connect and program_rehearse.
 * limits  bound has its port, its arenas, its addresses and its lists
 * memory  tables in `region`
 * errors  those of the driver and of cuda_load_family. bound->device is then NULL, and nothing is
 *         held */
MUST_CHECK enum status cuda_program_bind(struct bound_program *bound, struct region *region,
                                         struct fault *fault);

/* cuda_program_compute: for those who enqueue work of their own between segments, on streams of
 * their own: the kernels that were loaded, and the failure that is the program's too. NULL where
 * the host runs the program.
 * memory  the program's */
const struct cuda_compute *cuda_program_compute(const struct bound_program *bound);

#endif
