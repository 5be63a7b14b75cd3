#include "runtime/swarm/ledger/ledger_file.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"
#include "runtime/swarm/ledger/line_fields.h"

#include <string.h>
#include <unistd.h>

static const char CHECKPOINT[] = "checkpoint";

enum status ledger_file_open_sized(const char *path, size_t line_max, uint32_t slice_capacity,
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
    opened->slice_capacity = slice_capacity;
    opened->buffer = region_alloc(region, line_max, 1);
    opened->entry.slices = region_alloc(region, slice_capacity, sizeof *opened->entry.slices);
    opened->checkpoint = region_alloc(region, 1, sizeof *opened->checkpoint);
    opened->state_bytes = region_alloc(region, LEDGER_CHAIN_BYTES_MAX, 1);
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
        return fault_set(fault, STATUS_INPUT, file->location,
                         is_truncated ? "remove the last line, which is incomplete" : NULL, "%s",
                         is_truncated ? "ends in the middle of an entry"
                                      : "is longer than any entry");
    }
    *length = end == NULL ? 0 : (size_t)(end - file->buffer) - file->parse_begin;
    return OK;
}

/* Reads the next line into `line` and `length`; its length is 0 after the last one. */
static enum status next_line(struct ledger_file *file, const char **line, size_t *length,
                             struct fault *fault) {
    struct text location = text_over(file->location, sizeof file->location);
    text_add(&location, "%.200s:%lld", file->path, (long long)file->line_number + 1);
    TRY(find_line(file, length, fault));
    *line = file->buffer + file->parse_begin;
    if (file->parse_begin < file->parse_end) {
        file->parse_begin += *length + 1;
        file->line_number++;
    } else {
        *line = NULL;
    }
    return OK;
}

enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault) {
    const bool is_first = file->line_number == 0;
    const char *line = NULL;
    size_t length = 0;
    TRY(next_line(file, &line, &length, fault));
    if (line != NULL && is_first) {
        TRY(ledger_checkpoint_line_read(line, length, file->location, file->state_bytes,
                                        file->checkpoint, &file->has_checkpoint, fault));
    }
    if (line != NULL && is_first && file->has_checkpoint) {
        TRY(next_line(file, &line, &length, fault));
    }
    *more = line != NULL;
    return line == NULL ? OK
                        : ledger_line_read(line, length, file->location, file->entry.slices,
                                           file->slice_capacity, &file->entry, fault);
}

void ledger_file_close(struct ledger_file *file) {
    close(file->fd);
}

/* ---- checkpoints ---- */

void ledger_checkpoint_line_write(const struct ledger_chain *chain, uint8_t *bytes,
                                  struct text *text) {
    struct json_writer json = json_writer_over(text);
    json_begin_object(&json, NULL);
    json_add_text(&json, "kind", CHECKPOINT);
    json_add_u64(&json, "entry_count", chain->entry_count);
    json_add_hex(&json, "state", bytes, ledger_chain_write(chain, bytes));
    json_end(&json);
}

static enum status read_checkpoint(const struct json_node *root, uint8_t *bytes,
                                   struct ledger_chain *chain, struct fault *fault) {
    enum { CHECKPOINT_FIELD_COUNT = 3 };
    const char *state = "";
    uint64_t entry_count = 0;
    TRY(line_read_u64(root, "entry_count", INT64_MAX, &entry_count, fault));
    TRY(json_get_text(root, "state", &state, NULL, fault));
    const size_t count = strlen(state) / 2;
    if (json_child_count(root) != CHECKPOINT_FIELD_COUNT || count > LEDGER_CHAIN_BYTES_MAX) {
        return json_fault(root, fault, NULL,
                          "has unknown fields, or a chain state that is longer than its limit");
    }
    TRY(json_require_hex(root, "state", bytes, count, fault));
    ledger_chain_clear(chain);
    const char *error = ledger_chain_read(bytes, count, chain);
    if (error == NULL && chain->entry_count != entry_count) {
        error = "is the checkpoint of a different number of entries";
    }
    return error == NULL ? OK : json_fault_member(root, "state", fault, "%s", error);
}

enum status ledger_checkpoint_line_read(const char *line, size_t length, const char *location,
                                        uint8_t *bytes, struct ledger_chain *chain,
                                        bool *is_checkpoint, struct fault *fault) {
    struct json_document document;
    const char *kind = "";
    *is_checkpoint = false;
    TRY(json_parse(line, length, LEDGER_LINE_MAX, location, &document, fault));
    enum status status = json_get_text(&document.root, "kind", &kind, NULL, fault);
    if (status == OK && strcmp(kind, CHECKPOINT) == 0) {
        *is_checkpoint = true;
        status = read_checkpoint(&document.root, bytes, chain, fault);
    }
    json_finish(&document);
    return status;
}
