#include "runtime/corpus/corpus_progress.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"

#include <stddef.h>
#include <unistd.h>

enum {
    PROGRESS_BYTES = 4096, /* maximum size of the progress file */
    /* size of the buffer for the path of the progress file */
    PROGRESS_PATH_BYTES = PATH_BYTES + NAME_BYTES,
};

static const char NAME[] = "progress.json";

const char *corpus_part_name(enum corpus_part part) {
    return part == CORPUS_TRAIN ? "train" : "validation";
}

/* A number of struct chat_progress: its JSON key and its place in the struct. */
struct chat_number {
    const char *name;
    size_t offset;
};

static const struct chat_number CHAT_NUMBERS[] = {
    {"next", offsetof(struct chat_progress, next_number)},
    {"rows", offsetof(struct chat_progress, report.rows)},
    {"conversations", offsetof(struct chat_progress, report.conversations)},
    {"tokens", offsetof(struct chat_progress, report.tokens)},
    {"trained", offsetof(struct chat_progress, report.trained)},
    {"long", offsetof(struct chat_progress, report.long_count)},
    {"untrained", offsetof(struct chat_progress, report.untrained_count)},
};

static uint64_t *chat_number(struct chat_progress *chat, const struct chat_number *number) {
    return (uint64_t *)(void *)((unsigned char *)chat + number->offset);
}

static void add_counts(struct json_writer *json, const char *name,
                       const struct shard_counts *counts) {
    json_begin_object(json, name);
    json_add_u64(json, "tokens", counts->tokens);
    json_add_u64(json, "documents", counts->documents);
    json_add_u64(json, "text_bytes", counts->text_bytes);
    json_end(json);
}

static void add_part(struct json_writer *json, const char *name,
                     const struct shard_position *position, struct chat_progress chat) {
    json_begin_object(json, name);
    json_begin_object(json, "chat");
    for (size_t i = 0; i < ARRAY_COUNT(CHAT_NUMBERS); i++) {
        json_add_u64(json, CHAT_NUMBERS[i].name, *chat_number(&chat, &CHAT_NUMBERS[i]));
    }
    json_end(json);
    json_add_i64(json, "shard", position->shard);
    add_counts(json, "in_shard", &position->in_shard);
    add_counts(json, "total", &position->total);
    json_end(json);
}

enum status corpus_progress_write(const char *folder, const struct corpus_progress *progress,
                                  struct fault *fault) {
    char path[PROGRESS_PATH_BYTES];
    char unfinished[PROGRESS_PATH_BYTES + 8];
    char buffer[PROGRESS_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    json_add_u64(&json, "format", 1);
    json_add_hex(&json, "key", progress->arguments_hash.bytes, HASH_BYTES);
    json_add_u64(&json, "batches", progress->batches);
    json_add_hex(&json, "text_hash", progress->text_hash.bytes, HASH_BYTES);
    for (int part = 0; part < CORPUS_PARTS; part++) {
        add_part(&json, corpus_part_name((enum corpus_part)part), &progress->parts[part],
                 progress->chats[part]);
    }
    json_end(&json);
    text_add(&text, "\n");
    ASSERT(!text.truncated);
    path_join(folder, NAME, path, sizeof path);
    file_unfinished_path(path, unfinished, sizeof unfinished);
    return file_replace(path, unfinished, text.bytes, text.length, fault);
}

static enum status require_u64(const struct json_node *object, const char *name, uint64_t *value,
                               struct fault *fault) {
    struct json_node node;
    int64_t read;
    TRY(json_require(object, name, &node, fault));
    TRY(json_as_i64(&node, &read, fault));
    if (read < 0) {
        return json_fault(&node, fault, NULL, "is negative");
    }
    *value = (uint64_t)read;
    return OK;
}

static enum status read_counts(const struct json_node *part, const char *name,
                               struct shard_counts *counts, struct fault *fault) {
    struct json_node node;
    TRY(json_require(part, name, &node, fault));
    TRY(json_as_object(&node, fault));
    TRY(require_u64(&node, "tokens", &counts->tokens, fault));
    TRY(require_u64(&node, "documents", &counts->documents, fault));
    return require_u64(&node, "text_bytes", &counts->text_bytes, fault);
}

static enum status read_chat(const struct json_node *part, struct chat_progress *chat,
                             struct fault *fault) {
    struct json_node node;
    TRY(json_require(part, "chat", &node, fault));
    TRY(json_as_object(&node, fault));
    *chat = (struct chat_progress){.next_number = 0};
    for (size_t i = 0; i < ARRAY_COUNT(CHAT_NUMBERS); i++) {
        TRY(require_u64(&node, CHAT_NUMBERS[i].name, chat_number(chat, &CHAT_NUMBERS[i]), fault));
    }
    return OK;
}

static enum status read_part(const struct json_node *root, const char *name,
                             struct shard_position *position, struct chat_progress *chat,
                             struct fault *fault) {
    struct json_node node;
    uint64_t shard;
    TRY(json_require(root, name, &node, fault));
    TRY(json_as_object(&node, fault));
    TRY(read_chat(&node, chat, fault));
    TRY(require_u64(&node, "shard", &shard, fault));
    position->shard = (int64_t)shard;
    TRY(read_counts(&node, "in_shard", &position->in_shard, fault));
    return read_counts(&node, "total", &position->total, fault);
}

static enum status read_progress(const struct json_node *root, struct corpus_progress *progress,
                                 struct fault *fault) {
    TRY(json_require_hex(root, "key", progress->arguments_hash.bytes, HASH_BYTES, fault));
    TRY(require_u64(root, "batches", &progress->batches, fault));
    TRY(json_require_hex(root, "text_hash", progress->text_hash.bytes, HASH_BYTES, fault));
    for (int part = 0; part < CORPUS_PARTS; part++) {
        TRY(read_part(root, corpus_part_name((enum corpus_part)part), &progress->parts[part],
                      &progress->chats[part], fault));
    }
    return OK;
}

bool corpus_progress_read(const char *folder, struct corpus_progress *progress) {
    char path[PROGRESS_PATH_BYTES];
    char buffer[PROGRESS_BYTES];
    size_t length;
    struct fault fault;
    struct json_document document;
    struct corpus_progress read;
    path_join(folder, NAME, path, sizeof path);
    if (file_read_text(path, buffer, sizeof buffer, &length, &fault) != OK ||
        json_parse(buffer, length, sizeof buffer, path, &document, &fault) != OK) {
        return false;
    }
    const bool is_valid = read_progress(&document.root, &read, &fault) == OK;
    json_finish(&document);
    if (is_valid) {
        *progress = read;
    }
    return is_valid;
}

void corpus_progress_remove(const char *folder) {
    char path[PROGRESS_PATH_BYTES];
    path_join(folder, NAME, path, sizeof path);
    unlink(path);
}
