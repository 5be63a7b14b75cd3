/* generate: `skep generate MODEL --prompt TEXT` prints a continuation of the prompt, token by
 * token. With --chat it answers questions instead, each a line of standard input. */
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/sampling.h"
#include "runtime/cli/reports/token_ids.h"

#include <stdio.h>
#include <string.h>

enum {
    PROMPT_TOKENS_MAX = 1 << 16, /* maximum number of tokens of a prompt */
    /* number of tokens that are generated if --tokens is not given */
    GENERATED_TOKENS_DEFAULT = 200,
    BYTE_VOCAB = 256, /* number of token ids of a model whose tokens are bytes */
};

struct request {               /* options of `skep generate` and the prompt's tokens */
    int64_t seed, vocab;       /* random seed; number of token ids of the model */
    struct option_texts stops; /* texts that end the output */
    struct dialog_choices chat;
    struct sampling sampling;          /* state of the generation and printing of text */
    int32_t tokens[PROMPT_TOKENS_MAX]; /* token ids of the prompt */
};

static enum status add_token(struct request *request, int64_t token, struct fault *fault) {
    if (request->sampling.generation.prompt_tokens == PROMPT_TOKENS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--prompt", "shorten it", "more than %d tokens",
                         PROMPT_TOKENS_MAX);
    }
    request->tokens[request->sampling.generation.prompt_tokens++] = (int32_t)token;
    return OK;
}

/* Reads the prompt as a list of token ids into request->tokens. */
static enum status read_ids(struct request *request, struct fault *fault) {
    struct token_ids ids;
    int64_t id;
    token_ids_begin(&ids, request->sampling.prompt, strlen(request->sampling.prompt));
    enum token_ids_status status = token_ids_next(&ids, &id);
    while (status == TOKEN_IDS_FOUND) { /* each iteration reads an id */
        if (id >= request->vocab) {
            return fault_set(fault, STATUS_USAGE, "--prompt", "use the ids of this model's tokens",
                             "id %.*s is not in the vocabulary, whose largest id is %lld",
                             ids.digit_count < 40 ? ids.digit_count : 40, ids.digits,
                             (long long)request->vocab - 1);
        }
        TRY(add_token(request, id, fault));
        status = token_ids_next(&ids, &id);
    }
    return status == TOKEN_IDS_END
               ? OK
               : fault_set(fault, STATUS_USAGE, "--prompt",
                           "with --ids, write numbers separated by commas",
                           "\"%.40s\" is not a list of token ids", request->sampling.prompt);
}

static enum status read_bytes(struct request *request, struct fault *fault) {
    if (request->vocab > BYTE_VOCAB) {
        return fault_set(fault, STATUS_USAGE, "--prompt",
                         "tokenise the prompt and pass it with --ids",
                         "the model has a vocabulary of %lld tokens, so its tokens are not bytes",
                         (long long)request->vocab);
    }
    for (const char *c = request->sampling.prompt; *c != '\0'; c++) {
        TRY(add_token(request, (unsigned char)*c, fault));
    }
    return OK;
}

/* Encodes the prompt as transformers does: with the special tokens of the tokenizer's template. */
static enum status encode_prompt(struct request *request, const struct session *session,
                                 struct region *region, struct fault *fault) {
    const struct tokenizer_options options = {.adds_special_tokens = true};
    struct token_list list;
    TRY(tokenizer_load(session->model_folder, region, &request->sampling.tokenizer, fault));
    const enum status status = tokenizer_encode(
        tokenizer_encoder_make(request->sampling.tokenizer, region), request->sampling.prompt,
        strlen(request->sampling.prompt), &options, &list, fault);
    if (status != OK) {
        snprintf(fault->subject, sizeof fault->subject, "--prompt");
        return status;
    }
    for (size_t i = 0; i < list.count; i++) {
        TRY(add_token(request, list.ids[i], fault));
    }
    return OK;
}

/* Reads the prompt: as ids, as text for the model's tokenizer, or as bytes. */
static enum status read_prompt(struct request *request, struct session *session,
                               struct fault *fault) {
    TRY(request->sampling.prints_ids ? read_ids(request, fault)
        : sampling_uses_tokenizer(session)
            ? encode_prompt(request, session, &session->region, fault)
            : read_bytes(request, fault));
    return request->sampling.generation.prompt_tokens > 0
               ? OK
               : fault_set(fault, STATUS_USAGE, "--prompt",
                           request->sampling.prints_ids ? "write numbers separated by commas"
                                                        : "write some text",
                           "has no token to continue");
}

/* ---- the command ---- */

