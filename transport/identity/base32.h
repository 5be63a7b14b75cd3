/* base32: bytes as lower-case letters and digits, for keys that people copy (RFC 4648, no '='). */
#ifndef SKEP_TRANSPORT_IDENTITY_BASE32_H
#define SKEP_TRANSPORT_IDENTITY_BASE32_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Letters for a number of bytes that 5 divides, which leaves no spare bits and so one spelling. */
#define BASE32_LETTERS(bytes) ((bytes) / 5 * 8)

/* base32_write: BASE32_LETTERS(count) letters and a NUL into `text`.
 * limits  count % 5 == 0
 * errors  none */
void base32_write(const uint8_t *bytes, size_t count, char *text);

/* base32_read: the bytes behind the first BASE32_LETTERS(count) characters of `text`.
 * limits  count % 5 == 0; text may be shorter, and need not end there
 * errors  false when one of the characters is none of a-z and 2-7; `bytes` is then untouched */
MUST_CHECK bool base32_read(const char *text, uint8_t *bytes, size_t count);

#endif
