/* bpe: encodes a word as tokens, by byte pair encoding. */
#ifndef SKEP_TOKENIZER_BPE_H
#define SKEP_TOKENIZER_BPE_H

#include "runtime/tokenizer/parts.h"

/* bpe_encode_word: append the ids of a word, which is not empty. */
MUST_CHECK enum status bpe_encode_word(struct tokenizer_encoder *encoder, const char *word,
                                       size_t bytes);

/* bpe_append_id: append one id. */
MUST_CHECK enum status bpe_append_id(struct tokenizer_encoder *encoder, int32_t id);

/* bpe_reserve_scratch: make room in the scratch memory for words of at most `bytes` bytes. Returns
 * false if that needs more memory after the seal. */
bool bpe_reserve_scratch(struct tokenizer_encoder *encoder, size_t bytes);

/* merge_all: make all merges of `count` symbols in place, and return how many are left.
 * symbols  ids; the array has room for MERGE_WORDS * count words
 * heap     memory for 2 * count numbers; used above MERGE_SHORT_MAX symbols only
 * stops    called now and then above MERGE_SHORT_MAX symbols; true: end early. NULL: never
 * returns  MERGE_STOPPED after `stops` returned true; the symbols are then undefined */
enum {
    MERGE_SHORT_MAX = 40, /* maximum number of symbols of a word that is merged without a heap */
    MERGE_WORDS = 5,      /* number of int32_t in the scratch memory for each symbol */
};
#define MERGE_STOPPED SIZE_MAX
size_t merge_all(const struct merge_table *table, int32_t *symbols, size_t count, uint64_t *heap,
                 tokenizer_stop *stops);

#endif
