/* swarm_replica: a member's outer state in its lines of the plan, over the masters that its program
 * trains. */
#ifndef SKEP_INNER_TRAINING_SWARM_REPLICA_H
#define SKEP_INNER_TRAINING_SWARM_REPLICA_H

#include "runtime/session/session.h"
#include "runtime/swarm_setup/swarm_memory.h"

/* swarm_extent_at: where a line of the plan lies, once the session is bound; NULL for one of no
 * bytes. */
void *swarm_extent_at(const struct session *session, enum swarm_extent line);

/* swarm_replica_bind: the replica in its lines, its inner weights the session's masters in
 * blueprint order; of several ranks, rank 0's copy of them (inner_weights.h). Not filled.
 * limits  a member's session, bound, of the rank that leads; masters in f32
 * memory  the table of parts, and what runs it on a device, in the session's region
 * errors  STATUS_FAILED: the device's; nothing is held then */
MUST_CHECK enum status swarm_replica_bind(struct session *session, struct replica *replica,
                                          struct fault *fault);

/* swarm_replica_release: what bind made on a device; nothing to do for a replica of zeros. Before
 * the session is finished. */
void swarm_replica_release(struct replica *replica);

#endif
