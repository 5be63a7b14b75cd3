#include "runtime/data/text_tokens.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/corpus.h"
#include "runtime/corpus/input_list.h"
#include "runtime/corpus/tokenizer_folder.h"
#include "runtime/data/cache_folder.h"
#include "runtime/data/token_cache.h"
#include "targets/os/machine.h"

#include <stdio.h>
#include <string.h>

/* number of hexadecimal digits of a hash in the name of a cache folder */
enum { FOLDER_DIGITS = 32 };

/* Whether any of the files is text. *is_mixed is set if any other file is not text. */
static bool contains_text(const struct path_list *list, bool *is_mixed) {
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        count += input_path_is_text(list->paths[i]);
    }
    *is_mixed = count > 0 && count < list->count;
    return count > 0;
}

/* The text or conversations to tokenise, and the parameters. */
struct text_source {
    const struct path_list *paths; /* files and patterns that the run lists */
    const struct tokenizer *tokenizer;
    const struct chat_options *chat; /* template for conversations; NULL: the files have text */
    int64_t row_tokens;              /* number of tokens in a row of conversations */
    int threads;
    const char *folder; /* folder for the token files */
};

/* Returns a hash of everything that determines the tokens. Of each file it covers the time instead
 * of the content, because a file that changes gets another time. */
static struct hash hash_source(const struct text_source *source, const struct input_list *inputs) {
    const struct chat_options *chat = source->chat;
    const int64_t words[] = {TOKENIZER_ALGORITHM, chat != NULL,
                             chat != NULL ? source->row_tokens : 0};
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, tokenizer_info(source->tokenizer)->hash.bytes, HASH_BYTES);
    hash_add(&state, words, sizeof words);
    if (chat != NULL) {
        const char *texts[] = {chat_template_name(chat->chat), chat->date, chat->bos, chat->eos};
        for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
            hash_add(&state, texts[i], strlen(texts[i]) + 1);
        }
    }
    for (int i = 0; i < inputs->count; i++) {
        const char *path = inputs->inputs[i].path;
        const struct file_stamp stamp = file_stamp_of(path);
        hash_add(&state, path, strlen(path) + 1);
        hash_add(&state, &stamp, sizeof stamp);
    }
    return hash_end(&state);
}

static enum status write_text(const struct text_source *source, struct region *region,
                              struct fault *fault) {
    struct corpus_report report;
    char tokens[24];
    const struct corpus_options options = {.paths = source->paths->paths,
                                           .path_count = source->paths->count,
                                           .folder = source->folder,
                                           .waits = true,
                                           .tokenizer = source->tokenizer,
                                           .document_token =
                                               tokenizer_info(source->tokenizer)->document_id,
                                           .field = CORPUS_FIELD,
                                           .shard_tokens = CORPUS_SHARD_TOKENS,
                                           .threads = source->threads};
    TRY(corpus_write(&options, region, &report, fault));
    log_line(LOG_INFO, "%s tokens of %llu document%s",
             text_format_count((double)report.train.tokens, tokens),
             (unsigned long long)report.train.documents, report.train.documents == 1 ? "" : "s");
    if (report.replacements > 0) {
        log_line(LOG_WARNING, "%s: %llu sequences are not UTF-8, the first at byte %llu",
                 report.replaced_path != NULL ? report.replaced_path : source->paths->paths[0],
                 (unsigned long long)report.replacements,
                 (unsigned long long)report.replaced_offset);
    }
    return OK;
}

