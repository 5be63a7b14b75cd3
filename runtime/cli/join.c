/* join: a member of a swarm. */
#include "runtime/train/join.h"

#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/swarm/link_probe.h"
#include "runtime/swarm/roster.h"
#include "runtime/train/fit_report.h"
#include "transport/host_number.h"
#include "transport/join_string.h"

#include <stdio.h>
#include <unistd.h>

struct request {
    struct join_request join;
    const char *target, *ranks;
    bool check;
};

/* --target is the run key of that name. */
static enum status take_target(const struct request *request, struct arguments *arguments,
                               struct fault *fault) {
    static char override[PATH_BYTES];
    if (request->target == NULL) {
        return OK;
    }
    if (arguments->override_count == OVERRIDES_MAX) {
        return fault_set(fault, STATUS_USAGE, "join", NULL, "more than %d key=value arguments",
                         OVERRIDES_MAX);
    }
    struct text text = text_over(override, sizeof override);
    text_add(&text, "target=%s", request->target);
    arguments->overrides[arguments->override_count++] = override;
    return OK;
}

static enum status check_ranks(const char *given, struct fault *fault) {
    int64_t ranks = 1;
    enum status status = argument_i64("--ranks", given, 1, &ranks, fault);
    if (status == OK && ranks > 1) {
        status = fault_set(fault, STATUS_USAGE, "--ranks",
                           "start one member for each, with an identity and a state folder of its "
                           "own",
                           "a member is one rank");
    }
    return status;
}

/* What others are told of this member is looked at before anything is made. */
static enum status check_words(struct join_request *join, struct fault *fault) {
    static char number[MESSAGE_ADDRESS_BYTES];
    const char *wrong = join->name == NULL ? NULL : roster_name_wrong(join->name);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_USAGE, "--name", "a name such as anna-2 will do",
                         "\"%.80s\" %s", join->name, wrong);
    }
    wrong = join->public_address == NULL ? NULL : address_wrong(join->public_address);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_USAGE, "--public",
                         "name where others reach this member: tcp://HOST:PORT", "\"%.80s\" %s",
                         join->public_address, wrong);
    }
    if (join->public_address == NULL) {
        return OK;
    }
    enum status status = host_number_find(join->public_address, number, fault);
    join->public_address = number;
    return status;
}

static enum status report(struct joining *joining, struct fault *fault) {
    static char buffer[FIT_REPORT_BYTES];
    struct fit_report_request wanted = {.json = false};
    struct text text = text_over(buffer, sizeof buffer);
    if (!link_probe(&joining->manifest.tracker, &wanted.link.round_trip_s)) {
        log_line(LOG_INFO, "%s did not answer in time: the report is without its link",
                 joining->manifest.tracker.address);
    }
    enum status status = fit_report_write(&joining->session, &wanted, &text, fault);
    fputs(buffer, stdout);
    fflush(stdout);
    return status;
}

static enum status run(struct joining *joining, const struct request *request,
                       struct fault *fault) {
    enum status status = join_read(joining, &request->join, fault);
    if (status == OK) {
        status = report(joining, fault);
    }
    if (status == OK && !request->check) {
        status = join_prepare(joining, fault);
        if (status == OK) {
            status = join_run(joining, fault);
        }
    }
    return status;
}

int command_join(int argc, char **argv) {
    static struct joining joining;
    static struct arguments arguments;
    struct request request = {.check = false};
    struct join_request *join = &request.join;
    struct fault fault;
    const struct flag flags[] = {
        {"--check", NULL, &request.check},         {"--identity", &join->identity, NULL},
        {"--listen", &join->listen, NULL},         {"--name", &join->name, NULL},
        {"--public", &join->public_address, NULL}, {"--ranks", &request.ranks, NULL},
        {"--target", &request.target, NULL},
    };
    joining.metrics.fd = joining.ledger.fd = -1;
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status = check_ranks(request.ranks, &fault);
    }
    if (status == OK) {
        status = check_words(join, &fault);
    }
    if (status == OK) {
        status = take_target(&request, &arguments, &fault);
    }
    if (status == OK) {
        join->swarm = arguments.positionals[0];
        join->overrides = arguments.overrides;
        join->override_count = arguments.override_count;
        status = run(&joining, &request, &fault);
    }
    join_finish(&joining);
    if (status != OK && status != STATUS_STOPPED) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
