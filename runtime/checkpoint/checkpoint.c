#include "runtime/checkpoint/checkpoint.h"

bool checkpoint_is_rank0(const struct checkpoint_ranks *ranks) {
    return ranks->rank == 0;
}

enum status checkpoint_agree(const struct checkpoint_ranks *ranks, enum status status,
                             struct fault *fault) {
    return ranks->world > 1 ? ranks->agree(ranks->context, status, fault) : status;
}

void checkpoint_ranks_wait(const struct checkpoint_ranks *ranks) {
    struct fault ignored;
    enum status status = checkpoint_agree(ranks, OK, &ignored);
    (void)status;
}
