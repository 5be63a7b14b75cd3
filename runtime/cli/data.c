/* data: `skep data IN... --model M -o DIR` makes token files from text. With --ids or --decode it
 * prints ids or text instead (runtime/cli/reports). */
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/data_ids.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/corpus.h"
#include "runtime/corpus/tokenizer_folder.h"
#include "targets/os/machine.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

enum { ROW_TOKENS_DEFAULT = 2048 }; /* number of tokens of a row if --sequence is not given */

struct chat_request { /* options of `skep data --chat`; NULL and 0: not given */
    /* values of the options; NULL: not given */
    const char *template_name, *date, *thinking, *long_text;
    /* number of tokens of a row from --sequence; 0: not given */
    int64_t row_tokens;
    bool parses_special; /* --parse-special */
};

struct request { /* options of `skep data` */
    /* values of the options; NULL: not given */
    const char *model, *folder, *field, *document_token, *validation;
    const char *ids_path, *decode_path; /* files for --ids and --decode; NULL: not requested */
    int64_t threads, shard_tokens;      /* values of --threads and --shard-tokens; 0: not given */
    bool is_strict, is_literal, is_special, json; /* --strict, --literal, --special, --json */
    bool is_chat;                                 /* --chat */
    struct chat_request chat;                     /* options for --chat */
};

/* ---- options ---- */

/* The mode of the command: what it reads and prints or writes. */
enum mode { MODE_TEXT = 1, MODE_CHAT = 2, MODE_IDS = 4, MODE_DECODE = 8 };

static enum mode mode_of(const struct request *request) {
    return request->ids_path != NULL      ? MODE_IDS
           : request->decode_path != NULL ? MODE_DECODE
           : request->is_chat             ? MODE_CHAT
                                          : MODE_TEXT;
}

static const char *mode_option(enum mode mode) {
    return mode == MODE_IDS ? "--ids" : mode == MODE_DECODE ? "--decode" : "--chat";
}

/* An option, and the modes in which it has an effect. */
struct option_use {
    const char *name;
    bool is_given;
    unsigned modes;
};

static enum status option_fault(const struct option_use *use, enum mode mode, struct fault *fault) {
    if (mode != MODE_TEXT) {
        return fault_set(fault, STATUS_USAGE, use->name, "leave out one of the two",
                         "is not for %s", mode_option(mode));
    }
    return (use->modes & MODE_CHAT) != 0
               ? fault_set(fault, STATUS_USAGE, use->name, "add --chat, or leave this option out",
                           "is only for conversations")
               : fault_set(fault, STATUS_USAGE, use->name,
                           "add one of them, or leave this option out",
                           "is only for --ids and --decode");
}

/* Rejects an option that would have no effect in the mode of the command. */
static enum status check_modes(const struct request *request, struct fault *fault) {
    const enum mode mode = mode_of(request);
    const struct chat_request *chat = &request->chat;
    const unsigned writes = MODE_TEXT | MODE_CHAT;
    const struct option_use uses[] = {
        {"-o", request->folder != NULL, writes},
        {"--validation", request->validation != NULL, writes},
        {"--field", request->field != NULL, MODE_TEXT},
        {"--document-token", request->document_token != NULL, MODE_TEXT},
        {"--strict", request->is_strict, writes},
        {"--literal", request->is_literal, MODE_TEXT | MODE_IDS},
        {"--shard-tokens", request->shard_tokens > 0, writes},
        {"--threads", request->threads > 0, writes},
        {"--special", request->is_special, MODE_IDS | MODE_DECODE},
        {"--chat", request->is_chat, MODE_CHAT},
        {"--template", chat->template_name != NULL, MODE_CHAT},
        {"--sequence", chat->row_tokens > 0, MODE_CHAT},
        {"--long", chat->long_text != NULL, MODE_CHAT},
        {"--date", chat->date != NULL, MODE_CHAT},
        {"--thinking", chat->thinking != NULL, MODE_CHAT},
        {"--parse-special", chat->parses_special, MODE_CHAT},
        {"--json", request->json, writes}};
    for (size_t i = 0; i < ARRAY_COUNT(uses); i++) {
        if (uses[i].is_given && (uses[i].modes & mode) == 0) {
            return option_fault(&uses[i], mode, fault);
        }
    }
    return OK;
}

