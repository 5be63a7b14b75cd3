/* json_field: a scanner of a JSON line. Its only stack is one bit for each open object or list. */
#include "runtime/corpus/json_field.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>

/* The position of the scanner in a line. */
struct scan {
    char *bytes;        /* [length]: the line */
    size_t length, at;  /* length of the line, and offset of the next byte */
    const char *reason; /* why the line is invalid; NULL: it is valid so far */
};

static bool reject(struct scan *scan, const char *reason) {
    scan->reason = reason;
    return false;
}

/* Skips white space, and returns the next byte without moving past it; NUL at the end of the
 * line. */
static char peek_byte(struct scan *scan) {
    while (scan->at < scan->length && strchr(" \t\r\n", scan->bytes[scan->at]) != NULL &&
           scan->bytes[scan->at] != '\0') {
        scan->at++;
    }
    return scan->at < scan->length ? scan->bytes[scan->at] : '\0';
}

static bool expect(struct scan *scan, char byte, const char *reason) {
    if (peek_byte(scan) != byte) {
        return reject(scan, reason);
    }
    scan->at++;
    return true;
}

/* ---- strings ---- */

/* Skips a string, and sets [*begin, *end) to the bytes between its quotes. */
static bool skip_string(struct scan *scan, size_t *begin, size_t *end) {
    if (!expect(scan, '"', "expected a string")) {
        return false;
    }
    *begin = scan->at;
    while (scan->at < scan->length && scan->bytes[scan->at] != '"') {
        const unsigned char byte = (unsigned char)scan->bytes[scan->at];
        if (byte < 0x20) {
            return reject(scan, "a control character in a string");
        }
        scan->at += byte == '\\' ? 2 : 1;
    }
    if (scan->at >= scan->length) {
        scan->at = scan->length;
        return reject(scan, "a string without its end");
    }
    *end = scan->at++;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the value of the four hexadecimal digits of a \u escape at `at`; -1 if `at` has no four
 * such digits. */
static int32_t read_utf16_unit(const char *at, const char *end) {
    int32_t unit = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static size_t encode_utf8(uint32_t point, char *out) {
    static const uint8_t FIRST_BITS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(FIRST_BITS[length] | point);
    return length;
}

/* Decodes the escape after "\u" at *from, and advances *from past it. */
static bool decode_unicode_escape(const char **from, const char *end, uint32_t *point,
                                  uint64_t *replacements) {
    enum {
        HIGH_BEGIN = 0xd800, /* first high surrogate */
        LOW_BEGIN = 0xdc00,  /* first low surrogate */
        LOW_END = 0xe000,    /* one after the last low surrogate */
        REPLACEMENT = 0xfffd /* character that replaces a lone surrogate */
    };
    const int32_t unit = read_utf16_unit(*from, end);
    if (unit < 0) {
        return false;
    }
    *from += 4;
    *point = (uint32_t)unit;
    if (unit < HIGH_BEGIN || unit >= LOW_END) {
        return true;
    }
    const bool has_second = end - *from >= 6 && (*from)[0] == '\\' && (*from)[1] == 'u';
    const int32_t second = unit < LOW_BEGIN && has_second ? read_utf16_unit(*from + 2, end) : -1;
    if (second >= LOW_BEGIN && second < LOW_END) {
        *point = 0x10000 + ((uint32_t)(unit - HIGH_BEGIN) << 10) + (uint32_t)(second - LOW_BEGIN);
        *from += 6;
    } else {
        *point = REPLACEMENT;
        (*replacements)++;
    }
    return true;
}

/* Returns the byte that an escape such as \n stands for, given the letter `c`; NUL: no such
 * escape. */
static char simple_escape(char c) {
    static const char NAMES[] = "\"\\/bfnrt";
    static const char VALUES[] = "\"\\/\b\f\n\r\t";
    const char *found = c == '\0' ? NULL : strchr(NAMES, c);
    return found == NULL ? '\0' : VALUES[found - NAMES];
}

/* Decodes the string in [begin, end) in place, which works because a decoded string is never
 * longer. */
static bool decode_string(struct scan *scan, size_t begin, size_t end, struct json_field *field) {
    const char *from = scan->bytes + begin;
    const char *last = scan->bytes + end;
    char *to = scan->bytes + begin;
    field->text = to;
    while (from < last) {
        const char *escape = memchr(from, '\\', (size_t)(last - from));
        const size_t plain = (size_t)((escape == NULL ? last : escape) - from);
        memmove(to, from, plain);
        to += plain;
        from += plain;
        if (escape == NULL) {
            break;
        }
        const char name = from[1]; /* skip_string has checked that a byte follows the backslash */
        uint32_t point = (unsigned char)simple_escape(name);
        from += 2;
        if (name == 'u' ? !decode_unicode_escape(&from, last, &point, &field->replacements)
                        : point == 0) {
            scan->at = (size_t)(from - scan->bytes);
            return reject(scan, "not a valid escape");
        }
        if (field->replacements > 0 && field->column == 0) {
            field->column = (size_t)(escape - scan->bytes);
        }
        to += encode_utf8(point, to);
    }
    field->length = (size_t)(to - field->text);
    return true;
}

/* ---- values ---- */

/* Skips a word that is a value, such as true. */
static bool skip_literal(struct scan *scan) {
    static const char *const WORDS[] = {"true", "false", "null"};
    for (size_t i = 0; i < ARRAY_COUNT(WORDS); i++) {
        const size_t length = strlen(WORDS[i]);
        if (scan->length - scan->at >= length &&
            memcmp(scan->bytes + scan->at, WORDS[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return false;
}

static size_t skip_digits(struct scan *scan) {
    const size_t begin = scan->at;
    while (scan->at < scan->length && scan->bytes[scan->at] >= '0' &&
           scan->bytes[scan->at] <= '9') {
        scan->at++;
    }
    return scan->at - begin;
}

static bool skip_byte(struct scan *scan, const char *any) {
    const bool found = scan->at < scan->length && scan->bytes[scan->at] != '\0' &&
                       strchr(any, scan->bytes[scan->at]) != NULL;
    scan->at += found;
    return found;
}

static bool skip_number(struct scan *scan) {
    const size_t begin = scan->at;
    (void)skip_byte(scan, "-");
    if (scan->at < scan->length && strchr("NI", scan->bytes[scan->at]) != NULL &&
        scan->bytes[scan->at] != '\0') {
        scan->at = begin;
        return reject(scan, "NaN and Infinity are not numbers in JSON");
    }
    const bool starts_with_zero = scan->at < scan->length && scan->bytes[scan->at] == '0';
    const size_t whole = skip_digits(scan);
    bool is_valid = whole > 0 && (whole == 1 || !starts_with_zero);
    if (is_valid && skip_byte(scan, ".")) {
        is_valid = skip_digits(scan) > 0;
    }
    if (is_valid && skip_byte(scan, "eE")) {
        (void)skip_byte(scan, "+-");
        is_valid = skip_digits(scan) > 0;
    }
    return is_valid || reject(scan, "expected a value");
}

static bool skip_scalar(struct scan *scan) {
    size_t ignored;
    if (peek_byte(scan) == '"') {
        return skip_string(scan, &ignored, &ignored);
    }
    return skip_literal(scan) || skip_number(scan);
}

/* Skips the name of a member and the colon after it. */
static bool skip_name(struct scan *scan) {
    size_t ignored;
    return skip_string(scan, &ignored, &ignored) && expect(scan, ':', "expected a colon");
}

/* Moves past the beginnings of the objects and lists that begin here, down to the first scalar or
 * empty list. Bit d of *objects is set if an object, not a list, is open at depth d. Returns false
 * on an error. */
static bool descend(struct scan *scan, uint64_t *objects, int *depth, bool *is_empty) {
    *is_empty = false;
    while (!*is_empty && (peek_byte(scan) == '{' || peek_byte(scan) == '[')) {
        const bool is_object = scan->bytes[scan->at++] == '{';
        if (*depth == JSON_LINE_DEPTH_MAX) {
            return reject(scan, "nested too deeply");
        }
        *objects = (*objects & ~((uint64_t)1 << *depth)) | (uint64_t)is_object << *depth;
        (*depth)++;
        *is_empty = peek_byte(scan) == (is_object ? '}' : ']');
        if (!*is_empty && is_object && !skip_name(scan)) {
            return false;
        }
    }
    return true;
}

/* Moves past the ends of the objects and lists that end here. *has_more is set if another value
 * follows in one that is still open. Returns false on an error. */
static bool ascend(struct scan *scan, uint64_t objects, int *depth, bool *has_more) {
    *has_more = false;
    while (*depth > 0 && !*has_more) {
        const bool is_object = (objects >> (*depth - 1) & 1) != 0;
        if (peek_byte(scan) == ',') {
            scan->at++;
            *has_more = true;
            return !is_object || skip_name(scan);
        }
        if (!expect(scan, is_object ? '}' : ']', "expected a comma or the end of the object")) {
            return false;
        }
        (*depth)--;
    }
    return true;
}

static bool skip_value(struct scan *scan) {
    uint64_t objects = 0;
    int depth = 0;
    bool has_more = true;
    while (has_more) { /* each iteration reads a scalar, or an empty object or list */
        bool is_empty = false;
        if (!descend(scan, &objects, &depth, &is_empty) || (!is_empty && !skip_scalar(scan)) ||
            !ascend(scan, objects, &depth, &has_more)) {
            return false;
        }
    }
    return true;
}

/* ---- the object ---- */

/* Reads one member. */
static bool read_member(struct scan *scan, const char *name, struct json_field *field,
                        enum json_field_status *status) {
    size_t begin, end;
    struct json_field key = {0};
    (void)peek_byte(scan);
    const size_t member = scan->at;
    if (!skip_string(scan, &begin, &end) || !decode_string(scan, begin, end, &key) ||
        !expect(scan, ':', "expected a colon")) {
        return false;
    }
    const bool is_field = key.length == strlen(name) && memcmp(key.text, name, key.length) == 0;
    if (!is_field) {
        return skip_value(scan);
    }
    if (*status != JSON_FIELD_MISSING) {
        scan->at = member;
        return reject(scan, "the field of the text is there twice");
    }
    if (peek_byte(scan) != '"') {
        *status = JSON_FIELD_NOT_TEXT;
        *field = (struct json_field){.column = scan->at};
        return skip_value(scan);
    }
    *status = JSON_FIELD_FOUND;
    *field = (struct json_field){0};
    return skip_string(scan, &begin, &end) && decode_string(scan, begin, end, field);
}

static bool read_object(struct scan *scan, const char *name, struct json_field *field,
                        enum json_field_status *status) {
    if (!expect(scan, '{', "expected an object")) {
        return false;
    }
    bool has_more = peek_byte(scan) != '}';
    while (has_more) {
        if (!read_member(scan, name, field, status)) {
            return false;
        }
        has_more = peek_byte(scan) == ',';
        scan->at += has_more;
    }
    if (!expect(scan, '}', "expected a comma or the end of the object")) {
        return false;
    }
    (void)peek_byte(scan);
    return scan->at == scan->length || reject(scan, "text after the object");
}

enum json_field_status json_field_find(char *line, size_t length, const char *name,
                                       struct json_field *field) {
    struct scan scan = {.bytes = line, .length = length};
    enum json_field_status status = JSON_FIELD_MISSING;
    *field = (struct json_field){0};
    if (!read_object(&scan, name, field, &status)) {
        *field = (struct json_field){.reason = scan.reason, .column = scan.at};
        return JSON_FIELD_INVALID;
    }
    return status;
}
