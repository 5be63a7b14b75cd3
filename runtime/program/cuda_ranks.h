/* cuda_ranks: the ranks of a site whose program runs on GPUs. */
#ifndef SKEP_PROGRAM_CUDA_RANKS_H
#define SKEP_PROGRAM_CUDA_RANKS_H

#include "runtime/program/program.h"
#include "transport/site/site.h"

/* cuda_ranks_open: NCCL between them, by the site's exchanges, with the arena registered and the
 * schedule's staging for exact sums. Every rank calls it, once all are bound.
 * groups  of enum rank_axis, in that order
 * memory  in `region`; *communicator must not move
 * errors  those of nccl_open, on all ranks; of nccl_register */
MUST_CHECK enum status cuda_ranks_open(struct bound_program *bound, struct site *site,
                                       const struct collective_group groups[static AXIS_COUNT],
                                       struct region *region, struct communicator *communicator,
                                       struct fault *fault);

#endif
