/* pattern_parse: parses a pattern into sets of characters and the syntax between these sets. */
#ifndef SKEP_TOKENIZER_PATTERN_PARSE_H
#define SKEP_TOKENIZER_PATTERN_PARSE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/tokenizer/unicode/unicode.h"

enum {
    PATTERN_BYTES_MAX = 4096, /* maximum size of a pattern; the longest published one has 600 */
    /* maximum number of sets of a pattern: a mask has one bit for each */
    PATTERN_SETS_MAX = 64,
    PATTERN_ITEMS_MAX = 2048,  /* maximum number of items of a pattern */
    PATTERN_RANGES_MAX = 512,  /* maximum number of ranges in all sets of a pattern */
    PATTERN_DEPTH_MAX = 32,    /* maximum number of levels of nested groups */
    PATTERN_SYNTAX_BYTES = 16, /* size of the buffer for the text of an item */
};

struct pattern_range {
    uint32_t low, high; /* code points, both included */
};

/* A set of characters: those of some classes and ranges or, if negated, all except those. */
struct pattern_set {
    bool classes[UNICODE_CLASSES]; /* by class: whether its characters are in the set */
    int first_range, range_count;  /* span of the draft's `ranges` */
    bool is_negated;               /* the set contains all other characters */
};

/* A part of the pattern: a set, or syntax that is copied. */
struct pattern_item {
    int set;                           /* index of the set; -1: syntax */
    char syntax[PATTERN_SYNTAX_BYTES]; /* text in the syntax of PCRE2 */
};

/* A parsed pattern. */
struct pattern_draft {
    struct pattern_set sets[PATTERN_SETS_MAX];
    struct pattern_range ranges[PATTERN_RANGES_MAX];
    struct pattern_item items[PATTERN_ITEMS_MAX];
    int set_count, range_count, item_count;
};

/* pattern_parse: parse a pattern into a draft. It supports the syntax that means the same to
 * Oniguruma, which the reference uses, and to PCRE2; sets and \b are resolved here.
 * errors  STATUS_INPUT at `subject` with the construct */
MUST_CHECK enum status pattern_parse(const char *regex, const struct unicode *unicode,
                                     const char *subject, struct pattern_draft *draft,
                                     struct fault *fault);

#endif
