/* training_share: how much of their samples the members trained on in a committed round. If it is
 * little, the run learns less than its number of steps suggests. */
#ifndef SKEP_SWARM_LEDGER_TRAINING_SHARE_H
#define SKEP_SWARM_LEDGER_TRAINING_SHARE_H

#include "runtime/swarm/ledger/entry.h"

/* Tokens of the members that declared a contribution. */
struct training_share {
    uint64_t tokens;  /* tokens that they trained on */
    uint64_t planned; /* tokens of the samples that they were given, at most */
};

/* training_share_of: for a COMMIT; zeros for other entries. `sample_tokens` is the largest number
 * of tokens of a sample. */
struct training_share training_share_of(const struct entry *commit, uint64_t sample_tokens);

/* training_share_is_low: whether members trained on less than half of their samples. */
bool training_share_is_low(const struct training_share *share);

#endif
