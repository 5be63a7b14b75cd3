#include "runtime/train/join_ledger.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/ledger_line.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FIXED_BYTES = 96 << 10, /* full rosters, signatures and cursor */
    SLICE_BYTES = 512,      /* of a line, with every seat a contributor */
    FILE_MODE = 0644,
};

/* Whole lines, and where the last of them ends. */
static enum status count_lines(struct join_ledger *ledger, int64_t size, int64_t *end,
                               struct fault *fault) {
    *end = 0;
    for (int64_t at = 0; at < size;) {
        int64_t left = size - at;
        size_t some = left < (int64_t)ledger->line_bytes ? (size_t)left : ledger->line_bytes;
        enum status status = file_read_at(ledger->fd, ledger->path, ledger->line, some, at, fault);
        if (status != OK) {
            return status;
        }
        for (size_t i = 0; i < some; i++) {
            if (ledger->line[i] == '\n') {
                ledger->kept++;
                *end = at + (int64_t)i + 1;
            }
        }
        at += (int64_t)some;
    }
    return OK;
}

static enum status take_over(struct join_ledger *ledger, struct fault *fault) {
    struct stat info;
    int64_t end;
    if (fstat(ledger->fd, &info) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, ledger->path, "cannot look at", errno);
    }
    enum status status = count_lines(ledger, info.st_size, &end, fault);
    if (status == OK && (ftruncate(ledger->fd, end) != 0 || lseek(ledger->fd, 0, SEEK_END) < 0)) {
        status = fault_set_errno(fault, STATUS_FAILED, ledger->path, "cannot shorten", errno);
    }
    return status;
}

enum status join_ledger_open(const char *path, uint32_t slice_count, struct region *region,
                             struct join_ledger *ledger, struct fault *fault) {
    struct join_ledger opened = {.path = path,
                                 .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE),
                                 .line_bytes = FIXED_BYTES + (size_t)slice_count * SLICE_BYTES};
    if (opened.fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open", errno);
    }
    opened.line = region_alloc(region, opened.line_bytes, 1);
    enum status status = take_over(&opened, fault);
    if (status != OK) {
        close(opened.fd);
        return status;
    }
    *ledger = opened;
    return OK;
}

void join_ledger_close(struct join_ledger *ledger) {
    if (ledger->fd >= 0) {
        close(ledger->fd);
        ledger->fd = -1;
    }
}

/* What a full disk took of a line goes again, so that whoever reads the copy finds whole lines. */
static void end_before(struct join_ledger *ledger, ssize_t written) {
    int error = written < 0 ? errno : ENOSPC;
    off_t at = lseek(ledger->fd, 0, SEEK_CUR);
    bool is_whole = written <= 0 || (at >= written && ftruncate(ledger->fd, at - written) == 0);
    log_line(LOG_WARNING, "%s: cannot write: %s; this copy of the ledger ends %s", ledger->path,
             strerror(error), is_whole ? "here" : "in the middle of an entry");
    join_ledger_close(ledger);
}

void join_ledger_entry(void *context, const struct entry *entry) {
    struct join_ledger *ledger = context;
    if (ledger->fd < 0 || ledger->seen++ < ledger->kept) {
        return;
    }
    struct text line = text_over(ledger->line, ledger->line_bytes);
    ledger_line_write(entry, &line);
    text_add(&line, "\n");
    ASSERT(!line.cut);
    ssize_t written = write(ledger->fd, line.bytes, line.length);
    if (written != (ssize_t)line.length) {
        end_before(ledger, written);
    }
}
