#include "runtime/checkpoint/json_scan.h"

#include "base/limits.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool reject_byte(struct json_scan *scan, const char *reason) {
    scan->reason = reason;
    return false;
}

char json_scan_peek(struct json_scan *scan) {
    scan->at += strspn(scan->bytes + scan->at, " \t\n\r");
    return scan->bytes[scan->at];
}

static const char *expected_name(char expected) {
    return expected == '{'   ? "expected the start of an object, '{'"
           : expected == '[' ? "expected a list"
           : expected == '"' ? "expected a string"
           : expected == ':' ? "expected a colon"
                             : "expected a comma or the end of the list or object";
}

bool json_scan_expect_byte(struct json_scan *scan, char expected) {
    if (json_scan_peek(scan) != expected || scan->at == scan->length) {
        return reject_byte(scan, expected_name(expected));
    }
    scan->at++;
    return true;
}

bool json_scan_has_more(struct json_scan *scan, char end) {
    if (json_scan_peek(scan) == ',') {
        scan->at++;
        return true;
    }
    bool ended = json_scan_expect_byte(scan, end); /* on an error, this call sets scan->reason */
    (void)ended;
    return false;
}

/* The byte at scan->at + offset; NUL at the end of the text. */
static unsigned char byte_at(const struct json_scan *scan, size_t offset) {
    size_t at = scan->at + offset;
    return at < scan->length ? (unsigned char)scan->bytes[at] : 0;
}

/* Moves past the next byte if it is one of `bytes`; returns false if it is not. */
static bool accept_byte(struct json_scan *scan, const char *bytes) {
    bool found = byte_at(scan, 0) != 0 && strchr(bytes, byte_at(scan, 0)) != NULL;
    scan->at += found;
    return found;
}

/* Length of the UTF-8 character at scan->at, or 0 when it is malformed. */
static size_t utf8_length(const struct json_scan *scan) {
    /* Unicode 15, table 3-7: each row has the range of the first byte, the range of the second
     * byte, and the number of bytes of the character. All further bytes are in the range 80 to
     * BF. */
    static const unsigned char ROWS[][5] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    unsigned char first = byte_at(scan, 0);
    unsigned char second = byte_at(scan, 1);
    size_t length = first < 0x80;
    for (size_t i = 0; length == 0 && i < ARRAY_COUNT(ROWS); i++) {
        bool matches = first >= ROWS[i][0] && first <= ROWS[i][1] && second >= ROWS[i][2] &&
                       second <= ROWS[i][3];
        length = matches ? ROWS[i][4] : length;
    }
    for (size_t i = 2; i < length; i++) {
        length = (byte_at(scan, i) & 0xc0) == 0x80 ? length : 0;
    }
    return length;
}

static bool read_hex_word(struct json_scan *scan, uint32_t *word) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = byte_at(scan, i);
        if (!isxdigit(c)) {
            return reject_byte(scan, "a \\u escape must have four hexadecimal digits");
        }
        value = value * 16 + (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    scan->at += 4;
    *word = value;
    return true;
}

static size_t utf8_encode(uint32_t point, char out[static 4]) {
    static const uint8_t FIRST_BITS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(FIRST_BITS[length] | point);
    return length;
}

/* Decodes the character after "\u". A surrogate pair consists of two such escapes. */
static bool decode_unicode_escape(struct json_scan *scan, uint32_t *point) {
    uint32_t first;
    if (!read_hex_word(scan, &first)) {
        return false;
    }
    if (first == 0) {
        return reject_byte(scan, "a NUL character inside a string");
    }
    *point = first;
    if (first < 0xd800 || first > 0xdfff) {
        return true;
    }
    uint32_t second;
    if (first > 0xdbff || byte_at(scan, 0) != '\\' || byte_at(scan, 1) != 'u') {
        return reject_byte(scan, "an unpaired surrogate");
    }
    scan->at += 2;
    if (!read_hex_word(scan, &second)) {
        return false;
    }
    if (second < 0xdc00 || second > 0xdfff) {
        return reject_byte(scan, "an unpaired surrogate");
    }
    *point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    return true;
}

/* Decodes the escape after a backslash into *length bytes of UTF-8. */
static bool decode_escape(struct json_scan *scan, char out[static 4], size_t *length) {
    static const char LETTERS[] = "\"\\/bfnrt";
    static const char MEANINGS[] = "\"\\/\b\f\n\r\t";
    unsigned char letter = byte_at(scan, 0);
    if (accept_byte(scan, "u")) {
        uint32_t point;
        if (!decode_unicode_escape(scan, &point)) {
            return false;
        }
        *length = utf8_encode(point, out);
        return true;
    }
    const char *found = letter == 0 ? NULL : strchr(LETTERS, letter);
    if (found == NULL) {
        return reject_byte(scan, "an escape that is not valid in JSON");
    }
    scan->at++;
    out[0] = MEANINGS[found - LETTERS];
    *length = 1;
    return true;
}

