/* text: bounded string building, and the ways the program writes and reads quantities. */
#ifndef SKEP_BASE_TEXT_H
#define SKEP_BASE_TEXT_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string under construction in the caller's buffer. Always NUL-terminated; what does not fit is
 * dropped and `truncated` set, so that a writer of machine-readable output can refuse to use it. */
struct text {
    char *bytes;
    size_t capacity; /* includes the NUL */
    size_t length;
    bool truncated;
};

struct text text_over(char *buffer, size_t capacity);
void text_add(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
/* text_add_json: `value` as a JSON string, in quotes and escaped, which is a YAML string too. Whole
 * JSON documents are written with base/json_write.h.
 * text_add_escaped: `count` bytes of such a string, without quotes. */
void text_add_json(struct text *text, const char *value);
void text_add_escaped(struct text *text, const char *bytes, size_t count);

/* text_bytes: "13.1 GiB", "512 B"; three significant digits. Gives `buffer` back. */
const char *text_bytes(uint64_t bytes, char buffer[static 24]);
/* text_count: "124.4M", "1.24B", "960"; for parameters and FLOPs. */
const char *text_count(double count, char buffer[static 24]);
/* text_grouped: "12,345,678". */
const char *text_grouped(uint64_t value, char buffer[static 32]);

/* nan_without_sign: `value`, or a positive NaN for any NaN, so that printf never writes "-nan". */
double nan_without_sign(double value);

/* text_parse_bytes: "9GiB", "512 MiB", "1.5GB", "4096"; false when it is none of these or exceeds
 * 2^62. *bytes is then untouched. */
bool text_parse_bytes(const char *text, uint64_t *bytes);
/* text_parse_i64, text_parse_f64: the whole string must be the number; false otherwise. */
bool text_parse_i64(const char *text, int64_t *value);
bool text_parse_f64(const char *text, double *value);

/* text_nearest: index of the name closest to `wanted` by edit distance, or -1 when none is within
 * half of its length. */
int text_nearest(const char *wanted, const char *const *names, int name_count);

#endif
