/* checkpoint: reads and writes weights and training state on disk. safetensors.h is the file
 * format, tensor_file.h writes one file from tensors whose parts are on several ranks, weights.h
 * loads and exports Hugging Face model folders, and snapshot.h saves and finds the state of a run.
 * All ranks of a site write one folder together, and either the whole folder appears or nothing
 * does. This module owns the formats of these files; it has no state between calls. runtime/session
 * loads with it, runtime/train and runtime/inner_training save with it.
 *
 * public   folder.h json_scan.h piece.h safetensors.h snapshot.h tensor_file.h weights.h */
#ifndef SKEP_CHECKPOINT_CHECKPOINT_H
#define SKEP_CHECKPOINT_CHECKPOINT_H

#include "base/fault.h"

#include <stdbool.h>

/* The ranks that save together. A zero-initialised struct means a single process. */
struct checkpoint_ranks {
    int rank, world; /* rank of this process, and number of ranks */
    /* Gives every rank the same outcome: returns OK when `status` is OK on all ranks, else the
     * status of one rank that failed, and sets *fault to the fault of that rank. A caller whose own
     * `status` is not OK passes its fault in *fault. Every rank calls the function at the same
     * points, also after a failure. It is not called when world is 1 or 0. */
    enum status (*agree)(void *context, enum status status, struct fault *fault);
    void *context;
};

/* checkpoint_is_rank0: whether this process is rank 0, which makes, renames and removes folders. */
bool checkpoint_is_rank0(const struct checkpoint_ranks *ranks);

/* checkpoint_agree: calls ranks->agree, or returns `status` in a run of one process. */
MUST_CHECK enum status checkpoint_agree(const struct checkpoint_ranks *ranks, enum status status,
                                        struct fault *fault);

/* checkpoint_ranks_wait: wait until every rank has called this function. */
void checkpoint_ranks_wait(const struct checkpoint_ranks *ranks);

#endif
