/* json_scan: a JSON scanner that reads text once from start to end, allocates nothing and never
 * recurses. It reads the headers of untrusted files, which may be 100 MB of text. */
#ifndef SKEP_CHECKPOINT_JSON_SCAN_H
#define SKEP_CHECKPOINT_JSON_SCAN_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A position in a text. bytes[length] must be a readable NUL; nothing after it is read. Every
 * function below first skips white space, then advances `at` past the part that it read and returns
 * true. On false, `reason` says what is wrong with the byte at `at`. */
struct json_scan {
    char *bytes;        /* the JSON text */
    size_t length;      /* number of bytes of the text */
    size_t at;          /* offset of the next byte to read */
    const char *reason; /* why the byte at `at` is invalid */
};

/* json_scan_peek: return the next byte that is not white space, without consuming it; NUL at the
 * end. */
char json_scan_peek(struct json_scan *scan);

/* json_scan_expect_byte: consume the next byte, which must be `expected`; else return false. */
MUST_CHECK bool json_scan_expect_byte(struct json_scan *scan, char expected);

/* json_scan_string: read a string.
 * text    set to the NUL-terminated string, decoded in place, so the string can be read only once;
 *         NULL: the string is checked and the bytes stay as they are
 * errors  control characters, NUL, malformed UTF-8, unpaired surrogates */
MUST_CHECK bool json_scan_string(struct json_scan *scan, char **text);

/* json_scan_natural: read a whole number from 0 to 2^63-1 without sign, fraction or exponent. */
MUST_CHECK bool json_scan_natural(struct json_scan *scan, int64_t *value);

/* json_scan_skip: check a value of any type, at most JSON_DEPTH_MAX levels deep, and skip it. */
MUST_CHECK bool json_scan_skip(struct json_scan *scan);

/* json_scan_has_more: called after a member or an element. Consumes a comma and returns true, or
 * consumes `end` and returns false. On an error it returns false and sets `reason`. */
bool json_scan_has_more(struct json_scan *scan, char end);

#endif
