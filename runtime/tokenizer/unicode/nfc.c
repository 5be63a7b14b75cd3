/* Canonical composition (Unicode Standard Annex 15). Most text is composed already, so only runs of
 * characters around one that can change are decomposed, sorted and composed. */
#include "runtime/tokenizer/unicode/unicode.h"

#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

enum {
    PARTS_MAX = 4,  /* maximum number of code points of a decomposition */
    SHORT_RUN = 32, /* maximum number of marks in a run that insertion sort sorts */
    /* maximum bytes of the NFC of a text for each byte of the text (annex 15, 9) */
    NFC_GROWTH_MAX = 3,
    CLASSES = 256,           /* number of combining classes */
    LEAD_BEGIN = 0x1100,     /* first leading consonant of Hangul (Unicode 16, section 3.12) */
    LEAD_COUNT = 19,         /* number of leading consonants of Hangul */
    VOWEL_BEGIN = 0x1161,    /* first vowel of Hangul */
    VOWEL_COUNT = 21,        /* vowels of Hangul */
    TAIL_BASE = 0x11a7,      /* one before the first trailing consonant of Hangul */
    TAIL_COUNT = 28,         /* number of trailing consonants of Hangul, plus 1 for "none" */
    SYLLABLE_BEGIN = 0xac00, /* first syllable of Hangul */
    SYLLABLE_COUNT = LEAD_COUNT * VOWEL_COUNT * TAIL_COUNT,
};

size_t unicode_nfc_start(const struct unicode *unicode, const char *text, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        size_t length;
        uint32_t point = utf8_read(text + at, &length);
        if (unicode_form(unicode, point) != 0) {
            return at;
        }
        at += length;
    }
    return bytes;
}

/* Returns twice the size of the decomposition of the longest run, because sorting needs a copy. A
 * run begins with at most one ASCII character, and its other characters take two bytes or more. */
size_t unicode_nfc_points_max(size_t bytes) {
    return 2 * (PARTS_MAX * (bytes / 2 + 1));
}

size_t unicode_nfc_bytes_max(size_t bytes) {
    return NFC_GROWTH_MAX * bytes;
}

/* Writes the decomposition of a character to `points`, and returns its length. */
static size_t decompose(const struct unicode *unicode, uint32_t point, uint32_t *points) {
    uint32_t syllable = point - SYLLABLE_BEGIN;
    if (syllable < SYLLABLE_COUNT) {
        uint32_t tail = syllable % TAIL_COUNT;
        points[0] = LEAD_BEGIN + syllable / (VOWEL_COUNT * TAIL_COUNT);
        points[1] = VOWEL_BEGIN + syllable / TAIL_COUNT % VOWEL_COUNT;
        points[2] = TAIL_BASE + tail;
        return tail == 0 ? 2 : 3;
    }
    size_t low = 0;
    size_t high = unicode->decomposition_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_decomposition *entry = &unicode->decompositions[middle];
        if (entry->point == point) {
            memcpy(points, unicode->parts + entry->at, entry->count * sizeof *points);
            return entry->count;
        }
        low = entry->point < point ? middle + 1 : low;
        high = entry->point < point ? high : middle;
    }
    points[0] = point;
    return 1;
}

static uint8_t combining_class(const struct unicode *unicode, uint32_t point) {
    uint8_t form = unicode_form(unicode, point);
    return form == UNICODE_UNSTABLE ? 0 : form;
}

/* Sorts many marks by class, and keeps the order of those with the same class. */
static void sort_long_run(const struct unicode *unicode, uint32_t *points, size_t count,
                          uint32_t *sorted) {
    size_t starts[CLASSES + 1] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[combining_class(unicode, points[i]) + 1]++;
    }
    for (size_t i = 1; i < CLASSES; i++) {
        starts[i] += starts[i - 1];
    }
    for (size_t i = 0; i < count; i++) {
        sorted[starts[combining_class(unicode, points[i])]++] = points[i];
    }
    memcpy(points, sorted, count * sizeof *points);
}

