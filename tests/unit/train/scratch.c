#include "scratch.h"

#include "base/check.h"
#include "base/file.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64] = "/tmp/skep-train-XXXXXX";

int scratch_open(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL || chdir(folder) != 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

int scratch_close(void **state) {
    (void)state;
    return chdir("/") != 0 || nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0 ? -1 : 0;
}

void scratch_write(const char *path, const void *bytes, size_t count) {
    char above[256];
    struct fault fault;
    file_parent_folder(path, above, sizeof above);
    ASSERT(file_make_folders(above, &fault) == OK);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    close(fd);
}

void scratch_write_text(const char *path, const char *text) {
    scratch_write(path, text, strlen(text));
}

static void put(uint8_t *at, uint64_t value, int width) {
    for (int i = 0; i < width; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

void scratch_write_tokens(const char *path, const struct scratch_tokens *tokens) {
    size_t header = tokens->magic != 0 ? 1024 : 0;
    size_t bytes = header + (size_t)(tokens->count * tokens->width);
    uint8_t *all = calloc(bytes + 1, 1);
    ASSERT(all != NULL);
    if (header > 0) {
        put(all, tokens->magic, 4);
        put(all + 4, tokens->version, 4);
        put(all + 8, (uint64_t)tokens->count, 4);
    }
    for (int64_t i = 0; i < tokens->count; i++) {
        uint64_t id = (uint64_t)((tokens->first + i) % tokens->modulus);
        put(all + header + i * tokens->width, id, tokens->width);
    }
    scratch_write(path, all, bytes);
    free(all);
}
