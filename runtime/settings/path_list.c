#include "runtime/settings/path_list.h"

#include "base/file.h"
#include "base/limits.h"

#include <glob.h>
#include <string.h>

/* Returns the length of the longest path of existing folders with which `path` begins. That part of
 * the path is no pattern. */
static size_t literal_length(const char *path) {
    char part[PATH_BYTES];
    size_t length = 0;
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (!file_exists(part)) {
            return length;
        }
        length = i;
    }
    return length;
}

/* Adds the matches of a pattern to `found`. A path that is not a pattern is added even if the file
 * does not exist; opening it later reports the error. */
static enum status add_matches(const char *path, bool is_first, glob_t *found,
                               struct fault *fault) {
    int flags = (is_first ? 0 : GLOB_APPEND) | GLOB_NOMAGIC;
    char escaped[2 * PATH_BYTES];
    size_t length = 0;
    const char *pattern = path + literal_length(path);
    for (const char *c = path; *c != '\0'; c++) {
        if (c < pattern && (*c == '*' || *c == '?' || *c == '[' || *c == '\\')) {
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

static void copy_paths(const glob_t *found, const char *source, struct region *region,
                       struct path_list *list) {
    list->paths = region_alloc(region, found->gl_pathc, sizeof *list->paths);
    list->count = (int)found->gl_pathc;
    list->source = source;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        list->paths[i] = region_copy_text(region, found->gl_pathv[i]);
    }
}

enum status path_list_expand(const struct path_list *patterns, struct region *region,
                             struct path_list *list, struct fault *fault) {
    glob_t found = {0};
    enum status status = OK;
    for (int i = 0; i < patterns->count && status == OK; i++) {
        size_t length = strlen(patterns->paths[i]);
        status = length > 0 && length < PATH_BYTES
                     ? add_matches(patterns->paths[i], i == 0, &found, fault)
                     : fault_set(fault, STATUS_INPUT, "data", "use another path",
                                 "a path is %zu characters long; its length must be from 1 to %d",
                                 length, PATH_BYTES - 1);
    }
    if (status == OK && found.gl_pathc > FILES_MAX) {
        status = fault_set(fault, STATUS_INPUT, "data", "join small files",
                           "the list has %zu files; the limit is %d", found.gl_pathc, FILES_MAX);
    }
    if (status == OK) {
        copy_paths(&found, patterns->source, region, list);
    }
    globfree(&found);
    return status;
}
