/* data_roots: a swarm's data files: what its manifest says of them, and whether local files are the
 * same. Where a member keeps them, and how it calls them, is its own affair. */
#ifndef SKEP_DATA_DATA_ROOTS_H
#define SKEP_DATA_DATA_ROOTS_H

#include "runtime/settings/settings.h"
#include "runtime/swarm/ledger/manifest.h"

/* data_match_hash: the files of data.train, then those of data.validation, each read once to its
 * end. A line of progress now and then when they are many bytes.
 * memory  the list and its names in `region`; otherwise 1 MiB, given back
 * errors  STATUS_INPUT: no data.train, those of path_list_expand, token_file_open and file_read_at;
 *         STATUS_STOPPED. *files and *count are then untouched */
MUST_CHECK enum status data_match_hash(const struct settings *settings, struct region *region,
                                       const struct manifest_file **files, int *count,
                                       struct fault *fault);

/* data_match_find: for a key of the run that names no files, those of the manifest by their names,
 * if all of them are there with their sizes: in the working directory, else in the cache,
 * $XDG_CACHE_HOME/skep/data or ~/.cache/skep/data. A key that stays unset is left to
 * data_match_check: planning needs no data.
 * memory  paths in `region` */
void data_match_find(const struct manifest *manifest, struct region *region,
                     struct settings *settings);

/* data_match_check: whether the run's files are the manifest's, in its order: first their number,
 * sizes and formats, then their contents, read once to their ends. data.validation is compared when
 * both have it: a member may do without evaluation.
 * errors  STATUS_INPUT at the file, saying which of bytes, format and root differs, or what is
 *         wanted where there is no data.train; those of data_match_hash */
MUST_CHECK enum status data_match_check(const struct settings *settings,
                                        const struct manifest *manifest, struct fault *fault);

#endif
