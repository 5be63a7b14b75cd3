#include "runtime/data/cache_folder.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

bool cache_folder_path(const char *name, char *out, size_t capacity) {
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    if (cache != NULL && cache[0] == '/') {
        length = snprintf(out, capacity, "%s/skep/%s", cache, name);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(out, capacity, "%s/.cache/skep/%s", home, name);
    }
    return length > 0 && (size_t)length < capacity;
}

uint64_t cache_folder_bytes(const char *path) {
    char *const roots[] = {(char *)(uintptr_t)path, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t bytes = 0;
    if (tree == NULL) {
        return 0;
    }
    const FTSENT *entry = fts_read(tree);
    while (entry != NULL) { /* the loop ends, because symbolic links are not followed */
        bytes += entry->fts_info == FTS_F ? (uint64_t)entry->fts_statp->st_size : 0;
        entry = fts_read(tree);
    }
    fts_close(tree);
    return bytes;
}
