/* tally: the sums over ranks that a step needs: valid tokens, loss and gradient norm. Each rank
 * writes its own tally, an all-gather distributes them, and each rank adds up the same tallies. */
#ifndef SKEP_KERNELS_TALLY_H
#define SKEP_KERNELS_TALLY_H

#include "kernels/scalars.h"

/* The fields that tally_in sets; a bit mask. */
enum tally_part {
    /* set valid_tokens to the sum, loss_scale to its inverse (0 if the sum is 0) */
    TALLY_TOKENS = 1,
    TALLY_LOSS = 2, /* set loss_sum to the sum over all ranks */
    /* merge norm over the first `shard_size` ranks, which together hold every gradient once */
    TALLY_NORM = 4
};

struct tally_args {
    int ranks;      /* world size */
    int shard_size; /* ranks in a shard group; the first shard_size ranks hold the first replica */
    unsigned parts; /* mask of enum tally_part: the fields to set */
};

/* tally_out: copy this rank's loss_sum, valid_tokens and norm to *own. */
void tally_out(const struct step_scalars *scalars, struct rank_tally *own);

/* tally_in: add up tallies[args->ranks] in rank order and set the fields of *scalars that
 * args->parts selects.
 * limits    shard_size <= ranks
 * accuracy  losses are added in fp64 in rank order, and the rest are integers: the same bits on
 *           every rank */
void tally_in(const struct tally_args *args, const struct rank_tally *tallies,
              struct step_scalars *scalars);

#endif
