/* path_list: lists of paths and patterns in a run file or on the command line. */
#ifndef SKEP_SETTINGS_PATH_LIST_H
#define SKEP_SETTINGS_PATH_LIST_H

#include "base/fault.h"
#include "base/region.h"

enum {
    FILES_MAX = 65536 /* maximum number of files in a list */
}; /* Maximum number of files in a list. Every file stays open during training. */

struct path_list {
    const char **paths; /* [count]: paths and patterns */
    int count;          /* number of paths */
    const char *source; /* text that the files were made from, for messages; NULL: none */
};

/* path_list_expand: replace each pattern (a path that contains * ? [ or ]) by its sorted matches.
 * The path of an existing file or folder, also at the start of a longer path, is never a pattern.
 * memory  in `region`
 * errors  STATUS_INPUT when a pattern has no match, a path is empty or not shorter than PATH_BYTES,
 *         or the list exceeds FILES_MAX files; *list is then unchanged */
MUST_CHECK enum status path_list_expand(const struct path_list *patterns, struct region *region,
                                        struct path_list *list, struct fault *fault);

#endif
