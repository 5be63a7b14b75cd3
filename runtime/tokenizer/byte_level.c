#include "runtime/tokenizer/byte_level.h"

#include "runtime/tokenizer/unicode/utf8.h"

/* The byte that a character stands for, or -1 if no byte is written as this character. */
static int byte_of(uint32_t point) {
    if (point < 0x100) {
        unsigned char byte = (unsigned char)point;
        return byte_level_point(byte) == point ? byte : -1;
    }
    if (point <= 0x120) {
        return (int)point - 0x100;
    }
    if (point <= 0x142) {
        return (int)point - 0x121 + 0x7f;
    }
    return point == 0x143 ? 0xad : -1;
}

int64_t byte_level_bytes(const char *text, size_t count, char *out) {
    int64_t filled = 0;
    for (size_t at = 0; at < count;) {
        size_t length;
        int byte = byte_of(utf8_read(text + at, &length));
        if (byte < 0) {
            return -1;
        }
        out[filled++] = (char)byte;
        at += length;
    }
    return filled;
}
