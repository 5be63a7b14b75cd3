/* files: lists of paths as run.yaml and the command line give them. */
#ifndef SKEP_TRAIN_FILES_H
#define SKEP_TRAIN_FILES_H

#include "base/fault.h"
#include "base/region.h"

struct path_list {
    const char **paths;
    int count;
};

/* path_list_expand: comma-separated paths, each of which may be a pattern; a pattern's matches are
 * sorted. NULL or "" gives an empty list.
 * memory  in `region`
 * errors  STATUS_INPUT: a pattern without a match */
MUST_CHECK enum status path_list_expand(const char *wanted, struct region *region,
                                        struct path_list *list, struct fault *fault);

#endif
