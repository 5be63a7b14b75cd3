#include "runtime/corpus/corpus_summary.h"

#include "base/file.h"
#include "base/json_write.h"
#include "base/limits.h"

enum { SUMMARY_BYTES = 4096 }; /* maximum size of the summary */

void corpus_part_add_json(struct json_writer *json, const char *name,
                          const struct corpus_part_report *part) {
    json_begin_object(json, name);
    json_add_i64(json, "files", part->shards);
    json_add_u64(json, "tokens", part->tokens);
    json_add_u64(json, "documents", part->documents);
    json_add_u64(json, "text_bytes", part->text_bytes);
    json_end(json);
}

static void begin_summary(struct json_writer *json, const struct tokenizer *tokenizer) {
    const struct tokenizer_info *info = tokenizer_info(tokenizer);
    json_begin_object(json, NULL);
    json_add_u64(json_newline(json, 2), "format", 1);
    json_add_hex(json_newline(json, 2), "tokenizer", info->hash.bytes, HASH_BYTES);
    json_add_i64(json_newline(json, 2), "tokenizer_version", TOKENIZER_ALGORITHM);
    json_add_i64(json_newline(json, 2), "vocabulary", info->id_count);
}

static enum status end_summary(struct json_writer *json, struct text *text, const char *folder,
                               struct fault *fault) {
    char path[2 * PATH_BYTES];
    json_end(json_newline(json, 0));
    text_add(text, "\n");
    ASSERT(!text->truncated);
    path_join(folder, "data.json", path, sizeof path);
    return file_write_new(path, text->bytes, text->length, fault);
}

enum status corpus_summary_write(const char *folder, const struct corpus_options *options,
                                 const struct corpus_report *report, struct fault *fault) {
    char buffer[SUMMARY_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    struct json_writer json = json_writer_over(&text);
    begin_summary(&json, options->tokenizer);
    json_add_i64(json_newline(&json, 2), "document_token", options->document_token);
    corpus_part_add_json(json_newline(&json, 2), "train", &report->train);
    corpus_part_add_json(json_newline(&json, 2), "validation", &report->validation);
    json_add_u64(json_newline(&json, 2), "replaced_sequences", report->replacements);
    json_add_u64(json_newline(&json, 2), "empty_documents", report->empty_documents);
    return end_summary(&json, &text, folder, fault);
}

/* ---- conversations ---- */

void chat_part_add_json(struct json_writer *json, const char *name,
                        const struct chat_part_report *part) {
    json_begin_object(json, name);
    json_add_i64(json, "files", part->shards);
    json_add_u64(json, "rows", part->rows);
    json_add_u64(json, "conversations", part->conversations);
    json_add_u64(json, "tokens", part->tokens);
    json_add_u64(json, "trained", part->trained);
    json_add_u64(json, "long", part->long_count);
    json_add_u64(json, "untrained", part->untrained_count);
    json_end(json);
}

enum status chat_summary_write(const char *folder, const struct chat_corpus_options *options,
                               const struct chat_corpus_report *report, struct fault *fault) {
    char buffer[SUMMARY_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    struct json_writer json = json_writer_over(&text);
    begin_summary(&json, options->tokenizer);
    json_add_text(json_newline(&json, 2), "template", chat_template_name(options->chat->chat));
    json_add_i64(json_newline(&json, 2), "sequence", options->row_tokens);
    chat_part_add_json(json_newline(&json, 2), "train", &report->parts[0]);
    chat_part_add_json(json_newline(&json, 2), "validation", &report->parts[1]);
    json_add_u64(json_newline(&json, 2), "replaced_sequences", report->replacements);
    return end_summary(&json, &text, folder, fault);
}
