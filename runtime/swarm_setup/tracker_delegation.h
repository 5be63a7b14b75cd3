/* tracker_delegation: the delegation in a tracker's state folder, by which the operator names the
 * tracker's keys. */
#ifndef SKEP_SWARM_SETUP_TRACKER_DELEGATION_H
#define SKEP_SWARM_SETUP_TRACKER_DELEGATION_H

#include "runtime/swarm_setup/tracker_setup.h"

/* tracker_delegation_sign: sign a delegation to these keys, newer than the one in
 * setup->delegation, and write it to the state folder.
 * swarm      hash of the manifest
 * expires_s  Unix time from which it is not valid any more; 0: never
 * errors     those of delegation_file_write */
MUST_CHECK enum status tracker_delegation_sign(struct tracker_setup *setup,
                                               const struct key_pairs *operator_keys,
                                               const struct hash *swarm,
                                               const struct public_keys *tracker,
                                               uint64_t expires_s, struct fault *fault);

/* tracker_delegation_load: read the delegation of an existing swarm into setup->delegation, and
 * check that it names the tracker's keys.
 * errors  those of delegation_file_read; STATUS_INPUT: it is of another swarm, names other keys or
 *         has expired */
MUST_CHECK enum status tracker_delegation_load(struct tracker_setup *setup, struct fault *fault);

#endif
