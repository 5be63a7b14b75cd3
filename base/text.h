/* text: strings built in fixed buffers, and the formats of quantities. */
#ifndef SKEP_BASE_TEXT_H
#define SKEP_BASE_TEXT_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string that is built in the caller's buffer and always ends with a NUL. Bytes that do not fit
 * are dropped, and `truncated` is set, so that a program never writes incomplete machine-readable
 * output. */
struct text {
    char *bytes;     /* the caller's buffer */
    size_t capacity; /* includes the NUL */
    size_t length;   /* number of bytes before the NUL */
    bool truncated;  /* bytes that did not fit were dropped */
};

struct text text_over(char *buffer, size_t capacity);
void text_add(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
/* text_add_json: appends `value` as a JSON string, in quotes and escaped. It is a valid YAML string
 * too. For JSON documents see base/json_write.h.
 * text_add_escaped: appends `count` bytes of such a string, without quotes. */
void text_add_json(struct text *text, const char *value);
void text_add_escaped(struct text *text, const char *bytes, size_t count);

/* text_hide_control_characters: replace each control character with '?', for text from outside
 * that a terminal will show. */
void text_hide_control_characters(char *text);

/* text_format_bytes: a size such as "13.1 GiB" or "512 B", with three significant digits. This and
 * the next two functions return `buffer`. */
const char *text_format_bytes(uint64_t bytes, char buffer[static 24]);
/* text_format_count: a count such as "124M", "1.24G" or "960", with three significant digits. */
const char *text_format_count(double count, char buffer[static 24]);
/* text_format_grouped: an integer with commas, such as "12,345,678". */
const char *text_format_grouped(uint64_t value, char buffer[static 32]);

/* nan_without_sign: `value`, or a positive NaN for any NaN, so that printf never writes "-nan". */
double nan_without_sign(double value);

/* text_parse_bytes: parse a size such as "9GiB", "512 MiB", "1.5GB" or "4096".
 * returns  false when `text` is not a size, exceeds 2^62, or is less than a byte without being 0;
 *          *bytes is then unchanged */
bool text_parse_bytes(const char *text, uint64_t *bytes);
/* text_parse_i64, text_parse_u64, text_parse_f64: return false, with *value unchanged, unless the
 * whole string is a number. text_parse_u64 accepts only digits. */
bool text_parse_i64(const char *text, int64_t *value);
bool text_parse_u64(const char *text, uint64_t *value);
bool text_parse_f64(const char *text, double *value);

/* text_find_nearest: the index of the name with the smallest edit distance from `word`, or -1 when
 * every distance exceeds a third of the word's length. */
int text_find_nearest(const char *word, const char *const *names, int name_count);

/* text_edit_distance: the number of characters to insert, remove or replace in `a` to get `b`.
 * limits  only the first 64 characters of each count */
int text_edit_distance(const char *a, const char *b);

#endif
