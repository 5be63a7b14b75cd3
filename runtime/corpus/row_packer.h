/* row_packer: conversations, packed into rows of one length. No conversation is divided. */
#ifndef SKEP_CORPUS_ROW_PACKER_H
#define SKEP_CORPUS_ROW_PACKER_H

#include "base/region.h"

#include <stdbool.h>
#include <stdint.h>

/* Number of tokens that are packed at a time: those of PACKER_ROWS rows, but within these limits.
 * The more tokens, the fuller the rows are on average, because only the last rows of a pack have
 * much padding. */
enum {
    PACKER_ROWS = 4096,
    PACKER_TOKENS_MIN = 1 << 20,
    PACKER_TOKENS_MAX = 1 << 24,
};

enum { PACKER_ROW_TOKENS_MAX = 1 << 20 }; /* maximum of row_tokens */

/* A token of a row. */
enum {
    PACKED_TRAINED = 1 << 30,     /* flag: the token is trained */
    PACKED_START = 1 << 29,       /* flag: a conversation starts with the token */
    PACKED_ID = PACKED_START - 1, /* mask of the token id */
};

/* A conversation. */
struct packer_item {
    int32_t length; /* number of the conversation's tokens */
    int32_t row;    /* index of the row into which the conversation is packed */
    int64_t offset; /* offset of the conversation's tokens in row_packer.tokens */
};

/* Conversations that are packed into rows. */
struct row_packer {
    int64_t row_tokens;  /* number of tokens of a row */
    int64_t token_max;   /* maximum number of tokens that are packed at a time */
    int32_t *tokens;     /* [token_count] token ids with flags; capacity token_max */
    int64_t token_count; /* number of tokens of all items */
    /* [item_count] conversations in the order of addition; after row_packer_pack sorted by row */
    struct packer_item *items;
    int item_count, item_capacity;
    int row_count; /* number of rows that the last row_packer_pack made */
};

/* row_packer_init: make an empty packer. Its memory is in `region`: 4 bytes for each token that is
 * packed at a time, at most 64 MiB, whose pages are used as they are needed. */
void row_packer_init(struct row_packer *packer, int64_t row_tokens, struct region *region);

/* row_packer_can_add: whether a conversation of this length can be added before the next pack. */
bool row_packer_can_add(const struct row_packer *packer, int64_t length);

/* row_packer_add: add a conversation: `length` ids and whether each is trained.
 * limits  0 < length <= row_tokens; row_packer_can_add */
void row_packer_add(struct row_packer *packer, const int32_t *ids, const bool *is_trained,
                    int32_t length, struct region *region);

/* row_packer_pack: assign a row to each conversation: the longest first, each to the row in which
 * the least room remains. Sets row_count. */
void row_packer_pack(struct row_packer *packer);

/* row_packer_fill: write the tokens of a row. The tokens after the last conversation have the id
 * `padding`; the first of them has the flag PACKED_START. The conversations of a row are in the
 * order of addition.
 * row  [row_tokens]
 * returns  the number of the row's tokens that are not padding */
int64_t row_packer_fill(const struct row_packer *packer, int row_index, int32_t padding,
                        int32_t *row);

/* row_packer_clear: remove all conversations. */
void row_packer_clear(struct row_packer *packer);

#endif
