#include "runtime/checkpoint/json_scan.h"

#include "base/limits.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(struct json_scan *scan, const char *reason) {
    scan->reason = reason;
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

char json_scan_peek(struct json_scan *scan) {
    while (scan->at < scan->length && is_space(scan->bytes[scan->at])) {
        scan->at++;
    }
    return scan->at < scan->length ? scan->bytes[scan->at] : '\0';
}

bool json_scan_byte(struct json_scan *scan, char wanted) {
    if (json_scan_peek(scan) != wanted || scan->at == scan->length) {
        switch (wanted) {
        case '{':
            return refuse(scan, "an object was wanted");
        case '[':
            return refuse(scan, "a list was wanted");
        case '"':
            return refuse(scan, "a string was wanted");
        case ':':
            return refuse(scan, "a colon was wanted");
        default:
            return refuse(scan, "a comma or the end of the list or object was wanted");
        }
    }
    scan->at++;
    return true;
}

bool json_scan_more(struct json_scan *scan, char end) {
    if (json_scan_peek(scan) == ',') {
        scan->at++;
        return true;
    }
    bool ended = json_scan_byte(scan, end); /* if not, it left the reason */
    (void)ended;
    return false;
}

static unsigned char byte_at(const struct json_scan *scan, size_t offset) {
    size_t at = scan->at + offset;
    return at < scan->length ? (unsigned char)scan->bytes[at] : 0;
}

