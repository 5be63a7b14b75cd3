/* generate: `skep generate MODEL --prompt TEXT` prints a continuation of the prompt, token by
 * token. With --chat it answers questions instead, each a line of standard input. */
#include "runtime/session/generate.h"

#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/dialog.h"
#include "runtime/cli/reports/generated_text.h"

#include <stdio.h>
#include <string.h>

enum {
    PROMPT_TOKENS_MAX = 1 << 16,    /* tokens of a prompt */
    GENERATED_TOKENS_DEFAULT = 200, /* tokens that are generated without --tokens */
    BYTE_VOCAB = 256,               /* token ids of a model whose tokens are bytes */
};

struct request {               /* options of `skep generate` and the prompt's tokens */
    const char *prompt;        /* text, or token ids separated by commas */
    int64_t seed, vocab;       /* random seed; number of token ids of the model */
    bool ids;                  /* the prompt and the output are token ids, not text */
    struct option_texts stops; /* texts that end the output */
    bool is_chat;              /* the prompt is a question, or standard input contains questions */
    struct dialog_choices chat;
    const struct tokenizer
        *tokenizer;             /* of the model; NULL: tokens are bytes, or ids are printed */
    struct dialog dialog;       /* with --chat */
    struct generated_text text; /* the output */
    struct generation generation;
    int32_t tokens[PROMPT_TOKENS_MAX]; /* token ids of the prompt */
};

static enum status add_token(struct request *request, int64_t token, struct fault *fault) {
    if (request->generation.prompt_tokens == PROMPT_TOKENS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--prompt", "shorten it", "more than %d tokens",
                         PROMPT_TOKENS_MAX);
    }
    request->tokens[request->generation.prompt_tokens++] = (int32_t)token;
    return OK;
}

/* Reads token ids separated by commas or spaces, such as "12,5 99" or "[12, 5, 99]". */
static enum status read_ids(struct request *request, struct fault *fault) {
    const char *at = request->prompt;
    at += strspn(at, "[, ");
    while (*at != '\0') {
        char number[32];
        int64_t id;
        size_t width = strcspn(at, ", ]");
        snprintf(number, sizeof number, "%.*s", (int)(width < 31 ? width : 31), at);
        if (!text_parse_i64(number, &id) || id < 0 || id > INT32_MAX) {
            return fault_set(fault, STATUS_USAGE, "--prompt",
                             "with --ids, write numbers separated by commas",
                             "\"%s\" is not a token id", number);
        }
        TRY(add_token(request, id, fault));
        at += width;
        at += strspn(at, ", ]");
    }
    return OK;
}

static enum status read_bytes(struct request *request, struct fault *fault) {
    if (request->vocab > BYTE_VOCAB) {
        return fault_set(fault, STATUS_USAGE, "--prompt",
                         "tokenise the prompt and pass it with --ids",
                         "the model has a vocabulary of %lld tokens, so its tokens are not bytes",
                         (long long)request->vocab);
    }
    for (const char *c = request->prompt; *c != '\0'; c++) {
        TRY(add_token(request, (unsigned char)*c, fault));
    }
    return OK;
}

/* Whether the run file says that tokens are bytes, whatever the model's folder contains. */
static bool tokens_are_bytes(const struct settings *settings) {
    const char *format = settings->data_format;
    return format != NULL && strcmp(format, "bytes") == 0;
}

/* Encodes the prompt as transformers does: with the special tokens of the tokenizer's template. */
static enum status encode_prompt(struct request *request, const struct session *session,
                                 struct region *region, struct fault *fault) {
    const struct tokenizer_options options = {.adds_special_tokens = true};
    struct token_list list;
    TRY(tokenizer_load(session->model_folder, region, &request->tokenizer, fault));
    const enum status status =
        tokenizer_encode(tokenizer_encoder_make(request->tokenizer, region), request->prompt,
                         strlen(request->prompt), &options, &list, fault);
    if (status != OK) {
        snprintf(fault->subject, sizeof fault->subject, "--prompt");
        return status;
    }
    for (size_t i = 0; i < list.count; i++) {
        TRY(add_token(request, list.ids[i], fault));
    }
    return OK;
}

static bool uses_tokenizer(const struct session *session) {
    return session->settings.text_needs_tokenizer && session->model_folder[0] != '\0' &&
           session->blueprint.has_tokenizer && !tokens_are_bytes(&session->settings);
}

/* Reads the prompt: as ids, as text for the model's tokenizer, or as bytes. */
static enum status read_prompt(struct request *request, struct session *session,
                               struct fault *fault) {
    if (request->ids) {
        return read_ids(request, fault);
    }
    return uses_tokenizer(session) ? encode_prompt(request, session, &session->region, fault)
                                   : read_bytes(request, fault);
}

