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
    opened->file_bytes = bytes;
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

/* Moves the unparsed bytes to the front of the buffer, and fills the rest of it from the file. */
static enum status refill_buffer(struct ledger_file *file, struct fault *fault) {
    memmove(file->buffer, file->buffer + file->parse_begin, file->parse_end - file->parse_begin);
    file->parse_end -= file->parse_begin;
    file->parse_begin = 0;
    size_t room = file->line_max - file->parse_end;
    int64_t left = file->file_bytes - file->read_offset;
    size_t count = left < (int64_t)room ? (size_t)left : room;
    TRY(file_read_at(file->fd, file->path, file->buffer + file->parse_end, count, file->read_offset,
                     fault));
    file->read_offset += (int64_t)count;
    file->parse_end += count;
    ASSERT(file->read_offset <= file->file_bytes && file->parse_end <= file->line_max);
    return OK;
}

static enum status find_line(struct ledger_file *file, size_t *length, struct fault *fault) {
    const char *end =
        memchr(file->buffer + file->parse_begin, '\n', file->parse_end - file->parse_begin);
    if (end == NULL) {
        TRY(refill_buffer(file, fault));
        end = memchr(file->buffer, '\n', file->parse_end);
    }
    if (end == NULL && file->parse_end > 0) {
        bool is_truncated = file->parse_end < file->line_max;
        return fault_set(
            fault, STATUS_INPUT, file->location,
            is_truncated ? "remove the last line: its entry is incomplete" : NULL, "%s",
            is_truncated ? "ends in the middle of an entry" : "is longer than any entry");
    }
    *length = end == NULL ? 0 : (size_t)(end - file->buffer) - file->parse_begin;
    return OK;
}

enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault) {
    size_t length = 0;
    struct text location = text_over(file->location, sizeof file->location);
    text_add(&location, "%.200s:%lld", file->path, (long long)file->line_number + 1);
    TRY(find_line(file, &length, fault));
    if (file->parse_begin == file->parse_end) {
        *more = false;
        return OK;
    }
    TRY(ledger_line_read(file->buffer + file->parse_begin, length, file->location,
                         file->entry.slices, file->slice_max, &file->entry, fault));
    file->parse_begin += length + 1;
    file->line_number++;
    *more = true;
    return OK;
}

void ledger_file_close(struct ledger_file *file) {
    close(file->fd);
}
