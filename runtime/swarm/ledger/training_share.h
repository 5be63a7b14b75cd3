/* training_share: the part of their samples that members trained on in a committed round. If it
 * is small, the run learns less than its number of steps suggests. */
#ifndef SKEP_SWARM_LEDGER_TRAINING_SHARE_H
#define SKEP_SWARM_LEDGER_TRAINING_SHARE_H

#include "runtime/swarm/ledger/entry.h"

/* The training of the members that declared a contribution, and the most that their samples
 * allow. */
struct training_share {
    uint64_t tokens; /* tokens that the declaring members trained on */
    /* largest number of tokens in the samples assigned to the declaring members */
    uint64_t planned;
};

/* training_share_of: the training share of a COMMIT; zeros for other entries. `sample_tokens` is
 * the largest number of tokens of a sample. */
struct training_share training_share_of(const struct entry *commit, uint64_t sample_tokens);

/* training_share_is_low: whether members trained on less than half of their samples. */
bool training_share_is_low(const struct training_share *share);

#endif
