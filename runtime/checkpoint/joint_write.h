/* joint_write: a folder of tensor files that all ranks of a site write and rank 0 puts in place.
 *
 *     rank 0      sized files |       | its ranges |       | the rest, rename | or removal |
 *     rank 1..    -           | agree | its ranges | agree | -                | -          | agree
 *
 * A failure of any rank before an agreement is everybody's after it. */
#ifndef SKEP_CHECKPOINT_JOINT_WRITE_H
#define SKEP_CHECKPOINT_JOINT_WRITE_H

#include "runtime/checkpoint/checkpoint_site.h"
#include "runtime/checkpoint/tensor_file.h"

/* The same on every rank but for the site's rank and the files' pieces. */
struct joint_write {
    const struct checkpoint_ranks *site;
    const char *folder; /* what is written; emptied first */
    const struct tensor_file *files;
    int file_count;
    /* On rank 0, when every rank's ranges are durable: write what else belongs into the folder and
     * rename it. *replaced, false before: whether it was renamed, also when it failed later. */
    enum status (*put_in_place)(const void *context, const struct staging *staging, bool *replaced,
                                struct fault *fault);
    const void *context;
};

/* joint_write_run: every rank calls it. After seal: allocates nothing.
 * errors  of whichever rank failed, on every rank; unless renamed, the folder is then removed */
MUST_CHECK enum status joint_write_run(const struct joint_write *joint,
                                       const struct staging *staging, struct fault *fault);

#endif
