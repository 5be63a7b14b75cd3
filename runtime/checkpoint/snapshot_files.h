/* snapshot_files: which files make up a snapshot. */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_FILES_H
#define SKEP_CHECKPOINT_SNAPSHOT_FILES_H

#include "runtime/checkpoint/snapshot.h"

#define SNAPSHOT_JSON_NAME    "snapshot.json"
#define SNAPSHOT_CONFIG_NAME  "config.json"
#define SNAPSHOT_WEIGHTS_NAME "weights.safetensors"

/* snapshot_plan_files: lay out one file for each run of groups with the same file name; gives
 * their number.
 * files   [SNAPSHOT_FILES_MAX]
 * memory  in `region` */
int snapshot_plan_files(const struct snapshot_group *groups, int group_count, struct region *region,
                        struct tensor_file *files);

/* snapshot_check_sizes: every file is in `folder` with the size that `snapshot` says.
 * errors  STATUS_INPUT naming the file */
MUST_CHECK enum status snapshot_check_sizes(const char *folder, const struct snapshot *snapshot,
                                            struct fault *fault);

#endif
