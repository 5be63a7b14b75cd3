#include "base/hex.h"

static int digit_value(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

void hex_add(struct text *text, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        text_add(text, "%02x", ((const uint8_t *)bytes)[i]);
    }
}

bool hex_read(const char *digits, size_t count, void *bytes) {
    for (size_t i = 0; i < 2 * count; i++) {
        if (digit_value(digits[i]) < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        int high = digit_value(digits[2 * i]);
        ((uint8_t *)bytes)[i] = (uint8_t)(high << 4 | digit_value(digits[2 * i + 1]));
    }
    return true;
}
