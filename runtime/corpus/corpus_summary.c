#include "runtime/corpus/corpus_summary.h"

#include "base/file.h"
#include "base/json_write.h"
#include "base/limits.h"

enum { SUMMARY_BYTES = 4096 }; /* size of the summary */

static void add_part(struct json_writer *json, const char *name,
                     const struct corpus_part_report *part) {
    json_begin_object(json_newline(json, 2), name);
    json_add_i64(json, "files", part->shards);
    json_add_u64(json, "tokens", part->tokens);
    json_add_u64(json, "documents", part->documents);
    json_add_u64(json, "text_bytes", part->text_bytes);
    json_end(json);
}

enum status corpus_summary_write(const char *folder, const struct corpus_options *options,
                                 const struct corpus_report *report, struct fault *fault) {
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    char path[2 * PATH_BYTES];
    char buffer[SUMMARY_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    json_add_u64(json_newline(&json, 2), "format", 1);
    json_add_hex(json_newline(&json, 2), "tokenizer", info->hash.bytes, HASH_BYTES);
    json_add_i64(json_newline(&json, 2), "tokenizer_version", TOKENIZER_ALGORITHM);
    json_add_i64(json_newline(&json, 2), "vocabulary", info->id_count);
    json_add_i64(json_newline(&json, 2), "document_token", options->document_token);
    add_part(&json, "train", &report->train);
    add_part(&json, "validation", &report->validation);
    json_add_u64(json_newline(&json, 2), "replaced_sequences", report->replacements);
    json_add_u64(json_newline(&json, 2), "empty_documents", report->empty_documents);
    json_end(json_newline(&json, 0));
    text_add(&text, "\n");
    ASSERT(!text.truncated);
    path_join(folder, "data.json", path, sizeof path);
    return file_write_new(path, text.bytes, text.length, fault);
}
