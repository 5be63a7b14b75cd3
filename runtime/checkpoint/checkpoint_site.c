#include "runtime/checkpoint/checkpoint_site.h"

bool checkpoint_is_rank0(const struct checkpoint_ranks *site) {
    return site->rank == 0;
}

enum status checkpoint_site_agree(const struct checkpoint_ranks *site, enum status mine,
                                  struct fault *fault) {
    return site->world > 1 ? site->agree(site->context, mine, fault) : mine;
}

void checkpoint_ranks_wait(const struct checkpoint_ranks *site) {
    struct fault ignored;
    enum status status = checkpoint_site_agree(site, OK, &ignored);
    (void)status;
}
