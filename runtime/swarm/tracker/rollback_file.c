#include "runtime/swarm/tracker/rollback_file.h"

#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/text.h"

#include <string.h>

enum {
    FORMAT_VERSION = 1,    /* value of the field "format" */
    FIELD_COUNT = 5,       /* number of JSON fields in an order's file */
    FILE_BYTES_MAX = 1024, /* maximum size of an order's file */
    POLL_MS = 500,         /* time between two checks of a watched file */
};

enum status rollback_file_write(const char *path, const struct rollback_file *file,
                                struct fault *fault) {
    char bytes[FILE_BYTES_MAX];
    char temporary[PATH_BYTES + 8];
    struct text text = text_over(bytes, sizeof bytes);
    struct text name = text_over(temporary, sizeof temporary);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    json_add_u64(&json, "format", FORMAT_VERSION);
    json_add_hex(&json, "swarm", &file->swarm, sizeof file->swarm);
    json_add_hex(&json, "root", &file->root, sizeof file->root);
    json_add_hex(&json, "newest", &file->order.newest, sizeof file->order.newest);
    json_add_hex(&json, "signature", &file->order.signature, sizeof file->order.signature);
    json_end(&json);
    text_add(&text, "\n");
    text_add(&name, "%s.new", path);
    ASSERT(!text.truncated && !name.truncated);
    return file_replace(path, temporary, text.bytes, text.length, fault);
}

static enum status read_order(const struct json_node *root, struct rollback_file *file,
                              struct fault *fault) {
    int64_t format = 0;
    TRY(json_get_i64(root, "format", &format, NULL, fault));
    if (format != FORMAT_VERSION || json_child_count(root) != FIELD_COUNT) {
        return json_fault(root, fault, "write the order with `skep track --rollback` again",
                          "is not a file of format %d with the operator's order to roll back",
                          FORMAT_VERSION);
    }
    TRY(json_require_hex(root, "swarm", &file->swarm, sizeof file->swarm, fault));
    TRY(json_require_hex(root, "root", &file->root, sizeof file->root, fault));
    TRY(json_require_hex(root, "newest", &file->order.newest, sizeof file->order.newest, fault));
    return json_require_hex(root, "signature", &file->order.signature, sizeof file->order.signature,
                            fault);
}

enum status rollback_file_read(const char *path, struct rollback_file *file, struct fault *fault) {
    char bytes[FILE_BYTES_MAX];
    size_t length = 0;
    struct json_document document;
    TRY(file_read_text(path, bytes, sizeof bytes, &length, fault));
    TRY(json_parse(bytes, length, FILE_BYTES_MAX, path, &document, fault));
    enum status status = read_order(&document.root, file, fault);
    json_finish(&document);
    return status;
}

bool file_watch_poll(struct file_watch *watch, int64_t now_ms) {
    if (now_ms < watch->poll_ms) {
        return false;
    }
    watch->poll_ms = now_ms + POLL_MS;
    const struct file_stamp stamp = file_stamp_of(watch->path);
    if (stamp.inode == 0 || file_stamp_equal(&stamp, &watch->stamp)) {
        return false;
    }
    watch->stamp = stamp;
    return true;
}
