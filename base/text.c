#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NEAREST_NAME_BYTES_MAX = 64 }; /* characters of a text that an edit distance counts */

struct text text_over(char *buffer, size_t capacity) {
    ASSERT(capacity > 0);
    buffer[0] = '\0';
    return (struct text){.bytes = buffer, .capacity = capacity};
}

void text_add_bytes(struct text *text, const char *bytes, size_t count) {
    size_t available = text->capacity - text->length - 1;
    if (count > available) {
        count = available;
        text->truncated = true;
    }
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = '\0';
}

void text_add(struct text *text, const char *format, ...) {
    size_t available = text->capacity - text->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->bytes + text->length, available, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);
    if ((size_t)length >= available) {
        text->truncated = true;
        text->length = text->capacity - 1;
        return;
    }
    text->length += (size_t)length;
}

void text_add_escaped(struct text *text, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\') {
            text_add(text, "\\%c", byte);
        } else if (byte < 0x20) {
            text_add(text, "\\u%04x", byte);
        } else {
            text_add_bytes(text, &bytes[i], 1);
        }
    }
}

void text_add_json(struct text *text, const char *value) {
    text_add_bytes(text, "\"", 1);
    text_add_escaped(text, value, strlen(value));
    text_add_bytes(text, "\"", 1);
}

void text_hide_control_characters(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

const char *text_format_bytes(uint64_t bytes, char buffer[static 24]) {
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1023.5 && unit + 1 < ARRAY_COUNT(UNITS)) {
        value /= 1024;
        unit++;
    }
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(buffer, 24, "%.*f %s", decimals, value, UNITS[unit]);
    return buffer;
}

const char *text_format_count(double count, char buffer[static 24]) {
    static const char *const UNITS[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t unit = 0;
    while (fabs(count) >= 999.5 && unit + 1 < ARRAY_COUNT(UNITS)) {
        count /= 1000;
        unit++;
    }
    int decimals = unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    snprintf(buffer, 24, "%.*f%s", decimals, count, UNITS[unit]);
    return buffer;
}

const char *text_format_grouped(uint64_t value, char buffer[static 32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    int out = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            buffer[out++] = ',';
        }
        buffer[out++] = digits[i];
    }
    buffer[out] = '\0';
    return buffer;
}

bool text_parse_i64(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || isspace((unsigned char)text[0])) {
        return false;
    }
    *value = parsed;
    return true;
}

bool text_parse_u64(const char *text, uint64_t *value) {
    errno = 0;
    unsigned long long parsed = strtoull(text, NULL, 10);
    if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || errno != 0) {
        return false;
    }
    *value = parsed;
    return true;
}

bool text_parse_f64(const char *text, double *value) {
    char *end;
    errno = 0;
    double parsed = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(parsed)) {
        return false;
    }
    *value = parsed;
    return true;
}

double nan_without_sign(double value) {
    return isnan(value) ? (double)NAN : value;
}

bool text_parse_bytes(const char *text, uint64_t *bytes) {
    static const struct {
        const char *suffix;
        double factor;
    } UNITS[] = {{"", 1},         {"b", 1},    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30},
                 {"tib", 0x1p40}, {"kb", 1e3}, {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12}};
    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    char *end;
    double value = strtod(text, &end);
    while (*end == ' ') {
        end++;
    }
    for (size_t i = 0; i < ARRAY_COUNT(UNITS); i++) {
        if (strcasecmp(end, UNITS[i].suffix) == 0) {
            double product = value * UNITS[i].factor;
            /* a tiny positive size must not become 0, which means "not set" for many keys */
            bool rounds_to_zero = value > 0 && product < 1;
            if (!(product <= 0x1p62) || rounds_to_zero) {
                return false;
            }
            *bytes = (uint64_t)product;
            return true;
        }
    }
    return false;
}

int text_edit_distance(const char *a, const char *b) {
    int row[NEAREST_NAME_BYTES_MAX + 1];
    int length = (int)strnlen(b, NEAREST_NAME_BYTES_MAX);
    for (int j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1] != '\0' && i <= NEAREST_NAME_BYTES_MAX; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int substituted = diagonal + (a[i - 1] != b[j - 1]);
            int other = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = substituted < other ? substituted : other;
        }
    }
    return row[length];
}

int text_find_nearest(const char *word, const char *const *names, int name_count) {
    int best = -1;
    /* a third of the word may differ; more would suggest unrelated names */
    int best_distance = ((int)strlen(word) + 1) / 3 + 1;
    for (int i = 0; i < name_count; i++) {
        int distance = text_edit_distance(word, names[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    return best;
}
