/* manifest_make: creates the manifest of a swarm from a run file. A tracker signs and serves it. */
#ifndef SKEP_SWARM_SETUP_MANIFEST_MAKE_H
#define SKEP_SWARM_SETUP_MANIFEST_MAKE_H

#include "runtime/swarm_setup/swarm_setup.h"

/* A run file and model that were checked, from which a manifest can be created. */
struct manifest_draft {
    struct settings settings;      /* settings of the run file */
    struct blueprint blueprint;    /* structure of the model */
    char model_folder[PATH_BYTES]; /* folder of the model; "" if only a config.json was given */
    const char *config_text;       /* text of the model's config.json */
    const char *run_text;          /* the shared settings, as swarm_keys_write writes them */
    struct swarm_terms terms;      /* sizes and limits that follow from the settings */
};

/* manifest_draft_read: reads and checks the run file and its model, without reading data or
 * weights. The caller sets terms.manifest.
 * memory  in `region`
 * errors  those of settings_open, blueprint_open, settings_check_model, swarm_settings_check,
 *         slices_divide; *draft is then untouched */
MUST_CHECK enum status manifest_draft_read(const char *path, const char *const *overrides,
                                           int override_count, struct region *region,
                                           struct manifest_draft *draft, struct fault *fault);

/* manifest_draft_sign: creates the manifest of a new swarm: reads all data files and computes the
 * genesis root. The operator's keys sign it.
 * address  the tracker's address; address_error accepts it
 * memory   fields point into `region` and the draft; the file's text, NUL-terminated, is in
 *          `region`
 * errors   those of data_match_hash_files, genesis_root and manifest_write; outputs are then
 *          untouched */
MUST_CHECK enum status manifest_draft_sign(const struct manifest_draft *draft, const char *address,
                                           const struct key_pairs *operator_keys,
                                           struct region *region, struct manifest *manifest,
                                           const char **text, struct fault *fault);

/* manifest_draft_compare: checks that an existing manifest was created from this run: the same
 * settings and config.json. Data and weights are not read, because the manifest has their
 * hashes.
 * errors  STATUS_INPUT at `subject`; the fault states the first difference */
MUST_CHECK enum status manifest_draft_compare(const struct manifest_draft *draft,
                                              const struct manifest *manifest, const char *subject,
                                              struct fault *fault);

#endif
