/* join: a member of a swarm. */
#include "runtime/inner_training/inner_training.h"

#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/ranks.h"
#include "runtime/cli/reports/preflight_report.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "transport/identity/address.h"
#include "transport/identity/join_string.h"

#include <stdio.h>
#include <unistd.h>

struct request {
    struct member_run_args join;
    const char *target, *rank_count;
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

/* What others are told of this member is looked at before anything is made. */
static enum status check_words(struct member_run_args *join, struct fault *fault) {
    static char number[MESSAGE_ADDRESS_BYTES];
    const char *wrong = join->name == NULL ? NULL : member_name_error(join->name);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_USAGE, "--name", "a name such as anna-2 will do",
                         "\"%.80s\" %s", join->name, wrong);
    }
    wrong = join->public_address == NULL ? NULL : address_error(join->public_address);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_USAGE, "--public",
                         "name where others reach this member: tcp://HOST:PORT", "\"%.80s\" %s",
                         join->public_address, wrong);
    }
    if (join->public_address == NULL) {
        return OK;
    }
    enum status status = resolve_host(join->public_address, number, fault);
    join->public_address = number;
    return status;
}

static enum status report(struct member_run *member, struct fault *fault) {
    static char buffer[FIT_REPORT_BYTES];
    struct fit_report_request wanted = {.terms = &member->swarm.terms};
    struct text text = text_over(buffer, sizeof buffer);
    if (!link_probe(&member->swarm.manifest.tracker, &wanted.link.round_trip_s)) {
        log_line(LOG_INFO, "%s did not answer in time: the report is without its link",
                 member->swarm.manifest.tracker.address);
    }
    enum status status = fit_report_write(&member->trainer.session, &wanted, &text, fault);
    fputs(buffer, stdout);
    fflush(stdout);
    return status;
}

/* Rank 0's report is of what all of them are about to do. */
static enum status look(struct member_run *member, struct fault *fault) {
    struct session *session = &member->trainer.session;
    enum status status = session_is_rank0(session) ? report(member, fault)
                                                   : session_compile(session, PURPOSE_TRAIN, fault);
    return session_agree(session, status, fault);
}

static enum status run(struct member_run *member, const struct request *request,
                       struct fault *fault) {
    TRY(member_run_read(member, &request->join, fault));
    TRY(look(member, fault));
    if (!request->check) {
        TRY(member_run_prepare(member, fault));
        TRY(member_run_execute(member, fault));
    }
    return OK;
}

/* A report needs no ranks, only their number. */
static enum status begin_ranks(const struct request *request, int argc, char **argv,
                               struct ranks *ranks, struct fault *fault) {
    const struct ranks_request wanted = {.flag = request->rank_count,
                                         .environment = true,
                                         .saves = true,
                                         .argc = argc,
                                         .argv = argv};
    return request->check ? ranks_count(&wanted, ranks->session, ranks, fault)
                          : ranks_begin(&wanted, ranks->session, ranks, fault);
}

int command_join(int argc, char **argv) {
    static struct member_run member;
    static struct ranks ranks;
    static struct arguments arguments;
    struct request request = {.check = false};
    struct member_run_args *join = &request.join;
    struct fault fault;
    const struct flag flags[] = {
        {"--check", NULL, &request.check},         {"--identity", &join->identity, NULL},
        {"--listen", &join->listen, NULL},         {"--name", &join->name, NULL},
        {"--public", &join->public_address, NULL}, {"--ranks", &request.rank_count, NULL},
        {"--target", &request.target, NULL},
    };
    member.trainer.metrics.fd = member.outer.ledger.fd = -1;
    ranks.session = &member.trainer.session;
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status = check_words(join, &fault);
    }
    if (status == OK) {
        status = take_target(&request, &arguments, &fault);
    }
    if (status == OK) {
        status = begin_ranks(&request, argc, argv, &ranks, &fault);
    }
    bool is_told = request.check && ranks.place.rank > 0; /* by rank 0 of a launcher's */
    if (status == OK && !ranks.parent && !is_told) {
        join->swarm = arguments.positionals[0];
        join->overrides = arguments.overrides;
        join->override_count = arguments.override_count;
        status = run(&member, &request, &fault);
    }
    int code = ranks_end(&ranks, status, &fault);
    member_run_finish(&member);
    return code;
}
