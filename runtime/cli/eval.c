/* eval: loss and perplexity of a text. */
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/session/step.h"
#include "runtime/swarm_setup/member_session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct evaluation {
    struct session session;
    struct token_data data;
    const char *data_path;
    bool json;
};

static enum status evaluate(struct evaluation *evaluation, struct evaluation_result *result,
                            struct fault *fault) {
    struct session *session = &evaluation->session;
    const struct run *run = &session->run;
    const struct path_list named = {.paths = &evaluation->data_path, .count = 1};
    const struct path_list *wanted = evaluation->data_path != NULL ? &named : &run->validation;
    if (wanted->count == 0) {
        bool bare = run->place[0] == '\0';
        return fault_set(fault, bare ? STATUS_USAGE : STATUS_INPUT, bare ? "eval" : run->place,
                         bare ? "add --data FILE"
                              : "add --data FILE, or data.validation to the run",
                         "there is no text to evaluate on");
    }
    TRY(data_open_run(run, wanted, session->blueprint.vocab, &session->region, &evaluation->data,
                      fault));
    TRY(session_compile(session, PURPOSE_EVALUATE, fault));
    TRY(session_bind(session, fault));
    TRY(session_trained_weights(session, fault));
    struct step_source source = {.data = &evaluation->data};
    return evaluate_data(session, &source, 0, result, fault);
}

/* JSON has no infinities: what is not finite is null. */
static void print_result(const struct evaluation_result *result, bool as_json) {
    double loss = result->loss;
    if (!as_json) {
        printf("loss %.4f, perplexity %.2f over %lld tokens\n", nan_without_sign(loss),
               nan_without_sign(exp(loss)), (long long)result->tokens);
        return;
    }
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
    json_add_f64(json, "loss", loss, 9);
    json_add_f64(json, "perplexity", exp(loss), 9);
    json_add_i64(json, "tokens", result->tokens);
    json_stdout_end(&out);
}

int command_eval(int argc, char **argv) {
    static struct evaluation evaluation;
    struct arguments arguments;
    struct fault fault;
    struct evaluation_result result;
    const struct flag flags[] = {{"--data", &evaluation.data_path, NULL},
                                 {"--json", NULL, &evaluation.json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status =
            member_session_or_run_read(&evaluation.session, arguments.positionals[0],
                                       arguments.overrides, arguments.override_count, NULL, &fault);
    }
    if (status == OK) {
        status = evaluate(&evaluation, &result, &fault);
    }
    if (status == OK) {
        print_result(&result, evaluation.json);
    } else {
        fault_print(&fault, STDERR_FILENO);
    }
    data_close(&evaluation.data);
    session_finish(&evaluation.session);
    return fault_exit_code(status);
}