static enum status check_options(const struct request *request, const struct invocation *invocation,
                                 struct fault *fault) {
    const bool prints = request->ids_path != NULL || request->decode_path != NULL;
    if (request->model == NULL) {
        return fault_set(fault, STATUS_USAGE, "data", "add --model FOLDER",
                         "the model whose tokenizer makes the tokens is missing");
    }
    if (prints && invocation->input_count > 0) {
        return fault_set(fault, STATUS_USAGE, "data", "leave out IN and -o",
                         "--ids and --decode take no IN and write no files");
    }
    if (request->ids_path != NULL && request->decode_path != NULL) {
        return fault_set(fault, STATUS_USAGE, "data", "pass only one of them",
                         "--ids and --decode contradict each other");
    }
    if (!prints && invocation->input_count == 0) {
        return fault_set(fault, STATUS_USAGE, "data", "pass text files, folders, or - for a pipe",
                         "the input is missing");
    }
    if (!prints && (request->folder == NULL || *request->folder == '\0')) {
        return fault_set(fault, STATUS_USAGE, "data", "add -o DIR",
                         "the folder of the token files is missing");
    }
    return check_modes(request, fault);
}

/* Reads a share such as "1%" or "0.5 %" into *share_ppm, in millionths. */
static enum status read_share(const char *value, uint64_t *share_ppm, struct fault *fault) {
    char number[32];
    double percent = 0;
    const size_t length = value == NULL ? 0 : strcspn(value, " %");
    *share_ppm = 0;
    if (value == NULL) {
        return OK;
    }
    snprintf(number, sizeof number, "%.*s", (int)(length < 31 ? length : 31), value);
    const bool is_percent = strcmp(value + length, "%") == 0 || strcmp(value + length, " %") == 0;
    if (!is_percent || !text_parse_f64(number, &percent) || !(percent >= 0.001 && percent <= 50)) {
        return fault_set(fault, STATUS_USAGE, "--validation", "write a share such as 1%",
                         "\"%s\" is not from 0.001%% to 50%%", value);
    }
    *share_ppm = (uint64_t)(percent * 1e4 + 0.5);
    return OK;
}

static enum status choose_document_token(const struct tokenizer *tokenizer, const char *text,
                                         int32_t *token, struct fault *fault) {
    if (text != NULL && strcmp(text, "none") == 0) {
        *token = TOKENIZER_NO_ID;
        return OK;
    }
    *token = text == NULL ? tokenizer_info(tokenizer)->document_id
                          : tokenizer_token_id(tokenizer, text, strlen(text));
    if (*token != TOKENIZER_NO_ID) {
        return OK;
    }
    return text == NULL
               ? fault_set(fault, STATUS_INPUT, "tokenizer", "add --document-token TOKEN, or none",
                           "specifies no token that ends a document")
               : fault_set(fault, STATUS_USAGE, "--document-token",
                           "write the text of a token, such as <|endoftext|>, or none",
                           "the tokenizer has no token \"%.100s\"", text);
}

static int thread_count(const struct request *request) {
    struct machine machine;
    if (request->threads > 0) {
        return (int)request->threads;
    }
    machine_read("", &machine);
    return machine.cpu_count < THREADS_MAX ? machine.cpu_count : THREADS_MAX;
}

/* ---- conversations ---- */

/* Reads an option that has one of two values. */
static enum status read_choice(const char *option, const char *value, const char *first,
                               const char *second, bool *is_first, struct fault *fault) {
    char remedy[64];
    if (value == NULL) {
        return OK;
    }
    *is_first = strcmp(value, first) == 0;
    if (*is_first || strcmp(value, second) == 0) {
        return OK;
    }
    snprintf(remedy, sizeof remedy, "write %s or %s", first, second);
    return fault_set(fault, STATUS_USAGE, option, remedy, "\"%.40s\" is neither %s nor %s", value,
                     first, second);
}

static enum status write_chats(const struct chat_request *request, const char *model_folder,
                               struct chat_corpus_options *options, bool json,
                               struct invocation *invocation) {
    struct fault *fault = &invocation->fault;
    struct chat_corpus_report report;
    struct chat_options chat;
    bool is_thinking = true;
    TRY(read_choice("--thinking", request->thinking, "on", "off", &is_thinking, fault));
    TRY(read_choice("--long", request->long_text, "cut", "drop", &options->cuts_long, fault));
    TRY(chat_options_find(model_folder, request->template_name, options->tokenizer,
                          &invocation->region, &chat, fault));
    chat.date = request->date != NULL ? request->date : chat.date;
    chat.guard = request->parses_special ? NULL : chat.guard;
    chat.is_thinking = is_thinking;
    options->row_tokens = request->row_tokens > 0 ? request->row_tokens : ROW_TOKENS_DEFAULT;
    options->chat = &chat;
    TRY(chat_corpus_write(options, &invocation->region, &report, fault));
    (json ? chats_print_json : chats_print_report)(options, &report);
    return OK;
}

