/* cache_folder: the folders of this program's cache. */
#ifndef SKEP_DATA_CACHE_FOLDER_H
#define SKEP_DATA_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cache_folder_path: write $XDG_CACHE_HOME/skep/NAME, else ~/.cache/skep/NAME, to `out`. The folder
 * need not exist.
 * returns  false when neither variable is set to an absolute path, or the path is too long */
bool cache_folder_path(const char *name, char *out, size_t capacity);

/* cache_folder_bytes: the size of all files in the folder at `path` and in its folders; 0 when it
 * cannot be read. */
uint64_t cache_folder_bytes(const char *path);

#endif
