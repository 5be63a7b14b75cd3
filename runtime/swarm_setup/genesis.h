/* genesis: computes the Merkle root of the outer state that a swarm starts from. */
#ifndef SKEP_SWARM_SETUP_GENESIS_H
#define SKEP_SWARM_SETUP_GENESIS_H

#include "base/hash.h"
#include "runtime/settings/settings.h"

/* genesis_root: the root over the leaves that replica.h defines, with the initial parameters and
 * zero momentum (none with a sparse codec). replica_init_state computes the same root from the same
 * parameters in fp32. The whole model is never in memory: random parameters need memory for one
 * leaf, and parameters loaded from a folder need 32 MiB.
 * model_folder  the folder of the safetensors files; "" for none
 * errors  those of weights_load; STATUS_INPUT when the run starts from stored weights and there is
 *         no folder; STATUS_STOPPED after a stop request. *root is then untouched */
MUST_CHECK enum status genesis_root(const struct settings *settings,
                                    const struct blueprint *blueprint, const char *model_folder,
                                    struct hash *root, struct fault *fault);

#endif
