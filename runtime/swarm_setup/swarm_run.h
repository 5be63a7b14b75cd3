/* swarm_run: a run in a swarm: its mathematics come from the swarm's manifest, all else from the
 * member's own key=value overrides. */
#ifndef SKEP_SWARM_SETUP_SWARM_RUN_H
#define SKEP_SWARM_SETUP_SWARM_RUN_H

#include "runtime/settings/run.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/replica/replica.h"

/* swarm_is_shared: whether a key's value is the manifest's and nobody's own: a shared key, but for
 * those that say where a member keeps its model and its data. */
bool swarm_is_shared(const struct key *key);

/* swarm_keys_write: the keys that swarm_is_shared, one "key: value" a line, in the table's order.
 * limits  of a run that settings_check_model has filled in; a builder of
 *         settings_describe_bytes_max */
void swarm_keys_write(const struct run *run, struct text *text);

/* swarm_settings_check: what a swarm asks of a run's settings beside all else: a name, at most
 * SWARM_MEMBERS_MAX members, a codec that exists, a quorum of more than half, sizes that do not
 * follow from a member's own microbatch.
 * errors  STATUS_INPUT at the key */
MUST_CHECK enum status swarm_settings_check(const struct run *run, struct fault *fault);

/* What a member begins with. */
struct swarm_member_source {
    const struct manifest *manifest;
    const char *place; /* the manifest's file or address, for messages */
    const char *const *overrides;
    int override_count;
};

/* swarm_settings_read: a member's settings. Unset outputs go to the state folder: the first of
 * $STATE_DIRECTORY, else skep/NAME in $XDG_STATE_HOME or ~/.local/state. Data that nobody named are
 * looked for by data_match_find. `model` is unset, or a folder of the member's own.
 * memory  in `region`
 * errors  STATUS_INPUT: those of settings_open and swarm_settings_check; a manifest that sets a
 *         local key; an override of a shared one, naming both values; no state folder. *run is then
 *         untouched */
MUST_CHECK enum status swarm_settings_read(const struct swarm_member_source *source,
                                           struct region *region, struct run *run,
                                           struct fault *fault);

/* What follows from a swarm's settings and its model: equal for all of its members and its tracker.
 */
struct swarm_terms {
    const struct manifest *manifest; /* NULL: no swarm */
    struct replica_shape shape;
    uint64_t seat_samples;  /* a member's own in a round: inner_steps x batch.tokens / sequence */
    uint64_t sample_tokens; /* of one: batch.sequence */
    uint32_t commits_max;   /* the run's end: steps / inner_steps, rounded up */
};

/* swarm_terms_of: of a run that swarm_settings_check and settings_check_model let pass.
 * manifest  kept by reference; may be NULL, as long as there is none
 * errors    those of slices_plan; *terms is then untouched */
MUST_CHECK enum status swarm_terms_of(const struct manifest *manifest, const struct run *run,
                                      const struct blueprint *blueprint, struct swarm_terms *terms,
                                      struct fault *fault);

enum { SWARM_SNAPSHOT_ROUNDS = 8 }; /* of a run that does not set snapshot.every */

/* swarm_snapshot_rounds: committed rounds from one snapshot of a member to the next, whose results
 * it keeps until then: snapshot.every, which counts inner steps, in whole rounds. */
uint32_t swarm_snapshot_rounds(const struct run *run);

/* swarm_state_folder: as above, for a swarm of that name.
 * errors  STATUS_INPUT when neither variable names a folder; `folder` is then untouched */
MUST_CHECK enum status swarm_state_folder(const char *name, char folder[static PATH_BYTES],
                                          struct fault *fault);

#endif
