#include "runtime/data/cache_folder.h"

#include <stdio.h>
#include <stdlib.h>

bool cache_folder_find(const char *name, char *out, size_t capacity) {
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