/* ---- the command ---- */

static enum status write_corpus(struct invocation *invocation, const struct tokenizer *tokenizer) {
    const struct request *request = invocation->request;
    struct fault *fault = &invocation->fault;
    struct corpus_report report;
    struct corpus_options options = {
        .paths = invocation->inputs,
        .path_count = invocation->input_count,
        .folder = request->folder,
        .tokenizer = tokenizer,
        .field = request->field != NULL ? request->field : CORPUS_FIELD,
        .is_stdin_json = request->field != NULL,
        .is_strict = request->is_strict,
        .is_literal = request->is_literal,
        .shard_tokens = request->shard_tokens > 0 ? request->shard_tokens : CORPUS_SHARD_TOKENS,
        .threads = thread_count(request)};
    TRY(read_share(request->validation, &options.validation_ppm, fault));
    TRY(choose_document_token(tokenizer, request->document_token, &options.document_token, fault));
    watch_stop_signals();
    TRY(corpus_write(&options, &invocation->region, &report, fault));
    (request->json ? data_print_json : data_print_report)(&options, &report);
    return OK;
}

static enum status write_chat_corpus(struct invocation *invocation,
                                     const struct tokenizer *tokenizer, const char *model_folder) {
    const struct request *request = invocation->request;
    struct fault *fault = &invocation->fault;
    struct chat_corpus_options options = {
        .paths = invocation->inputs,
        .path_count = invocation->input_count,
        .folder = request->folder,
        .tokenizer = tokenizer,
        .is_strict = request->is_strict,
        .shard_tokens = request->shard_tokens > 0 ? request->shard_tokens : CORPUS_SHARD_TOKENS,
        .threads = thread_count(request)};
    TRY(read_share(request->validation, &options.validation_ppm, fault));
    watch_stop_signals();
    return write_chats(&request->chat, model_folder, &options, request->json, invocation);
}

/* After a signal. */
static enum status report_stop(const struct request *request, struct fault *fault) {
    if (!corpus_has_progress(request->folder)) {
        return fault_set(fault, STATUS_FAILED, request->folder,
                         "run the command again, which starts over",
                         "stopped before any progress was saved");
    }
    log_line(LOG_INFO, "stopped; the progress is saved, and the same command continues");
    return STATUS_STOPPED;
}

/* Returns a path without '/' at its end. */
static const char *trim_slashes(const char *path, struct region *region) {
    int length = (int)strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    return region_format(region, "%.*s", length, path);
}

static enum status run_data(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct fault *fault = &invocation->fault;
    const struct tokenizer *tokenizer;
    char folder[PATH_BYTES];
    TRY(check_options(request, invocation, fault));
    if (request->folder != NULL) {
        request->folder = trim_slashes(request->folder, &invocation->region);
    }
    TRY(tokenizer_folder_find(request->model, folder, fault));
    TRY(tokenizer_load(folder, &invocation->region, &tokenizer, fault));
    if (request->ids_path != NULL) {
        const struct tokenizer_options options = {.adds_special_tokens = request->is_special,
                                                  .is_literal = request->is_literal};
        return data_print_ids(tokenizer, request->ids_path, &options, fault);
    }
    if (request->decode_path != NULL) {
        return data_print_text(tokenizer, request->decode_path, !request->is_special, fault);
    }
    tokenizer_folder_warn(folder, tokenizer);
    const enum status status = request->is_chat ? write_chat_corpus(invocation, tokenizer, folder)
                                                : write_corpus(invocation, tokenizer);
    if (status == STATUS_FIT && fault->remedy[0] == '\0') {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "free disk space, and run the command again%s",
                 corpus_has_progress(request->folder) ? ": it continues" : "");
    }
    return status == STATUS_STOPPED ? report_stop(request, fault) : status;
}

