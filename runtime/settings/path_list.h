/* path_list: lists of paths and patterns in a run file or on the command line. */
#ifndef SKEP_SETTINGS_PATH_LIST_H
#define SKEP_SETTINGS_PATH_LIST_H

#include "base/fault.h"
#include "base/region.h"

enum { FILES_MAX = 65536 }; /* files in one list; every file stays open while training */

struct path_list {
    const char **paths;
    int count;
};

/* path_list_expand: replace each pattern, a path with * ? [ or ], by its sorted matches. The path
 * of an existing file is never a pattern.
 * memory  in `region`
 * errors  STATUS_INPUT: a pattern without a match, a path that is empty or not shorter than
 *         PATH_BYTES, more than FILES_MAX files; *list is then unchanged */
MUST_CHECK enum status path_list_expand(const struct path_list *patterns, struct region *region,
                                        struct path_list *list, struct fault *fault);

#endif
