/* generate: `skep generate MODEL --prompt TEXT` prints a continuation of the prompt, token by
 * token. */
#include "runtime/session/generate.h"

#include "base/text.h"
#include "runtime/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT_TOKENS_MAX = 1 << 16, GENERATED_TOKENS_DEFAULT = 200, BYTE_VOCAB = 256 };

struct request {           /* options of `skep generate` and the prompt's tokens */
    const char *prompt;    /* text, or token ids separated by commas */
    int64_t seed, vocab;   /* random seed; number of token ids of the model */
    bool ids;              /* the prompt and the output are token ids, not bytes */
    bool has_write_failed; /* a write to standard output failed */
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

/* Rejects a prompt as text if the tokens of the model are not bytes. */
static enum status reject_text_prompt(const struct settings *settings, struct fault *fault) {
    const char *format = settings->data_format;
    if (!settings->text_needs_tokenizer || (format != NULL && strcmp(format, "bytes") == 0)) {
        return OK;
    }
    return fault_set(fault, STATUS_USAGE, "--prompt",
                     "encode it with `skep data --ids` and pass it with --ids, or set "
                     "data.format to bytes",
                     "is text, but this model's tokens are not bytes");
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

/* Returns whether all bytes were written. A reader that closes the pipe early is not an error. */
static bool print_bytes(struct request *request, const char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            request->has_write_failed = written == 0 || errno != EPIPE;
            return false;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

static bool print_token(void *context, int32_t token) {
    struct request *request = context;
    char text[16];
    size_t length = (size_t)snprintf(text, sizeof text, "%d ", token);
    if (!request->ids) {
        text[0] = (char)token;
        length = 1;
    }
    return print_bytes(request, text, length);
}

static enum status run_generate(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct generation *generation = &request->generation;
    struct fault *fault = &invocation->fault;
    if (request->prompt == NULL) {
        return fault_set(fault, STATUS_USAGE, "generate", "add --prompt TEXT",
                         "the prompt is missing");
    }
    TRY(invocation_read_session(invocation, session));
    request->vocab = session->blueprint.vocab;
    TRY((request->ids ? read_ids : read_bytes)(request, fault));
    TRY(request->ids ? OK : reject_text_prompt(&session->settings, fault));
    TRY(session_compile(session, PURPOSE_GENERATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_load_trained_weights(session, fault));
    generation->seed = (uint64_t)request->seed;
    generation->prompt = request->tokens;
    generation->stop_token = session->blueprint.tokens.eos;
    program_forbid_allocation(&session->bound);
    if (request->ids || print_bytes(request, request->prompt, strlen(request->prompt))) {
        TRY(generate_run(session, generation, print_token, request, fault));
    }
    if (!request->has_write_failed) {
        (void)print_bytes(request, "\n", 1);
    }
    return request->has_write_failed
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
    .details = "MODEL is a model folder, org/name from the Hub cache, or a run file, whose newest "
               "snapshot is used. The text is printed token by token.",
    .example = "run/model --prompt \"It is a truth\" --tokens 50",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_generate,
};
