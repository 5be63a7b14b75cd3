#include "runtime/corpus/tokenizer_folder.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "runtime/model/model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status tokenizer_folder_find(const char *model, char folder[static PATH_BYTES],
                                  struct fault *fault) {
    if (strlen(model) >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, "model", "use a shorter path",
                         "the path is too long");
    }
    if (file_is_folder(model)) {
        snprintf(folder, PATH_BYTES, "%s", model);
        return OK;
    }
    if (file_exists(model)) {
        file_parent_folder(model, folder, PATH_BYTES);
        return OK;
    }
    if (hub_cache_is_model_name(model)) {
        return hub_cache_find(model, folder, fault);
    }
    return fault_set(fault, STATUS_INPUT, model,
                     "specify a model folder, or org/name of a model in the Hub cache",
                     "no such folder");
}

/* Returns the `vocab_size` of a config.json; 0: it states none that can be read. */
static int64_t read_vocab_size(const char *path, struct region *scratch) {
    enum { CONFIG_FILE_BYTES_MAX = 1 << 20 }; /* maximum size of config.json */
    struct json_document document;
    struct fault ignored;
    char *text;
    size_t length;
    int64_t size = 0;
    bool is_present;
    if (file_read_into_region(path, CONFIG_FILE_BYTES_MAX, scratch, &text, &length, &ignored) !=
            OK ||
        json_parse(text, length, CONFIG_FILE_BYTES_MAX, path, &document, &ignored) != OK) {
        return 0;
    }
    if (json_get_i64(&document.root, "vocab_size", &size, &is_present, &ignored) != OK) {
        size = 0;
    }
    json_finish(&document);
    return size;
}

void tokenizer_folder_warn(const char *folder, const struct tokenizer *tokenizer) {
    struct region scratch = {0};
    char path[PATH_BYTES + NAME_BYTES];
    const int32_t ids = tokenizer_info(tokenizer)->id_count;
    path_join(folder, "config.json", path, sizeof path);
    const int64_t size = read_vocab_size(path, &scratch);
    if (size > 0 && ids > size) {
        log_line(LOG_WARNING,
                 "%s: vocab_size is %lld, but tokenizer.json has %d ids; a text with a larger id "
                 "cannot be trained",
                 path, (long long)size, ids);
    }
    region_finish(&scratch);
}

bool tokenizer_folder_hash(const char *model, struct hash *hash) {
    enum { PIECE_BYTES = 1 << 12 }; /* number of bytes that are read and hashed at a time */
    char folder[PATH_BYTES];
    char path[PATH_BYTES + NAME_BYTES];
    uint8_t piece[PIECE_BYTES];
    struct fault ignored;
    struct hash_state state;
    int64_t bytes = 0;
    int fd = -1;
    if (tokenizer_folder_find(model, folder, &ignored) != OK) {
        return false;
    }
    path_join(folder, "tokenizer.json", path, sizeof path);
    if (file_open_read(path, &fd, &bytes, &ignored) != OK) {
        return false;
    }
    enum status status = OK;
    hash_begin(&state);
    for (int64_t at = 0; at < bytes && status == OK; at += PIECE_BYTES) {
        const size_t count = (size_t)min_i64(bytes - at, PIECE_BYTES);
        status = file_read_at(fd, path, piece, count, at, &ignored);
        if (status == OK) {
            hash_add(&state, piece, count);
        }
    }
    close(fd);
    if (status == OK) {
        *hash = hash_end(&state);
    }
    return status == OK;
}
