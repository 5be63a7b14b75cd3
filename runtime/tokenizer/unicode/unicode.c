#include "runtime/tokenizer/unicode/unicode.h"

#include "runtime/tokenizer/unicode/unicode_data.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_POINTS = 1 << UNICODE_BLOCK_BITS,          /* number of code points in a block */
    BLOCK_COUNT = UNICODE_END >> UNICODE_BLOCK_BITS, /* number of blocks */
    SURROGATES_BEGIN = 0xd800,                       /* first code point of UTF-16's surrogates */
    SURROGATES_END = 0xe000,                         /* one after the last surrogate of UTF-16 */
    HANGUL_VOWELS_BEGIN = 0x1161,                    /* first vowel of Hangul */
    HANGUL_VOWELS_END = 0x1176,                      /* one after the last vowel of Hangul */
    HANGUL_TAILS_BEGIN = 0x11a8,                     /* first trailing consonant of Hangul */
    /* one after the last trailing consonant of Hangul */
    HANGUL_TAILS_END = 0x11c3,
};

/* The general categories, in the order of their numbers in the table. */
static const char CATEGORIES[UNICODE_CATEGORY_COUNT][3] = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"};

bool unicode_class_is(uint8_t class_number, const char *name) {
    const char *category =
        class_number == UNICODE_CONTROL_SPACE ? "Cc" : CATEGORIES[class_number >> 3];
    return category[0] == name[0] && (name[1] == '\0' || strcmp(category, name) == 0);
}

bool unicode_category_exists(const char *name) {
    bool found = false;
    for (int i = 0; i < UNICODE_CATEGORY_COUNT; i++) {
        found = found || unicode_class_is((uint8_t)(8 * i), name);
    }
    return found && name[0] != '\0';
}

/* A position in a table of varints. */
struct varints {
    const uint32_t *words; /* the table, with four bytes in each word */
    size_t at;             /* position of the next byte */
};

/* Reads the next varint. */
static uint32_t read_varint(struct varints *table) {
    uint32_t number = 0;
    uint32_t byte;
    unsigned shift = 0;
    do {
        byte = table->words[table->at / 4] >> (8 * (table->at % 4)) & 0xff;
        table->at++;
        number |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte >= 0x80);
    return number;
}

/* Divides `values` into blocks, and stores each distinct block once. Sets blocks[] to the index of
 * each block's copy, and returns the copies. */
static const uint8_t *share_blocks(const uint8_t *values, struct region *region,
                                   uint16_t blocks[static BLOCK_COUNT], size_t *block_count) {
    struct region temporary = {0};
    uint8_t *unique = region_alloc(&temporary, UNICODE_END, 1);
    size_t count = 0;
    for (size_t i = 0; i < BLOCK_COUNT; i++) {
        size_t found = count;
        for (size_t j = count; j > 0 && found == count; j--) {
            found = memcmp(unique + (j - 1) * BLOCK_POINTS, values + i * BLOCK_POINTS,
                           BLOCK_POINTS) == 0
                        ? j - 1
                        : count;
        }
        if (found == count) {
            memcpy(unique + count++ * BLOCK_POINTS, values + i * BLOCK_POINTS, BLOCK_POINTS);
        }
        blocks[i] = (uint16_t)found;
    }
    uint8_t *kept = region_alloc(region, count * BLOCK_POINTS, 1);
    memcpy(kept, unique, count * BLOCK_POINTS);
    region_finish(&temporary);
    *block_count = count;
    return kept;
}

static uint8_t kinds_of_category(const char *category) {
    switch (category[0]) {
    case 'L':
        return KIND_LETTER | (category[1] == 'u' || category[1] == 't' ? KIND_UPPER
                              : category[1] == 'l'                     ? KIND_LOWER
                                                                       : KIND_OTHER_LETTER);
    case 'M':
        return KIND_MARK;
    case 'N':
        return KIND_NUMBER;
    case 'Z':
        return KIND_SPACE;
    default:
        return 0;
    }
}

/* Whether a character is white space in category Cc, which gets a class of its own. */
static bool is_control_space(uint32_t point) {
    return (point >= 9 && point <= 13) || point == 0x85;
}

static void unpack_classes(struct unicode *unicode, struct region *region,
                           struct region *temporary) {
    struct varints table = {.words = unicode_classes};
    uint8_t *values = region_alloc(temporary, UNICODE_END, 1);
    for (uint32_t point = 0; point < UNICODE_END;) {
        uint8_t class_number = (uint8_t)read_varint(&table);
        uint32_t run = read_varint(&table);
        while (run > 0) {
            point = point == SURROGATES_BEGIN ? SURROGATES_END : point;
            values[point] = is_control_space(point) ? UNICODE_CONTROL_SPACE : class_number;
            point++;
            run--;
        }
    }
    for (int i = 0; i < UNICODE_CATEGORY_COUNT; i++) {
        memset(unicode->kinds + 8 * i, kinds_of_category(CATEGORIES[i]), 8);
    }
    unicode->kinds[UNICODE_CONTROL_SPACE] = KIND_SPACE;
    unicode->classes =
        share_blocks(values, region, unicode->class_blocks, &unicode->class_block_count);
    for (uint32_t point = 0; point < 128; point++) {
        unicode->ascii_kinds[point] = unicode->kinds[values[point]];
    }
}

