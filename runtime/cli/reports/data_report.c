#include "base/text.h"
#include "runtime/cli/reports/reports.h"

#include <stdio.h>
#include <string.h>

/* ---- text ---- */

static void print_part(const char *name, const struct corpus_part_report *part) {
    char tokens[32], documents[32], bytes[24];
    if (part->tokens == 0) {
        return;
    }
    printf("%-12s%s tokens in %lld file%s, %s document%s, %s of text, %.2f bytes a token\n", name,
           text_format_grouped(part->tokens, tokens), (long long)part->shards,
           part->shards == 1 ? "" : "s", text_format_grouped(part->documents, documents),
           part->documents == 1 ? "" : "s", text_format_bytes(part->text_bytes, bytes),
           (double)part->text_bytes / (double)part->tokens);
}

/* Prints how many files were skipped. `path` is the first of these files. */
static void print_skipped(int count, const char *path) {
    if (count > 0) {
        printf("skipped     %d file%s that %s neither text nor JSON lines, such as %s\n", count,
               count == 1 ? "" : "s", count == 1 ? "is" : "are", path);
    }
}

/* Whether a path needs no quotes in YAML, nor an escape in a pattern. */
static bool is_plain(const char *path) {
    return path[0] != '-' &&
           path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                             "0123456789_./-")] == '\0';
}

/* Prints the key and the path pattern of the files of a part ("train" or "validation"), in YAML. */
static void print_pattern(const char *folder, const char *part) {
    const char *quote = is_plain(folder) ? "" : "\"";
    printf("%s: %s", part, quote);
    for (const char *c = folder; *c != '\0'; c++) {
        char pattern[3], escaped[16];
        struct text text = text_over(escaped, sizeof escaped);
        snprintf(pattern, sizeof pattern, strchr("*?[]\\", *c) != NULL ? "\\%c" : "%c", *c);
        text_add_escaped(&text, pattern, strlen(pattern));
        printf("%s", escaped);
    }
    printf("/%s_*.bin%s", part, quote);
}

/* Prints the line of a run file with which a run reads the token files. */
static void print_data_line(const char *folder, bool has_validation) {
    printf("data: {");
    print_pattern(folder, "train");
    if (has_validation) {
        printf(", ");
        print_pattern(folder, "validation");
    }
    printf("}\n");
}

/* Prints how much ill-formed UTF-8 was replaced. `path` is the first file with such bytes; NULL: no
 * file is known. */
static void print_replaced(uint64_t count, const char *path, uint64_t offset) {
    char number[32];
    if (count == 0) {
        return;
    }
    printf("replaced    %s ill-formed UTF-8 sequence%s by U+FFFD",
           text_format_grouped(count, number), count == 1 ? "" : "s");
    if (path != NULL) {
        printf("; the first in %s at byte %llu", path, (unsigned long long)offset);
    }
    printf("\n");
}

void data_print_report(const struct corpus_options *options, const struct corpus_report *report) {
    char count[32];
    print_part("train", &report->train);
    print_part("validation", &report->validation);
    print_replaced(report->replacements, report->replaced_path, report->replaced_offset);
    print_skipped(report->skipped_count, report->skipped_path);
    if (report->empty_documents > 0) {
        printf("left out    %s empty document%s\n",
               text_format_grouped(report->empty_documents, count),
               report->empty_documents == 1 ? "" : "s");
    }
    printf("run file    ");
    print_data_line(options->folder, report->validation.tokens > 0);
}

void data_print_json(const struct corpus_options *options, const struct corpus_report *report) {
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "folder", options->folder);
    json_add_hex(json, "tokenizer", info->hash.bytes, HASH_BYTES);
    json_add_i64(json, "document_token", options->document_token);
    corpus_part_add_json(json, "train", &report->train);
    corpus_part_add_json(json, "validation", &report->validation);
    json_add_u64(json, "replaced_sequences", report->replacements);
    json_add_u64(json, "empty_documents", report->empty_documents);
    json_add_i64(json, "skipped_files", report->skipped_count);
    json_stdout_end(&out);
}

/* ---- conversations ---- */

static void print_chat_part(const char *name, const struct chat_part_report *part,
                            int64_t row_tokens) {
    char tokens[32], trained[32], rows[32], conversations[32];
    const double room = (double)part->rows * (double)row_tokens;
    if (part->rows == 0) {
        return;
    }
    printf("%-12s%s tokens, %s of them trained, in %s row%s of %lld, %.2f %% empty, %lld file%s; "
           "%s conversation%s\n",
           name, text_format_grouped(part->tokens, tokens),
           text_format_grouped(part->trained, trained), text_format_grouped(part->rows, rows),
           part->rows == 1 ? "" : "s", (long long)row_tokens,
           100 * (1 - (double)part->tokens / room), (long long)part->shards,
           part->shards == 1 ? "" : "s", text_format_grouped(part->conversations, conversations),
           part->conversations == 1 ? "" : "s");
}

static void print_conversations(const char *name, uint64_t count, const char *which) {
    char number[32];
    if (count > 0) {
        printf("%-12s%s conversation%s %s\n", name, text_format_grouped(count, number),
               count == 1 ? "" : "s", which);
    }
}

void chats_print_report(const struct chat_corpus_options *options,
                        const struct chat_corpus_report *report) {
    const struct chat_part_report *train = &report->parts[0];
    const struct chat_part_report *validation = &report->parts[1];
    printf("template    %s\n", chat_template_name(options->chat->chat));
    print_chat_part("train", train, options->row_tokens);
    print_chat_part("validation", validation, options->row_tokens);
    print_conversations(options->cuts_long ? "cut" : "left out",
                        train->long_count + validation->long_count, "longer than a row");
    print_conversations("left out", train->untrained_count + validation->untrained_count,
                        "without an answer to train");
    print_skipped(report->skipped_count, report->skipped_path);
    print_replaced(report->replacements, report->replaced_path, report->replaced_offset);
    printf("run file    batch.sequence: %lld, ", (long long)options->row_tokens);
    print_data_line(options->folder, validation->rows > 0);
}

void chats_print_json(const struct chat_corpus_options *options,
                      const struct chat_corpus_report *report) {
    const struct tokenizer_info *info = tokenizer_info(options->tokenizer);
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "folder", options->folder);
    json_add_hex(json, "tokenizer", info->hash.bytes, HASH_BYTES);
    json_add_text(json, "template", chat_template_name(options->chat->chat));
    json_add_i64(json, "sequence", options->row_tokens);
    chat_part_add_json(json, "train", &report->parts[0]);
    chat_part_add_json(json, "validation", &report->parts[1]);
    json_add_u64(json, "long", report->parts[0].long_count + report->parts[1].long_count);
    json_add_u64(json, "untrained",
                 report->parts[0].untrained_count + report->parts[1].untrained_count);
    json_add_u64(json, "replaced_sequences", report->replacements);
    json_stdout_end(&out);
}
