/* cuda_program: executes a bound program on a GPU. Each segment is captured once as a graph, from
 * the schedule's lanes and events, and then launched as a whole. */
#ifndef SKEP_PROGRAM_CUDA_PROGRAM_H
#define SKEP_PROGRAM_CUDA_PROGRAM_H

#include "kernels/cuda/launch/launch.h"
#include "runtime/program/program.h"

/* cuda_program_bind: load all kernels, choose an algorithm for every product, capture every
 * segment, launch each segment once on zeroed arenas, and zero the arenas again; sets
 * bound->device. A program with collectives captures and launches its segments in program_connect
 * and program_rehearse instead.
 * limits  bound has its port, arenas, addresses and lists of instructions
 * memory  tables in `region`
 * errors  faults of the driver and of cuda_load_family. bound->device is then NULL, and everything
 *         is released */
MUST_CHECK enum status cuda_program_bind(struct bound_program *bound, struct region *region,
                                         struct fault *fault);

/* cuda_program_compute: the loaded kernels and the program's failure record, for callers that
 * enqueue other work between segments, on their own streams. NULL if the CPU executes the program.
 * memory  owned by the program */
const struct cuda_compute *cuda_program_compute(const struct bound_program *bound);

#endif
