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

static const char MARK[] = "skep journal 1\n";
enum { MARK_BYTES = sizeof MARK, LENGTH_BYTES = 4, FILE_MODE = 0644 };

static size_t record_max(uint32_t slice_max) {
    return ENTRY_RECORD_MAX - (size_t)(SWARM_SLICES_MAX - slice_max) * ENTRY_SLICE_BYTES;
}

/* The bytes of the file that a record of `count` bytes takes. */
static size_t framed(size_t count) {
    return LENGTH_BYTES + count + HASH_BYTES;
}

static enum status truncate_to(struct entry_journal *journal, int64_t bytes, struct fault *fault) {
    if (ftruncate(journal->fd, bytes) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, journal->path, "cannot truncate", errno);
    }
    journal->bytes = bytes;
    return file_sync(journal->fd, journal->path, fault);
}

/* A crash after the file was created leaves at most a part of the mark in it. */
static enum status check_mark(struct entry_journal *journal, int64_t size, struct fault *fault) {
    char found[MARK_BYTES] = {0};
    size_t some = size < MARK_BYTES ? (size_t)size : MARK_BYTES;
    TRY(file_read_at(journal->fd, journal->path, found, some, 0, fault));
    if (memcmp(found, MARK, some) != 0) {
        return fault_set(fault, STATUS_INPUT, journal->path, "use another state folder",
                         "is not a journal of this version of Skep");
    }
    if (size >= MARK_BYTES) {
        return OK;
    }
    TRY(file_write_at(journal->fd, journal->path, MARK, MARK_BYTES, 0, fault));
    return file_sync(journal->fd, journal->path, fault);
}

/* Reads the record at `offset` into journal->record. Returns its length, or 0 when there is no
 * complete record. */
static size_t read_record(struct entry_journal *journal, int64_t offset, int64_t size) {
    struct fault fault;
    uint8_t *bytes = journal->record;
    uint32_t count;
    if (size - offset < (int64_t)framed(0) ||
        file_read_at(journal->fd, journal->path, bytes, LENGTH_BYTES, offset, &fault) != OK) {
        return 0;
    }
    memcpy(&count, bytes, sizeof count);
    if (count == 0 || count > journal->record_max || size - offset < (int64_t)framed(count) ||
        file_read_at(journal->fd, journal->path, bytes + LENGTH_BYTES, count + HASH_BYTES,
                     offset + LENGTH_BYTES, &fault) != OK) {
        return 0;
    }
    struct hash hash = hash_of(bytes, LENGTH_BYTES + count);
    return memcmp(hash.bytes, bytes + LENGTH_BYTES + count, HASH_BYTES) == 0 ? count : 0;
}

static enum status open_records(struct entry_journal *journal, struct fault *fault) {
    struct stat info;
    if (fstat(journal->fd, &info) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, journal->path, "cannot get the size of",
                               errno);
    }
    TRY(check_mark(journal, info.st_size, fault));
    int64_t size = info.st_size > MARK_BYTES ? info.st_size : MARK_BYTES;
    int64_t end = MARK_BYTES;
    for (size_t count = 1; count > 0;) {
        count = read_record(journal, end, size);
        end += count > 0 ? (int64_t)framed(count) : 0;
    }
    journal->bytes = end;
    if (end == size) {
        return OK;
    }
    log_line(LOG_WARNING, "%s: ignoring the last %lld bytes: an incomplete record", journal->path,
             (long long)(size - end));
    journal->has_tail = true;
    return OK;
}

enum status entry_journal_open(const char *path, uint32_t slice_max, struct region *region,
                               struct entry_journal *journal, struct fault *fault) {
    ASSERT(slice_max <= SWARM_SLICES_MAX);
    char folder[PATH_BYTES];
    struct entry_journal opened = {.path = path,
                                   .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE),
                                   .slice_max = slice_max,
                                   .record_max = record_max(slice_max)};
    if (opened.fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open", errno);
    }
    opened.record = region_alloc(region, framed(opened.record_max), 1);
    file_folder_of(path, folder, sizeof folder);
    enum status status = open_records(&opened, fault);
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
    uint32_t count = (uint32_t)entry_write(entry, bytes + LENGTH_BYTES, journal->record_max);
    memcpy(bytes, &count, sizeof count);
    struct hash hash = hash_of(bytes, LENGTH_BYTES + count);
    memcpy(bytes + LENGTH_BYTES + count, hash.bytes, HASH_BYTES);
    enum status status = journal->has_tail ? truncate_to(journal, journal->bytes, fault) : OK;
    if (status == OK) {
        journal->has_tail = false;
        status =
            file_write_at(journal->fd, journal->path, bytes, framed(count), journal->bytes, fault);
    }
    if (status == OK) {
        status = file_sync(journal->fd, journal->path, fault);
    }
    if (status == OK) {
        journal->bytes += (int64_t)framed(count);
        return OK;
    }
    /* If this fails too, the next append overwrites the incomplete record. */
    struct fault ignored;
    (void)!truncate_to(journal, journal->bytes, &ignored);
    return status;
}

enum status entry_journal_next(struct entry_journal *journal, int64_t *offset, struct entry *entry,
                               bool *found, struct fault *fault) {
    int64_t at = *offset == 0 ? MARK_BYTES : *offset;
    if (at == journal->bytes) {
        *found = false;
        return OK;
    }
    size_t count = read_record(journal, at, journal->bytes);
    const char *error = count == 0 ? "the record is damaged"
                                   : entry_read(journal->record + LENGTH_BYTES, count,
                                                entry->slices, journal->slice_max, entry);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, journal->path,
                         "remove it: the state is then fetched from other members",
                         "the entry at byte %lld: %s", (long long)at, error);
    }
    *offset = at + (int64_t)framed(count);
    *found = true;
    return OK;
}

bool entry_journal_is_empty(const struct entry_journal *journal) {
    return journal->bytes == MARK_BYTES;
}

enum status entry_journal_clear(struct entry_journal *journal, struct fault *fault) {
    return truncate_to(journal, MARK_BYTES, fault);
}
