/* json_write: the one JSON writer. It streams one document into a struct text, and puts commas,
 * quotes and escapes itself. Everything is on one line, with ", " between items and ": " after
 * names, unless json_newline asks for a new line.
 *
 *     struct json_writer json = json_writer_over(&text);
 *     json_begin_object(&json, NULL);
 *     json_add_u64(&json, "format", 1);
 *     json_begin_array(&json, "ranks");
 *     json_add_i64(&json, NULL, 0);
 *     json_end(&json);
 *     json_end(&json);                        {"format": 1, "ranks": [0]}
 *
 * `name` is the member's name inside an object, and NULL inside an array and for the document
 * itself. A wrong nesting is the caller's bug. Nothing allocates. */
#ifndef SKEP_BASE_JSON_WRITE_H
#define SKEP_BASE_JSON_WRITE_H

#include "base/text.h"

enum { JSON_WRITE_DEPTH_MAX = 32, JSON_DRAIN_BYTES_MIN = 512 };

struct json_writer {
    struct text *text;
    void (*drain)(void *context, struct text *text); /* NULL: text that is full is truncated */
    void *context;
    uint32_t arrays; /* bit d: the bracket open at depth d is an array's */
    uint32_t filled; /* bit d: it has an item already */
    int depth;
    int indent; /* of the new line before the next item; -1: none */
    bool is_compact;
};

/* json_writer_over: append to `text`. When it is full, the rest is dropped and marked there. */
struct json_writer json_writer_over(struct text *text);

/* json_writer_compact: the same without any blanks: {"a":1,"b":2}. */
struct json_writer json_writer_compact(struct text *text);

/* json_writer_draining: a document of any length. drain() must use up the bytes of `text` and empty
 * it; it is called whenever the next piece might not fit, and not at the end.
 * limits  text->capacity > JSON_DRAIN_BYTES_MIN */
struct json_writer json_writer_draining(struct text *text,
                                        void (*drain)(void *context, struct text *text),
                                        void *context);

void json_begin_object(struct json_writer *json, const char *name);
void json_begin_array(struct json_writer *json, const char *name);
/* json_end: close the innermost object or array. */
void json_end(struct json_writer *json);

/* json_newline: the next item or closing bracket begins a new line, after `indent` blanks. */
void json_newline(struct json_writer *json, int indent);

void json_add_text(struct json_writer *json, const char *name, const char *value);
/* json_add_text_part: a text of `count` bytes that need not be terminated. */
void json_add_text_part(struct json_writer *json, const char *name, const char *value,
                        size_t count);
void json_add_bool(struct json_writer *json, const char *name, bool value);
void json_add_null(struct json_writer *json, const char *name);
void json_add_i64(struct json_writer *json, const char *name, int64_t value);
void json_add_u64(struct json_writer *json, const char *name, uint64_t value);
/* json_add_u64_text: a number in quotes, for readers that keep 53 bits of a number. */
void json_add_u64_text(struct json_writer *json, const char *name, uint64_t value);
/* json_add_f64: `digits` significant digits (%.*g); null for infinities and NaN, which JSON lacks.
 * json_add_fixed: `decimals` digits after the point (%.*f). */
void json_add_f64(struct json_writer *json, const char *name, double value, int digits);
void json_add_fixed(struct json_writer *json, const char *name, double value, int decimals);
/* json_add_hex: bytes as a text of lower-case hexadecimal digits. */
void json_add_hex(struct json_writer *json, const char *name, const void *bytes, size_t count);

/* json_add_raw: everything before a value; the caller adds the value to the text returned, which
 * must be valid JSON. */
struct text *json_add_raw(struct json_writer *json, const char *name);

#endif
