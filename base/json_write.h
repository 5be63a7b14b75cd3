/* json_write: the only JSON writer. It appends one document to a struct text, and adds commas,
 * quotes and escapes itself. The document is one line, with ", " between items and ": " after
 * names; json_newline breaks it.
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
 * itself. Wrong nesting fails an assertion. Nothing allocates. */
#ifndef SKEP_BASE_JSON_WRITE_H
#define SKEP_BASE_JSON_WRITE_H

#include "base/text.h"

enum {
    JSON_WRITE_DEPTH_MAX = 32,  /* maximum number of objects and arrays that are open at a time */
    JSON_DRAIN_BYTES_MIN = 512, /* a text that is drained must be larger than this */
};

struct json_writer {
    struct text *text; /* receives the document */
    void (*drain)(void *context,
                  struct text *text); /* empties a full text; NULL: the text is truncated */
    void *context;
    uint32_t array_depths;    /* bit d: the open value at depth d is an array */
    uint32_t nonempty_depths; /* bit d: the open value at depth d is not empty */
    int depth;                /* number of open objects and arrays */
    int indent; /* spaces after the next line break; -1: no line break before the next item */
};

/* json_writer_over: append to `text`. When it is full, the rest is dropped and text->truncated
 * set. */
struct json_writer json_writer_over(struct text *text);

/* json_writer_draining: write a document of any length. Before an item that might not fit, the
 * writer calls drain(), which must consume the bytes of `text` and empty it. The caller consumes
 * the last bytes, after the end of the document.
 * limits  text->capacity > JSON_DRAIN_BYTES_MIN */
struct json_writer json_writer_draining(struct text *text,
                                        void (*drain)(void *context, struct text *text),
                                        void *context);

void json_begin_object(struct json_writer *json, const char *name);
void json_begin_array(struct json_writer *json, const char *name);
/* json_end: close the innermost object or array. */
void json_end(struct json_writer *json);

/* json_newline: start a new line, indented by `indent` spaces, before the next item or bracket.
 * Returns `json`, so that the item can be added in the same statement. */
struct json_writer *json_newline(struct json_writer *json, int indent);

void json_add_text(struct json_writer *json, const char *name, const char *value);
/* json_add_counted_text: a string of `count` bytes, which needs no NUL. */
void json_add_counted_text(struct json_writer *json, const char *name, const char *value,
                           size_t count);
void json_add_bool(struct json_writer *json, const char *name, bool value);
void json_add_null(struct json_writer *json, const char *name);
void json_add_i64(struct json_writer *json, const char *name, int64_t value);
void json_add_u64(struct json_writer *json, const char *name, uint64_t value);
/* json_add_u64_text: a number in quotes, for readers whose numbers have only 53 bits. */
void json_add_u64_text(struct json_writer *json, const char *name, uint64_t value);
/* json_add_f64: `digits` significant digits (%.*g), or null for infinities and NaN.
 * json_add_fixed: `decimals` digits after the decimal point (%.*f). */
void json_add_f64(struct json_writer *json, const char *name, double value, int digits);
void json_add_fixed(struct json_writer *json, const char *name, double value, int decimals);
/* json_add_hex: bytes as a string of lower-case hexadecimal digits. */
void json_add_hex(struct json_writer *json, const char *name, const void *bytes, size_t count);

/* json_add_name: adds the comma and the name; the caller then appends the value, which must be
 * valid JSON, to the returned text. */
struct text *json_add_name(struct json_writer *json, const char *name);

#endif