/* The character that the first `count` parts of a decomposition compose to. */
static uint32_t composed_prefix(const struct unicode *unicode, const uint32_t *parts,
                                size_t count) {
    uint32_t composed = parts[0];
    for (size_t i = 0; count > 1 && i < unicode->decomposition_count; i++) {
        const struct unicode_decomposition *other = &unicode->decompositions[i];
        if (other->composes && other->count == count &&
            memcmp(unicode->parts + other->at, parts, count * sizeof *parts) == 0) {
            composed = other->point;
        }
    }
    return composed;
}

static int compare_pairs(const void *a, const void *b) {
    const struct unicode_pair *left = a;
    const struct unicode_pair *right = b;
    if (left->first != right->first) {
        return left->first < right->first ? -1 : 1;
    }
    return left->second < right->second ? -1 : left->second > right->second;
}

/* Lists the pairs of characters that NFC composes. */
static void list_composed_pairs(struct unicode *unicode, struct region *region) {
    struct unicode_pair *pairs = region_alloc(region, unicode->decomposition_count, sizeof *pairs);
    for (size_t i = 0; i < unicode->decomposition_count; i++) {
        const struct unicode_decomposition *whole = &unicode->decompositions[i];
        if (whole->composes) {
            const uint32_t *parts = unicode->parts + whole->at;
            pairs[unicode->pair_count++] =
                (struct unicode_pair){.first = composed_prefix(unicode, parts, whole->count - 1),
                                      .second = parts[whole->count - 1],
                                      .composed = whole->point};
        }
    }
    qsort(pairs, unicode->pair_count, sizeof *pairs, compare_pairs);
    unicode->pairs = pairs;
}

static void unpack_combining_classes(struct varints *table, uint8_t *forms) {
    uint32_t point = read_varint(table);
    uint32_t run = read_varint(table);
    while (run > 0) {
        memset(forms + point, (int)read_varint(table), run);
        point += run + read_varint(table);
        run = read_varint(table);
    }
}

static void unpack_decompositions(struct unicode *unicode, struct varints *table,
                                  struct region *region) {
    /* These allocations suffice, because the table has at least three bytes for each decomposition
     * and one for each of its parts. */
    enum { TABLE_BYTES = 4 * UNICODE_FORMS_WORDS }; /* size of the table in bytes */
    struct unicode_decomposition *list = region_alloc(region, TABLE_BYTES / 3, sizeof *list);
    uint32_t *parts = region_alloc(region, TABLE_BYTES, sizeof *parts);
    uint32_t part_count = 0;
    uint32_t point = read_varint(table);
    uint32_t form = read_varint(table);
    while (form > 0) {
        list[unicode->decomposition_count++] =
            (struct unicode_decomposition){.point = point,
                                           .at = part_count,
                                           .count = (uint16_t)(form >> 1),
                                           .composes = (form & 1) != 0};
        for (uint32_t i = 0; i < form >> 1; i++) {
            parts[part_count++] = read_varint(table);
        }
        point += 1 + read_varint(table);
        form = read_varint(table);
    }
    unicode->decompositions = list;
    unicode->parts = parts;
}

/* Marks a starter as UNICODE_UNSTABLE, because NFC may change it. */
static void mark_unstable(uint8_t *forms, uint32_t point) {
    forms[point] = forms[point] == 0 ? UNICODE_UNSTABLE : forms[point];
}

static void unpack_forms(struct unicode *unicode, struct region *region, struct region *temporary) {
    struct varints table = {.words = unicode_forms};
    size_t form_block_count;
    uint8_t *forms = region_alloc(temporary, UNICODE_END, 1);
    unpack_combining_classes(&table, forms);
    unpack_decompositions(unicode, &table, region);
    list_composed_pairs(unicode, region);
    for (size_t i = 0; i < unicode->decomposition_count; i++) {
        if (!unicode->decompositions[i].composes) {
            mark_unstable(forms, unicode->decompositions[i].point);
        }
    }
    for (size_t i = 0; i < unicode->pair_count; i++) {
        mark_unstable(forms, unicode->pairs[i].second);
    }
    for (uint32_t point = HANGUL_VOWELS_BEGIN; point < HANGUL_TAILS_END; point++) {
        if (point < HANGUL_VOWELS_END || point >= HANGUL_TAILS_BEGIN) {
            mark_unstable(forms, point);
        }
    }
    unicode->forms = share_blocks(forms, region, unicode->form_blocks, &form_block_count);
}

const struct unicode *unicode_make(struct region *region) {
    struct region temporary = {0};
    struct unicode *unicode = region_alloc(region, 1, sizeof *unicode);
    unpack_classes(unicode, region, &temporary);
    unpack_forms(unicode, region, &temporary);
    region_finish(&temporary);
    return unicode;
}
