/* The roles of special tokens: tokenizer_config.json, else special_tokens_map.json. */
#include "runtime/tokenizer/load.h"

#include "base/file.h"
#include "base/limits.h"

#include <string.h>

/* maximum size of tokenizer_config.json and of special_tokens_map.json */
enum { NAMES_BYTES_MAX = 1 << 24 };

/* Tokens that end documents in the training data of the supported families. */
static const char *const DOCUMENT_TOKENS[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                              "<|end▁of▁sentence|>"};

/* Reads the id of the token whose text the member `key` specifies, as a text or as an object with
 * `content`. */
static enum status read_special_id(struct loader *loader, const struct json_node *object,
                                   const char *key, int32_t *id) {
    struct json_node node;
    const char *text;
    if (*id != TOKENIZER_NO_ID || !json_find(object, key, &node)) {
        return OK;
    }
    if (json_node_is_object(&node)) {
        struct json_node content;
        TRY(json_require(&node, "content", &content, loader->fault));
        TRY(json_as_text(&content, &text, loader->fault));
    } else {
        TRY(json_as_text(&node, &text, loader->fault));
    }
    *id = tokenizer_token_id(loader->tokenizer, text, strlen(text));
    return OK;
}

static enum status read_special_ids(struct loader *loader, const char *folder, const char *file) {
    struct tokenizer_info *info = &loader->tokenizer->info;
    char path[PATH_BYTES];
    char *text;
    size_t length;
    struct json_document document;
    if (folder == NULL) {
        return OK;
    }
    path_join(folder, file, path, sizeof path);
    if (!file_exists(path)) {
        return OK;
    }
    TRY(file_read_into_region(path, NAMES_BYTES_MAX, loader->temporary, &text, &length,
                              loader->fault));
    TRY(json_parse(text, length, length, path, &document, loader->fault));
    struct {
        const char *key;
        int32_t *id;
    } roles[] = {{"bos_token", &info->bos_id},
                 {"eos_token", &info->eos_id},
                 {"unk_token", &info->unk_id},
                 {"pad_token", &info->pad_id}};
    enum status status = OK;
    for (size_t i = 0; status == OK && i < ARRAY_COUNT(roles); i++) {
        status = read_special_id(loader, &document.root, roles[i].key, roles[i].id);
    }
    json_finish(&document);
    return status;
}

static int32_t find_document_token(const struct tokenizer *tokenizer) {
    int32_t found = TOKENIZER_NO_ID;
    for (size_t i = 0; i < ARRAY_COUNT(DOCUMENT_TOKENS); i++) {
        int32_t id = tokenizer_token_id(tokenizer, DOCUMENT_TOKENS[i], strlen(DOCUMENT_TOKENS[i]));
        if (!tokenizer_is_special(tokenizer, id)) {
            continue;
        }
        if (id == tokenizer->info.eos_id) {
            return id;
        }
        found = found == TOKENIZER_NO_ID ? id : found;
    }
    return found == TOKENIZER_NO_ID ? tokenizer->info.eos_id : found;
}

enum status load_special_ids(struct loader *loader, const char *folder) {
    struct tokenizer_info *info = &loader->tokenizer->info;
    info->bos_id = TOKENIZER_NO_ID;
    info->eos_id = TOKENIZER_NO_ID;
    info->unk_id = TOKENIZER_NO_ID;
    info->pad_id = TOKENIZER_NO_ID;
    TRY(read_special_ids(loader, folder, "tokenizer_config.json"));
    TRY(read_special_ids(loader, folder, "special_tokens_map.json"));
    info->document_id = find_document_token(loader->tokenizer);
    return OK;
}
