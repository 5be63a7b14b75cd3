/* swarm_setup: everything that a member or a tracker builds before it starts: the settings, which
 * come from the swarm's manifest and the member's own overrides; a member's session with the memory
 * and disk space that the swarm needs; the report of these needs; the manifest of a new swarm; and
 * the options of its tracker. This header has the settings. The commands and runtime/inner_training
 * call this room.
 *
 * public   member_session.h preflight.h swarm_memory.h tracker_setup.h */
#ifndef SKEP_SWARM_SETUP_SWARM_SETUP_H
#define SKEP_SWARM_SETUP_SWARM_SETUP_H

#include "runtime/settings/settings.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/replica/replica.h"

/* swarm_is_shared: whether the manifest sets a key for all members: a shared key, except those for
 * the places of the model and the data, which every member sets. */
bool swarm_is_shared(const struct setting_key *key);

/* swarm_keys_write: writes the keys that swarm_is_shared accepts, one "key: value" per line, in the
 * table's order.
 * limits  a run that settings_check_model has completed; a builder of
 *         settings_describe_bytes_max */
void swarm_keys_write(const struct settings *settings, struct text *text);

/* swarm_settings_check: the further rules for the settings of a swarm: a name, at most
 * SWARM_MEMBERS_MAX members, a codec that exists, a quorum of more than half, and sizes that do not
 * follow from a member's microbatch.
 * errors  STATUS_INPUT at the key */
MUST_CHECK enum status swarm_settings_check(const struct settings *settings, struct fault *fault);

/* The source of a member's settings. */
struct swarm_member_source {
    const struct manifest *manifest;
    const char *place; /* the manifest's file or address, for messages */
    const char *const *overrides;
    int override_count;
};

/* swarm_settings_read: a member's settings. Outputs without a place go to the state folder: the
 * first of $STATE_DIRECTORY, else skep/NAME in $XDG_STATE_HOME or ~/.local/state. Data that no
 * override names is searched for by data_match_find. `model` is unset, or a folder that the member
 * names.
 * memory  in `region`
 * errors  STATUS_INPUT: those of settings_open and swarm_settings_check; a manifest that sets a
 *         local key; an override of a shared one, naming both values; no state folder. *settings is
 *         then untouched */
MUST_CHECK enum status swarm_settings_read(const struct swarm_member_source *source,
                                           struct region *region, struct settings *settings,
                                           struct fault *fault);

/* Values that follow from a swarm's settings and model, equal for all members and the tracker. */
struct swarm_terms {
    const struct manifest *manifest; /* NULL: no swarm */
    struct replica_shape shape;
    uint64_t seat_samples;  /* of one member in a round: inner_steps x batch.tokens / sequence */
    uint64_t sample_tokens; /* of one sample: batch.sequence */
    uint32_t commits_max;   /* the run's end: steps / inner_steps, rounded up */
};

/* swarm_terms_of: the terms of a run that swarm_settings_check and settings_check_model accept.
 * manifest  kept by reference; NULL before there is one
 * errors    those of slices_plan; *terms is then untouched */
MUST_CHECK enum status swarm_terms_of(const struct manifest *manifest,
                                      const struct settings *settings,
                                      const struct blueprint *blueprint, struct swarm_terms *terms,
                                      struct fault *fault);

enum { SWARM_SNAPSHOT_ROUNDS = 8 }; /* of a run that does not set snapshot.every */

/* swarm_snapshot_rounds: committed rounds between two snapshots of a member, which stores their
 * results meanwhile: snapshot.every, which counts inner steps, in whole rounds. */
uint32_t swarm_snapshot_rounds(const struct settings *settings);

/* swarm_state_folder: as above, for a swarm of that name.
 * errors  STATUS_INPUT when neither variable names a folder; `folder` is then untouched */
MUST_CHECK enum status swarm_state_folder(const char *name, char folder[static PATH_BYTES],
                                          struct fault *fault);

#endif
