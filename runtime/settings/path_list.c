#include "runtime/settings/path_list.h"

#include "base/file.h"
#include "base/limits.h"

#include <glob.h>
#include <string.h>

/* Adds what a path stands for to `found`. A path that is no pattern stands for itself, so that
 * whoever opens it can say why that fails. */
static enum status add_matches(const char *path, bool first, glob_t *found, struct fault *fault) {
    int flags = (first ? 0 : GLOB_APPEND) | GLOB_NOMAGIC;
    char escaped[2 * PATH_BYTES];
    size_t length = 0;
    bool literal = file_exists(path);
    for (const char *c = path; *c != '\0'; c++) {
        if (literal && (*c == '*' || *c == '?' || *c == '[' || *c == '\\')) {
            escaped[length++] = '\\';
        }
        escaped[length++] = *c;
    }
    escaped[length] = '\0';
    if (glob(escaped, flags, NULL, found) != 0) {
        return fault_set(fault, STATUS_INPUT, path, "check the path", "no file matches");
    }
    return OK;
}

static void copy_paths(const glob_t *found, struct region *region, struct path_list *list) {
    list->paths = region_alloc(region, found->gl_pathc, sizeof *list->paths);
    list->count = (int)found->gl_pathc;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        list->paths[i] = region_copy_text(region, found->gl_pathv[i]);
    }
}

enum status path_list_expand(const struct path_list *wanted, struct region *region,
                             struct path_list *list, struct fault *fault) {
    glob_t found = {0};
    enum status status = OK;
    for (int i = 0; i < wanted->count && status == OK; i++) {
        size_t length = strlen(wanted->paths[i]);
        status =
            length > 0 && length < PATH_BYTES
                ? add_matches(wanted->paths[i], i == 0, &found, fault)
                : fault_set(fault, STATUS_INPUT, "data", NULL, "a path of %zu characters", length);
    }
    if (status == OK && found.gl_pathc > FILES_MAX) {
        status = fault_set(fault, STATUS_INPUT, "data", "join small files",
                           "%zu files; at most %d are read", found.gl_pathc, FILES_MAX);
    }
    if (status == OK) {
        copy_paths(&found, region, list);
    }
    globfree(&found);
    return status;
}
