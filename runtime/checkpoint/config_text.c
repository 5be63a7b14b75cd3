#include "runtime/checkpoint/config_text.h"

#include "base/text.h"
#include "runtime/checkpoint/json_scan.h"

#include <string.h>

static const char *long_name(enum dtype dtype) {
    return dtype == DTYPE_BF16  ? "\"bfloat16\""
           : dtype == DTYPE_F16 ? "\"float16\""
                                : "\"float32\"";
}

/* The key that starts at `at`, quotes included, is one of the two spellings. */
static bool is_dtype_key(const char *key, size_t bytes) {
    static const char *const KEYS[] = {"\"dtype\"", "\"torch_dtype\""};
    for (size_t i = 0; i < ARRAY_COUNT(KEYS); i++) {
        if (bytes == strlen(KEYS[i]) && memcmp(key, KEYS[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* One member: its value replaced when it is a type, copied otherwise. *kept is the end of what has
 * been copied. */
static bool copy_member(struct json_scan *scan, enum dtype dtype, struct text *out, size_t *kept,
                        bool *found) {
    (void)json_scan_peek(scan);
    size_t setting_key_at = scan->at;
    if (!json_scan_string(scan, NULL)) {
        return false;
    }
    bool replaced = is_dtype_key(scan->bytes + setting_key_at, scan->at - setting_key_at);
    if (!json_scan_byte(scan, ':')) {
        return false;
    }
    (void)json_scan_peek(scan);
    size_t value_at = scan->at;
    if (!json_scan_skip(scan)) {
        return false;
    }
    if (replaced) {
        text_add_bytes(out, scan->bytes + *kept, value_at - *kept);
        text_add(out, "%s", long_name(dtype));
        *kept = scan->at;
        *found = true;
    }
    return true;
}

static bool copy_members(struct json_scan *scan, enum dtype dtype, struct text *out) {
    if (!json_scan_byte(scan, '{')) {
        return false;
    }
    size_t start = scan->at;
    size_t kept = 0;
    bool found = false;
    bool empty = json_scan_peek(scan) == '}';
    bool more = !empty;
    scan->reason = NULL;
    while (more) {
        if (!copy_member(scan, dtype, out, &kept, &found)) {
            return false;
        }
        more = json_scan_more(scan, '}');
    }
    if (scan->reason != NULL) {
        return false;
    }
    if (!found && dtype != DTYPE_F32) {
        text_add_bytes(out, scan->bytes, start);
        text_add(out, "\n  \"torch_dtype\": %s%s", long_name(dtype), empty ? "" : ",");
        kept = start;
    }
    text_add_bytes(out, scan->bytes + kept, scan->length - kept);
    return true;
}

enum status config_text_set_dtype(const char *config, size_t length, enum dtype dtype, char *out,
                                  size_t capacity, size_t *out_length, struct fault *fault) {
    ASSERT(capacity >= length + CONFIG_TEXT_GROWTH && config[length] == '\0');
    struct text text = text_over(out, capacity);
    /* Without a place for its strings the scan changes nothing. */
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
