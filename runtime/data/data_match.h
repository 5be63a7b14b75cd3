/* data_match: hashes data files for a swarm's manifest, and checks local files against that
 * manifest. The paths and names of a member's files may differ from those of the manifest. */
#ifndef SKEP_DATA_DATA_MATCH_H
#define SKEP_DATA_DATA_MATCH_H

#include "runtime/settings/settings.h"
#include "runtime/swarm/ledger/manifest.h"

/* data_match_hash_files: list the name, size, format and root of each file of data.train, then of
 * data.validation. Reads all files, and logs the progress if they are large.
 * memory  the list and its names in `region`; 1 MiB of temporary memory
 * errors  STATUS_INPUT when data.train is unset; STATUS_STOPPED after a signal; those of
 *         path_list_expand, token_file_open and file_read_at. *files and *count are then
 *         unchanged */
MUST_CHECK enum status data_match_hash_files(const struct settings *settings, struct region *region,
                                             const struct manifest_file **files, int *count,
                                             struct fault *fault);

/* data_match_find_files: set data.train and data.validation, where they are unset, to local files
 * with the names and sizes in the manifest, if all of them exist in the working directory or in the
 * cache ($XDG_CACHE_HOME/skep/data or ~/.cache/skep/data). Missing files are not an error here,
 * because planning needs no data.
 * memory  paths in `region` */
void data_match_find_files(const struct manifest *manifest, struct region *region,
                           struct settings *settings);

/* data_match_check: check that the run's files equal the manifest's, in the manifest's order: first
 * their number, sizes and formats, then their contents, which reads all files. data.validation is
 * compared only if both the run and the manifest have it, because a member need not evaluate.
 * errors  STATUS_INPUT for the first file that differs in size, format or root, or if data.train is
 *         unset; those of data_match_hash_files */
MUST_CHECK enum status data_match_check(const struct settings *settings,
                                        const struct manifest *manifest, struct fault *fault);

/* data_match_check_sizes: check the same as data_match_check except the contents: only numbers,
 * sizes and formats of the files, which is fast. */
MUST_CHECK enum status data_match_check_sizes(const struct settings *settings,
                                              const struct manifest *manifest, struct fault *fault);

#endif