static bool print_token(void *context, int32_t token) {
    struct request *request = context;
    char id[16];
    if (!request->ids) {
        return generated_text_add(&request->text, token);
    }
    const int length = snprintf(id, sizeof id, "%d ", token);
    return print_at_once(id, (size_t)length, &request->text.has_write_failed);
}

static enum status print_generated(struct request *request, struct session *session,
                                   struct fault *fault) {
    struct generated_text *text = &request->text;
    const struct generation *generation = &request->generation;
    generated_text_begin(text, request->tokens, generation->prompt_tokens);
    if (!request->ids &&
        !print_at_once(request->prompt, strlen(request->prompt), &text->has_write_failed)) {
        return OK;
    }
    TRY(generate_run(session, generation, print_token, request, fault));
    if (!text->has_write_failed) {
        generated_text_end(text);
        (void)print_at_once("\n", 1, &text->has_write_failed);
    }
    return OK;
}

/* ---- questions and answers ---- */

/* Prepares the conversation, and reads the only question if it is given. */
static enum status prepare_chat(struct request *request, struct session *session,
                                struct fault *fault) {
    struct region *region = &session->region;
    struct dialog *dialog = &request->dialog;
    struct dialog_choices choices = request->chat;
    if (choices.template_name == NULL) {
        choices.template_name = session->settings.chat_template;
    }
    if (!uses_tokenizer(session)) {
        return fault_set(fault, STATUS_INPUT, "--chat", "name a model folder with a tokenizer.json",
                         "the model has no tokenizer");
    }
    TRY(tokenizer_load(session->model_folder, region, &request->tokenizer, fault));
    TRY(dialog_init(dialog, &choices, session->model_folder, request->tokenizer, region, fault));
    request->generation.stop_token = chat_end_token(&dialog->chat, request->tokenizer);
    return request->prompt != NULL ? dialog_ask(dialog, request->prompt, fault) : OK;
}

/* Answers the last question, and adds the answer to the conversation. */
static enum status answer(struct request *request, struct session *session, struct fault *fault) {
    struct generated_text *text = &request->text;
    struct generation *generation = &request->generation;
    struct token_list list;
    TRY(dialog_prompt(&request->dialog, session->settings.context_tokens, &list, fault));
    generation->prompt = list.ids;
    generation->prompt_tokens = (int64_t)list.count;
    generated_text_begin(text, list.ids, generation->prompt_tokens);
    TRY(generate_run(session, generation, print_token, request, fault));
    if (text->has_write_failed) {
        return OK;
    }
    generated_text_end(text);
    const size_t bytes = text->copy_bytes;
    (void)print_at_once("\n", 1, &text->has_write_failed);
    return dialog_answer(&request->dialog, text->copy, bytes, fault);
}

static enum status answer_questions(struct request *request, struct session *session,
                                    struct fault *fault) {
    bool found = true;
    if (request->prompt != NULL) {
        return answer(request, session, fault);
    }
    TRY(dialog_read(&request->dialog, &found, fault));
    while (found && !request->text.has_write_failed) { /* each turn answers one question */
        TRY(answer(request, session, fault));
        TRY(dialog_read(&request->dialog, &found, fault));
    }
    return OK;
}

/* ---- the command ---- */

static enum status check_chat_options(const struct request *request, struct fault *fault) {
    const char *given = dialog_first_choice(&request->chat);
    if (!request->is_chat && given != NULL) {
        return fault_set(fault, STATUS_USAGE, given, "add --chat, or leave it out",
                         "is only for conversations");
    }
    return request->is_chat && request->ids
               ? fault_set(fault, STATUS_USAGE, "--ids", "leave it out, or leave out --chat",
                           "is not for conversations, which are text")
               : OK;
}

static enum status check_options(const struct request *request, struct fault *fault) {
    TRY(check_chat_options(request, fault));
    if (request->prompt == NULL && !request->is_chat) {
        return fault_set(fault, STATUS_USAGE, "generate", "add --prompt TEXT",
                         "the prompt is missing");
    }
    if (!(request->generation.top_p > 0)) {
        return fault_set(fault, STATUS_USAGE, "--top-p", "write a number above 0, at most 1",
                         "leaves no token to choose");
    }
    return request->ids && request->stops.count > 0
               ? fault_set(fault, STATUS_USAGE, "--stop", "leave out --stop or --ids",
                           "is a text, but --ids prints ids")
               : OK;
}

/* Allocates what the output needs. */
static enum status prepare_text(struct request *request, struct session *session,
                                struct fault *fault) {
    struct generation *generation = &request->generation;
    const int64_t context = session->settings.context_tokens;
    struct region *region = &session->region;
    generation->weights = region_alloc(region, (size_t)request->vocab, sizeof *generation->weights);
    /* A prompt has fewer tokens than the context, which generate_run checks after this. */
    generated_text_init(&request->text, request->tokenizer,
                        (size_t)(generation->prompt_tokens + 2 * context), region);
    for (int i = 0; i < request->stops.count; i++) {
        TRY(generated_text_add_stop(&request->text, request->stops.texts[i], fault));
    }
    if (request->is_chat) {
        generated_text_keep(&request->text, region_alloc(region, DIALOG_BYTES_MAX, 1),
                            DIALOG_BYTES_MAX);
    }
    return OK;
}

