#include "runtime/checkpoint/file_hash.h"

#include "base/file.h"

#include <unistd.h>

enum status file_hash(const char *path, void *buffer, size_t buffer_bytes, struct hash *hash,
                      int64_t *bytes, struct fault *fault) {
    int fd = -1;
    int64_t total = 0;
    enum status status = file_open_read(path, &fd, &total, fault);
    if (status != OK) {
        return status;
    }
    struct hash_state state;
    hash_begin(&state);
    for (int64_t done = 0; done < total && status == OK; done += (int64_t)buffer_bytes) {
        size_t chunk = total - done < (int64_t)buffer_bytes ? (size_t)(total - done) : buffer_bytes;
        status = file_read_at(fd, path, buffer, chunk, done, fault);
        if (status == OK) {
            hash_add(&state, buffer, chunk);
        }
    }
    close(fd);
    if (status == OK) {
        *hash = hash_end(&state);
        *bytes = total;
    }
    return status;
}
