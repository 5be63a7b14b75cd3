/* swarm_offer: from a run file to the manifest that a tracker signs and serves. */
#ifndef SKEP_SWARM_SETUP_SWARM_OFFER_H
#define SKEP_SWARM_SETUP_SWARM_OFFER_H

#include "runtime/swarm_setup/swarm_run.h"

/* A run that is to become, or became, a swarm. */
struct manifest_draft {
    struct run run;
    struct blueprint blueprint;
    char model_folder[PATH_BYTES]; /* "" for a bare config.json */
    const char *config_text;
    const char *run_text; /* what swarm_keys_write gives */
    struct swarm_terms terms;
};

/* manifest_draft_read: the run file, its model and the checks of both, without a look at any data
 * or weights. terms.manifest is for the caller to fill in.
 * memory  in `region`
 * errors  those of settings_open, blueprint_open, settings_check_model, swarm_settings_check,
 *         slices_plan; *offer is then untouched */
MUST_CHECK enum status manifest_draft_read(const char *path, const char *const *overrides,
                                           int override_count, struct region *region,
                                           struct manifest_draft *offer, struct fault *fault);

/* manifest_draft_sign: a new swarm's manifest, created now: reads all data files and computes the
 * genesis root.
 * address  of the tracker, right by address_error; keys: those that it proves itself with
 * memory   fields in `region` and the offer's; the file's text, NUL-terminated, in `region`
 * errors   those of data_match_hash, genesis_root and manifest_write; outputs are then untouched */
MUST_CHECK enum status manifest_draft_sign(const struct manifest_draft *offer, const char *address,
                                           const struct key_pairs *keys, struct region *region,
                                           struct manifest *manifest, const char **text,
                                           struct fault *fault);

/* manifest_draft_matches: whether a manifest that was made before is still this run's, so that a
 * tracker may go on: the same settings, config.json and keys. Another address is told in the log.
 * Reads neither data nor weights, which the manifest speaks for.
 * errors  STATUS_INPUT at `place`, saying what differs, and in which key */
MUST_CHECK enum status manifest_draft_matches(const struct manifest_draft *offer,
                                              const struct manifest *manifest, const char *place,
                                              const struct join_string *tracker,
                                              struct fault *fault);

#endif
