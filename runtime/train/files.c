#include "runtime/train/files.h"

#include "base/limits.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { FILES_MAX = 65536 };

static enum status add_matches(const char *pattern, struct region *region, struct path_list *list,
                               struct fault *fault) {
    glob_t found;
    int failure = glob(pattern, GLOB_NOMAGIC, NULL, &found);
    if (failure != 0) {
        return fault_set(fault, STATUS_INPUT, pattern, "check the path", "no file matches");
    }
    enum status status = OK;
    for (size_t i = 0; i < found.gl_pathc && status == OK; i++) {
        if (list->count == FILES_MAX) {
            status = fault_set(fault, STATUS_INPUT, pattern, "join small files",
                               "more than %d files", FILES_MAX);
        } else {
            list->paths[list->count++] = region_text(region, found.gl_pathv[i]);
        }
    }
    globfree(&found);
    return status;
}

enum status path_list_expand(const char *wanted, struct region *region, struct path_list *list,
                             struct fault *fault) {
    struct path_list expanded = {.count = 0};
    const char *at = wanted == NULL ? "" : wanted;
    expanded.paths = region_alloc(region, FILES_MAX, sizeof *expanded.paths);
    while (*at != '\0') {
        char pattern[PATH_BYTES];
        size_t width = strcspn(at, ",");
        if (width >= sizeof pattern) {
            return fault_set(fault, STATUS_INPUT, "data", NULL, "a path of %zu characters", width);
        }
        snprintf(pattern, sizeof pattern, "%.*s", (int)width, at);
        enum status status = add_matches(pattern, region, &expanded, fault);
        if (status != OK) {
            return status;
        }
        at += width + (at[width] == ',');
    }
    *list = expanded;
    return OK;
}
