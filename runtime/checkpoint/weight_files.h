/* weight_files: the safetensors files of a model folder and their tables, one file or sharded. */
#ifndef SKEP_CHECKPOINT_WEIGHT_FILES_H
#define SKEP_CHECKPOINT_WEIGHT_FILES_H

#include "base/region.h"
#include "runtime/checkpoint/safetensors.h"

struct weight_files {
    struct safetensors *tables; /* descriptors closed */
    int count;
};

/* weight_files_open: model.safetensors, or model.safetensors.index.json and the files it names,
 * which must lie in `folder` and hold what the index says.
 * memory  everything in `region`; at most one file is open at a time
 * errors  STATUS_INPUT naming file and tensor; *files untouched */
MUST_CHECK enum status weight_files_open(const char *folder, struct region *region,
                                         struct weight_files *files, struct fault *fault);

#endif
