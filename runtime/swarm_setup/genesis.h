/* genesis: the root of the outer state that a swarm starts from. */
#ifndef SKEP_SWARM_SETUP_GENESIS_H
#define SKEP_SWARM_SETUP_GENESIS_H

#include "base/hash.h"
#include "runtime/settings/settings.h"

/* genesis_root: the root over the leaves of replica.h with the first parameters and a momentum of
 * zeros; replica_begin computes the same root from the same parameters in fp32. The model is never
 * in memory as a whole: random parameters pass through one leaf, those of a folder through 32 MiB.
 * model_folder  with the safetensors; "" for none
 * errors  those of weights_load; STATUS_INPUT when the run begins from weights and there is no
 *         folder; STATUS_STOPPED. *root is then untouched */
MUST_CHECK enum status genesis_root(const struct settings *settings,
                                    const struct blueprint *blueprint, const char *model_folder,
                                    struct hash *root, struct fault *fault);

#endif
