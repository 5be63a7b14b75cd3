#include "runtime/inner_training/ledger_copy.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_MODE = 0644, /* permissions of a new file */
};

static const int64_t RETRY_NS =
    NS_PER_SECOND; /* time between two attempts to write to a full disk */

static const char REMEDY[] =
    "restore the file from a backup, or remove it to accept the tracker's ledger instead";

/* Finds the end of the last complete line. */
static enum status find_last_line_end(const struct ledger_copy *ledger, int64_t size, int64_t *end,
                                      struct fault *fault) {
    for (int64_t until = size; until > 0;) {
        int64_t length = until < (int64_t)ledger->line_bytes ? until : (int64_t)ledger->line_bytes;
        TRY(file_read_at(ledger->fd, ledger->path, ledger->line, (size_t)length, until - length,
                         fault));
        const char *feed = memrchr(ledger->line, '\n', (size_t)length);
        if (feed != NULL) {
            *end = until - length + (feed - ledger->line) + 1;
            return OK;
        }
        until -= length;
    }
    *end = 0;
    return OK;
}

static enum status read_line(struct ledger_copy *ledger, bool *more, struct fault *fault) {
    enum status status = ledger_file_next(ledger->existing, more, fault);
    if (status == STATUS_INPUT) {
        snprintf(fault->remedy, sizeof fault->remedy, "%s", REMEDY);
    }
    return status;
}

static enum status truncate_file(struct ledger_copy *ledger, int64_t end, struct fault *fault) {
    ledger->end = end;
    return ftruncate(ledger->fd, end) == 0
               ? OK
               : fault_set_errno(fault, STATUS_FAILED, ledger->path, "cannot shorten", errno);
}

/* Reads the first entry, which identifies the swarm. */
static enum status read_first_entry(struct ledger_copy *ledger, struct fault *fault) {
    struct ledger_file *past = ledger->existing;
    TRY(find_last_line_end(ledger, past->file_bytes, &past->file_bytes, fault));
    TRY(truncate_file(ledger, past->file_bytes, fault));
    TRY(read_line(ledger, &ledger->first_is_unread, fault));
    if (past->has_checkpoint && !ledger->first_is_unread) {
        return truncate_file(ledger, 0, fault);
    }
    ledger->checkpoint = past->has_checkpoint ? past->checkpoint : NULL;
    return OK;
}

static void close_existing_file(struct ledger_copy *ledger) {
    if (ledger->existing != NULL) {
        ledger_file_close(ledger->existing);
        ledger->existing = NULL;
    }
}

enum status ledger_copy_open(const char *path, uint32_t slice_count, struct region *region,
                             struct ledger_copy *ledger, struct fault *fault) {
    struct ledger_copy opened = {.path = path,
                                 .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE),
                                 .line_bytes = ledger_line_bytes_max(slice_count) +
                                               LEDGER_CHECKPOINT_TEXT_BYTES};
    if (opened.fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open", errno);
    }
    enum status status = ledger_file_open_sized(path, opened.line_bytes, slice_count, region,
                                                &opened.existing, fault);
    if (status == OK) {
        opened.line = opened.existing->buffer;
        opened.state_bytes = opened.existing->state_bytes;
        status = read_first_entry(&opened, fault);
    }
    if (status != OK) {
        ledger_copy_close(&opened);
        return status;
    }
    *ledger = opened;
    return OK;
}

void ledger_copy_close(struct ledger_copy *ledger) {
    close_existing_file(ledger);
    if (ledger->fd >= 0) {
        close(ledger->fd);
        ledger->fd = -1;
    }
}

const struct hash *ledger_copy_swarm(const struct ledger_copy *ledger) {
    if (ledger->checkpoint != NULL) {
        return &ledger->checkpoint->swarm;
    }
    return ledger->first_is_unread ? &ledger->existing->entry.manifest : NULL;
}

enum status ledger_copy_read(void *context, const struct entry **entry, const char **location,
                             struct fault *fault) {
    struct ledger_copy *ledger = context;
    bool more = ledger->first_is_unread;
    ASSERT(ledger->existing != NULL);
    ledger->first_is_unread = false;
    if (!more) {
        TRY(read_line(ledger, &more, fault));
    }
    *entry = more ? &ledger->existing->entry : NULL;
    *location = ledger->existing->location;
    if (!more) {
        close_existing_file(ledger);
    }
    return OK;
}

/* Removes the part of a line that was written before the disk was full, so that readers find only
 * complete lines. */
static bool remove_partial_line(struct ledger_copy *ledger, ssize_t written) {
    ledger->error = written < 0 ? errno : ENOSPC;
    bool is_whole = ftruncate(ledger->fd, ledger->end) == 0;
    if (!ledger->last_write_failed) {
        log_line(LOG_WARNING, "%s: cannot write: %s; no entry is added until the disk has space%s",
                 ledger->path, strerror(ledger->error),
                 is_whole ? "" : ", and the last line is incomplete");
    }
    ledger->last_write_failed = true;
    return false;
}

static bool write_pending_line(struct ledger_copy *ledger) {
    ledger->last_attempt_ns = clock_monotonic_ns();
    ssize_t written = pwrite(ledger->fd, ledger->line, ledger->pending_bytes, ledger->end);
    if (written != (ssize_t)ledger->pending_bytes) {
        return remove_partial_line(ledger, written);
    }
    ledger->end += written;
    ledger->pending_bytes = 0;
    ledger->last_write_failed = false;
    return true;
}

bool ledger_copy_add(void *context, const struct ledger_chain *checkpoint,
                     const struct entry *entry) {
    struct ledger_copy *ledger = context;
    if (entry == NULL) {
        bool is_due = clock_monotonic_ns() - ledger->last_attempt_ns >= RETRY_NS;
        return ledger->pending_bytes == 0 || (is_due && write_pending_line(ledger));
    }
    ASSERT(ledger->pending_bytes == 0);
    ASSERT(checkpoint == NULL || ledger->end == 0);
    struct text line = text_over(ledger->line, ledger->line_bytes);
    if (checkpoint != NULL) {
        ledger_checkpoint_line_write(checkpoint, ledger->state_bytes, &line);
        text_add(&line, "\n");
    }
    ledger_line_write(entry, ENTRY_WITHOUT_SLICES, &line);
    text_add(&line, "\n");
    ASSERT(!line.truncated);
    ledger->pending_bytes = line.length;
    return write_pending_line(ledger);
}

enum status ledger_copy_sync(const struct ledger_copy *ledger, struct fault *fault) {
    return ledger->last_write_failed
               ? fault_set_errno(fault, STATUS_FAILED, ledger->path, "cannot write", ledger->error)
               : file_sync(ledger->fd, ledger->path, fault);
}
