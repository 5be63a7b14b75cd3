/* scan: the published patterns of pre-tokenizers, written out as scanners. Each function returns
 * the end of the piece that begins at `at`. These patterns leave no gaps, so a text is a sequence
 * of pieces.
 * limits  at < end; text[at, end) is well-formed */
#ifndef SKEP_TOKENIZER_SCAN_H
#define SKEP_TOKENIZER_SCAN_H

#include "runtime/tokenizer/parts.h"

size_t scan_gpt2(const struct unicode *unicode, const char *text, size_t at, size_t end);
size_t scan_llama3(const struct unicode *unicode, const struct split_step *step, const char *text,
                   size_t at, size_t end);
size_t scan_tekken(const struct unicode *unicode, const struct split_step *step, const char *text,
                   size_t at, size_t end);

/* scan_published: set the kind and parameters of the step whose pattern is `pattern`.
 * returns  false if it is none of the published ones; *step is then unchanged */
bool scan_published(const char *pattern, struct split_step *step);

#endif
