/* snapshot_path: the names of snapshots' folders. */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_PATH_H
#define SKEP_CHECKPOINT_SNAPSHOT_PATH_H

#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* How far a snapshot's folder has come. */
enum snapshot_path_kind {
    SNAPSHOT_DONE,  /* step-000001000 */
    SNAPSHOT_BEGUN, /* .tmp-step-000001000: being written, or being removed */
    SNAPSHOT_ASIDE, /* .old-step-000001000: the one before it, for an instant */
};

/* snapshot_path: of the snapshot of `step` in `folder`. */
void snapshot_path(const char *folder, enum snapshot_path_kind place, int64_t step,
                   char out[static PATH_BYTES]);

/* snapshot_parse_name: the other way round; false for any other name. */
bool snapshot_parse_name(const char *name, enum snapshot_path_kind *place, int64_t *step);

#endif
