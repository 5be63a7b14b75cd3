/* snapshot_files: names, plans and checks the files of a snapshot. */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_FILES_H
#define SKEP_CHECKPOINT_SNAPSHOT_FILES_H

#include "runtime/checkpoint/snapshot.h"

#define SNAPSHOT_JSON_NAME    "snapshot.json"
#define SNAPSHOT_CONFIG_NAME  "config.json"
#define SNAPSHOT_WEIGHTS_NAME "weights.safetensors"

/* snapshot_parse_name: determine the kind and step of a folder from the name that snapshot_path
 * gave it; false for any other name. */
bool snapshot_parse_name(const char *name, enum snapshot_path_kind *kind, int64_t *step);

/* snapshot_hash_file: compute the size and the hash of the file folder/name.
 * memory  `buffer`; allocates nothing
 * errors  STATUS_INPUT or STATUS_FAILED when the file cannot be read; outputs are unchanged */
MUST_CHECK enum status snapshot_hash_file(const char *folder, const char *name,
                                          const struct staging *buffer, struct hash *hash,
                                          int64_t *bytes, struct fault *fault);

/* snapshot_plan_files: lay out the tensor files of a snapshot. Adjacent groups with one file name
 * share a file. Returns the number of files.
 * files   [SNAPSHOT_FILES_MAX]
 * memory  in `region` */
int snapshot_plan_files(const struct snapshot_group *groups, int group_count, struct region *region,
                        struct tensor_file *files);

/* snapshot_check_sizes: check that `folder` contains every file with the size in `snapshot`.
 * errors  STATUS_INPUT naming the file */
MUST_CHECK enum status snapshot_check_sizes(const char *folder, const struct snapshot *snapshot,
                                            struct fault *fault);

#endif
