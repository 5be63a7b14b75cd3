/* swarm_place: the SWARM of a command line, a NAME.skep or a join string: where its tracker is. */
#ifndef SKEP_SWARM_CLIENT_SWARM_PLACE_H
#define SKEP_SWARM_CLIENT_SWARM_PLACE_H

#include "base/fault.h"
#include "base/region.h"
#include "transport/identity/join_string.h"
#include "transport/identity/keys.h"

#include <stdbool.h>

/* swarm_is_reference: whether a person meant a swarm by it: a join string, or a name with .skep. */
bool swarm_is_reference(const char *text);

/* swarm_reference_read: its tracker, of a manifest the one that it names itself.
 * memory  the manifest in `region`
 * errors  those of join_string_read and manifest_read_file */
MUST_CHECK enum status swarm_reference_read(const char *swarm, struct region *region,
                                            struct join_string *tracker, struct fault *fault);

/* swarm_identity: the identity in `given`, or where this user's is; made if there is none.
 * errors  those of identity_path and identity_load_or_create */
MUST_CHECK enum status swarm_identity(const char *given, struct key_pairs *keys,
                                      struct fault *fault);

#endif
