/* tracker_delegation: the delegation in a tracker's state folder, by which the operator names the
 * tracker's keys. */
#ifndef SKEP_SWARM_SETUP_TRACKER_DELEGATION_H
#define SKEP_SWARM_SETUP_TRACKER_DELEGATION_H

#include "runtime/swarm_setup/tracker_setup.h"
#include "transport/identity/operator_key.h"

/* tracker_delegation_sign: sign a delegation to these keys, newer than the one in
 * setup->delegation, and write it to the state folder.
 * swarm      hash of the manifest
 * expires_s  Unix time at which the delegation expires; 0: never
 * errors     those of delegation_file_write */
MUST_CHECK enum status tracker_delegation_sign(struct tracker_setup *setup,
                                               const struct key_pairs *operator_keys,
                                               const struct hash *swarm,
                                               const struct public_keys *tracker,
                                               uint64_t expires_s, struct fault *fault);

/* tracker_setup_read_operator_key: read the operator's key of the swarm of the manifest. The caller
 * wipes it.
 * errors  those of operator_key_read; STATUS_INPUT: another key, or one that cannot sign */
MUST_CHECK enum status tracker_setup_read_operator_key(const struct tracker_setup *setup,
                                                       struct operator_key *key,
                                                       struct fault *fault);

/* tracker_delegation_renew: sign a delegation of an existing swarm to the tracker with this public
 * key. The tracker reads it when it starts, and within a second while it runs.
 * days    number of days for which the delegation is valid; 0: without end
 * memory  in `region`; the caller passes a zeroed *setup
 * errors  STATUS_USAGE: a key that is not valid; those of tracker_setup_open_manifest,
 *         tracker_setup_read_operator_key and tracker_delegation_sign */
MUST_CHECK enum status tracker_delegation_renew(const struct tracker_setup_args *args,
                                                const char *key, int64_t days,
                                                struct region *region, struct tracker_setup *setup,
                                                struct fault *fault);

/* tracker_delegation_load: read the delegation of an existing swarm into setup->delegation, and
 * check that it names the tracker's keys.
 * errors  those of delegation_file_read; STATUS_INPUT: it is of another swarm, names other keys or
 *         has expired */
MUST_CHECK enum status tracker_delegation_load(struct tracker_setup *setup, struct fault *fault);

#endif
