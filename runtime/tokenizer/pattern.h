/* pattern: pre-tokenizer patterns that are none of the published ones. The pattern is parsed here;
 * each character of a text becomes one byte that says which of the pattern's sets it is in, and
 * PCRE2 matches these bytes. So PCRE2 never decides what a letter or white space is. */
#ifndef SKEP_TOKENIZER_PATTERN_H
#define SKEP_TOKENIZER_PATTERN_H

#include "runtime/tokenizer/parts.h"

/* pattern_make: compile a pattern in the syntax that the reference and PCRE2 share.
 * errors  STATUS_INPUT at `subject`, with the construct that is not supported */
MUST_CHECK enum status pattern_make(const char *regex, const struct unicode *unicode,
                                    const char *subject, struct region *region,
                                    const struct pattern **pattern, struct fault *fault);

/* pattern_finish: free the machine code of a pattern, which is in no region. */
void pattern_finish(const struct pattern *pattern);

/* The search for a pattern in a text. A matcher of zeros has no text. */
struct matcher {
    const struct pattern *pattern;
    const char *text;          /* [bytes] */
    size_t bytes;              /* length of the text in bytes */
    struct scratch symbols;    /* uint8_t: symbol of each character of the text */
    size_t symbol_count;       /* number of characters in the text */
    size_t at_byte, at_symbol; /* current position: byte offset in `text`, and index in `symbols` */
    struct pcre2_real_match_data_8 *match_data; /* PCRE2's scratch memory */
};

/* matcher_open: set the text to search. matcher_find: set [*begin, *end) to the next match at or
 * after `at`, or to [bytes, bytes) if there is none.
 * limits  `at` never moves back between two calls for one text */
MUST_CHECK enum status matcher_open(struct matcher *matcher, const struct pattern *pattern,
                                    struct tokenizer_encoder *encoder, const char *text,
                                    size_t bytes);
MUST_CHECK enum status matcher_find(struct matcher *matcher, size_t at, size_t *begin, size_t *end,
                                    struct fault *fault);

/* matcher_reserve: reserve the memory for texts of at most `bytes` bytes; returns false if that
 * fails, after the seal. */
bool matcher_reserve(struct matcher *matcher, const struct split_step *step,
                     struct tokenizer_encoder *encoder, size_t bytes);

#endif
