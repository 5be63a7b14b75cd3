/* weight_files: finds the safetensors files of a model folder and reads their tables. */
#ifndef SKEP_CHECKPOINT_WEIGHT_FILES_H
#define SKEP_CHECKPOINT_WEIGHT_FILES_H

#include "base/region.h"
#include "runtime/checkpoint/safetensors.h"

struct weight_files {
    struct safetensors
        *tables; /* [count] headers of the weight files, whose file descriptors are closed */
    int count;   /* number of files */
};

/* weight_files_open: find model.safetensors in `folder`, or model.safetensors.index.json and the
 * files that this index lists, and read the tables of these files. The files must be in `folder`
 * and contain the tensors that the index lists.
 * memory  in `region`; at most one file is open at a time
 * errors  STATUS_INPUT naming file and tensor; *files is then unchanged */
MUST_CHECK enum status weight_files_open(const char *folder, struct region *region,
                                         struct weight_files *files, struct fault *fault);

#endif
