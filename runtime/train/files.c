#include "runtime/train/files.h"

#include "base/file.h"
#include "base/limits.h"
#include "runtime/train/list.h"

#include <glob.h>
#include <stdio.h>

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
        list->paths[i] = region_text(region, found->gl_pathv[i]);
    }
}

enum status path_list_expand(const char *wanted, struct region *region, struct path_list *list,
                             struct fault *fault) {
    glob_t found = {0};
    enum status status = OK;
    struct list_item item;
    const char *at = wanted == NULL ? "" : wanted;
    for (bool first = true; status == OK && list_next(&at, &item); first = false) {
        char path[PATH_BYTES];
        if (item.length == 0 || item.length >= sizeof path) {
            status = fault_set(fault, STATUS_INPUT, "data", NULL, "a path of %zu characters",
                               item.length);
            break;
        }
        snprintf(path, sizeof path, "%.*s", (int)item.length, item.text);
        status = add_matches(path, first, &found, fault);
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
