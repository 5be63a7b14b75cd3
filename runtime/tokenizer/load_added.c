/* Added tokens of tokenizer.json. */
#include "base/file.h"
#include "base/limits.h"
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/normalize.h"

#include <string.h>

enum { SHOWN_BYTES = 60 }; /* maximum number of bytes of a token's text that a message shows */

static enum status read_token(struct loader *loader, const struct json_node *node,
                              struct added_token *token) {
    int64_t id;
    struct json_node id_node;
    TRY(json_as_object(node, loader->fault));
    TRY(json_require(node, "id", &id_node, loader->fault));
    TRY(json_as_i64(&id_node, &id, loader->fault));
    TRY(load_text(loader, node, "content", &token->text));
    TRY(json_get_bool(node, "single_word", &token->is_single_word, NULL, loader->fault));
    TRY(json_get_bool(node, "lstrip", &token->strips_left, NULL, loader->fault));
    TRY(json_get_bool(node, "rstrip", &token->strips_right, NULL, loader->fault));
    TRY(json_get_bool(node, "normalized", &token->is_normalized, NULL, loader->fault));
    TRY(json_get_bool(node, "special", &token->is_special, NULL, loader->fault));
    if (id < 0 || id >= VOCAB_MAX || token->text.count > ADDED_TEXT_BYTES_MAX) {
        return load_unsupported_fault(loader, node, "an id or a text that is too large");
    }
    token->id = (int32_t)id;
    token->match = token->text;
    token->is_literal = token->is_special;
    return OK;
}

/* The reference gives an added token the id of its text in the model, else the next free one, and
 * ignores the id in the file. Both must agree, or the model would see other tokens. */
static enum status check_id(struct loader *loader, const struct added_token *token,
                            int32_t *next_id) {
    const struct vocabulary *vocabulary = &loader->tokenizer->model.vocabulary;
    int32_t id = vocabulary_find(vocabulary, token->text.bytes, token->text.count);
    if (id == VOCABULARY_ABSENT) {
        id = *next_id;
        *next_id += 1;
    }
    return id == token->id
               ? OK
               : load_fault(
                     loader, "set that id in the file",
                     "added token '%.*s' has the id %d, but the tokenizers package gives it %d",
                     SHOWN_BYTES, token->text.bytes, token->id, id);
}

static enum status normalize_match(struct loader *loader, struct added_token *token) {
    struct tokenizer_encoder encoder = {
        .tokenizer = loader->tokenizer, .region = loader->temporary, .fault = loader->fault};
    const char *text = token->text.bytes;
    size_t count = token->text.count;
    TRY(normalize(&encoder, false, &text, &count));
    char *copy = region_alloc(loader->region, count, 1);
    memcpy(copy, text, count);
    token->match = (struct counted_text){copy, count};
    return count > 0 ? OK
                     : load_fault(loader, "remove the token from the file",
                                  "added token '%.*s' is empty after normalization", SHOWN_BYTES,
                                  token->text.bytes);
}

static enum status same_text_fault(struct loader *loader) {
    return load_fault(loader, "remove one of them from the file",
                      "two added tokens have the same text");
}

static bool texts_equal(const struct counted_text *a, const struct counted_text *b) {
    return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static bool entries_equal(const struct added_token *a, const struct added_token *b) {
    return a->id == b->id && a->is_single_word == b->is_single_word &&
           a->strips_left == b->strips_left && a->strips_right == b->strips_right &&
           a->is_normalized == b->is_normalized && a->is_special == b->is_special;
}

/* Drops entries that repeat an earlier one, as the reference does. Rejects two entries that have
 * the same text and differ: the reference would take the flags of the last one, and ignore its id.
 */
static enum status drop_repeated(struct loader *loader, struct added_token *tokens, size_t *count) {
    const struct added_token **all = region_alloc(loader->temporary, *count, sizeof *all);
    bool *is_repeated = region_alloc(loader->temporary, *count, sizeof *is_repeated);
    struct added_set texts;
    for (size_t i = 0; i < *count; i++) {
        all[i] = &tokens[i];
    }
    if (added_set_make(all, *count, loader->temporary, &texts)) {
        return OK;
    }
    const struct added_token *first = texts.tokens[0];
    for (size_t i = 1; i < *count; i++) {
        const struct added_token *token = texts.tokens[i];
        if (!texts_equal(&first->text, &token->text)) {
            first = token;
            continue;
        }
        if (!entries_equal(first, token)) {
            return same_text_fault(loader);
        }
        is_repeated[(first < token ? token : first) - tokens] = true;
        first = first < token ? first : token;
    }
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        if (!is_repeated[i]) {
            tokens[kept++] = tokens[i];
        }
    }
    *count = kept;
    return OK;
}

