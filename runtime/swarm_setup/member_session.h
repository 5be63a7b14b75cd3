/* member_session: a session whose shared settings and model come from a swarm's manifest. */
#ifndef SKEP_SWARM_SETUP_MEMBER_SESSION_H
#define SKEP_SWARM_SETUP_MEMBER_SESSION_H

#include "runtime/session/session.h"
#include "runtime/swarm_setup/swarm_setup.h"

/* member_session_read: does what session_read does, for a member of the swarm that the manifest
 * defines. The memory that a member needs for the swarm becomes resident extents of the plan, and
 * its disk space becomes part of the disk budget. session->model_folder is the folder that the
 * member's `model` specifies, or "" if it is unset: the initial weights are then random or come
 * from other members.
 * session  zero-initialised; source->manifest is kept by reference
 * terms    is filled in
 * errors   those of swarm_settings_read and session_build; STATUS_INPUT when the folder contains a
 *          different model */
MUST_CHECK enum status member_session_read(struct session *session,
                                           const struct swarm_member_source *source,
                                           struct swarm_terms *terms, struct fault *fault);

/* member_session_or_run_read: does what session_read does, but `run_or_swarm` may also be a
 * manifest file (*.skep) or a join string. For a join string, the manifest is fetched from the
 * tracker.
 * terms   is filled in for a swarm; may be NULL. session->shared_settings_fixed is true for a swarm
 * errors  those of session_read, manifest_fetch, manifest_read_file and member_session_read */
MUST_CHECK enum status member_session_or_run_read(struct session *session, const char *run_or_swarm,
                                                  const char *const *overrides, int override_count,
                                                  struct swarm_terms *terms, struct fault *fault);

#endif
