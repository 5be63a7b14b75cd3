/* base32: bytes as lower-case letters and digits (RFC 4648 without padding), for keys that people
 * copy. */
#ifndef SKEP_TRANSPORT_IDENTITY_BASE32_H
#define SKEP_TRANSPORT_IDENTITY_BASE32_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of letters that encode `bytes` bytes, a multiple of 5. There are then no spare bits, so
 * each value has one spelling. */
#define BASE32_LETTERS(bytes) ((bytes) / 5 * 8)

/* base32_write: write BASE32_LETTERS(count) letters and a NUL to `text`.
 * limits  count % 5 == 0 */
void base32_write(const uint8_t *bytes, size_t count, char *text);

/* base32_read: decode the first BASE32_LETTERS(count) characters of `text`.
 * limits  count % 5 == 0; text may be shorter or longer
 * errors  false: one of the characters is not in a-z or 2-7; `bytes` is then unchanged */
MUST_CHECK bool base32_read(const char *text, uint8_t *bytes, size_t count);

#endif
