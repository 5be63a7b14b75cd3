/* added: finds the added tokens in a text. */
#ifndef SKEP_TOKENIZER_ADDED_H
#define SKEP_TOKENIZER_ADDED_H

#include "runtime/tokenizer/parts.h"

/* added_set_make: make the set of `count` tokens.
 * returns  false if two of them have the same `match` */
bool added_set_make(const struct added_token **tokens, size_t count, struct region *region,
                    struct added_set *set);

/* added_set_find: find the first token in text[from, end), and the longest of those that begin
 * there.
 * returns  NULL: no token; *begin is then unchanged, else it is set to the token's position */
const struct added_token *added_set_find(const struct added_set *set, const char *text, size_t from,
                                         size_t end, size_t *begin);

/* A walk over a text, which returns the added tokens and the parts between them. */
struct added_walk {
    const struct tokenizer *tokenizer;
    const struct added_set *set;    /* tokens that are searched for */
    const char *text;               /* [bytes] */
    size_t bytes;                   /* length of the text in bytes */
    bool is_literal;                /* texts of special tokens are handled as ordinary text */
    size_t search_at;               /* position where the search continues */
    size_t part_begin;              /* position where the next part without added tokens begins */
    const struct added_token *held; /* token that the next call returns; NULL: none */
    size_t held_stop;               /* position where the part after `held` begins */
    bool is_done;                   /* the last part of the text has been returned */
};

/* A part of a text: a token, or the bytes from `begin` to `end`. */
struct added_part {
    const struct added_token *token; /* the added token; NULL: the part has no added token */
    size_t begin, end;               /* range of the text, if `token` is NULL */
};

struct added_walk added_walk_over(const struct tokenizer *tokenizer, const struct added_set *set,
                                  const char *text, size_t bytes, bool is_literal);
/* added_walk_next: set *part to the next part. Returns false at the end of the text. */
bool added_walk_next(struct added_walk *walk, struct added_part *part);

#endif
