#include "runtime/swarm/replica/state_file.h"

#include "base/file.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>
#include <unistd.h>

static const char MARK[16] = "skep state 1\n";

_Static_assert(sizeof(struct state_file_header) == 64, "the header has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are written as they are in memory, which must be little-endian");

static int64_t hashes_offset(uint64_t index) {
    return (int64_t)(sizeof(struct state_file_header) + index * HASH_BYTES);
}

static int64_t leaf_offset(uint64_t leaf_count, uint64_t index) {
    return hashes_offset(leaf_count) + (int64_t)(index * LEAF_BYTES);
}

uint64_t state_file_bytes(const struct slices *slices) {
    return (uint64_t)hashes_offset(replica_leaf_count(slices)) + replica_state_bytes(slices);
}

/* ---- write ---- */

static enum status write_leaf(const struct replica *replica, int fd, const char *path,
                              uint64_t index, struct fault *fault) {
    const struct replica_chunk chunk = replica_chunk_of_leaf(replica, index);
    const size_t bytes = (size_t)chunk.count * sizeof(float);
    const int64_t offset = leaf_offset(replica_leaf_count(&replica->shape.slices), index);
    TRY(file_write_at(fd, path, replica->params + chunk.begin, bytes, offset, fault));
    return replica->momentum == NULL ? OK
                                     : file_write_at(fd, path, replica->momentum + chunk.begin,
                                                     bytes, offset + (int64_t)bytes, fault);
}

struct state_file_header state_file_header_of(const struct replica *replica, uint32_t round,
                                              uint32_t commits) {
    struct state_file_header header = {.round = round,
                                       .commits = commits,
                                       .parameter_count =
                                           (uint64_t)replica->shape.slices.parameter_count,
                                       .root = replica->root};
    memcpy(header.mark, MARK, sizeof header.mark);
    return header;
}

static enum status write_state(const struct replica *replica,
                               const struct state_file_header *header, int fd, const char *path,
                               struct fault *fault) {
    const uint64_t leaf_count = replica_leaf_count(&replica->shape.slices);
    TRY(file_write_at(fd, path, header, sizeof *header, 0, fault));
    TRY(file_write_at(fd, path, replica->leaves, leaf_count * HASH_BYTES, hashes_offset(0), fault));
    for (uint64_t index = 0; index < leaf_count; index++) {
        TRY(write_leaf(replica, fd, path, index, fault));
    }
    return OK;
}

enum status state_file_write(const struct replica *replica, const struct state_file_header *header,
                             const char *path, const char *temporary_path, struct fault *fault) {
    int fd;
    ASSERT(hash_equal(&replica->root, &header->root));
    TRY(file_open_write(temporary_path, &fd, fault));
    enum status status = write_state(replica, header, fd, temporary_path, fault);
    status = file_close_written(fd, temporary_path, status, fault);
    if (status == OK) {
        status = file_publish(temporary_path, path, fault);
    }
    if (status != OK) {
        (void)unlink(temporary_path);
    }
    return status;
}

/* ---- read ---- */

enum status state_file_read_header(const char *path, const struct slices *slices,
                                   struct state_file_header *header, struct fault *fault) {
    int fd;
    int64_t bytes;
    TRY(file_open_read(path, &fd, &bytes, fault));
    enum status status = file_read_at(fd, path, header, sizeof *header, 0, fault);
    close(fd);
    TRY(status);
    return bytes == (int64_t)state_file_bytes(slices) &&
                   memcmp(header->mark, MARK, sizeof MARK) == 0 &&
                   header->parameter_count == (uint64_t)slices->parameter_count
               ? OK
               : fault_set(fault, STATUS_INPUT, path, NULL,
                           "is not a complete state of a model of this size, or belongs to another "
                           "model");
}

/* Opens a file that contains the state with this root. Returns -1 if there is none. */
static int open_state(const char *path, const struct hash *root, struct state_file_header *header) {
    struct fault ignored;
    int fd;
    int64_t bytes;
    if (file_open_read(path, &fd, &bytes, &ignored) != OK) {
        return -1;
    }
    const bool has_root = file_read_at(fd, path, header, sizeof *header, 0, &ignored) == OK &&
                          memcmp(header->mark, MARK, sizeof MARK) == 0 &&
                          hash_equal(&header->root, root);
    if (!has_root) {
        close(fd);
        return -1;
    }
    return fd;
}

bool state_file_read_hashes(const char *path, const struct hash *root, uint64_t first,
                            uint64_t count, struct hash *hashes) {
    struct state_file_header header;
    struct fault ignored;
    const int fd = open_state(path, root, &header);
    if (fd < 0) {
        return false;
    }
    const enum status status =
        file_read_at(fd, path, hashes, count * HASH_BYTES, hashes_offset(first), &ignored);
    close(fd);
    return status == OK;
}

size_t state_file_read_leaf(const char *path, const struct slices *slices, const struct hash *root,
                            uint64_t index, uint8_t *bytes) {
    struct state_file_header header;
    struct fault ignored;
    const int fd = open_state(path, root, &header);
    if (fd < 0) {
        return 0;
    }
    const uint64_t leaf_count = replica_leaf_count(slices);
    ASSERT(index < leaf_count);
    const size_t length = (size_t)merkle_leaf_bytes(replica_state_bytes(slices), index);
    const enum status status =
        file_read_at(fd, path, bytes, length, leaf_offset(leaf_count, index), &ignored);
    close(fd);
    return status == OK ? length : 0;
}
