#include "runtime/swarm_setup/member_rates.h"

#include "base/check.h"

/* Returns 1 - (1 - beta) / members, as a sum that is exact for one member. */
static double beta_of_member(double beta, double members) {
    return (members - 1 + beta) / members;
}

struct member_adamw_rates member_adamw_rates_of(const struct settings *settings, uint32_t members) {
    ASSERT(members > 0);
    const double beta_members = settings->swarm_member_betas == MEMBER_AUTO ? members : 1;
    const double variance_members = settings->swarm_member_variance == MEMBER_AUTO ? members : 1;
    const double decay_members = settings->swarm_member_decay == MEMBER_AUTO ? members : 1;
    return (struct member_adamw_rates){
        .betas = {beta_of_member(settings->betas.first, beta_members),
                  beta_of_member(settings->betas.second, beta_members)},
        .weight_decay = settings->weight_decay / decay_members,
        .mean_share = (variance_members - 1) / variance_members};
}
