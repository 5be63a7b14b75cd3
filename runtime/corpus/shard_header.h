/* shard_header: the first 1024 bytes of a token file of llm.c, and what this program adds to it.
 * llm.c reads three words and ignores the rest. */
#ifndef SKEP_CORPUS_SHARD_HEADER_H
#define SKEP_CORPUS_SHARD_HEADER_H

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARD_HEADER_BYTES = 1024,
    SHARD_TOKENS_MAX = INT32_MAX, /* llm.c's count of tokens is an int32 */
    SHARD_NO_DOCUMENT_TOKEN = -1, /* documents do not end with a token */
};

/* What the header of a token file states. */
struct shard_header {
    int width;                  /* bytes of a token: 2 or 4 */
    int64_t version;            /* llm.c's version of the format */
    int64_t token_count;        /* number of tokens of the file */
    bool has_origin;            /* whether the fields below are present; false for files of llm.c */
    struct hash tokenizer_hash; /* hash of the tokenizer.json */
    int64_t tokenizer_version;  /* version of the algorithm that made the ids */
    int64_t document_token;     /* token that ends a document; SHARD_NO_DOCUMENT_TOKEN: none */
    uint64_t document_count;    /* documents that end in this file */
    uint64_t text_bytes;        /* bytes of UTF-8 of the text */
    /* Whether two lists of bits follow the tokens, of shard_bits_bytes each: whether a token is
     * trained, and whether a document starts with it. Only in files of rows. */
    bool has_mask;
    int64_t row_tokens; /* tokens of the rows that documents are packed into; 0: no rows */
};

/* shard_header_is_valid_start: whether `bytes`, the first 4 bytes of a file, are the magic number
 * of a token file with a header. */
bool shard_header_is_valid_start(const uint8_t bytes[static 4]);

/* shard_header_write: encode the header.
 * limits  token_count <= SHARD_TOKENS_MAX; width 2 or 4 */
void shard_header_write(const struct shard_header *header,
                        uint8_t bytes[static SHARD_HEADER_BYTES]);

/* shard_header_read: decode a header. Words that this program does not know are ignored.
 * returns  NULL, or the reason why the header is invalid; *header is then unchanged */
const char *shard_header_read(const uint8_t bytes[static SHARD_HEADER_BYTES],
                              struct shard_header *header);

/* shard_bits_bytes: the bytes of a list of bits for `token_count` tokens. Bit i % 8 of byte i / 8
 * is that of token i. */
int64_t shard_bits_bytes(int64_t token_count);

#endif
