#include "runtime/data/tokenizer_script.h"

#include "base/check.h"
#include "base/file.h"
#include "base/limits.h"

#include <stdio.h>
#include <unistd.h>

static const char IN_TREE[] = "tools/tokenize.py";

void tokenizer_script_path(char *path, size_t capacity) {
    static const char *const PLACES[] = {"share/skep/tokenize.py", IN_TREE};
    char program[PATH_BYTES];
    char folder[PATH_BYTES];
    char above[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    file_parent_folder(program, folder, sizeof folder); /* PREFIX/bin or TREE/build */
    file_parent_folder(folder, above, sizeof above);
    for (size_t i = 0; i < ARRAY_COUNT(PLACES); i++) {
        path_join(above, PLACES[i], path, capacity);
        if (length > 0 && file_exists(path)) {
            return;
        }
    }
    snprintf(path, capacity, "%s", IN_TREE);
}
