/* checkpoint_site: how the ranks that save together come to one outcome. */
#ifndef SKEP_CHECKPOINT_CHECKPOINT_SITE_H
#define SKEP_CHECKPOINT_CHECKPOINT_SITE_H

#include "base/fault.h"

#include <stdbool.h>

/* Zero-initialised: a process alone. */
struct checkpoint_ranks {
    int rank, world;
    /* The same outcome on every rank: OK when each one's `mine` is OK, else the status and fault of
     * one that is not; *fault is this rank's fault on entry when `mine` is not OK. Every rank calls
     * it at the same points, whatever happened to it. Not called when world is 1 or 0. */
    enum status (*agree)(void *context, enum status mine, struct fault *fault);
    void *context;
};

/* checkpoint_is_rank0: whether this process makes, names and removes folders: rank 0. */
bool checkpoint_is_rank0(const struct checkpoint_ranks *site);

/* checkpoint_site_agree: site->agree, or `mine` when alone. */
MUST_CHECK enum status checkpoint_site_agree(const struct checkpoint_ranks *site, enum status mine,
                                             struct fault *fault);

/* checkpoint_ranks_wait: until every rank is here; what they made of it is known already. */
void checkpoint_ranks_wait(const struct checkpoint_ranks *site);

#endif
