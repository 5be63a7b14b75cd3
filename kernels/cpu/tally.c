#include "kernels/tally.h"

#include "kernels/optimizer.h"

void tally_out(const struct step_scalars *scalars, struct rank_tally *own) {
    *own = (struct rank_tally){.loss_sum = scalars->loss_sum,
                               .valid_tokens = scalars->valid_tokens,
                               .norm = scalars->norm};
}

static void set_valid_tokens(int64_t valid_tokens, struct step_scalars *scalars) {
    scalars->valid_tokens = valid_tokens;
    scalars->loss_scale = valid_tokens > 0 ? (float)(1.0 / (double)valid_tokens) : 0;
}

void tally_in(const struct tally_args *args, const struct rank_tally *tallies,
              struct step_scalars *scalars) {
    ASSERT(args->shard_size >= 1 && args->shard_size <= args->ranks);
    struct rank_tally sum = {.loss_sum = 0};
    for (int rank = 0; rank < args->ranks; rank++) {
        sum.loss_sum += tallies[rank].loss_sum;
        sum.valid_tokens += tallies[rank].valid_tokens;
        if (rank < args->shard_size) {
            norm_accumulator_merge(&sum.norm, &tallies[rank].norm);
        }
    }
    if (args->parts & TALLY_TOKENS) {
        set_valid_tokens(sum.valid_tokens, scalars);
    }
    if (args->parts & TALLY_LOSS) {
        scalars->loss_sum = sum.loss_sum;
    }
    if (args->parts & TALLY_NORM) {
        scalars->norm = sum.norm;
    }
}
