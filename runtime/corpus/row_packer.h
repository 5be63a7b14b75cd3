/* row_packer: conversations, packed into rows of one length. No conversation is divided. */
#ifndef SKEP_CORPUS_ROW_PACKER_H
#define SKEP_CORPUS_ROW_PACKER_H

#include "base/region.h"

#include <stdbool.h>
#include <stdint.h>

/* Rows that are packed at a time: the tokens of PACKER_ROWS rows, but not fewer or more than the
 * limits. The more there are, the fuller the rows: only the last ones of a pack are not full. */
enum {
    PACKER_ROWS = 4096,
    PACKER_TOKENS_MIN = 1 << 20,
    PACKER_TOKENS_MAX = 1 << 24,
};

enum { PACKER_ROW_TOKENS_MAX = 1 << 20 }; /* limit of row_tokens */

/* A token of a row. */
enum {
    PACKED_TRAINED = 1 << 30,     /* flag: the token is trained */
    PACKED_START = 1 << 29,       /* flag: a conversation starts with the token */
    PACKED_ID = PACKED_START - 1, /* mask of the token id */
};

/* A conversation. */
struct packer_item {
    int32_t length; /* number of its tokens */
    int32_t row;    /* index of the row that it is put into */
    int64_t offset; /* offset of its tokens in row_packer.tokens */
};

/* A row_packer of zeros with `row_tokens` set is empty. */
struct row_packer {
    int64_t row_tokens;        /* tokens of a row */
    int64_t token_max;         /* tokens that are packed at a time */
    int32_t *tokens;           /* [token_max]: ids and flags */
    int64_t token_count;       /* tokens of all items */
    struct packer_item *items; /* [item_count], in the order of addition; packed: by row */
    int item_count, item_capacity;
    int row_count; /* rows of the last row_packer_pack */
};

/* row_packer_init: memory in `region`, 4 bytes for each token that is packed at a time, at most
 * 64 MiB, of which pages are used as they are needed. */
void row_packer_init(struct row_packer *packer, int64_t row_tokens, struct region *region);

/* row_packer_can_add: whether a conversation of this length can be added before the next pack. */
bool row_packer_can_add(const struct row_packer *packer, int64_t length);

/* row_packer_add: add a conversation: `length` ids and whether each is trained.
 * limits  0 < length <= row_tokens; row_packer_can_add */
void row_packer_add(struct row_packer *packer, const int32_t *ids, const bool *is_trained,
                    int32_t length, struct region *region);

/* row_packer_pack: decide on the row of each conversation: the longest first, each in the row where
 * it leaves the least room. Sets row_count. */
void row_packer_pack(struct row_packer *packer);

/* row_packer_fill: write the tokens of a row. Those after the last conversation are `padding`,
 * which starts like a conversation. The conversations of a row are in the order of addition.
 * row  [row_tokens]
 * returns  the number of its tokens that are not padding */
int64_t row_packer_fill(const struct row_packer *packer, int row_index, int32_t padding,
                        int32_t *row);

/* row_packer_clear: remove all conversations. */
void row_packer_clear(struct row_packer *packer);

#endif
