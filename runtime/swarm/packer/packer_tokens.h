/* packer_tokens: splits one MessagePack value into tokens. Private to the packer. */
#ifndef SKEP_SWARM_PACKER_PACKER_TOKENS_H
#define SKEP_SWARM_PACKER_PACKER_TOKENS_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* Enough for the tracker's stored list of members, with a name and an address of each. */
    PACKER_TOKENS_MAX = 320,
    PACKER_DEPTH_MAX = 8, /* Deepest nesting of maps and arrays. */
};

enum packer_token_kind { TOKEN_NUMBER, TOKEN_TEXT, TOKEN_BIN, TOKEN_ARRAY, TOKEN_MAP };

/* One MessagePack value. The token of a map is followed by the tokens of each name and its value;
 * the token of an array is followed by those of its elements. */
struct packer_token {
    enum packer_token_kind kind;
    /* NUMBER: the number; TEXT, BIN: length in bytes; ARRAY, MAP: number of elements */
    uint64_t value;
    const uint8_t *bytes; /* Content of a text or bin; NULL if it is empty. */
};

/* packer_tokens_parse: split the first MessagePack value in `bytes` into tokens.
 * memory  the tokens point into `bytes`; nothing is allocated
 * returns the value's length in bytes; sets *token_count
 * errors  0 with a text in *error: an incomplete value, more tokens than PACKER_TOKENS_MAX, deeper
 *         than PACKER_DEPTH_MAX, a type that messages do not use (nil, a boolean, a negative
 *         integer, a float, an extension) */
MUST_CHECK size_t packer_tokens_parse(const uint8_t *bytes, size_t count,
                                      struct packer_token tokens[static PACKER_TOKENS_MAX],
                                      uint32_t *token_count, const char **error);

#endif
