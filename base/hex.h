/* hex: bytes as lower-case hexadecimal digits, and back. */
#ifndef SKEP_BASE_HEX_H
#define SKEP_BASE_HEX_H

#include "base/text.h"

/* hex_add: two digits for each byte. */
void hex_add(struct text *text, const void *bytes, size_t count);

/* hex_read: `count` bytes from the 2 * count digits at `digits`, which need not be terminated but
 * must be as many. False when one of them is no digit of 0-9 and a-f; `bytes` is then untouched. */
MUST_CHECK bool hex_read(const char *digits, size_t count, void *bytes);

#endif