static enum status write_chats(const struct text_source *source, struct region *region,
                               struct fault *fault) {
    struct chat_corpus_report report;
    char tokens[24];
    const struct chat_corpus_options options = {.paths = source->paths->paths,
                                                .path_count = source->paths->count,
                                                .folder = source->folder,
                                                .waits = true,
                                                .tokenizer = source->tokenizer,
                                                .chat = source->chat,
                                                .row_tokens = source->row_tokens,
                                                .shard_tokens = CORPUS_SHARD_TOKENS,
                                                .threads = source->threads};
    TRY(chat_corpus_write(&options, region, &report, fault));
    const struct chat_part_report *train = &report.parts[0];
    log_line(LOG_INFO, "%s tokens of %llu conversation%s in rows of %lld, template %s",
             text_format_count((double)train->tokens, tokens),
             (unsigned long long)train->conversations, train->conversations == 1 ? "" : "s",
             (long long)source->row_tokens, chat_template_name(source->chat->chat));
    if (train->long_count + train->untrained_count > 0) {
        log_line(LOG_WARNING,
                 "%s: left out %llu conversations that are longer than a row and %llu without an "
                 "answer",
                 source->paths->paths[0], (unsigned long long)train->long_count,
                 (unsigned long long)train->untrained_count);
    }
    return OK;
}

static enum status write_tokens(const struct text_source *source, struct region *region,
                                struct fault *fault) {
    char parent[PATH_BYTES];
    char size[24];
    file_parent_folder(source->folder, parent, sizeof parent);
    TRY(file_make_folders(parent, fault));
    log_line(LOG_INFO, "tokenising %s%s into %s", source->paths->paths[0],
             source->paths->count > 1 ? " and other files" : "", source->folder);
    TRY(source->chat != NULL ? write_chats(source, region, fault)
                             : write_text(source, region, fault));
    log_line(LOG_INFO, "the cache %s has %s; any folder in it may be removed", parent,
             text_format_bytes(cache_folder_bytes(parent), size));
    return OK;
}

/* Lists the token files in the cache folder; returns false if it has none. A damaged folder is
 * removed. */
static bool find_tokens(const struct text_source *source, struct region *region,
                        struct path_list *list) {
    const struct path_list *paths = source->paths;
    struct fault fault;
    if (!file_exists(source->folder)) {
        return false;
    }
    if (token_cache_list(source->folder, region, list, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; making the tokens again", fault.subject, fault.reason);
        corpus_remove(source->folder);
        return false;
    }
    log_line(LOG_INFO, "using the tokens of %s%s in %s", paths->paths[0],
             paths->count > 1 ? " and other files" : "", source->folder);
    return true;
}

/* Logs what remains of an attempt at tokenising that has failed, or adds a remedy to its fault.
 * Returns `status`. */
static enum status explain_failure(const struct text_source *source, enum status status,
                                   struct fault *fault) {
    char parent[PATH_BYTES];
    file_parent_folder(source->folder, parent, sizeof parent);
    if (status == STATUS_STOPPED) {
        log_line(LOG_INFO, "stopped while tokenising; %s",
                 corpus_has_progress(source->folder)
                     ? "the progress is saved, and the same command continues"
                     : "the same command starts over");
    } else if (status == STATUS_FIT && fault->remedy[0] == '\0') {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "free space there, or set XDG_CACHE_HOME to a folder on another disk");
    } else if (status == STATUS_FAILED && !file_is_folder(parent)) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "set XDG_CACHE_HOME to a folder that can be written");
    }
    return status;
}

/* Lists the token files in the cache, after making them if there are none. Another process may make
 * the same files at the same time, so after a failure the cache is read again. */
static enum status find_or_write_tokens(const struct text_source *source, struct region *scratch,
                                        struct region *region, struct path_list *list,
                                        struct fault *fault) {
    if (find_tokens(source, region, list)) {
        return OK;
    }
    const enum status status = write_tokens(source, scratch, fault);
    if (status == OK) {
        return token_cache_list(source->folder, region, list, fault);
    }
    return status != STATUS_STOPPED && find_tokens(source, region, list)
               ? OK
               : explain_failure(source, status, fault);
}

