#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/swarm/ledger/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char FILE_MAGIC[] = "skep journal 2\n";
static const char PROTOCOL_1_MAGIC[sizeof FILE_MAGIC] = "skep journal 1\n";
enum {
    MAGIC_BYTES = sizeof FILE_MAGIC, /* size of the magic at the beginning of a journal */
    LENGTH_BYTES = 4,                /* size of the length before each record */
    FILE_MODE = 0644,                /* access mode of a new journal file */
};

/* Returns the size that a record of `count` bytes has in the file, with its length and hash. */
static size_t framed_record_size(size_t count) {
    return LENGTH_BYTES + count + HASH_BYTES;
}

static enum status truncate_file(struct entry_journal *journal, int64_t bytes,
                                 struct fault *fault) {
    if (ftruncate(journal->fd, bytes) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, journal->path, "cannot truncate", errno);
    }
    journal->valid_bytes = bytes;
    return file_sync(journal->fd, journal->path, fault);
}

/* Checks the magic. After a crash just after the file was created, the file may contain only a part
 * of it. */
static enum status check_magic(struct entry_journal *journal, int64_t size, struct fault *fault) {
    char found[MAGIC_BYTES] = {0};
    size_t some = size < MAGIC_BYTES ? (size_t)size : MAGIC_BYTES;
    TRY(file_read_at(journal->fd, journal->path, found, some, 0, fault));
    if (memcmp(found, PROTOCOL_1_MAGIC, MAGIC_BYTES) == 0) {
        return old_protocol_fault(fault, journal->path);
    }
    if (memcmp(found, FILE_MAGIC, some) != 0) {
        return fault_set(fault, STATUS_INPUT, journal->path, "use a different state folder",
                         "is not a journal that this version of Skep can read");
    }
    if (size >= MAGIC_BYTES) {
        return OK;
    }
    TRY(file_write_at(journal->fd, journal->path, FILE_MAGIC, MAGIC_BYTES, 0, fault));
    return file_sync(journal->fd, journal->path, fault);
}

/* Reads the record at `offset` into journal->record. Returns its length, or 0 when there is no
 * complete record. */
static size_t read_record(struct entry_journal *journal, int64_t offset, int64_t size) {
    struct fault fault;
    uint8_t *bytes = journal->record;
    uint32_t count;
    if (size - offset < (int64_t)framed_record_size(0) ||
        file_read_at(journal->fd, journal->path, bytes, LENGTH_BYTES, offset, &fault) != OK) {
        return 0;
    }
    memcpy(&count, bytes, sizeof count);
    if (count == 0 || count > journal->record_bytes_max ||
        size - offset < (int64_t)framed_record_size(count) ||
        file_read_at(journal->fd, journal->path, bytes + LENGTH_BYTES, count + HASH_BYTES,
                     offset + LENGTH_BYTES, &fault) != OK) {
        return 0;
    }
    struct hash hash = hash_of(bytes, LENGTH_BYTES + count);
    return memcmp(hash.bytes, bytes + LENGTH_BYTES + count, HASH_BYTES) == 0 ? count : 0;
}

static enum status find_valid_end(struct entry_journal *journal, struct fault *fault) {
    struct stat info;
    if (fstat(journal->fd, &info) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, journal->path, "cannot get the size of",
                               errno);
    }
    TRY(check_magic(journal, info.st_size, fault));
    int64_t size = info.st_size > MAGIC_BYTES ? info.st_size : MAGIC_BYTES;
    int64_t end = MAGIC_BYTES;
    for (size_t count = 1; count > 0;) {
        count = read_record(journal, end, size);
        end += count > 0 ? (int64_t)framed_record_size(count) : 0;
    }
    journal->valid_bytes = end;
    if (end == size) {
        return OK;
    }
    log_line(LOG_WARNING, "%s: ignoring the last %lld bytes: an incomplete record", journal->path,
             (long long)(size - end));
    journal->has_incomplete_record = true;
    return OK;
}

enum status entry_journal_open(const char *path, uint32_t slice_capacity, struct region *region,
                               struct entry_journal *journal, struct fault *fault) {
    ASSERT(slice_capacity <= SWARM_SLICES_MAX);
    char folder[PATH_BYTES];
    struct entry_journal opened = {.path = path,
                                   .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE),
                                   .slice_capacity = slice_capacity,
                                   .record_bytes_max = entry_record_bytes_max(slice_capacity)};
    if (opened.fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open", errno);
    }
    opened.record = region_alloc(region, framed_record_size(opened.record_bytes_max), 1);
    file_parent_folder(path, folder, sizeof folder);
    enum status status = find_valid_end(&opened, fault);
    if (status == OK) {
        status = file_sync_folder(folder, fault);
    }
    if (status != OK) {
        close(opened.fd);
        return status;
    }
    *journal = opened;
    return OK;
}

void entry_journal_close(struct entry_journal *journal) {
    close(journal->fd);
}

enum status entry_journal_append(struct entry_journal *journal, const struct entry *entry,
                                 struct fault *fault) {
    uint8_t *bytes = journal->record;
    uint32_t count = (uint32_t)entry_write(entry, ENTRY_WITH_SLICES, bytes + LENGTH_BYTES,
                                           journal->record_bytes_max);
    memcpy(bytes, &count, sizeof count);
    struct hash hash = hash_of(bytes, LENGTH_BYTES + count);
    memcpy(bytes + LENGTH_BYTES + count, hash.bytes, HASH_BYTES);
    enum status status =
        journal->has_incomplete_record ? truncate_file(journal, journal->valid_bytes, fault) : OK;
    if (status == OK) {
        journal->has_incomplete_record = false;
        status = file_write_at(journal->fd, journal->path, bytes, framed_record_size(count),
                               journal->valid_bytes, fault);
    }
    if (status == OK) {
        status = file_sync(journal->fd, journal->path, fault);
    }
    if (status == OK) {
        journal->valid_bytes += (int64_t)framed_record_size(count);
        return OK;
    }
    /* If truncating fails too, the next append overwrites the incomplete record. */
    struct fault ignored;
    (void)!truncate_file(journal, journal->valid_bytes, &ignored);
    return status;
}

enum status entry_journal_next(struct entry_journal *journal, int64_t *offset, struct entry *entry,
                               bool *found, struct fault *fault) {
    int64_t at = *offset == 0 ? MAGIC_BYTES : *offset;
    if (at == journal->valid_bytes) {
        *found = false;
        return OK;
    }
    size_t count = read_record(journal, at, journal->valid_bytes);
    const char *error = count == 0 ? "the record is damaged"
                                   : entry_read(journal->record + LENGTH_BYTES, count,
                                                entry->slices, journal->slice_capacity, entry);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, journal->path,
                         "remove it: the state is then fetched from other members",
                         "the entry at byte %lld: %s", (long long)at, error);
    }
    *offset = at + (int64_t)framed_record_size(count);
    *found = true;
    return OK;
}

bool entry_journal_is_empty(const struct entry_journal *journal) {
    return journal->valid_bytes == MAGIC_BYTES;
}

enum status entry_journal_clear(struct entry_journal *journal, struct fault *fault) {
    return truncate_file(journal, MAGIC_BYTES, fault);
}
