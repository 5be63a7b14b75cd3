/* shard_header: the first 1024 bytes of a token file of llm.c, and what this program adds to it.
 * llm.c reads three words and ignores the rest. */
#ifndef SKEP_CORPUS_SHARD_HEADER_H
#define SKEP_CORPUS_SHARD_HEADER_H

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARD_HEADER_BYTES = 1024,
    SHARD_TOKENS_MAX = INT32_MAX, /* maximum number of tokens in a file: llm.c stores it as int32 */
    /* value in place of a token id: documents do not end with a token */
    SHARD_NO_DOCUMENT_TOKEN = -1,
};

/* The contents of the header of a token file. */
struct shard_header {
    int width;                  /* size of a token in bytes: 2 or 4 */
    int64_t version;            /* version of llm.c's format */
    int64_t token_count;        /* number of tokens of the file */
    bool has_origin;            /* whether the fields below are present; false for files of llm.c */
    struct hash tokenizer_hash; /* hash of the tokenizer.json that made the ids */
    int64_t tokenizer_version;  /* version of the algorithm that made the ids */
    int64_t document_token;     /* token that ends a document; SHARD_NO_DOCUMENT_TOKEN: none */
    uint64_t document_count;    /* number of documents that end in this file */
    uint64_t text_bytes;        /* number of bytes of the text in UTF-8 */
    /* Whether a mask follows the tokens: two lists of shard_bits_bytes bytes with a bit for each
     * token, which show whether the token is trained, and whether a document starts with it. Only
     * files of rows have a mask. */
    bool has_mask;
    int64_t row_tokens; /* number of tokens in each row of packed documents; 0: no rows */
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

/* shard_bits_bytes: return the size in bytes of a list of bits for `token_count` tokens. Bit i % 8
 * of byte i / 8 is the bit of token i. */
int64_t shard_bits_bytes(int64_t token_count);

#endif