static enum status make_added_sets(struct loader *loader, struct added_token *tokens,
                                   size_t count) {
    struct tokenizer *tokenizer = loader->tokenizer;
    const struct added_token **raw = region_alloc(loader->temporary, count, sizeof *raw);
    const struct added_token **normalized = region_alloc(loader->temporary, count, sizeof *raw);
    size_t raw_count = 0;
    size_t normalized_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].is_normalized) {
            normalized[normalized_count++] = &tokens[i];
        } else {
            raw[raw_count++] = &tokens[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].is_normalized) {
            TRY(normalize_match(loader, &tokens[i]));
        }
    }
    bool is_unique = added_set_make(raw, raw_count, loader->region, &tokenizer->raw);
    is_unique =
        added_set_make(normalized, normalized_count, loader->region, &tokenizer->normalized) &&
        is_unique;
    return is_unique ? OK : same_text_fault(loader);
}

/* Whether a text is that of a special token. */
static bool is_special_text(const struct tokenizer *tokenizer, const struct counted_text *text) {
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct added_token *token = &tokenizer->added[i];
        if (token->is_special && texts_equal(&token->text, text)) {
            return true;
        }
    }
    return false;
}

/* Lists the texts of all ids for decoding. The text of an added token is its normalized form. */
static void fill_decoded_texts(struct loader *loader, int32_t id_count) {
    struct tokenizer *tokenizer = loader->tokenizer;
    struct counted_text *decoded = region_alloc(loader->region, (size_t)id_count, sizeof *decoded);
    bool *is_skipped = region_alloc(loader->region, (size_t)id_count, sizeof *is_skipped);
    for (int32_t id = 0; id < tokenizer->model.vocabulary.id_count; id++) {
        size_t count = 0;
        const char *text = vocabulary_text(&tokenizer->model.vocabulary, id, &count);
        decoded[id] = (struct counted_text){text, count};
    }
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const struct added_token *token = &tokenizer->added[i];
        decoded[token->id] = token->match;
        bool is_changed = token->match.bytes != token->text.bytes;
        is_skipped[token->id] =
            is_changed ? is_special_text(tokenizer, &token->match) : token->is_special;
    }
    tokenizer->decoded = decoded;
    tokenizer->is_skipped = is_skipped;
    tokenizer->info.id_count = id_count;
    for (int32_t id = 0; id < id_count; id++) {
        tokenizer->info.token_count += decoded[id].bytes != NULL;
    }
}

static enum status read_tokens(struct loader *loader, const struct json_node *list) {
    struct tokenizer *tokenizer = loader->tokenizer;
    const struct vocabulary *vocabulary = &tokenizer->model.vocabulary;
    size_t most = list == NULL ? 0 : json_child_count(list);
    if (most > ADDED_TOKENS_MAX) {
        return load_unsupported_fault(loader, list, "more added tokens than the limit");
    }
    struct added_token *tokens = region_alloc(loader->region, most, sizeof *tokens);
    int32_t next_id = vocabulary->token_count;
    int32_t id_count = vocabulary->id_count > 0 ? vocabulary->id_count : 1;
    size_t count = 0;
    for (size_t i = 0; i < most; i++) {
        struct json_node node = json_element(list, i);
        struct added_token *token = &tokens[count];
        *token = (struct added_token){0};
        TRY(read_token(loader, &node, token));
        if (token->text.count == 0) {
            continue; /* the reference ignores an empty token, too */
        }
        count++;
    }
    TRY(drop_repeated(loader, tokens, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(check_id(loader, &tokens[i], &next_id));
        id_count = tokens[i].id >= id_count ? tokens[i].id + 1 : id_count;
    }
    tokenizer->added = tokens;
    tokenizer->added_count = count;
    tokenizer->info.added_count = (int32_t)count;
    TRY(make_added_sets(loader, tokens, count));
    fill_decoded_texts(loader, id_count);
    return OK;
}

enum status load_added(struct loader *loader) {
    struct json_document document;
    struct json_node list;
    bool found;
    TRY(load_value(loader, &loader->root[ROOT_ADDED_TOKENS], "added_tokens", &document, &list,
                   &found));
    if (!found) {
        return read_tokens(loader, NULL);
    }
    enum status status = json_as_array(&list, loader->fault);
    if (status == OK) {
        status = read_tokens(loader, &list);
    }
    json_finish(&document);
    return status;
}
