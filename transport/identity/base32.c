/* base32: see base32.h. */
#include "transport/identity/base32.h"

enum {
    GROUP_BYTES = 5,       /* bytes that are encoded together */
    GROUP_LETTERS = 8,     /* letters that encode GROUP_BYTES */
    LETTER_BITS = 5,       /* bits that one letter encodes */
    LETTER_MASK = 31,      /* the lowest LETTER_BITS bits */
    FIRST_DIGIT_VALUE = 26 /* value of the first digit, after the 26 letters */
};

static int letter_value(char letter) {
    if (letter >= 'a' && letter <= 'z') {
        return letter - 'a';
    }
    return letter >= '2' && letter <= '7' ? letter - '2' + FIRST_DIGIT_VALUE : -1;
}

void base32_write(const uint8_t *bytes, size_t count, char *text) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz234567";
    ASSERT(count % GROUP_BYTES == 0);
    for (size_t at = 0; at < count; at += GROUP_BYTES) {
        uint64_t group = 0;
        for (int i = 0; i < GROUP_BYTES; i++) {
            group = group << 8 | bytes[at + (size_t)i];
        }
        for (int i = GROUP_LETTERS - 1; i >= 0; i--) {
            *text++ = LETTERS[group >> (LETTER_BITS * i) & LETTER_MASK];
        }
    }
    *text = '\0';
}

bool base32_read(const char *text, uint8_t *bytes, size_t count) {
    ASSERT(count % GROUP_BYTES == 0);
    for (size_t i = 0; i < BASE32_LETTERS(count); i++) {
        if (letter_value(text[i]) < 0) {
            return false;
        }
    }
    for (size_t at = 0; at < count; at += GROUP_BYTES) {
        uint64_t group = 0;
        for (int i = 0; i < GROUP_LETTERS; i++) {
            group = group << LETTER_BITS | (uint64_t)letter_value(*text++);
        }
        for (int i = 0; i < GROUP_BYTES; i++) {
            bytes[at + (size_t)i] = (uint8_t)(group >> (8 * (GROUP_BYTES - 1 - i)));
        }
    }
    return true;
}
