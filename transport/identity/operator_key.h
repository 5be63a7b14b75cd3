/* operator_key: the operator's key, which signs a swarm's manifest, delegations, roster epochs and
 * orders to roll back. It is an identity separate from the tracker's, so that the operator can keep
 * it on another machine. The manifest contains its public keys.
 *
 * The file is an identity file (`skep keys --identity FILE` creates one), or one line with the
 * text of the public keys, which is enough to start a swarm but cannot sign. */
#ifndef SKEP_TRANSPORT_IDENTITY_OPERATOR_KEY_H
#define SKEP_TRANSPORT_IDENTITY_OPERATOR_KEY_H

#include "base/fault.h"
#include "transport/identity/keys.h"

#include <stdbool.h>

struct operator_key {
    struct key_pairs keys; /* without secret keys, unless has_secrets */
    bool has_secrets;      /* the file is an identity file, so the operator can sign with it */
};

/* operator_key_read: read the file of an operator's key.
 * errors  those of identity_load; STATUS_INPUT: a text of public keys that is not valid; *key is
 *         then unchanged */
MUST_CHECK enum status operator_key_read(const char *path, struct operator_key *key,
                                         struct fault *fault);

/* operator_key_read_or_create: as operator_key_read, but a missing file is created with a new
 * identity. *created: whether this call created it. */
MUST_CHECK enum status operator_key_read_or_create(const char *path, struct operator_key *key,
                                                   bool *created, struct fault *fault);

#endif
