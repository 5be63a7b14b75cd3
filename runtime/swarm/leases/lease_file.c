#include "runtime/swarm/leases/lease_file.h"

#include "base/file.h"
#include "base/text.h"

#include <string.h>
#include <unistd.h>

static const char MAGIC[] = "SKEPLEAS";
static const char REMEDY[] =
    "restore the file from a copy; without one, remove it only while a single tracker of this "
    "swarm is running";

enum {
    FORMAT_VERSION = 1,             /* value of the field `format` */
    MAGIC_BYTES = sizeof MAGIC - 1, /* size of the text at the start of a lease file */
    CHECKSUM_BYTES = 24,            /* size of the checksum at the end of a lease file */
    BYTE_BITS = 8                   /* bits in a byte */
};

_Static_assert(MAGIC_BYTES + 4 * 4 + 8 + 3 * HASH_BYTES + CHECKSUM_BYTES == LEASE_FILE_BYTES,
               "the fields of the file have no padding between them");

static uint8_t *append_number(uint8_t *at, uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (BYTE_BITS * i));
    }
    return at + bytes;
}

static uint64_t read_next_number(const uint8_t **at, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)(*at)[i] << (BYTE_BITS * i);
    }
    *at += bytes;
    return value;
}

void lease_bytes_write(const struct hash *swarm, const struct lease *lease,
                       uint8_t bytes[static LEASE_FILE_BYTES]) {
    uint8_t *at = bytes + MAGIC_BYTES;
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    at = append_number(at, FORMAT_VERSION, sizeof(uint32_t));
    at = append_number(at, lease->is_resignation, sizeof(uint32_t));
    at = append_number(at, lease->round, sizeof lease->round);
    at = append_number(at, lease->start.incarnation, sizeof lease->start.incarnation);
    at = append_number(at, lease->start.number, sizeof lease->start.number);
    memcpy(at, swarm->bytes, HASH_BYTES);
    memcpy(at + HASH_BYTES, lease->state.bytes, HASH_BYTES);
    memcpy(at + 2 * HASH_BYTES, lease->vote.bytes, HASH_BYTES);
    at += 3 * HASH_BYTES;
    const struct hash checksum = hash_of(bytes, (size_t)(at - bytes));
    memcpy(at, checksum.bytes, CHECKSUM_BYTES);
}

const char *lease_bytes_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                             struct lease *lease) {
    const uint8_t *at = bytes + MAGIC_BYTES;
    if (count != LEASE_FILE_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) {
        return "is not in the format of a member's lease";
    }
    const struct hash checksum = hash_of(bytes, LEASE_FILE_BYTES - CHECKSUM_BYTES);
    if (memcmp(bytes + LEASE_FILE_BYTES - CHECKSUM_BYTES, checksum.bytes, CHECKSUM_BYTES) != 0) {
        return "is damaged: its checksum does not match";
    }
    const uint64_t format = read_next_number(&at, sizeof(uint32_t));
    const uint64_t is_resignation = read_next_number(&at, sizeof(uint32_t));
    lease->is_resignation = is_resignation == 1;
    lease->round = (uint32_t)read_next_number(&at, sizeof lease->round);
    lease->start.incarnation = (uint32_t)read_next_number(&at, sizeof lease->start.incarnation);
    lease->start.number = read_next_number(&at, sizeof lease->start.number);
    memcpy(swarm->bytes, at, HASH_BYTES);
    memcpy(lease->state.bytes, at + HASH_BYTES, HASH_BYTES);
    memcpy(lease->vote.bytes, at + 2 * HASH_BYTES, HASH_BYTES);
    return format == FORMAT_VERSION && is_resignation <= 1 &&
                   (!lease->is_resignation || lease->start.number == 0) &&
                   lease->is_resignation == hash_is_zero(&lease->vote)
               ? NULL
               : "has an unknown format, or fields that contradict each other";
}

enum status lease_file_write(const char *path, const struct hash *swarm, const struct lease *lease,
                             struct fault *fault) {
    uint8_t bytes[LEASE_FILE_BYTES];
    char temporary[PATH_BYTES];
    struct text name = text_over(temporary, sizeof temporary);
    text_add(&name, "%s.new", path);
    ASSERT(!name.truncated);
    lease_bytes_write(swarm, lease, bytes);
    return file_replace(path, temporary, bytes, sizeof bytes, fault);
}

enum status lease_file_read(const char *path, const struct hash *swarm, struct lease *lease,
                            struct fault *fault) {
    uint8_t bytes[LEASE_FILE_BYTES];
    struct hash found;
    struct lease read;
    int64_t size = 0;
    int fd;
    memset(lease, 0, sizeof *lease);
    if (!file_exists(path)) {
        return OK;
    }
    TRY(file_open_read(path, &fd, &size, fault));
    const size_t count = size == LEASE_FILE_BYTES ? LEASE_FILE_BYTES : 0;
    enum status status = file_read_at(fd, path, bytes, count, 0, fault);
    close(fd);
    if (status != OK) {
        return status;
    }
    const char *error = lease_bytes_read(bytes, count, &found, &read);
    if (error == NULL && !hash_equal(&found, swarm)) {
        error = "belongs to another swarm";
    }
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, path, REMEDY, "the lease %s", error);
    }
    *lease = read;
    return OK;
}
