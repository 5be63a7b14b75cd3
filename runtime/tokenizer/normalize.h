/* normalize: the normalizer of a tokenizer. */
#ifndef SKEP_TOKENIZER_NORMALIZE_H
#define SKEP_TOKENIZER_NORMALIZE_H

#include "runtime/tokenizer/parts.h"

/* normalize: apply all steps to text[0, *bytes).
 * is_continued  the text continues an earlier one: NORMALIZE_PREPEND does nothing
 * text, bytes   set to the result, in the encoder's memory or the text itself
 * errors        STATUS_FIT after the seal */
MUST_CHECK enum status normalize(struct tokenizer_encoder *encoder, bool is_continued,
                                 const char **text, size_t *bytes);

/* normalize_bytes_max: an upper bound of the size that normalize makes of a text of `bytes`
 * bytes. */
size_t normalize_bytes_max(const struct tokenizer *tokenizer, size_t bytes);

/* replace_all: write `text` with each `pattern` replaced by `content` to `out`, and return the
 * size. replace_bytes_max: an upper bound of the size that replace_all returns.
 * limits  the pattern is not empty */
size_t replace_all(const char *text, size_t bytes, const struct counted_text *pattern,
                   const struct counted_text *content, char *out);
size_t replace_bytes_max(size_t bytes, const struct counted_text *pattern,
                         const struct counted_text *content);

#endif
