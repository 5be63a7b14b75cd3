#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

size_t utf8_write(uint32_t point, char out[static UTF8_BYTES_MAX]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char FIRST_BITS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(FIRST_BITS[length] | point);
    return length;
}

/* Sets [*low, *high] to the range of a valid second byte after the first byte `first`, and returns
 * the number of bytes of the character; 0: `first` begins no character (Unicode 16, table 3-7). */
static size_t expected_bytes(unsigned char first, unsigned char *low, unsigned char *high) {
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return first < 0x80    ? 1
           : first < 0xc2  ? 0
           : first < 0xe0  ? 2
           : first < 0xf0  ? 3
           : first <= 0xf4 ? 4
                           : 0;
}

size_t utf8_check_character(const char *bytes, size_t count, size_t *taken) {
    unsigned char low;
    unsigned char high;
    size_t length = expected_bytes((unsigned char)bytes[0], &low, &high);
    for (size_t i = 1; i < length; i++) {
        unsigned char byte = i < count ? (unsigned char)bytes[i] : 0;
        if (byte < low || byte > high) {
            *taken = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    *taken = length == 0 ? 1 : length;
    return length;
}

size_t utf8_valid_bytes(const char *bytes, size_t count) {
    size_t at = 0;
    while (at < count) {
        uint64_t word;
        if (count - at >= sizeof word) {
            memcpy(&word, bytes + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t taken;
        size_t length = utf8_check_character(bytes + at, count - at, &taken);
        if (length == 0) {
            return at;
        }
        at += length;
    }
    return count;
}
