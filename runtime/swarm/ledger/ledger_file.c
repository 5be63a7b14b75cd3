#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"

#include <string.h>
#include <unistd.h>

enum status ledger_file_open_sized(const char *path, size_t line_max, uint32_t slice_max,
                                   struct region *region, struct ledger_file **file,
                                   struct fault *fault) {
    int fd;
    int64_t bytes;
    TRY(file_open_read(path, &fd, &bytes, fault));
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
    return ledger_file_open_sized(path, LEDGER_LINE_MAX, SWARM_SLICES_MAX, region, file, fault);
}

/* Moves what is not parsed yet to the front, and fills the rest from the file. */
static enum status refill_buffer(struct ledger_file *file, struct fault *fault) {
    memmove(file->buffer, file->buffer + file->from, file->until - file->from);
    file->until -= file->from;
    file->from = 0;
    size_t room = file->line_max - file->until;
    int64_t left = file->bytes - file->at;
    size_t count = left < (int64_t)room ? (size_t)left : room;
    TRY(file_read_at(file->fd, file->path, file->buffer + file->until, count, file->at, fault));
    file->at += (int64_t)count;
    file->until += count;
    ASSERT(file->at <= file->bytes && file->until <= file->line_max);
    return OK;
}

static enum status find_line(struct ledger_file *file, size_t *length, struct fault *fault) {
    const char *end = memchr(file->buffer + file->from, '\n', file->until - file->from);
    if (end == NULL) {
        TRY(refill_buffer(file, fault));
        end = memchr(file->buffer, '\n', file->until);
    }
    if (end == NULL && file->until > 0) {
        bool is_truncated = file->until < file->line_max;
        return fault_set(
            fault, STATUS_INPUT, file->location,
            is_truncated ? "remove the last line: its entry is incomplete" : NULL, "%s",
            is_truncated ? "ends in the middle of an entry" : "is longer than any entry");
    }
    *length = end == NULL ? 0 : (size_t)(end - file->buffer) - file->from;
    return OK;
}

enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault) {
    size_t length = 0;
    struct text location = text_over(file->location, sizeof file->location);
    text_add(&location, "%.200s:%lld", file->path, (long long)file->line + 1);
    TRY(find_line(file, &length, fault));
    if (file->from == file->until) {
        *more = false;
        return OK;
    }
    TRY(ledger_line_read(file->buffer + file->from, length, file->location, file->entry.slices,
                         file->slice_max, &file->entry, fault));
    file->from += length + 1;
    file->line++;
    *more = true;
    return OK;
}

void ledger_file_close(struct ledger_file *file) {
    close(file->fd);
}
