#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "runtime/swarm/delegation/delegation.h"

#include <unistd.h>

const char *delegation_read_verified(const uint8_t *bytes, size_t count,
                                     const uint8_t operator_key[static KEY_BYTES],
                                     struct known_delegation *known) {
    struct known_delegation read;
    const char *error = delegation_read(bytes, count, &read.swarm, &read.delegation);
    if (error != NULL) {
        return error;
    }
    if (!delegation_is_signed(operator_key, &read.swarm, &read.delegation)) {
        return "is signed with a key other than the operator's";
    }
    *known = read;
    return NULL;
}

enum status operator_file_read(const char *path, uint8_t *bytes, size_t capacity, size_t *count,
                               struct fault *fault) {
    int fd;
    int64_t size = 0;
    TRY(file_open_read(path, &fd, &size, fault));
    *count = size <= (int64_t)capacity ? (size_t)size : 0;
    enum status status = file_read_at(fd, path, bytes, *count, 0, fault);
    close(fd);
    return status;
}

enum status delegation_file_read(const char *path, const uint8_t operator_key[static KEY_BYTES],
                                 struct known_delegation *known, struct fault *fault) {
    uint8_t bytes[DELEGATION_FRAME_BYTES_MAX];
    size_t count = 0;
    TRY(operator_file_read(path, bytes, sizeof bytes, &count, fault));
    const char *error = delegation_read_verified(bytes, count, operator_key, known);
    return error == NULL
               ? OK
               : fault_set(fault, STATUS_INPUT, path,
                           "the operator signs a new one with `skep track RUN.yaml --delegate KEY`",
                           "the delegation %s", error);
}

enum status delegation_file_write(const char *path, const struct known_delegation *known,
                                  struct fault *fault) {
    uint8_t bytes[DELEGATION_FRAME_BYTES_MAX];
    char temporary[PATH_BYTES + 8];
    struct text name = text_over(temporary, sizeof temporary);
    text_add(&name, "%s.new", path);
    ASSERT(!name.truncated);
    const size_t count = delegation_write(&known->swarm, &known->delegation, bytes);
    return file_replace(path, temporary, bytes, count, fault);
}
