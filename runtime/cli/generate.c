/* generate: `skep generate MODEL --prompt TEXT` prints a continuation of the prompt, token by
 * token. */
#include "runtime/session/generate.h"

#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/generated_text.h"

#include <stdio.h>
#include <string.h>

enum {
    PROMPT_TOKENS_MAX = 1 << 16,    /* tokens of a prompt */
    GENERATED_TOKENS_DEFAULT = 200, /* tokens that are generated without --tokens */
    BYTE_VOCAB = 256,               /* token ids of a model whose tokens are bytes */
};

struct request {         /* options of `skep generate` and the prompt's tokens */
    const char *prompt;  /* text, or token ids separated by commas */
    int64_t seed, vocab; /* random seed; number of token ids of the model */
    bool ids;            /* the prompt and the output are token ids, not text */
    const char *stop;    /* text that ends the output; NULL: none */
    const struct tokenizer
        *tokenizer;             /* of the model; NULL: tokens are bytes, or ids are printed */
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
    TRY(tokenizer_encode(tokenizer_encoder_make(request->tokenizer, region), request->prompt,
                         strlen(request->prompt), &options, &list, fault));
    for (size_t i = 0; i < list.count; i++) {
        TRY(add_token(request, list.ids[i], fault));
    }
    return OK;
}

/* Reads the prompt: as ids, as text for the model's tokenizer, or as bytes. */
static enum status read_prompt(struct request *request, struct session *session,
                               struct fault *fault) {
    if (request->ids) {
        return read_ids(request, fault);
    }
    if (session->settings.text_needs_tokenizer && session->model_folder[0] != '\0' &&
        session->blueprint.has_tokenizer && !tokens_are_bytes(&session->settings)) {
        return encode_prompt(request, session, &session->region, fault);
    }
    return read_bytes(request, fault);
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

static enum status check_options(const struct request *request, struct fault *fault) {
    if (request->prompt == NULL) {
        return fault_set(fault, STATUS_USAGE, "generate", "add --prompt TEXT",
                         "the prompt is missing");
    }
    if (!(request->generation.top_p > 0)) {
        return fault_set(fault, STATUS_USAGE, "--top-p", "write a number above 0, at most 1",
                         "leaves no token to choose");
    }
    return request->ids && request->stop != NULL
               ? fault_set(fault, STATUS_USAGE, "--stop", "leave out --stop or --ids",
                           "is a text, but --ids prints ids")
               : OK;
}

static enum status run_generate(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct generation *generation = &request->generation;
    struct fault *fault = &invocation->fault;
    TRY(check_options(request, fault));
    TRY(invocation_read_session(invocation, session));
    request->vocab = session->blueprint.vocab;
    TRY(read_prompt(request, session, fault));
    TRY(session_compile(session, PURPOSE_GENERATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_load_trained_weights(session, fault));
    generation->seed = (uint64_t)request->seed;
    generation->prompt = request->tokens;
    generation->stop_token = session->blueprint.tokens.eos;
    generation->weights =
        region_alloc(&session->region, (size_t)request->vocab, sizeof *generation->weights);
    TRY(generated_text_init(&request->text, request->tokenizer,
                            (size_t)(generation->prompt_tokens + session->settings.context_tokens),
                            request->stop, &session->region, fault));
    program_forbid_allocation(&session->bound);
    TRY(print_generated(request, session, fault));
    return request->text.has_write_failed
               ? fault_set(fault, STATUS_FAILED, "standard output", NULL, "cannot be written")
               : OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--prompt", TEXT, prompt), .value_name = "TEXT",
     .help = "text to continue, or token ids with --ids; required",
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
    {OPTION("--stop", TEXT, stop), .value_name = "TEXT",
     .help = "end before this text, which is not printed",
     .example = "run/model --prompt \"Q: Why?\" --stop \"Q:\""},
    {OPTION("--seed", INTEGER, seed), .default_value = 1, .value_name = "N",
     .help = "seed of the samples: the same seed gives the same text; default: 1",
     .example = "run/model --prompt Hello --seed 7"},
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
        "text, after --tokens, or when the context (generate.context) is full.",
    .example = "run/model --prompt \"It is a truth\" --tokens 50",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_generate,
};
