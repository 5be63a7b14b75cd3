/* byte_level: the alphabet of GPT-2, in which each byte stands for a printable character. */
#ifndef SKEP_TOKENIZER_BYTE_LEVEL_H
#define SKEP_TOKENIZER_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* byte_level_point: the character of a byte: itself where it is printable in Latin 1, else one from
 * U+0100 on, in the order of the bytes. */
static inline uint32_t byte_level_point(unsigned char byte) {
    if (byte <= 0x20) {
        return 0x100 + byte;
    }
    if (byte >= 0x7f && byte <= 0xa0) {
        return 0x100 + 0x21 + (byte - 0x7fu);
    }
    return byte == 0xad ? 0x143 : byte;
}

/* byte_level_bytes: write the bytes that the characters of well-formed text stand for to `out`.
 * returns  their number; -1 when a character is not in the alphabet */
int64_t byte_level_bytes(const char *text, size_t count, char *out);

#endif
