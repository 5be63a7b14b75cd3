#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/ledger/ledger_line.h"

#include <string.h>
#include <unistd.h>

enum status ledger_file_open_of(const char *path, size_t line_max, uint32_t slice_max,
                                struct region *region, struct ledger_file **file,
                                struct fault *fault) {
    int fd;
    int64_t bytes;
    enum status status = file_open_read(path, &fd, &bytes, fault);
    if (status != OK) {
        return status;
    }
    struct ledger_file *opened = region_alloc(region, 1, sizeof *opened);
    opened->path = path;
    opened->fd = fd;
    opened->bytes = bytes;
    opened->line_max = line_max;
    opened->slice_max = slice_max;
    opened->buffer = region_alloc(region, line_max, 1);
    opened->entry.slices = region_alloc(region, slice_max, sizeof *opened->entry.slices);
    *file = opened;
    return OK;
}

enum status ledger_file_open(const char *path, struct region *region, struct ledger_file **file,
                             struct fault *fault) {
    return ledger_file_open_of(path, LEDGER_LINE_MAX, SWARM_SLICES_MAX, region, file, fault);
}

/* What is not parsed moves to the front, and the file fills the rest. */
static enum status refill(struct ledger_file *file, struct fault *fault) {
    memmove(file->buffer, file->buffer + file->from, file->until - file->from);
    file->until -= file->from;
    file->from = 0;
    size_t room = file->line_max - file->until;
    int64_t left = file->bytes - file->at;
    size_t count = left < (int64_t)room ? (size_t)left : room;
    enum status status =
        file_read_at(file->fd, file->path, file->buffer + file->until, count, file->at, fault);
    if (status == OK) {
        file->at += (int64_t)count;
        file->until += count;
    }
    return status;
}

static enum status find_line(struct ledger_file *file, size_t *length, struct fault *fault) {
    const char *end = memchr(file->buffer + file->from, '\n', file->until - file->from);
    if (end == NULL) {
        enum status status = refill(file, fault);
        if (status != OK) {
            return status;
        }
        end = memchr(file->buffer, '\n', file->until);
    }
    if (end == NULL && file->until > 0) {
        bool cut = file->until < file->line_max;
        return fault_set(fault, STATUS_INPUT, file->place,
                         cut ? "remove the last line: the entry was never whole" : NULL, "%s",
                         cut ? "ends in the middle of an entry" : "is longer than an entry may be");
    }
    *length = end == NULL ? 0 : (size_t)(end - file->buffer) - file->from;
    return OK;
}

enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault) {
    size_t length = 0;
    struct text place = text_over(file->place, sizeof file->place);
    text_add(&place, "%.200s:%lld", file->path, (long long)file->line + 1);
    enum status status = find_line(file, &length, fault);
    if (status != OK) {
        return status;
    }
    if (file->from == file->until) {
        *more = false;
        return OK;
    }
    status = ledger_line_read(file->buffer + file->from, length, file->place, file->entry.slices,
                              file->slice_max, &file->entry, fault);
    if (status == OK) {
        file->from += length + 1;
        file->line++;
        *more = true;
    }
    return status;
}

void ledger_file_close(struct ledger_file *file) {
    close(file->fd);
}