bool json_scan_string(struct json_scan *scan, char **text) {
    if (!json_scan_expect_byte(scan, '"')) {
        return false;
    }
    char *start = scan->bytes + scan->at;
    char *out = start;
    for (;;) {
        char character[4];
        size_t length;
        unsigned char c = byte_at(scan, 0);
        if (c == '"') {
            break;
        }
        if (accept_byte(scan, "\\")) {
            if (!decode_escape(scan, character, &length)) {
                return false;
            }
        } else {
            length = c < 0x20 ? 0 : utf8_length(scan);
            if (length == 0) {
                return reject_byte(scan, scan->at >= scan->length ? "the text ends inside a string"
                                         : c < 0x20 ? "a control character in a string"
                                                    : "malformed UTF-8 in a string");
            }
            memcpy(character, scan->bytes + scan->at, length);
            scan->at += length;
        }
        if (text != NULL) {
            memcpy(out, character, length); /* the UTF-8 text is never longer than its escape */
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
            return reject_byte(scan, "a number above 2^63-1");
        }
        scan->at++;
    }
    bool leading_zero = scan->bytes[start] == '0' && scan->at > start + 1;
    unsigned char next = byte_at(scan, 0);
    if (scan->at == start || leading_zero || next == '.' || next == 'e' || next == 'E') {
        return reject_byte(scan, "expected a whole number that is not negative");
    }
    *value = sum;
    return true;
}

static bool skip_digits(struct json_scan *scan) {
    if (!isdigit(byte_at(scan, 0))) {
        return reject_byte(scan, "expected a digit");
    }
    while (isdigit(byte_at(scan, 0))) {
        scan->at++;
    }
    return true;
}

static bool skip_number(struct json_scan *scan) {
    const char *start = scan->bytes + scan->at;
    (void)accept_byte(scan, "-");
    if (!accept_byte(scan, "0") && !skip_digits(scan)) {
        return false;
    }
    if (isdigit(byte_at(scan, 0))) {
        return reject_byte(scan, "a number with a leading zero");
    }
    if (accept_byte(scan, ".") && !skip_digits(scan)) {
        return false;
    }
    if (accept_byte(scan, "eE")) {
        (void)accept_byte(scan, "+-");
        if (!skip_digits(scan)) {
            return false;
        }
    }
    return isfinite(strtod(start, NULL)) ? true : reject_byte(scan, "a number out of range");
}

static bool skip_literal(struct json_scan *scan) {
    static const char *const WORDS[] = {"true", "false", "null"};
    for (size_t i = 0; i < ARRAY_COUNT(WORDS); i++) {
        size_t length = strlen(WORDS[i]);
        if (scan->length - scan->at >= length &&
            memcmp(scan->bytes + scan->at, WORDS[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return reject_byte(scan, "expected a value");
}

static bool skip_key(struct json_scan *scan) {
    return json_scan_string(scan, NULL) && json_scan_expect_byte(scan, ':');
}

/* Called after a value: consumes the ends of lists and objects, then a comma. *depth is the number
 * of lists and objects that are still open. */
static bool skip_closing_brackets(struct json_scan *scan, uint64_t objects, int *depth) {
    while (*depth > 0) {
        bool in_object = (objects >> (*depth - 1) & 1) != 0;
        if (json_scan_has_more(scan, in_object ? '}' : ']')) {
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
    return first == '-' || isdigit((unsigned char)first) ? skip_number(scan) : skip_literal(scan);
}

bool json_scan_skip(struct json_scan *scan) {
    _Static_assert(JSON_DEPTH_MAX <= 64, "one bit for each level");
    uint64_t objects = 0; /* bit d: level d of the nesting is an object; 0: a list */
    int depth = 0;
    scan->reason = NULL;
    do {
        char next = json_scan_peek(scan);
        if (next != '{' && next != '[') {
            if (!skip_scalar(scan, next) || !skip_closing_brackets(scan, objects, &depth)) {
                return false;
            }
            continue;
        }
        if (depth == JSON_DEPTH_MAX) {
            return reject_byte(scan, "lists or objects are nested too deeply");
        }
        scan->at++;
        uint64_t bit = (uint64_t)1 << depth++;
        objects = next == '{' ? objects | bit : objects & ~bit;
        if (json_scan_peek(scan) == (next == '{' ? '}' : ']')) {
            scan->at++;
            depth--;
            if (!skip_closing_brackets(scan, objects, &depth)) {
                return false;
            }
        } else if (next == '{' && !skip_key(scan)) {
            return false;
        }
    } while (depth > 0);
    return true;
}
