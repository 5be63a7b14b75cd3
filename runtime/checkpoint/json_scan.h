/* json_scan: one forward pass over JSON text that allocates nothing and never recurses, for the
 * headers of untrusted files, which may hold 100 MB of text. */
#ifndef SKEP_CHECKPOINT_JSON_SCAN_H
#define SKEP_CHECKPOINT_JSON_SCAN_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in a text. bytes[length] must be readable and NUL: the scan never looks further. Every
 * function below skips white space first, moves `at` behind what it read, and gives true; when it
 * gives false, `reason` says why and `at` is the byte where. */
struct json_scan {
    char *bytes;
    size_t length;
    size_t at;
    const char *reason;
};

/* json_scan_peek: the next byte that is not white space; NUL at the end. */
char json_scan_peek(struct json_scan *scan);

/* json_scan_byte: exactly this byte comes next. */
MUST_CHECK bool json_scan_byte(struct json_scan *scan, char wanted);

/* json_scan_string: a string; *text is decoded in place and NUL-terminated (the text is changed:
 * a string is read once). With text NULL nothing is changed and the string is only checked.
 * refused  control characters, NUL, malformed UTF-8, unpaired surrogates */
MUST_CHECK bool json_scan_string(struct json_scan *scan, char **text);

/* json_scan_natural: a whole number from 0 to 2^63-1 without sign, fraction or exponent. */
MUST_CHECK bool json_scan_natural(struct json_scan *scan, int64_t *value);

/* json_scan_skip: any value, checked but not kept; at most JSON_DEPTH_MAX levels deep. */
MUST_CHECK bool json_scan_skip(struct json_scan *scan);

/* json_scan_more: behind a member or element: true at a comma (consumed), false at `end`
 * (consumed) or at an error, which alone sets `reason`. */
bool json_scan_more(struct json_scan *scan, char end);

#endif
