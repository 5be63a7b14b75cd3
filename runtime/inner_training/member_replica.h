/* member_replica: a member's replica of the outer state in its resident extents, with the masters
 * that its program trains. */
#ifndef SKEP_INNER_TRAINING_MEMBER_REPLICA_H
#define SKEP_INNER_TRAINING_MEMBER_REPLICA_H

#include "runtime/session/session.h"
#include "runtime/swarm_setup/swarm_memory.h"

/* swarm_extent_at: the address of an extent, once the session is bound; NULL for one of 0 bytes. */
void *swarm_extent_at(const struct session *session, enum swarm_extent line);

/* swarm_replica_bind: fills in the replica's addresses, not its values. Its inner weights are the
 * session's masters in blueprint order; with several ranks, rank 0's copy of them
 * (inner_weights.h).
 * limits  a bound session of a member, on rank 0; masters in f32
 * memory  the table of parts, and the state of a device that computes on it, in the session's
 *         region
 * errors  STATUS_FAILED of the device; nothing has to be released then */
MUST_CHECK enum status swarm_replica_bind(struct session *session,
                                          const struct replica_shape *shape,
                                          struct replica *replica, struct fault *fault);

#endif
