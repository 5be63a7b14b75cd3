/* swarm_setup: everything that a member or a tracker builds before it starts: the settings, which
 * come from the swarm's manifest and the member's overrides; a member's session with the memory and
 * disk space that the swarm needs; the report of these needs; the manifest of a new swarm; and the
 * options of its tracker. This header declares the functions for settings. runtime/cli and
 * runtime/inner_training call this module.
 *
 * public   member_rates.h member_session.h preflight.h rollback_setup.h swarm_memory.h
 *          tracker_delegation.h tracker_setup.h */
#ifndef SKEP_SWARM_SETUP_SWARM_SETUP_H
#define SKEP_SWARM_SETUP_SWARM_SETUP_H

#include "runtime/settings/settings.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/replica/replica.h"

/* swarm_shares_key: whether the manifest sets this key for all members. These are all shared keys
 * except the paths and formats of the model and the data, which each member sets. */
bool swarm_shares_key(const struct setting_key *key);

/* swarm_keys_write: writes the keys that swarm_shares_key accepts, one "key: value" per line, in
 * the order of the key table. Keys that older programs of the same protocol do not know are written
 * only if they do not have their default.
 * limits  settings_check_model has completed the settings; `text` has room for
 *         settings_describe_bytes_max */
void swarm_keys_write(const struct settings *settings, struct text *text);

/* swarm_settings_check: checks the rules that apply only in a swarm: it has a name, at most
 * SWARM_MEMBERS_MAX members, a codec that is implemented, a quorum of 0.5, rates that work with any
 * number of members, no outer momentum with the sparse codec, and an fp32 copy of all parameters.
 * errors  STATUS_INPUT at the key that breaks a rule */
MUST_CHECK enum status swarm_settings_check(const struct settings *settings, struct fault *fault);

/* The manifest and overrides that determine a member's settings. */
struct swarm_member_source {
    const struct manifest *manifest;
    const char *subject;          /* the manifest's file or address, for messages */
    const char *const *overrides; /* [override_count]: settings as KEY=VALUE */
    int override_count;
};

/* swarm_settings_read: reads a member's settings. Output paths that are not set are in the state
 * folder (swarm_state_folder). data_match_find_files searches for the data unless an override sets
 * its path. `model` is unset unless an override sets it.
 * memory  is in `region`
 * errors  STATUS_INPUT: those of settings_open and swarm_settings_check; a manifest that sets a
 *         local setting; an override of a shared setting; no state folder. *settings is then
 *         untouched */
MUST_CHECK enum status swarm_settings_read(const struct swarm_member_source *source,
                                           struct region *region, struct settings *settings,
                                           struct fault *fault);

/* Values derived from a swarm's settings and model, which are equal for the tracker and all
 * members. */
struct swarm_terms {
    const struct manifest *manifest; /* NULL: no swarm */
    struct replica_shape shape;      /* sizes of the replica, and rates of the outer step */
    uint64_t seat_samples;           /* number of samples that each member gets per round */
    uint64_t sample_tokens;          /* tokens per sample: batch.sequence */
    /* number of rounds of the run: steps / inner_steps, rounded up */
    uint32_t commits_max;
};

/* swarm_codec_is_sparse: whether swarm.codec is sparse, which is the choice after those of enum
 * codec. Such a swarm has no outer momentum. */
static inline bool swarm_codec_is_sparse(const struct settings *settings) {
    return settings->swarm_codec == CODEC_COUNT;
}

/* swarm_sparse_shape: the form of the sparse codec in the settings.
 * swarm_set_outer_rates: sets the rates of the outer step in *shape; with the sparse codec the
 * momentum is 0. */
struct sparse_shape swarm_sparse_shape(const struct settings *settings);
void swarm_set_outer_rates(const struct settings *settings, struct replica_shape *shape);

/* swarm_terms_of: computes the terms of settings that swarm_settings_check and settings_check_model
 * have accepted.
 * manifest  kept by reference; NULL if it does not exist yet
 * errors    those of slices_divide; *terms is then untouched */
MUST_CHECK enum status swarm_terms_of(const struct manifest *manifest,
                                      const struct settings *settings,
                                      const struct blueprint *blueprint, struct swarm_terms *terms,
                                      struct fault *fault);

enum { DEFAULT_SNAPSHOT_ROUNDS = 8 }; /* rounds between snapshots if snapshot.every is 0 */

/* swarm_snapshot_rounds: number of committed rounds between two snapshots of a member:
 * snapshot.every, which counts inner steps, rounded up to whole rounds. A member stores the results
 * of these rounds until its next snapshot. */
uint32_t swarm_snapshot_rounds(const struct settings *settings);

/* swarm_state_folder: the folder for a member's state in the swarm `name`: the first folder of
 * $STATE_DIRECTORY, else skep/NAME in $XDG_STATE_HOME, else in ~/.local/state.
 * errors  STATUS_INPUT when none of these variables is an absolute path; `folder` is then
 *         untouched */
MUST_CHECK enum status swarm_state_folder(const char *name, char folder[static PATH_BYTES],
                                          struct fault *fault);

#endif
