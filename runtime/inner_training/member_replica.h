/* member_replica: a member's replica of the outer state in its resident extents, with the masters
 * that its program trains. */
#ifndef SKEP_INNER_TRAINING_MEMBER_REPLICA_H
#define SKEP_INNER_TRAINING_MEMBER_REPLICA_H

#include "runtime/session/session.h"
#include "runtime/swarm_setup/swarm_memory.h"

/* swarm_extent_address: returns the address of a resident extent of a bound session; NULL if its
 * size is 0. */
void *swarm_extent_address(const struct session *session, enum swarm_extent extent);

/* swarm_replica_bind: sets the addresses of the replica, but not the values of the outer state. Its
 * inner weights are the session's masters in blueprint order; with several ranks, rank 0's copy of
 * them (inner_weights.h).
 * limits  a bound session of a member, on rank 0; masters in f32
 * memory  the table of parts, and the state of a device that computes on it, in the session's
 *         region
 * errors  STATUS_FAILED for device errors; then there is nothing to release */
MUST_CHECK enum status swarm_replica_bind(struct session *session,
                                          const struct replica_shape *shape,
                                          struct replica *replica, struct fault *fault);

#endif
