/* manifest_make: from a run file to the manifest that a tracker signs and serves. */
#ifndef SKEP_SWARM_SETUP_MANIFEST_MAKE_H
#define SKEP_SWARM_SETUP_MANIFEST_MAKE_H

#include "runtime/swarm_setup/swarm_setup.h"

/* A run from which a swarm is made. */
struct manifest_draft {
    struct settings settings;
    struct blueprint blueprint;
    char model_folder[PATH_BYTES]; /* "" for a bare config.json */
    const char *config_text;
    const char *run_text; /* from swarm_keys_write */
    struct swarm_terms terms;
};

/* manifest_draft_read: reads and checks the run file and its model, without reading data or
 * weights. The caller sets terms.manifest.
 * memory  in `region`
 * errors  those of settings_open, blueprint_open, settings_check_model, swarm_settings_check,
 *         slices_plan; *offer is then untouched */
MUST_CHECK enum status manifest_draft_read(const char *path, const char *const *overrides,
                                           int override_count, struct region *region,
                                           struct manifest_draft *offer, struct fault *fault);

/* manifest_draft_sign: creates the manifest of a new swarm: reads all data files and computes the
 * genesis root.
 * address  of the tracker, valid by address_error; keys: its identity
 * memory   fields in `region` and the offer's; the file's text, NUL-terminated, in `region`
 * errors   those of data_match_hash, genesis_root and manifest_write; outputs are then untouched */
MUST_CHECK enum status manifest_draft_sign(const struct manifest_draft *offer, const char *address,
                                           const struct key_pairs *keys, struct region *region,
                                           struct manifest *manifest, const char **text,
                                           struct fault *fault);

/* manifest_draft_matches: tests that a manifest made earlier is of this run: the same settings,
 * config.json and tracker keys. Another address is logged. Data and weights are not read, because
 * the manifest has their hashes.
 * errors  STATUS_INPUT at `place`, with the difference */
MUST_CHECK enum status manifest_draft_matches(const struct manifest_draft *offer,
                                              const struct manifest *manifest, const char *place,
                                              const struct join_string *tracker,
                                              struct fault *fault);

#endif
