#include "runtime/swarm/leases/continue_file.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/text.h"

#include <string.h>

enum {
    FORMAT_VERSION = 1,                            /* value of the field "format" */
    FIELD_COUNT = 7,                               /* number of JSON fields in an order's file */
    FILE_BYTES_MAX = 1024 + ORDER_MEMBERS_MAX * 80 /* maximum size of an order's file */
};

enum status continue_file_write(const char *path, const struct continue_file *file,
                                struct fault *fault) {
    char bytes[FILE_BYTES_MAX];
    char temporary[PATH_BYTES + 8];
    struct text text = text_over(bytes, sizeof bytes);
    struct text name = text_over(temporary, sizeof temporary);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    json_add_u64(&json, "format", FORMAT_VERSION);
    json_add_hex(&json, "swarm", &file->swarm, sizeof file->swarm);
    json_add_hex(&json, "state", &file->state, sizeof file->state);
    json_add_u64(&json, "incarnation", file->start.incarnation);
    json_add_u64(&json, "start", file->start.number);
    json_begin_array(&json, "members");
    for (uint32_t i = 0; i < file->order.count; i++) {
        json_add_hex(&json, NULL, file->order.members[i], KEY_BYTES);
    }
    json_end(&json);
    json_add_hex(&json, "signature", file->order.signature, SIGNATURE_BYTES);
    json_end(&json);
    text_add(&text, "\n");
    text_add(&name, "%s.new", path);
    ASSERT(!text.truncated && !name.truncated);
    return file_replace(path, temporary, text.bytes, text.length, fault);
}

static enum status read_members(const struct json_node *root, struct continue_order *order,
                                struct fault *fault) {
    struct json_node members;
    TRY(json_require(root, "members", &members, fault));
    TRY(json_as_array(&members, fault));
    const size_t count = json_child_count(&members);
    if (count > ORDER_MEMBERS_MAX) {
        return json_fault(&members, fault, NULL, "has more keys than a roster has seats");
    }
    order->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct json_node member = json_element(&members, i);
        const char *text = "";
        TRY(json_as_text(&member, &text, fault));
        if (strlen(text) != (size_t)2 * KEY_BYTES ||
            !hex_read(text, KEY_BYTES, order->members[i])) {
            return json_fault(&member, fault, NULL,
                              "is not a public key in lower-case hexadecimal");
        }
    }
    const char *error = continue_order_error(order);
    return error == NULL ? OK : json_fault(&members, fault, NULL, "%s", error);
}

static enum status read_fields(const struct json_node *root, struct continue_file *file,
                               struct fault *fault) {
    int64_t format = 0, incarnation = 0, number = 0;
    memset(file, 0, sizeof *file);
    TRY(json_get_i64(root, "format", &format, NULL, fault));
    TRY(json_get_i64(root, "incarnation", &incarnation, NULL, fault));
    TRY(json_get_i64(root, "start", &number, NULL, fault));
    if (format != FORMAT_VERSION || json_child_count(root) != FIELD_COUNT || incarnation < 0 ||
        incarnation > UINT32_MAX || number < 1) {
        return json_fault(root, fault, "write it with `skep track --continue` again",
                          "is not a file of format %d with the operator's order to continue",
                          FORMAT_VERSION);
    }
    file->start = (struct tracker_start){(uint32_t)incarnation, (uint64_t)number};
    TRY(json_require_hex(root, "swarm", &file->swarm, sizeof file->swarm, fault));
    TRY(json_require_hex(root, "state", &file->state, sizeof file->state, fault));
    TRY(read_members(root, &file->order, fault));
    return json_require_hex(root, "signature", file->order.signature, SIGNATURE_BYTES, fault);
}

enum status continue_file_read(const char *path, struct continue_file *file, struct fault *fault) {
    char bytes[FILE_BYTES_MAX];
    size_t length = 0;
    struct json_document document;
    TRY(file_read_text(path, bytes, sizeof bytes, &length, fault));
    TRY(json_parse(bytes, length, FILE_BYTES_MAX, path, &document, fault));
    enum status status = read_fields(&document.root, file, fault);
    json_finish(&document);
    return status;
}
