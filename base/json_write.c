#include "base/json_write.h"

#include "base/bytes.h"
#include "base/hex.h"

#include <math.h>
#include <string.h>

enum {
    PIECE_BYTES = 64,         /* maximum bytes of a string that one call escapes */
    TOKEN_BYTES_MAX = 400,    /* a number, or an escaped piece with 6 bytes for each input byte */
    SEPARATOR_BYTES_MAX = 64, /* size of what precedes an item: comma, line break and indent */
    INDENT_MAX = 48,          /* spaces at the start of a line */
};

_Static_assert(6 * PIECE_BYTES < TOKEN_BYTES_MAX, "an escaped piece fits in a token");
_Static_assert(TOKEN_BYTES_MAX < (int)JSON_DRAIN_BYTES_MIN, "a token fits in an empty text");
_Static_assert(INDENT_MAX + 2 < SEPARATOR_BYTES_MAX, "the largest indent fits in a separator");

struct json_writer json_writer_over(struct text *text) {
    return (struct json_writer){.text = text, .indent = -1};
}

struct json_writer json_writer_draining(struct text *text,
                                        void (*drain)(void *context, struct text *text),
                                        void *context) {
    ASSERT(text->capacity > JSON_DRAIN_BYTES_MIN);
    return (struct json_writer){.text = text, .drain = drain, .context = context, .indent = -1};
}

static struct text *ensure_space(struct json_writer *json, size_t bytes) {
    struct text *text = json->text;
    if (json->drain != NULL && text->capacity - text->length <= bytes) {
        json->drain(json->context, text);
        ASSERT(text->capacity - text->length > bytes);
    }
    return text;
}

static void add_separator(struct json_writer *json, const char *separator) {
    struct text *text = ensure_space(json, SEPARATOR_BYTES_MAX);
    if (json->indent >= 0) {
        text_add(text, "\n%*s", json->indent, "");
    } else {
        text_add(text, "%s", separator);
    }
    json->indent = -1;
}

static void add_escaped(struct json_writer *json, const char *value, size_t count) {
    text_add_bytes(ensure_space(json, TOKEN_BYTES_MAX), "\"", 1);
    while (count > 0) {
        size_t piece = min_u64(count, PIECE_BYTES);
        text_add_escaped(ensure_space(json, TOKEN_BYTES_MAX), value, piece);
        value += piece;
        count -= piece;
    }
    text_add_bytes(ensure_space(json, TOKEN_BYTES_MAX), "\"", 1);
}

/* Writes what precedes a value: the comma, the line break and the name. */
static void write_separator_and_name(struct json_writer *json, const char *name) {
    uint32_t bit = UINT32_C(1) << json->depth;
    bool in_object = json->depth > 0 && (json->array_depths & bit) == 0;
    ASSERT((name != NULL) == in_object);
    bool is_first = json->depth == 0 || (json->nonempty_depths & bit) == 0;
    if (!is_first) {
        text_add_bytes(ensure_space(json, SEPARATOR_BYTES_MAX), ",", 1);
    }
    add_separator(json, is_first ? "" : " ");
    json->nonempty_depths |= bit;
    if (name != NULL) {
        add_escaped(json, name, strlen(name));
        text_add(ensure_space(json, SEPARATOR_BYTES_MAX), ": ");
    }
}

static void begin_nested(struct json_writer *json, const char *name, bool is_array) {
    write_separator_and_name(json, name);
    ASSERT(json->depth + 1 < JSON_WRITE_DEPTH_MAX);
    uint32_t bit = UINT32_C(1) << ++json->depth;
    json->array_depths = is_array ? json->array_depths | bit : json->array_depths & ~bit;
    json->nonempty_depths &= ~bit;
    text_add(ensure_space(json, TOKEN_BYTES_MAX), is_array ? "[" : "{");
}

void json_begin_object(struct json_writer *json, const char *name) {
    begin_nested(json, name, false);
}

void json_begin_array(struct json_writer *json, const char *name) {
    begin_nested(json, name, true);
}

void json_end(struct json_writer *json) {
    ASSERT(json->depth > 0);
    bool is_array = (json->array_depths >> json->depth & 1) != 0;
    add_separator(json, "");
    text_add(ensure_space(json, TOKEN_BYTES_MAX), is_array ? "]" : "}");
    json->depth--;
}

struct json_writer *json_newline(struct json_writer *json, int indent) {
    ASSERT(indent >= 0 && indent <= INDENT_MAX);
    json->indent = indent;
    return json;
}

struct text *json_add_name(struct json_writer *json, const char *name) {
    write_separator_and_name(json, name);
    return ensure_space(json, TOKEN_BYTES_MAX);
}

void json_add_text(struct json_writer *json, const char *name, const char *value) {
    json_add_counted_text(json, name, value, strlen(value));
}

void json_add_counted_text(struct json_writer *json, const char *name, const char *value,
                           size_t count) {
    write_separator_and_name(json, name);
    add_escaped(json, value, count);
}

void json_add_bool(struct json_writer *json, const char *name, bool value) {
    text_add(json_add_name(json, name), value ? "true" : "false");
}

void json_add_null(struct json_writer *json, const char *name) {
    text_add(json_add_name(json, name), "null");
}

void json_add_i64(struct json_writer *json, const char *name, int64_t value) {
    text_add(json_add_name(json, name), "%lld", (long long)value);
}

void json_add_u64(struct json_writer *json, const char *name, uint64_t value) {
    text_add(json_add_name(json, name), "%llu", (unsigned long long)value);
}

void json_add_u64_text(struct json_writer *json, const char *name, uint64_t value) {
    text_add(json_add_name(json, name), "\"%llu\"", (unsigned long long)value);
}

void json_add_f64(struct json_writer *json, const char *name, double value, int digits) {
    struct text *text = json_add_name(json, name);
    if (isfinite(value)) {
        text_add(text, "%.*g", digits, value);
    } else {
        text_add(text, "null");
    }
}

void json_add_fixed(struct json_writer *json, const char *name, double value, int decimals) {
    text_add(json_add_name(json, name), "%.*f", decimals, value);
}

void json_add_hex(struct json_writer *json, const char *name, const void *bytes, size_t count) {
    const uint8_t *next = bytes;
    text_add(json_add_name(json, name), "\"");
    while (count > 0) {
        size_t piece = min_u64(count, PIECE_BYTES);
        hex_add(ensure_space(json, TOKEN_BYTES_MAX), next, piece);
        next += piece;
        count -= piece;
    }
    text_add(ensure_space(json, TOKEN_BYTES_MAX), "\"");
}
