/* tally: what ranks tell each other about a step: how many tokens count, the loss, the gradients'
 * norm. Each rank writes its own tally, all are gathered, each rank adds up the same ones. */
#ifndef SKEP_KERNELS_TALLY_H
#define SKEP_KERNELS_TALLY_H

#include "kernels/scalars.h"

/* What tally_in takes over; or'ed together. */
enum tally_part {
    TALLY_TOKENS = 1, /* valid_tokens: the sum; loss_scale: 1 over it, 0 when it is 0 */
    TALLY_LOSS = 2,   /* loss_sum: the sum */
    TALLY_NORM = 4    /* norm: merged over the first `shard` ranks, who hold every gradient once */
};

struct tally_args {
    int ranks; /* of the world */
    int shard; /* that split one replica; the first so many are the first replica */
    unsigned parts;
};

/* tally_out: this rank's loss_sum, valid_tokens and norm. */
void tally_out(const struct step_scalars *scalars, struct rank_tally *own);

/* tally_in: from tallies[args->ranks], in rank order, to *scalars; parts not named stay as they
 * are.
 * limits    shard <= ranks
 * accuracy  losses are added in fp64 in rank order, the rest are integers: the same bits on every
 *           rank */
void tally_in(const struct tally_args *args, const struct rank_tally *tallies,
              struct step_scalars *scalars);

#endif
