#include "runtime/diagnose/ledger_export.h"

#include "base/file.h"
#include "runtime/swarm/ledger/ledger_file.h"

#include <unistd.h>

enum status ledger_export_begin(const char *path, struct region *region,
                                struct ledger_export *export, struct fault *fault) {
    *export = (struct ledger_export){.path = path, .fd = -1};
    if (path == NULL) {
        return OK;
    }
    struct text temporary = text_over(export->temporary_path, sizeof export->temporary_path);
    text_add(&temporary, "%s.new", path);
    if (temporary.truncated) {
        return fault_set(fault, STATUS_INPUT, "--export", "use a shorter path",
                         "the path is too long");
    }
    export->line = text_over(region_alloc(region, LEDGER_LINE_MAX, 1), LEDGER_LINE_MAX);
    export->state_bytes = region_alloc(region, LEDGER_CHAIN_BYTES_MAX, 1);
    return file_open_write(export->temporary_path, &export->fd, fault);
}

/* Writes export->line as the next line of the file. */
static enum status write_line(struct ledger_export *export, struct fault *fault) {
    text_add(&export->line, "\n");
    ASSERT(!export->line.truncated);
    enum status status = file_write_at(export->fd, export->temporary_path, export->line.bytes,
                                       export->line.length, export->bytes, fault);
    export->bytes += (int64_t) export->line.length;
    return status;
}

enum status ledger_export_add_checkpoint(struct ledger_export *export,
                                         const struct ledger_chain *checkpoint,
                                         struct fault *fault) {
    if (export->path == NULL) {
        return OK;
    }
    export->line = text_over(export->line.bytes, export->line.capacity);
    ledger_checkpoint_line_write(checkpoint, export->state_bytes, &export->line);
    return write_line(export, fault);
}

enum status ledger_export_add_entry(struct ledger_export *export, const struct entry *entry,
                                    struct fault *fault) {
    if (export->path == NULL) {
        return OK;
    }
    export->line = text_over(export->line.bytes, export->line.capacity);
    ledger_line_write(entry, ENTRY_WITH_SLICES, &export->line);
    return write_line(export, fault);
}

enum status ledger_export_end(struct ledger_export *export, enum status status,
                              struct fault *fault) {
    if (export->fd < 0) {
        return status;
    }
    status = file_close_written(export->fd, export->temporary_path, status, fault);
    if (status == OK) {
        status = file_publish(export->temporary_path, export->path, fault);
    }
    if (status != OK) {
        unlink(export->temporary_path);
    }
    return status;
}