/* Determines the path of the cache folder for the tokens of a source. */
static enum status find_cache(const struct text_source *source, const struct input_list *inputs,
                              char folder[static PATH_BYTES], struct fault *fault) {
    char hex[HASH_HEX_BYTES];
    if (!cache_folder_path("tokens", folder, PATH_BYTES - sizeof hex)) {
        return fault_set(fault, STATUS_INPUT, source->paths->paths[0],
                         "set XDG_CACHE_HOME or HOME, or make tokens with `skep data`",
                         "is text, and there is no folder for a cache of its tokens");
    }
    const struct hash hash = hash_source(source, inputs);
    (void)hash_hex(&hash, hex);
    const size_t length = strlen(folder);
    snprintf(folder + length, PATH_BYTES - length, "/%.*s", FOLDER_DIGITS, hex);
    return OK;
}

static int thread_count(const struct settings *settings) {
    struct machine machine;
    machine_read("", &machine);
    const int64_t threads = settings->threads > 0 ? settings->threads : machine.cpu_count;
    return (int)min_i64(threads, THREADS_MAX);
}

static enum status tokenise_files(const struct settings *settings, const struct path_list *paths,
                                  struct region *scratch, struct region *region,
                                  struct path_list *list, struct fault *fault) {
    struct text_source source = {
        .paths = paths, .row_tokens = settings->sequence_tokens, .threads = thread_count(settings)};
    struct chat_options chat;
    struct input_list inputs;
    char model[PATH_BYTES];
    char folder[PATH_BYTES];
    TRY(tokenizer_folder_find(settings->model, model, fault));
    TRY(tokenizer_load(model, scratch, &source.tokenizer, fault));
    tokenizer_folder_warn(model, source.tokenizer);
    TRY(input_list_expand(paths->paths, paths->count, INPUT_TEXT, scratch, &inputs, fault));
    if (settings->chat_template != NULL || chat_corpus_is_chat(&inputs)) {
        TRY(chat_options_find(model, settings->chat_template, source.tokenizer, scratch, &chat,
                              fault));
        source.chat = &chat;
    }
    TRY(find_cache(&source, &inputs, folder, fault));
    source.folder = folder;
    TRY(find_or_write_tokens(&source, scratch, region, list, fault));
    list->source = region_copy_text(region, paths->paths[0]);
    return OK;
}

/* Expands the patterns of `list` into `paths`, and returns whether any of the files is text. A
 * pattern without a match is reported when the files are opened. */
static bool expands_to_text(const struct settings *settings, const struct path_list *list,
                            struct region *region, struct path_list *paths, bool *is_mixed) {
    struct hash ignored_hash;
    struct fault ignored;
    return list->count > 0 && settings->text_needs_tokenizer && settings->data_format == NULL &&
           settings->model != NULL && tokenizer_folder_hash(settings->model, &ignored_hash) &&
           path_list_expand(list, region, paths, &ignored) == OK && contains_text(paths, is_mixed);
}

bool data_is_text(const struct settings *settings, const struct path_list *list) {
    struct region scratch = {0};
    struct path_list paths;
    bool is_mixed = false;
    const bool is_text = expands_to_text(settings, list, &scratch, &paths, &is_mixed);
    region_finish(&scratch);
    return is_text;
}

enum status data_tokenise_list(const struct settings *settings, struct path_list *list,
                               struct region *region, struct fault *fault) {
    struct region scratch = {0};
    struct path_list paths;
    bool is_mixed = false;
    enum status status = OK;
    if (expands_to_text(settings, list, &scratch, &paths, &is_mixed)) {
        status = is_mixed ? fault_set(fault, STATUS_INPUT, paths.paths[0],
                                      "make tokens of the text with `skep data`, or list it alone",
                                      "is listed together with files of another kind; a list is "
                                      "of text or of tokens")
                          : tokenise_files(settings, &paths, &scratch, region, list, fault);
    }
    region_finish(&scratch);
    return status;
}

enum status data_tokenise_text(struct settings *settings, struct region *region,
                               struct fault *fault) {
    TRY(data_tokenise_list(settings, &settings->train_files, region, fault));
    return data_tokenise_list(settings, &settings->validation_files, region, fault);
}
