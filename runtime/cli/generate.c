/* generate: a continuation of a prompt, on standard output as it is made. */
#include "runtime/session/generate.h"

#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/swarm_setup/member_session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT_TOKENS_MAX = 1 << 16, TOKENS_DEFAULT = 200, BYTE_VOCAB = 256 };

struct request {
    struct session session;
    struct fault fault;
    const char *prompt;
    bool ids;
    struct generation generation;
    int32_t tokens[PROMPT_TOKENS_MAX];
};

static enum status add_token(struct request *request, int64_t token) {
    if (request->generation.prompt_tokens == PROMPT_TOKENS_MAX) {
        return fault_set(&request->fault, STATUS_USAGE, "--prompt", "shorten it",
                         "more than %d tokens", PROMPT_TOKENS_MAX);
    }
    request->tokens[request->generation.prompt_tokens++] = (int32_t)token;
    return OK;
}

/* "12,5 99": numbers between commas or spaces. */
static enum status read_ids(struct request *request) {
    const char *at = request->prompt;
    at += strspn(at, ", ");
    while (*at != '\0') {
        char number[32];
        int64_t id;
        size_t width = strcspn(at, ", ");
        snprintf(number, sizeof number, "%.*s", (int)(width < 31 ? width : 31), at);
        if (!text_parse_i64(number, &id) || id < 0 || id > INT32_MAX) {
            return fault_set(&request->fault, STATUS_USAGE, "--prompt",
                             "with --ids give numbers between commas", "\"%s\" is not a token id",
                             number);
        }
        TRY(add_token(request, id));
        at += width;
        at += strspn(at, ", ");
    }
    return OK;
}

static enum status read_bytes(struct request *request) {
    if (request->session.blueprint.vocab > BYTE_VOCAB) {
        return fault_set(&request->fault, STATUS_USAGE, "--prompt",
                         "tokenise the prompt and pass it with --ids",
                         "the model has %lld tokens, so its text is not bytes",
                         (long long)request->session.blueprint.vocab);
    }
    for (const char *c = request->prompt; *c != '\0'; c++) {
        TRY(add_token(request, (unsigned char)*c));
    }
    return OK;
}

static bool print_token(void *context, int32_t token) {
    const struct request *request = context;
    char text[16];
    int length = snprintf(text, sizeof text, "%d ", token);
    if (!request->ids) {
        text[0] = (char)token;
        length = 1;
    }
    return write(STDOUT_FILENO, text, (size_t)length) == length;
}

static enum status run(struct request *request) {
    struct session *session = &request->session;
    struct fault *fault = &request->fault;
    enum status status = request->ids ? read_ids(request) : read_bytes(request);
    if (status == OK) {
        status = session_compile(session, PURPOSE_GENERATE, fault);
    }
    if (status == OK) {
        status = session_bind(session, fault);
    }
    if (status == OK) {
        status = session_trained_weights(session, fault);
    }
    if (status != OK) {
        return status;
    }
    request->generation.prompt = request->tokens;
    request->generation.stop_token = session->blueprint.tokens.eos;
    program_seal(&session->bound);
    if (!request->ids) {
        ssize_t ignored = write(STDOUT_FILENO, request->prompt, strlen(request->prompt));
        (void)ignored;
    }
    status = generate_run(session, &request->generation, print_token, request, fault);
    ssize_t ignored = status == OK ? write(STDOUT_FILENO, "\n", 1) : 0;
    (void)ignored;
    return status;
}

static enum status read_request(struct request *request, int argc, char **argv) {
    struct arguments arguments;
    struct fault *fault = &request->fault;
    const char *tokens = NULL;
    const char *temperature = NULL;
    const char *seed = NULL;
    int64_t seed_value = 1;
    const struct flag flags[] = {{"--prompt", &request->prompt, NULL},
                                 {"--tokens", &tokens, NULL},
                                 {"--temperature", &temperature, NULL},
                                 {"--seed", &seed, NULL},
                                 {"--ids", NULL, &request->ids}};
    request->generation.tokens = TOKENS_DEFAULT;
    request->generation.temperature = 1;
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, fault);
    if (status == OK) {
        status = argument_i64("--tokens", tokens, 0, &request->generation.tokens, fault);
    }
    if (status == OK) {
        status =
            argument_f64("--temperature", temperature, 0, &request->generation.temperature, fault);
    }
    if (status == OK) {
        status = argument_i64("--seed", seed, 0, &seed_value, fault);
    }
    if (status == OK && request->prompt == NULL) {
        status =
            fault_set(fault, STATUS_USAGE, "generate", "add --prompt TEXT", "there is no prompt");
    }
    request->generation.seed = (uint64_t)seed_value;
    return status == OK ? member_session_or_run_read(&request->session, arguments.positionals[0],
                                                     arguments.overrides, arguments.override_count,
                                                     NULL, fault)
                        : status;
}

int command_generate(int argc, char **argv) {
    static struct request request;
    enum status status = read_request(&request, argc, argv);
    if (status == OK) {
        status = run(&request);
    }
    if (status != OK) {
        fault_print(&request.fault, STDERR_FILENO);
    }
    session_finish(&request.session);
    return fault_exit_code(status);
}
