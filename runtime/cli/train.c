/* train: a training run, or the next part of one. */
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/train/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    bool fresh;
    const char *ranks;
};

static void say_where(const struct session *session) {
    char bytes[24];
    uint64_t peak = 0;
    for (int space = 0; space < SPACE_COUNT; space++) {
        peak += session->program.plan.peak_bytes[space];
    }
    log_line(LOG_INFO, "1 rank, %d threads, target %s, arena %s", session->target->threads,
             session->target->name, text_bytes(peak, bytes));
}

/* How many ranks are wanted: the flag, or what a launcher's environment says. */
static enum status check_ranks(const struct request *request, struct fault *fault) {
    const char *source = request->ranks != NULL ? "--ranks" : "WORLD_SIZE";
    const char *value = request->ranks != NULL ? request->ranks : getenv("WORLD_SIZE");
    int64_t ranks = 1;
    enum status status = argument_i64(source, value, 1, &ranks, fault);
    if (status == OK && ranks != 1) {
        return fault_set(fault, STATUS_USAGE, source, "start one rank",
                         "%lld ranks: one rank is supported", (long long)ranks);
    }
    return status;
}

int command_train(int argc, char **argv) {
    static struct training training;
    struct request request = {.fresh = false};
    struct arguments arguments;
    struct fault fault;
    const struct flag flags[] = {{"--fresh", NULL, &request.fresh},
                                 {"--ranks", &request.ranks, NULL}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status = check_ranks(&request, &fault);
    }
    if (status == OK) {
        status = session_read(&training.session, arguments.positionals[0], arguments.overrides,
                              arguments.override_count, &fault);
    }
    if (status == OK) {
        status = training_prepare(&training, request.fresh, &fault);
    }
    if (status == OK) {
        say_where(&training.session);
        status = training_run(&training, &fault);
    }
    if (status != OK && status != STATUS_STOPPED) {
        fault_print(&fault, STDERR_FILENO);
    }
    training_finish(&training);
    return fault_exit_code(status);
}