/* Bytes of the well-formed UTF-8 character at `at` (Unicode 15, table 3-7), or 0. */
static size_t utf8_length(const struct json_scan *scan) {
    unsigned char lead = byte_at(scan, 0);
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t length;
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;
        high = lead == 0xed ? 0x9f : high;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (byte_at(scan, 1) < low || byte_at(scan, 1) > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((byte_at(scan, i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static bool hex_word(struct json_scan *scan, uint32_t *word) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = byte_at(scan, i);
        if (!isxdigit(c)) {
            return refuse(scan, "a \\u escape has four hexadecimal digits");
        }
        value = value * 16 + (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    scan->at += 4;
    *word = value;
    return true;
}

static size_t utf8_encode(uint32_t point, char out[static 4]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* The character behind "\u", with its second half when it is a surrogate pair. */
static bool unicode_escape(struct json_scan *scan, uint32_t *point) {
    uint32_t first;
    if (!hex_word(scan, &first)) {
        return false;
    }
    if (first == 0) {
        return refuse(scan, "a NUL inside a string");
    }
    *point = first;
    if (first < 0xd800 || first > 0xdfff) {
        return true;
    }
    uint32_t second;
    if (first > 0xdbff || byte_at(scan, 0) != '\\' || byte_at(scan, 1) != 'u') {
        return refuse(scan, "half of a surrogate pair");
    }
    scan->at += 2;
    if (!hex_word(scan, &second)) {
        return false;
    }
    if (second < 0xdc00 || second > 0xdfff) {
        return refuse(scan, "half of a surrogate pair");
    }
    *point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    return true;
}

/* One escape, `at` behind its backslash; `*length` bytes of UTF-8 into `out`. */
static bool escape(struct json_scan *scan, char out[static 4], size_t *length) {
    static const char LETTERS[] = "\"\\/bfnrt";
    static const char MEANINGS[] = "\"\\/\b\f\n\r\t";
    unsigned char letter = byte_at(scan, 0);
    if (letter == 'u') {
        uint32_t point;
        scan->at++;
        if (!unicode_escape(scan, &point)) {
            return false;
        }
        *length = utf8_encode(point, out);
        return true;
    }
    const char *found = letter == 0 ? NULL : strchr(LETTERS, letter);
    if (found == NULL) {
        return refuse(scan, "an escape that JSON does not have");
    }
    scan->at++;
    out[0] = MEANINGS[found - LETTERS];
    *length = 1;
    return true;
}

bool json_scan_string(struct json_scan *scan, char **text) {
    if (!json_scan_byte(scan, '"')) {
        return false;
    }
    char *start = scan->bytes + scan->at;
    char *out = start;
    for (;;) {
        char piece[4];
        size_t length;
        unsigned char c = byte_at(scan, 0);
        if (c == '"') {
            break;
        }
        if (c == '\\') {
            scan->at++;
            if (!escape(scan, piece, &length)) {
                return false;
            }
        } else {
            length = c < 0x20 ? 0 : utf8_length(scan);
            if (length == 0) {
                return refuse(scan, scan->at >= scan->length ? "the text ends inside a string"
                                    : c < 0x20               ? "a control character in a string"
                                                             : "malformed UTF-8 in a string");
            }
            memcpy(piece, scan->bytes + scan->at, length);
            scan->at += length;
        }
        if (text != NULL) {
            memcpy(out, piece, length); /* decoded text is never longer than what was read */
            out += length;
        }
    }
    scan->at++;
    if (text != NULL) {
        *out = '\0';
        *text = start;
    }
    return true;
}

bool json_scan_natural(struct json_scan *scan, int64_t *value) {
    (void)json_scan_peek(scan);
    size_t start = scan->at;
    int64_t sum = 0;
    while (isdigit(byte_at(scan, 0))) {
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, byte_at(scan, 0) - '0', &sum)) {
            return refuse(scan, "a number above 2^63-1");
        }
        scan->at++;
    }
    bool leading_zero = scan->bytes[start] == '0' && scan->at > start + 1;
    unsigned char next = byte_at(scan, 0);
    if (scan->at == start || leading_zero || next == '.' || next == 'e' || next == 'E') {
        return refuse(scan, "a whole number from 0 was wanted");
    }
    *value = sum;
    return true;
}

static bool skip_digits(struct json_scan *scan) {
    if (!isdigit(byte_at(scan, 0))) {
        return refuse(scan, "a digit was wanted");
    }
    while (isdigit(byte_at(scan, 0))) {
        scan->at++;
    }
    return true;
}

static bool skip_number(struct json_scan *scan) {
    const char *start = scan->bytes + scan->at;
    if (byte_at(scan, 0) == '-') {
        scan->at++;
    }
    if (byte_at(scan, 0) == '0') {
        scan->at++;
    } else if (!skip_digits(scan)) {
        return false;
    }
    if (isdigit(byte_at(scan, 0))) {
        return refuse(scan, "a number with a leading zero");
    }
    if (byte_at(scan, 0) == '.') {
        scan->at++;
        if (!skip_digits(scan)) {
            return false;
        }
    }
    if (byte_at(scan, 0) == 'e' || byte_at(scan, 0) == 'E') {
        scan->at++;
        if (byte_at(scan, 0) == '+' || byte_at(scan, 0) == '-') {
            scan->at++;
        }
        if (!skip_digits(scan)) {
            return false;
        }
    }
    return isfinite(strtod(start, NULL)) ? true : refuse(scan, "a number out of range");
}

static bool skip_word(struct json_scan *scan) {
    static const char *const WORDS[] = {"true", "false", "null"};
    for (size_t i = 0; i < ARRAY_COUNT(WORDS); i++) {
        size_t length = strlen(WORDS[i]);
        if (scan->length - scan->at >= length &&
            memcmp(scan->bytes + scan->at, WORDS[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return refuse(scan, "a value was wanted");
}

static bool skip_key(struct json_scan *scan) {
    return json_scan_string(scan, NULL) && json_scan_byte(scan, ':');
}

/* The way out of every list and object that ends here; *depth levels stay open. */
static bool skip_ends(struct json_scan *scan, uint64_t objects, int *depth) {
    while (*depth > 0) {
        bool in_object = (objects >> (*depth - 1) & 1) != 0;
        if (json_scan_more(scan, in_object ? '}' : ']')) {
            return in_object ? skip_key(scan) : true;
        }
        if (scan->reason != NULL) {
            return false;
        }
        *depth -= 1;
    }
    return true;
}

static bool skip_scalar(struct json_scan *scan, char first) {
    if (first == '"') {
        return json_scan_string(scan, NULL);
    }
    return first == '-' || isdigit((unsigned char)first) ? skip_number(scan) : skip_word(scan);
}

bool json_scan_skip(struct json_scan *scan) {
    _Static_assert(JSON_DEPTH_MAX <= 64, "one bit for each level");
    uint64_t objects = 0; /* bit d: level d is an object, not a list */
    int depth = 0;
    scan->reason = NULL;
    do {
        char next = json_scan_peek(scan);
        if (next != '{' && next != '[') {
            if (!skip_scalar(scan, next) || !skip_ends(scan, objects, &depth)) {
                return false;
            }
            continue;
        }
        if (depth == JSON_DEPTH_MAX) {
            return refuse(scan, "lists or objects nested too deep");
        }
        scan->at++;
        uint64_t bit = (uint64_t)1 << depth++;
        objects = next == '{' ? objects | bit : objects & ~bit;
        if (json_scan_peek(scan) == (next == '{' ? '}' : ']')) {
            scan->at++;
            depth--;
            if (!skip_ends(scan, objects, &depth)) {
                return false;
            }
        } else if (next == '{' && !skip_key(scan)) {
            return false;
        }
    } while (depth > 0);
    return true;
}
