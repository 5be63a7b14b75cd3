/* member_rates: the optimizer's rates of a swarm's members, which may depend on how many of them
 * share a round.
 *
 * optimizer.betas and optimizer.weight_decay are those of a run that trains alone on the batches of
 * all M members together. A member's batch is 1/M of that. With `auto`, a member's averages (both
 * moments, and the weights, which decay) cover as many tokens of its own as the lone run's cover:
 *
 *     1 - beta' = (1 - beta) / M          decay' = decay / M                 (decision 0028)
 *
 * and AdamW divides by an estimate of the second moment of the batches of all, whose noise is 1/M
 * of its own: v / M + (1 - 1/M) m^2, with bias corrections. */
#ifndef SKEP_SWARM_SETUP_MEMBER_RATES_H
#define SKEP_SWARM_SETUP_MEMBER_RATES_H

#include "runtime/settings/settings.h"

#include <stdint.h>

struct member_adamw_rates {
    struct number_pair betas; /* decay rates of the moments */
    double weight_decay;      /* decoupled weight decay */
    double mean_share;        /* share of the squared mean in AdamW's divisor */
};

/* member_adamw_rates_of: the rates of each of `members` members of a round. They are exactly those
 * of the settings, with a mean share of 0, for one member and for settings that are `fixed`.
 * limits  members > 0
 * source  Malladi et al. 2022, arXiv:2205.10287 (betas); Therien et al. 2025, arXiv:2505.23725
 *         (decay) */
struct member_adamw_rates member_adamw_rates_of(const struct settings *settings, uint32_t members);

#endif