static const struct option OPTIONS[] = {
    {OPTION("--model", TEXT, model), .value_name = "MODEL",
     .help = "model whose tokenizer makes the tokens: a folder, or org/name from the Hub cache; "
             "required",
     .example = "book.txt --model my-model -o tokens"},
    {OPTION("-o", TEXT, folder), .value_name = "DIR",
     .help = "folder for the token files, which must not exist yet",
     .example = "book.txt --model my-model -o tokens"},
    {OPTION("--validation", TEXT, validation), .value_name = "P%",
     .help = "share of the documents to hold out for validation; the choice is the same on every "
             "machine",
     .example = "books --model my-model -o tokens --validation 1%"},
    {OPTION("--field", TEXT, field), .value_name = "NAME",
     .help = "field of JSON lines that contains the text; default: text; with it, standard input "
             "contains JSON lines",
     .example = "posts.jsonl --model my-model -o tokens --field body"},
    {OPTION("--document-token", TEXT, document_token), .value_name = "TOKEN",
     .help = "token that follows each document, or none; default: the tokenizer's end of text",
     .example = "books --model my-model -o tokens --document-token none"},
    {OPTION("--strict", FLAG, is_strict),
     .help = "reject a file that is not UTF-8; otherwise U+FFFD replaces what is ill-formed",
     .example = "books --model my-model -o tokens --strict"},
    {OPTION("--literal", FLAG, is_literal),
     .help = "encode the texts of special tokens, such as <|endoftext|>, as any other text",
     .example = "books --model my-model -o tokens --literal"},
    {OPTION("--shard-tokens", INTEGER, shard_tokens), .minimum = 1, .maximum = SHARD_TOKENS_MAX,
     .value_name = "N", .help = "tokens in a full token file; default: 100 million",
     .example = "books --model my-model -o tokens --shard-tokens 10000000"},
    {OPTION("--threads", INTEGER, threads), .minimum = 0, .maximum = THREADS_MAX, .value_name = "N",
     .help = "number of threads; default: one for each CPU",
     .example = "books --model my-model -o tokens --threads 4"},
    {OPTION("--ids", TEXT, ids_path), .value_name = "FILE",
     .help = "print the ids of each line of FILE as one JSON array, and write no files",
     .example = "--ids prompts.txt --model my-model"},
    {OPTION("--decode", TEXT, decode_path), .value_name = "FILE",
     .help = "print the text of the ids in each line of FILE, and write no files",
     .example = "--decode ids.txt --model my-model"},
    {OPTION("--special", FLAG, is_special),
     .help = "with --ids, add the special tokens that the model expects; with --decode, print them",
     .example = "--ids prompts.txt --model my-model --special"},
    {OPTION("--chat", FLAG, is_chat),
     .help = "the input is conversations: JSON lines with `messages`, rendered by the model's chat "
             "template; only answers are trained",
     .example = "chats.jsonl --model my-model -o chats --chat"},
    {OPTION("--template", TEXT, chat.template_name), .value_name = "NAME",
     .help = "chat template: chatml, llama3, mistral or qwen3; default: the model's, if skep knows "
             "it",
     .example = "chats.jsonl --model my-model -o chats --chat --template chatml"},
    {OPTION("--sequence", INTEGER, chat.row_tokens), .minimum = CHAT_ROW_TOKENS_MIN,
     .maximum = CHAT_ROW_TOKENS_MAX, .value_name = "N",
     .help = "tokens of a row of conversations; train needs the same batch.sequence; default: 2048",
     .example = "chats.jsonl --model my-model -o chats --chat --sequence 1024"},
    {OPTION("--long", TEXT, chat.long_text), .value_name = "cut|drop",
     .help = "cut or drop conversations that are longer than a row; default: drop",
     .example = "chats.jsonl --model my-model -o chats --chat --long cut"},
    {OPTION("--date", TEXT, chat.date), .value_name = "DATE",
     .help = "date that the template of Llama 3.1 and later prints; default: 26 Jul 2024",
     .example = "chats.jsonl --model my-model -o chats --chat --date \"01 Jan 2026\""},
    {OPTION("--thinking", TEXT, chat.thinking), .value_name = "on|off",
     .help = "whether an answer without thoughts is trained with Qwen 3's empty block of thoughts; "
             "default: on",
     .example = "chats.jsonl --model my-model -o chats --chat --thinking off"},
    {OPTION("--parse-special", FLAG, chat.parses_special),
     .help = "with --chat, accept control tokens, such as <|im_end|>, in the text of messages",
     .example = "chats.jsonl --model my-model -o chats --chat --parse-special"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "book.txt --model my-model -o tokens --json"},
};

const struct command COMMAND_DATA = {
    .name = "data",
    .arguments = "IN...",
    .summary = "make token files from text with a model's tokenizer",
    .details =
        "IN is a text file, which is one document; a .jsonl file, each line of which is one "
        "document; either of them compressed as .gz or .zst; a folder of such files; or - for "
        "standard input. An interrupted command continues when it is run again; if it was "
        "stopped before any progress was saved, its exit code is 1. DIR appears only when all "
        "token files are complete.",
    .example = "book.txt --model my-model -o tokens --validation 5%",
    .takes_inputs = true,
    .runs_long = true,
    REQUEST_OPTIONS,
    .run = run_data,
};