static enum status run_generate(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct generation *generation = &request->generation;
    struct fault *fault = &invocation->fault;
    TRY(check_options(request, fault));
    TRY(invocation_read_session(invocation, session));
    request->vocab = session->blueprint.vocab;
    generation->seed = (uint64_t)request->seed;
    generation->prompt = request->tokens;
    generation->stop_token = session->blueprint.tokens.eos;
    TRY(request->is_chat ? prepare_chat(request, session, fault)
                         : read_prompt(request, session, fault));
    TRY(session_compile(session, PURPOSE_GENERATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_load_trained_weights(session, fault));
    TRY(prepare_text(request, session, fault));
    program_forbid_allocation(&session->bound);
    TRY(request->is_chat ? answer_questions(request, session, fault)
                         : print_generated(request, session, fault));
    return request->text.has_write_failed
               ? fault_set(fault, STATUS_FAILED, "standard output", NULL, "cannot be written")
               : OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--prompt", TEXT, prompt), .value_name = "TEXT",
     .help = "text to continue, or token ids with --ids; required without --chat",
     .example = "run/model --prompt \"It is a truth\""},
    {OPTION("--tokens", INTEGER, generation.tokens), .default_value = GENERATED_TOKENS_DEFAULT,
     .value_name = "N", .help = "number of tokens to sample; default: 200",
     .example = "run/model --prompt Hello --tokens 50"},
    {OPTION("--temperature", NUMBER, generation.temperature), .default_value = 1, .value_name = "X",
     .help = "randomness of the samples; 0: always the likeliest token; default: 1",
     .example = "run/model --prompt Hello --temperature 0.7"},
    {OPTION("--top-k", INTEGER, generation.top_k), .value_name = "K",
     .help = "sample among the K likeliest tokens only; 0: among all; default: 0",
     .example = "run/model --prompt Hello --top-k 50"},
    {OPTION("--top-p", NUMBER, generation.top_p), .default_value = 1, .maximum = 1,
     .value_name = "P",
     .help = "sample among the likeliest tokens whose probabilities add up to P; default: 1",
     .example = "run/model --prompt Hello --top-p 0.9"},
    {OPTION("--stop", TEXTS, stops), .value_name = "TEXT",
     .help = "end before this text, which is not printed; may be given several times",
     .example = "run/model --prompt \"Q: Why?\" --stop \"Q:\""},
    {OPTION("--seed", INTEGER, seed), .default_value = 1, .value_name = "N",
     .help = "seed of the samples: the same seed gives the same text; default: 1",
     .example = "run/model --prompt Hello --seed 7"},
    {OPTION("--chat", FLAG, is_chat),
     .help = "answer --prompt, or each line of standard input, as an assistant; an empty line "
             "begins another conversation",
     .example = "run/model --chat --prompt \"What do bees collect?\""},
    {OPTION("--system", TEXT, chat.system), .value_name = "TEXT",
     .help = "with --chat, the message of the system before the first question",
     .example = "run/model --chat --system \"Answer in one word.\""},
    {OPTION("--template", TEXT, chat.template_name), .value_name = "NAME",
     .help = "with --chat, the chat template: chatml, llama3, mistral or qwen3; default: data.chat "
             "of the run, or the model's, if skep knows it",
     .example = "run/model --chat --template chatml"},
    {OPTION("--date", TEXT, chat.date), .value_name = "DATE",
     .help = "with --chat, the date that the template of Llama 3.1 and later prints; default: 26 "
             "Jul 2024",
     .example = "run/model --chat --date \"01 Jan 2026\""},
    {OPTION("--thinking", TEXT, chat.thinking), .value_name = "on|off",
     .help =
         "with --chat, whether a model with the template of Qwen 3 may think before it answers; "
         "default: on",
     .example = "run/model --chat --thinking off"},
    {OPTION("--ids", FLAG, ids), .help = "read and print token ids instead of text",
     .example = "run/model --ids --prompt 12,5,99"},
};

const struct command COMMAND_GENERATE = {
    .name = "generate",
    .arguments = "MODEL",
    .summary = "sample a continuation of a prompt",
    .details =
        "MODEL is a model folder, org/name from the Hub cache, or a run file, whose newest "
        "snapshot is used. The text is printed as it is generated. It ends at the model's end of "
        "text, after --tokens, or when the context (generate.context) is full. With --chat, each "
        "line of standard input is a question to the model, and its answer is printed: the text up "
        "to the token that ends an answer. The questions of a conversation follow each other; each "
        "prompt contains those before it and their answers.",
    .example = "run/model --prompt \"It is a truth\" --tokens 50",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_generate,
};
