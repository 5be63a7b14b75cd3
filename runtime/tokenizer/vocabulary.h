/* vocabulary: the tokens of a BPE model, by text and by id, and its merges. */
#ifndef SKEP_TOKENIZER_VOCABULARY_H
#define SKEP_TOKENIZER_VOCABULARY_H

#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VOCABULARY_ABSENT = -1, /* no token has this text */
    /* maximum size of a token's text; the longest published one has 256 */
    VOCABULARY_TEXT_BYTES_MAX = 1 << 12,
    VOCABULARY_NO_MERGE = 0xffffffff, /* rank of a pair that does not merge */
    /* maximum number of merges of a model, the same as of tokens */
    VOCABULARY_MERGES_MAX = 1 << 24
};

/* The text of a token: texts[at, at + count). */
struct vocabulary_span {
    /* position and size of the text in bytes; a count of VOCABULARY_NO_TOKEN: no token */
    uint32_t at, count;
};
enum { VOCABULARY_NO_TOKEN = 0xffffffff }; /* count of a vocabulary_span without a token */

/* A token while a vocabulary is read. */
struct vocabulary_entry {
    const char *text; /* [count] */
    uint32_t count;   /* length of the text in bytes */
    int32_t id;       /* token id */
};

struct vocabulary {
    const char *texts;                   /* texts of all tokens, concatenated */
    const struct vocabulary_span *spans; /* [id_count]: by id, the position of the token's text */
    const int32_t *slots;                /* hash table of ids; VOCABULARY_ABSENT: empty */
    uint32_t slot_mask;                  /* number of hash slots - 1 */
    int32_t id_count, token_count;       /* one more than the largest id; number of tokens */
    uint32_t text_bytes_max;             /* size in bytes of the longest text */
};

/* vocabulary_make: build a vocabulary from `count` entries, which are copied to `region`.
 * limits   ids from 0 to VOCAB_MAX - 1; texts of at most VOCABULARY_TEXT_BYTES_MAX bytes
 * returns  the index of an entry whose text or id is that of an earlier entry, else -1 */
int64_t vocabulary_make(const struct vocabulary_entry *entries, size_t count, struct region *region,
                        struct vocabulary *vocabulary);

/* vocabulary_find: the id of the token with this text, or VOCABULARY_ABSENT. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t count);

/* vocabulary_text: the text of a token, and its size in *count; NULL: no token has this id. */
const char *vocabulary_text(const struct vocabulary *vocabulary, int32_t id, size_t *count);

/* A merge: two tokens become one. Of several merges that apply, the one with the lowest rank is
 * made first. */
struct merge {
    int32_t left, right, merged; /* ids of the two tokens, and of the token that they become */
};

/* A hash slot of a merge table. An empty one has the rank VOCABULARY_NO_MERGE. */
struct merge_slot {
    uint64_t pair;  /* merge_pair of the two ids */
    uint32_t rank;  /* the pair with the lowest rank is merged first */
    int32_t merged; /* id that the pair becomes */
};

struct merge_table {
    const struct merge_slot *slots; /* [mask + 1] */
    uint64_t mask;                  /* number of hash slots - 1 */
};

/* merge_table_make: the table of `count` merges, whose rank is their index. If several merges have
 * the same pair, the last one is used. */
struct merge_table merge_table_make(const struct merge *merges, size_t count,
                                    struct region *region);

static inline uint64_t merge_pair(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline uint64_t merge_hash(uint64_t pair) {
    uint64_t mixed = pair * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

/* merge_find: the slot of a pair, or an empty one. */
static inline const struct merge_slot *merge_find(const struct merge_table *table, int32_t left,
                                                  int32_t right) {
    uint64_t pair = merge_pair(left, right);
    const struct merge_slot *slot = &table->slots[merge_hash(pair) & table->mask];
    while (slot->pair != pair && slot->rank != VOCABULARY_NO_MERGE) {
        slot = slot == &table->slots[table->mask] ? table->slots : slot + 1;
    }
    return slot;
}

/* text_hash: the hash of `count` bytes, for hash tables in memory. */
uint64_t text_hash(const char *text, size_t count);

#endif
