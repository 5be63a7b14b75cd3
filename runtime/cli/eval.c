/* eval: `skep eval RUN-or-MODEL --data FILE` computes loss and perplexity. */
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/data/text_tokens.h"
#include "runtime/session/step.h"

#include <math.h>
#include <stdio.h>

struct request { /* options of `skep eval` and its data files */
    struct token_data data;
    const char *data_path; /* path of the data; NULL: the run's data.validation */
    bool json;             /* print the result as JSON */
};

static enum status open_data(struct request *request, struct session *session,
                             struct fault *fault) {
    const struct settings *settings = &session->settings;
    const struct path_list path = {.paths = &request->data_path, .count = 1};
    const struct path_list *paths =
        request->data_path != NULL ? &path : &settings->validation_files;
    if (paths->count == 0 && settings->run_file[0] == '\0') {
        return fault_set(fault, STATUS_USAGE, "eval", "add --data FILE", "no data to evaluate");
    }
    if (paths->count == 0) {
        return fault_set(fault, STATUS_INPUT, settings->run_file,
                         "add --data FILE, or set data.validation in the run file",
                         "no data to evaluate");
    }
    struct path_list tokens = *paths;
    TRY(data_tokenise_list(settings, &tokens, &session->region, fault));
    return data_open_run(settings, tokens.paths == paths->paths ? paths : &tokens,
                         session->blueprint.vocab, &session->region, &request->data, fault);
}

/* Returns the loss in bits for each byte of text; 0: the files do not state how many bytes of text
 * their tokens are. */
static double bits_per_byte(const struct request *request, double loss) {
    const double bytes_per_token = data_bytes_per_token(&request->data);
    return bytes_per_token > 0 ? loss / M_LN2 / bytes_per_token : 0;
}

static void print_json(const struct request *request, const struct evaluation_result *result) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_f64(json, "loss", result->loss, 9);
    json_add_f64(json, "perplexity", exp(result->loss), 9);
    json_add_i64(json, "tokens", result->tokens);
    if (data_bytes_per_token(&request->data) > 0) {
        json_add_f64(json, "bits_per_byte", bits_per_byte(request, result->loss), 9);
    }
    json_stdout_end(&out);
}

static void print_text(const struct request *request, const struct evaluation_result *result) {
    printf("loss %.4f, perplexity %.2f", nan_without_sign(result->loss),
           nan_without_sign(exp(result->loss)));
    if (data_bytes_per_token(&request->data) > 0) {
        printf(", %.4f bits per byte", nan_without_sign(bits_per_byte(request, result->loss)));
    }
    printf(" over %lld tokens\n", (long long)result->tokens);
}

static enum status run_eval(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct fault *fault = &invocation->fault;
    struct evaluation_result result;
    TRY(invocation_read_session(invocation, session));
    TRY(open_data(request, session, fault));
    TRY(session_compile(session, PURPOSE_EVALUATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_load_trained_weights(session, fault));
    struct step_source source = {.data = &request->data};
    TRY(evaluate_data(session, &source, 0, &result, fault));
    if (request->json) {
        print_json(request, &result);
    } else {
        print_text(request, &result);
    }
    return OK;
}

static void finish_eval(void *context) {
    struct request *request = context;
    data_close(&request->data);
}

static const struct option OPTIONS[] = {
    {OPTION("--data", TEXT, data_path), .value_name = "FILE",
     .help = "token file to evaluate; default: data.validation of the run file",
     .example = "run/model --data validation.u16"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "run/model --data validation.u16 --json"},
};

const struct command COMMAND_EVAL = {
    .name = "eval",
    .arguments = "RUN-or-MODEL",
    .summary = "compute loss and perplexity on a token file",
    .details =
        "The argument is a run file, whose newest snapshot is evaluated, or a model: a folder or "
        "org/name from the Hub cache.",
    .example = "run/model --data validation.u16",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_eval,
    .finish = finish_eval,
};