static enum status check_chat_options(const struct request *request, struct fault *fault) {
    const char *given = dialog_first_choice(&request->chat);
    if (!request->sampling.is_chat && given != NULL) {
        return fault_set(fault, STATUS_USAGE, given, "add --chat, or leave it out",
                         "is only for conversations");
    }
    return request->sampling.is_chat && request->sampling.prints_ids
               ? fault_set(fault, STATUS_USAGE, "--ids", "leave it out, or leave out --chat",
                           "is not for conversations, which are text")
               : OK;
}

static enum status check_options(const struct request *request, struct fault *fault) {
    TRY(check_chat_options(request, fault));
    if (request->sampling.prompt == NULL && !request->sampling.is_chat) {
        return fault_set(fault, STATUS_USAGE, "generate", "add --prompt TEXT",
                         "the prompt is missing");
    }
    if (!(request->sampling.generation.top_p > 0)) {
        return fault_set(fault, STATUS_USAGE, "--top-p", "write a number above 0, at most 1",
                         "leaves no token to choose");
    }
    return request->sampling.prints_ids && request->stops.count > 0
               ? fault_set(fault, STATUS_USAGE, "--stop", "leave out --stop or --ids",
                           "is a text, but --ids prints ids")
               : OK;
}

static enum status check_context(const struct session *session, struct fault *fault) {
    return session->settings.context_tokens > 1
               ? OK
               : fault_set(fault, STATUS_INPUT, "generate.context", "set it to at least 2",
                           "is %lld; a context holds a token of the prompt and a new one",
                           (long long)session->settings.context_tokens);
}

static enum status run_generate(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct sampling *sampling = &request->sampling;
    struct generation *generation = &sampling->generation;
    struct fault *fault = &invocation->fault;
    TRY(check_options(request, fault));
    TRY(invocation_read_session(invocation, session));
    TRY(check_context(session, fault));
    request->vocab = session->blueprint.vocab;
    generation->seed = (uint64_t)request->seed;
    generation->prompt = request->tokens;
    generation->stop_token = session->blueprint.tokens.eos;
    TRY(request->sampling.is_chat
            ? sampling_begin_chat(&request->sampling, session, &request->chat, fault)
            : read_prompt(request, session, fault));
    TRY(session_compile(session, PURPOSE_GENERATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_load_trained_weights(session, fault));
    TRY(sampling_prepare(sampling, session, request->stops.texts, request->stops.count, fault));
    program_forbid_allocation(&session->bound);
    return sampling_run(sampling, session, fault);
}

static const struct option OPTIONS[] = {
    {OPTION("--prompt", TEXT, sampling.prompt), .value_name = "TEXT",
     .help = "text to continue, or token ids with --ids; required without --chat",
     .example = "run/model --prompt \"It is a truth\""},
    {OPTION("--tokens", INTEGER, sampling.generation.tokens),
     .default_value = GENERATED_TOKENS_DEFAULT, .value_name = "N",
     .help = "number of tokens to sample; default: 200",
     .example = "run/model --prompt Hello --tokens 50"},
    {OPTION("--temperature", NUMBER, sampling.generation.temperature), .default_value = 1,
     .value_name = "X",
     .help = "randomness of the samples; 0: always the likeliest token; default: 1",
     .example = "run/model --prompt Hello --temperature 0.7"},
    {OPTION("--top-k", INTEGER, sampling.generation.top_k), .value_name = "K",
     .help = "sample among the K likeliest tokens only; 0: among all; default: 0",
     .example = "run/model --prompt Hello --top-k 50"},
    {OPTION("--top-p", NUMBER, sampling.generation.top_p), .default_value = 1, .maximum = 1,
     .value_name = "P",
     .help = "sample among the likeliest tokens whose probabilities add up to P; default: 1",
     .example = "run/model --prompt Hello --top-p 0.9"},
    {OPTION("--stop", TEXTS, stops), .value_name = "TEXT",
     .help = "end before this text, which is not printed; may be given several times",
     .example = "run/model --prompt \"Q: Why?\" --stop \"Q:\""},
    {OPTION("--seed", INTEGER, seed), .default_value = 1, .value_name = "N",
     .help = "seed of the samples: the same seed gives the same text; default: 1",
     .example = "run/model --prompt Hello --seed 7"},
    {OPTION("--chat", FLAG, sampling.is_chat),
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
    {OPTION("--parse-special", FLAG, chat.parses_special),
     .help = "with --chat, accept control tokens, such as <|im_end|>, in the system message and in "
             "questions",
     .example = "run/model --chat --parse-special"},
    {OPTION("--ids", FLAG, sampling.prints_ids), .help = "read and print token ids instead of text",
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
        "prompt contains those before it and their answers. A question that is rejected, for "
        "example because the conversation is longer than the context, is reported and left out; "
        "the exit code is then 2.",
    .example = "run/model --prompt \"It is a truth\" --tokens 50",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_generate,
};
