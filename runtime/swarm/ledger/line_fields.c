#include "runtime/swarm/ledger/line_fields.h"

#include "base/hex.h"

#include <string.h>

enum { FP64_DIGITS = 17 }; /* decimal digits that determine a number of 64 bits */

void line_add_fields(struct json_writer *json, const struct line_field *fields, size_t field_count,
                     const void *from) {
    for (size_t i = 0; i < field_count; i++) {
        const struct line_field *field = &fields[i];
        const void *value = (const uint8_t *)from + field->offset;
        if (field->form == FIELD_HEX) {
            json_add_hex(json, field->key, value, field->bytes);
        } else if (field->form == FIELD_F64) {
            json_add_f64(json, field->key, *(const double *)value, FP64_DIGITS);
        } else {
            json_add_u64(json, field->key,
                         field->form == FIELD_U32 ? *(const uint32_t *)value
                                                  : *(const uint64_t *)value);
        }
    }
}

enum status line_read_u64(const struct json_node *object, const char *key, uint64_t max,
                          uint64_t *value, struct fault *fault) {
    struct json_node node;
    int64_t found;
    TRY(json_require(object, key, &node, fault));
    TRY(json_as_i64(&node, &found, fault));
    if (found < 0 || (uint64_t)found > max) {
        return json_fault(&node, fault, NULL, "is out of bounds");
    }
    *value = (uint64_t)found;
    return OK;
}

enum status line_read_u32(const struct json_node *object, const char *key, uint32_t *value,
                          struct fault *fault) {
    uint64_t wide = 0;
    TRY(line_read_u64(object, key, UINT32_MAX, &wide, fault));
    *value = (uint32_t)wide;
    return OK;
}

enum status line_read_hex(const struct json_node *object, const char *key, void *bytes,
                          size_t count, struct fault *fault) {
    const char *text = "";
    TRY(json_get_text(object, key, &text, NULL, fault));
    return strlen(text) == 2 * count && hex_read(text, count, bytes)
               ? OK
               : json_fault_member(object, key, fault, "is not %zu bytes in lower-case hexadecimal",
                                   count);
}

static enum status read_f64(const struct json_node *object, const char *key, double *value,
                            struct fault *fault) {
    struct json_node node;
    TRY(json_require(object, key, &node, fault));
    return json_as_f64(&node, value, fault);
}

enum status line_read_fields(const struct json_node *object, const struct line_field *fields,
                             size_t field_count, void *out, struct fault *fault) {
    for (size_t i = 0; i < field_count; i++) {
        const struct line_field *field = &fields[i];
        void *value = (uint8_t *)out + field->offset;
        switch (field->form) {
        case FIELD_U32:
            TRY(line_read_u32(object, field->key, value, fault));
            break;
        case FIELD_U64:
            TRY(line_read_u64(object, field->key, INT64_MAX, value, fault));
            break;
        case FIELD_F64:
            TRY(read_f64(object, field->key, value, fault));
            break;
        case FIELD_HEX:
            TRY(line_read_hex(object, field->key, value, field->bytes, fault));
            break;
        }
    }
    return OK;
}
