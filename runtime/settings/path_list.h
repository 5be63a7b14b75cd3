/* files: lists of paths as run.yaml and the command line give them. */
#ifndef SKEP_SETTINGS_PATH_LIST_H
#define SKEP_SETTINGS_PATH_LIST_H

#include "base/fault.h"
#include "base/region.h"

enum { FILES_MAX = 65536 }; /* a list of paths; each file stays open while training */

struct path_list {
    const char **paths;
    int count;
};

/* path_list_expand: paths, each of which may be a pattern with * ? [ ]; a pattern's matches are
 * sorted. The name of a file that exists is never taken for a pattern.
 * memory  in `region`
 * errors  STATUS_INPUT: a pattern without a match, a path that is empty or not shorter than
 *         PATH_BYTES, more than FILES_MAX files; *list is then untouched */
MUST_CHECK enum status path_list_expand(const struct path_list *wanted, struct region *region,
                                        struct path_list *list, struct fault *fault);

#endif
