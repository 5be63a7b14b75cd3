/* pretokenize: divides a text into words, and encodes them. */
#ifndef SKEP_TOKENIZER_PRETOKENIZE_H
#define SKEP_TOKENIZER_PRETOKENIZE_H

#include "runtime/tokenizer/parts.h"

/* pretokenize: encode text[0, bytes) word by word: put its prefix before it, split it by the steps
 * of the pre-tokenizer, and append the ids of each word.
 * is_first      it is the beginning of the whole text
 * is_continued  it continues an earlier text and gets no prefix
 * limits        bytes > 0 */
MUST_CHECK enum status pretokenize(struct tokenizer_encoder *encoder, const char *text,
                                   size_t bytes, bool is_first, bool is_continued);

/* prefixed_bytes_max: an upper bound of the size of a text of `bytes` bytes with its prefix. */
size_t prefixed_bytes_max(const struct tokenizer *tokenizer, size_t bytes);

#endif
