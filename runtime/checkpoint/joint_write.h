/* joint_write: all ranks of a site write one folder of tensor files, and rank 0 renames it when it
 * is complete.
 *
 *     rank 0      sized files |       | its ranges |       | the rest, rename | or removal |
 *     rank 1..    -           | agree | its ranges | agree | -                | -          | agree
 *
 * When a rank fails before an agreement, every rank receives its status and fault from the
 * agreement. */
#ifndef SKEP_CHECKPOINT_JOINT_WRITE_H
#define SKEP_CHECKPOINT_JOINT_WRITE_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/tensor_file.h"

/* The arguments of joint_write_run. They are the same on every rank, except for the rank number and
 * the files' pieces. */
struct joint_write {
    const struct checkpoint_ranks *ranks;
    const char *folder;              /* created, or emptied, before the files are written */
    const struct tensor_file *files; /* [file_count] */
    int file_count;
    /* Called on rank 0 when the ranges of every rank are durable: writes the other files and
     * renames the folder. Sets *replaced, which is false before, once the folder is renamed, also
     * when a later step fails. */
    enum status (*publish_folder)(const void *context, const struct staging *staging,
                                  bool *replaced, struct fault *fault);
    const void *context;
};

/* joint_write_run: write the folder of `joint` together with all other ranks, each of which calls
 * this function. After seal: allocates nothing.
 * errors  every rank returns the status and fault of a rank that failed. The folder is then
 *         removed, unless it was renamed before */
MUST_CHECK enum status joint_write_run(const struct joint_write *joint,
                                       const struct staging *staging, struct fault *fault);

#endif
