/* unicode: properties of characters and canonical composition, as the Python package tokenizers
 * 0.23.3 has them. The data of unicode_data.h are unpacked once for each tokenizer, into about
 * 300 KiB.
 *
 * public   utf8.h */
#ifndef SKEP_TOKENIZER_UNICODE_UNICODE_H
#define SKEP_TOKENIZER_UNICODE_UNICODE_H

#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UNICODE_END = 0x110000,      /* one more than the largest code point */
    UNICODE_BLOCK_BITS = 7,      /* log2 of the code points in a block of the two-level tables */
    UNICODE_CATEGORY_COUNT = 29, /* general categories */
    /* number of classes: a class is a general category and three flags, in one byte */
    UNICODE_CLASSES = 256,
    UNICODE_NUMERIC = 1,    /* flag of a class: a digit for the pre-tokenizer Digits */
    UNICODE_REGEX_WORD = 2, /* flag: \w in a pattern, outside brackets */
    /* flag of a class: part of a word, for added tokens with single_word */
    UNICODE_WORD = 4,
    UNICODE_CONTROL_SPACE = 255, /* class of the white space that is in category Cc */
};

/* Properties of characters that the scanners test, one bit for each property. */
enum unicode_kind {
    KIND_LETTER = 1,       /* \p{L} */
    KIND_NUMBER = 2,       /* \p{N} */
    KIND_SPACE = 4,        /* \s */
    KIND_MARK = 8,         /* \p{M} */
    KIND_UPPER = 16,       /* \p{Lu} and \p{Lt} */
    KIND_LOWER = 32,       /* \p{Ll} */
    KIND_OTHER_LETTER = 64 /* \p{Lm} and \p{Lo} */
};

struct unicode_decomposition {
    uint32_t point, at; /* code point, whose decomposition is parts[at, at + count) */
    uint16_t count;     /* number of code points of the decomposition */
    bool composes;      /* NFC composes the decomposition to `point` again */
};
struct unicode_pair {
    uint32_t first, second, composed; /* NFC replaces the pair `first`, `second` by `composed` */
};

struct unicode {
    /* by block of code points: index of its block in `classes`, and in `forms` */
    uint16_t class_blocks[UNICODE_END >> UNICODE_BLOCK_BITS];
    uint16_t form_blocks[UNICODE_END >> UNICODE_BLOCK_BITS];
    size_t class_block_count; /* number of blocks in `classes` */
    /* [blocks][1 << UNICODE_BLOCK_BITS]: class and form (unicode_form) of each code point */
    const uint8_t *classes, *forms;
    uint8_t kinds[UNICODE_CLASSES]; /* by class: mask of enum unicode_kind */
    uint8_t ascii_kinds[128];       /* by ASCII character: mask of enum unicode_kind */
    const struct unicode_decomposition *decompositions; /* decompositions, sorted by code point */
    const uint32_t *parts;                              /* code points of all decompositions */
    /* pairs that NFC composes, sorted by first, then second */
    const struct unicode_pair *pairs;
    size_t decomposition_count, pair_count;
};

/* unicode_make: unpack the tables.
 * memory  in `region` */
const struct unicode *unicode_make(struct region *region);

/* unicode_class_is: true if characters of the class are in the general category `name`, such as
 * "Lu", or in the group of categories that a `name` of one letter, such as "L", stands for. */
bool unicode_class_is(uint8_t class_number, const char *name);
/* unicode_category_exists: true if `name` is a name for unicode_class_is. */
bool unicode_category_exists(const char *name);

static inline uint8_t unicode_class(const struct unicode *unicode, uint32_t point) {
    size_t block = unicode->class_blocks[point >> UNICODE_BLOCK_BITS];
    return unicode
        ->classes[(block << UNICODE_BLOCK_BITS) | (point & ((1u << UNICODE_BLOCK_BITS) - 1))];
}

static inline unsigned unicode_kind(const struct unicode *unicode, uint32_t point) {
    return point < 128 ? unicode->ascii_kinds[point]
                       : unicode->kinds[unicode_class(unicode, point)];
}

/* unicode_is_space: true if a character is white space, with the same meaning in the \s of patterns
 * and for added tokens. */
static inline bool unicode_is_space(const struct unicode *unicode, uint32_t point) {
    return (unicode_kind(unicode, point) & KIND_SPACE) != 0;
}

/* Values of unicode_form: 0 for a starter that NFC leaves alone whatever precedes it; a canonical
 * combining class; or UNICODE_UNSTABLE for any other starter that NFC may change. */
enum { UNICODE_UNSTABLE = 255 };
static inline uint8_t unicode_form(const struct unicode *unicode, uint32_t point) {
    size_t block = unicode->form_blocks[point >> UNICODE_BLOCK_BITS];
    return unicode
        ->forms[(block << UNICODE_BLOCK_BITS) | (point & ((1u << UNICODE_BLOCK_BITS) - 1))];
}

/* unicode_nfc_start: the position of the first character that NFC may change, or `bytes`. */
size_t unicode_nfc_start(const struct unicode *unicode, const char *text, size_t bytes);

/* unicode_nfc_points_max: the code points of scratch memory that unicode_nfc needs.
 * unicode_nfc_bytes_max: an upper bound of the size that unicode_nfc returns. */
size_t unicode_nfc_points_max(size_t bytes);
size_t unicode_nfc_bytes_max(size_t bytes);

/* unicode_nfc: write the NFC of well-formed text to `out`, and return its size.
 * points  scratch memory of unicode_nfc_points_max(bytes) code points */
size_t unicode_nfc(const struct unicode *unicode, const char *text, size_t bytes, uint32_t *points,
                   char *out);

#endif
