/* cuda_ranks: connects the ranks of a site whose program executes on GPUs. */
#ifndef SKEP_PROGRAM_CUDA_RANKS_H
#define SKEP_PROGRAM_CUDA_RANKS_H

#include "runtime/program/program.h"
#include "transport/site/site.h"

/* cuda_ranks_open: create an NCCL communicator between the ranks, through exchanges of the site. It
 * registers the arena and uses the schedule's staging for exact sums. Every rank calls it, after
 * all have bound their program. groups  in the order of enum rank_axis
 * memory  in `region`; *communicator must not move
 * errors  faults of nccl_open, the same on all ranks, and of nccl_register */
MUST_CHECK enum status cuda_ranks_open(struct bound_program *bound, struct site *site,
                                       const struct collective_group groups[static AXIS_COUNT],
                                       struct region *region, struct communicator *communicator,
                                       struct fault *fault);

#endif