static void sort_short_run(const struct unicode *unicode, uint32_t *points, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint32_t point = points[i];
        uint8_t class_number = combining_class(unicode, point);
        size_t to = i;
        while (to > 0 && combining_class(unicode, points[to - 1]) > class_number) {
            points[to] = points[to - 1];
            to--;
        }
        points[to] = point;
    }
}

/* Sorts each run of marks by combining class. */
static void sort_marks(const struct unicode *unicode, uint32_t *points, size_t count,
                       uint32_t *scratch) {
    for (size_t begin = 0; begin < count;) {
        size_t end = begin;
        while (end < count && combining_class(unicode, points[end]) != 0) {
            end++;
        }
        if (end - begin > SHORT_RUN) {
            sort_long_run(unicode, points + begin, end - begin, scratch);
        } else {
            sort_short_run(unicode, points + begin, end - begin);
        }
        begin = end == begin ? end + 1 : end;
    }
}

/* The composition of two characters; 0: they have none. */
static uint32_t compose_pair(const struct unicode *unicode, uint32_t first, uint32_t second) {
    if (first - LEAD_BEGIN < LEAD_COUNT && second - VOWEL_BEGIN < VOWEL_COUNT) {
        return SYLLABLE_BEGIN +
               ((first - LEAD_BEGIN) * VOWEL_COUNT + (second - VOWEL_BEGIN)) * TAIL_COUNT;
    }
    if (first - SYLLABLE_BEGIN < SYLLABLE_COUNT && (first - SYLLABLE_BEGIN) % TAIL_COUNT == 0 &&
        second > TAIL_BASE && second < TAIL_BASE + TAIL_COUNT) {
        return first + (second - TAIL_BASE);
    }
    size_t low = 0;
    size_t high = unicode->pair_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_pair *pair = &unicode->pairs[middle];
        if (pair->first == first && pair->second == second) {
            return pair->composed;
        }
        bool is_below = pair->first < first || (pair->first == first && pair->second < second);
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return 0;
}

/* Composes in place, and returns the number of code points left. */
static size_t compose(const struct unicode *unicode, uint32_t *points, size_t count) {
    size_t kept = 0;
    size_t starter = 0;
    bool has_starter = false;
    uint8_t last_class = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t point = points[i];
        uint8_t class_number = combining_class(unicode, point);
        bool is_blocked = !has_starter || (kept - 1 != starter && last_class >= class_number);
        uint32_t composed = is_blocked ? 0 : compose_pair(unicode, points[starter], point);
        if (composed != 0) {
            points[starter] = composed;
            continue;
        }
        if (class_number == 0) {
            starter = kept;
            has_starter = true;
        }
        last_class = class_number;
        points[kept++] = point;
    }
    return kept;
}

size_t unicode_nfc(const struct unicode *unicode, const char *text, size_t bytes, uint32_t *points,
                   char *out) {
    uint32_t *scratch = points + unicode_nfc_points_max(bytes) / 2;
    size_t copied = 0; /* number of bytes of `text` whose NFC is in `out` */
    size_t filled = 0;
    while (copied < bytes) {
        size_t change = copied + unicode_nfc_start(unicode, text + copied, bytes - copied);
        size_t at = change > copied && change < bytes ? utf8_before(text, change) : change;
        memcpy(out + filled, text + copied, at - copied);
        filled += at - copied;
        size_t count = 0;
        while (at < bytes) {
            size_t length;
            uint32_t point = utf8_read(text + at, &length);
            if (at > change && unicode_form(unicode, point) == 0) {
                break;
            }
            count += decompose(unicode, point, points + count);
            at += length;
        }
        sort_marks(unicode, points, count, scratch);
        count = compose(unicode, points, count);
        for (size_t i = 0; i < count; i++) {
            filled += utf8_write(points[i], out + filled);
        }
        copied = at;
    }
    return filled;
}
