/* member_session: a session whose shared settings and model come from a swarm's manifest. */
#ifndef SKEP_SWARM_SETUP_MEMBER_SESSION_H
#define SKEP_SWARM_SETUP_MEMBER_SESSION_H

#include "runtime/session/session.h"
#include "runtime/swarm_setup/swarm_setup.h"

/* member_session_read: as session_read, for a member of the swarm whose manifest has been read. The
 * memory that a member needs for the swarm becomes resident extents of the plan, and its disk space
 * part of the disk budget. The model's folder is one that the member names, or "": then the first
 * weights are random or come from other members.
 * session  zero-initialised; source->manifest is kept by reference
 * terms    filled in
 * errors   those of swarm_settings_read and session_build; a folder that holds another model */
MUST_CHECK enum status member_session_read(struct session *session,
                                           const struct swarm_member_source *source,
                                           struct swarm_terms *terms, struct fault *fault);

/* member_session_or_run_read: session_read, where `what` may also be a manifest (*.skep) or a join
 * string, as the commands that only inspect or compute accept it. A join string's manifest is
 * fetched from the tracker.
 * terms  filled in for a manifest; NULL: not needed. session->shared_settings_fixed says whether
 *        `what` was one
 * errors those of session_read, manifest_fetch, manifest_read_file and member_session_read */
MUST_CHECK enum status member_session_or_run_read(struct session *session, const char *what,
                                                  const char *const *overrides, int override_count,
                                                  struct swarm_terms *terms, struct fault *fault);

#endif
