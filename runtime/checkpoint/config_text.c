#include "runtime/checkpoint/config_text.h"

#include "base/text.h"
#include "runtime/checkpoint/json_scan.h"

#include <string.h>

static const char *hugging_face_dtype_name(enum dtype dtype) {
    return dtype == DTYPE_BF16  ? "\"bfloat16\""
           : dtype == DTYPE_F16 ? "\"float16\""
                                : "\"float32\"";
}

/* Returns whether `key`, which begins with its opening quote, is the key of a dtype. */
static bool is_dtype_key(const char *key) {
    return strncmp(key, "\"dtype\"", 7) == 0 || strncmp(key, "\"torch_dtype\"", 13) == 0;
}

/* Reads one member, and appends the new value to `out` if the member is the dtype. *copied is the
 * number of bytes of the old text that `out` replaces so far. */
static bool copy_member(struct json_scan *scan, enum dtype dtype, struct text *out, size_t *copied,
                        bool *found) {
    (void)json_scan_peek(scan);
    const char *key = scan->bytes + scan->at;
    if (!json_scan_string(scan, NULL) || !json_scan_expect_byte(scan, ':')) {
        return false;
    }
    (void)json_scan_peek(scan);
    size_t value_at = scan->at;
    if (!json_scan_skip(scan)) {
        return false;
    }
    if (is_dtype_key(key)) {
        text_add_bytes(out, scan->bytes + *copied, value_at - *copied);
        text_add(out, "%s", hugging_face_dtype_name(dtype));
        *copied = scan->at;
        *found = true;
    }
    return true;
}

static bool copy_members(struct json_scan *scan, enum dtype dtype, struct text *out) {
    if (!json_scan_expect_byte(scan, '{')) {
        return false;
    }
    size_t start = scan->at;
    size_t copied = 0;
    bool found = false;
    bool empty = json_scan_peek(scan) == '}';
    bool more = !empty;
    scan->reason = NULL;
    while (more) {
        if (!copy_member(scan, dtype, out, &copied, &found)) {
            return false;
        }
        more = json_scan_has_more(scan, '}');
    }
    if (scan->reason != NULL) {
        return false;
    }
    if (!found && dtype != DTYPE_F32) {
        text_add_bytes(out, scan->bytes, start);
        text_add(out, "\n  \"torch_dtype\": %s%s", hugging_face_dtype_name(dtype),
                 empty ? "" : ",");
        copied = start;
    }
    text_add_bytes(out, scan->bytes + copied, scan->length - copied);
    return true;
}

enum status config_text_set_dtype(const char *config, size_t length, enum dtype dtype, char *out,
                                  size_t capacity, size_t *out_length, struct fault *fault) {
    ASSERT(capacity >= length + CONFIG_TEXT_GROWTH && config[length] == '\0');
    struct text text = text_over(out, capacity);
    /* The cast is safe: json_scan_string changes the text only when it returns a string. */
    struct json_scan scan = {.bytes = (char *)(uintptr_t)config, .length = length};
    if (!copy_members(&scan, dtype, &text)) {
        return fault_set(fault, STATUS_INPUT, "config.json", NULL, "byte %zu: %s", scan.at,
                         scan.reason);
    }
    if (text.truncated) {
        return fault_set(fault, STATUS_INPUT, "config.json", NULL, "too many dtype fields");
    }
    *out_length = text.length;
    return OK;
}
