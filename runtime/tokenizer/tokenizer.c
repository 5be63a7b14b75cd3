#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/parts.h"
#include "runtime/tokenizer/pattern.h"

#include <string.h>

void tokenizer_finish(const struct tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->split_count; i++) {
        if (tokenizer->split[i].kind == SPLIT_PATTERN) {
            pattern_finish(tokenizer->split[i].regex);
        }
    }
}

const struct tokenizer_info *tokenizer_info(const struct tokenizer *tokenizer) {
    return &tokenizer->info;
}

static const struct added_token *added_by_id(const struct tokenizer *tokenizer, int32_t id) {
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        if (tokenizer->added[i].id == id) {
            return &tokenizer->added[i];
        }
    }
    return NULL;
}

struct token_text tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id) {
    const struct added_token *token = added_by_id(tokenizer, id);
    if (token != NULL) {
        return (struct token_text){token->text.bytes, token->text.count};
    }
    size_t count = 0;
    const char *text = vocabulary_text(&tokenizer->model.vocabulary, id, &count);
    return (struct token_text){text, count};
}

int32_t tokenizer_token_id(const struct tokenizer *tokenizer, const char *text, size_t bytes) {
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct added_token *token = &tokenizer->added[i];
        if (token->text.count == bytes && memcmp(token->text.bytes, text, bytes) == 0) {
            return token->id;
        }
    }
    return vocabulary_find(&tokenizer->model.vocabulary, text, bytes);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id) {
    const struct added_token *token = added_by_id(tokenizer, id);
    return token != NULL && token->is_special;
}

int32_t tokenizer_find_special(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                               size_t *at) {
    const struct added_set *const sets[] = {&tokenizer->raw, &tokenizer->normalized};
    int32_t found = TOKENIZER_NO_ID;
    *at = bytes;
    for (size_t i = 0; i < ARRAY_COUNT(sets); i++) {
        size_t begin = 0;
        const struct added_token *token = added_set_find(sets[i], text, 0, bytes, &begin);
        while (token != NULL && !token->is_special) {
            token = added_set_find(sets[i], text, begin + token->match.count, bytes, &begin);
        }
        if (token != NULL && begin < *at) {
            *at = begin;
            found = token->id;
        }
    }
    return found;
}
