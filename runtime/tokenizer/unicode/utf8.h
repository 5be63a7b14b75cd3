/* utf8: characters of UTF-8 text. */
#ifndef SKEP_TOKENIZER_UNICODE_UTF8_H
#define SKEP_TOKENIZER_UNICODE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { UTF8_BYTES_MAX = 4 }; /* longest character */

/* utf8_length: the number of bytes of the character that begins with `first`, in well-formed text.
 */
static inline size_t utf8_length(char first) {
    unsigned char byte = (unsigned char)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/* utf8_read: the code point of the first character of well-formed text; *length is its size. */
static inline uint32_t utf8_read(const char *text, size_t *length) {
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < 0x80) {
        *length = 1;
        return byte[0];
    }
    if (byte[0] < 0xe0) {
        *length = 2;
        return (byte[0] & 0x1fu) << 6 | (byte[1] & 0x3fu);
    }
    if (byte[0] < 0xf0) {
        *length = 3;
        return (byte[0] & 0x0fu) << 12 | (byte[1] & 0x3fu) << 6 | (byte[2] & 0x3fu);
    }
    *length = 4;
    return (byte[0] & 0x07u) << 18 | (byte[1] & 0x3fu) << 12 | (byte[2] & 0x3fu) << 6 |
           (byte[3] & 0x3fu);
}

/* utf8_is_start: false for the second and later bytes of a character. */
static inline int utf8_is_start(char byte) {
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* utf8_before: the position of the character that ends at `at`, in well-formed text.
 * limits  at > 0 */
static inline size_t utf8_before(const char *text, size_t at) {
    do {
        at--;
    } while (!utf8_is_start(text[at]));
    return at;
}

/* utf8_write: write a code point to `out`; returns its size. */
size_t utf8_write(uint32_t point, char out[static UTF8_BYTES_MAX]);

/* utf8_check_character: the size of the first character of any bytes, or 0 if they do not begin
 * with a well-formed one; *taken is then the size of the part that U+FFFD replaces: the longest
 * beginning of a character, or one byte.
 * limits  count > 0 */
size_t utf8_check_character(const char *bytes, size_t count, size_t *taken);

/* utf8_can_begin: true if a character of several bytes can begin with `first`. */
static inline int utf8_can_begin(char first) {
    unsigned char byte = (unsigned char)first;
    return byte >= 0xc2 && byte <= 0xf4;
}

/* utf8_valid_bytes: the number of bytes before the first ill-formed one. */
size_t utf8_valid_bytes(const char *bytes, size_t count);

#endif
