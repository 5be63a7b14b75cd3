/* join: `skep join SWARM` reports what a member of a swarm needs, and runs one. */
#include "runtime/inner_training/inner_training.h"

#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/join_check.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "transport/identity/address.h"
#include "transport/identity/join_string.h"
#include "transport/site/service.h"

#include <stdio.h>

struct request { /* options of `skep join`, and the member that it runs */
    struct member_run member;
    struct member_run_args args;
    int64_t rank_count; /* number of ranks from --ranks; 0: not given */
    bool check, json;   /* --check: only print the report; --json: print the report as JSON */
};

static enum status check_name(const char *name, struct fault *fault) {
    const char *error = member_name_error(name);
    return error == NULL ? OK
                         : fault_set(fault, STATUS_USAGE, "--name", "write a name such as anna-2",
                                     "\"%.80s\" %s", name, error);
}

/* Replaces the host name in *address by an IP address. */
static enum status resolve_public_address(const char **address, struct region *region,
                                          struct fault *fault) {
    const char *error = address_error(*address);
    if (error != NULL) {
        return fault_set(fault, STATUS_USAGE, "--public",
                         "write an address that others can connect to, as tcp://HOST:PORT",
                         "\"%.80s\" %s", *address, error);
    }
    char *numeric = region_alloc(region, MESSAGE_ADDRESS_BYTES, 1);
    TRY(resolve_host(*address, numeric, fault));
    *address = numeric;
    return OK;
}

/* Prints the report of a member's needs. `check` is NULL without --check. */
static enum status print_fit_report(struct member_run *member, const struct join_check *check,
                                    bool json, struct fault *fault) {
    static char buffer[FIT_REPORT_BYTES];
    struct fit_check checks[JOIN_CHECKS_MAX];
    struct fit_report_request request = {
        .terms = &member->swarm.terms,
        .present_members = check == NULL ? 0 : check->present_members,
        .checks = checks,
        .check_count = check == NULL ? 0 : join_check_list_results(check, checks)};
    struct text text = text_over(buffer, sizeof buffer);
    if (!link_probe(&member->swarm.tracker, &request.link.round_trip_s)) {
        log_line(LOG_INFO, "%s did not answer in time: the report omits the round trip to it",
                 member->swarm.tracker.address);
    }
    if (json) {
        return fit_report_print_json(&member->trainer.session, &request, fault);
    }
    enum status status = fit_report_write(&member->trainer.session, &request, &text, fault);
    fputs(buffer, stdout);
    fflush(stdout);
    return status;
}

/* Checks whether the member fits. Rank 0 prints the report for all ranks. */
static enum status check_fit(struct member_run *member, bool json, struct fault *fault) {
    struct session *session = &member->trainer.session;
    enum status status = session_is_rank0(session) ? print_fit_report(member, NULL, json, fault)
                                                   : session_compile(session, PURPOSE_TRAIN, fault);
    return session_agree(session, status, fault);
}

/* Reports everything that a member needs, and joins nothing. */
static enum status report_member_needs(struct member_run *member, bool json, struct fault *fault) {
    static struct join_check check;
    join_check_perform(member, &check);
    const enum status fits = print_fit_report(member, &check, json, fault);
    if (!json) {
        join_check_print(member, &check);
    }
    return join_check_status(&check, fits, fault);
}

/* Starts the ranks. With --check, only determines the number of ranks. */
static enum status begin_ranks(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = &request->member.trainer.session;
    const struct ranks_request ranks = {
        .count = request->rank_count, .reads_environment = true, .saves_snapshots = true};
    return request->check ? ranks_determine_count(&ranks, session, invocation)
                          : ranks_begin(&ranks, session, invocation);
}

static enum status run_join(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct member_run *member = &request->member;
    struct member_run_args *args = &request->args;
    struct fault *fault = &invocation->fault;
    member->trainer.metrics.fd = member->outer.ledger.fd = -1;
    member->trainer.session.rejects_faulty_gpu = true;
    if (args->name != NULL) {
        TRY(check_name(args->name, fault));
    }
    if (args->public_address != NULL && member_listen_address(args) == NULL) {
        return fault_set(fault, STATUS_USAGE, "--public", "leave out one of the two",
                         "with --listen none, no member can connect to %s", args->public_address);
    }
    if (args->public_address != NULL) {
        TRY(resolve_public_address(&args->public_address, &invocation->region, fault));
    }
    TRY(begin_ranks(invocation));
    bool rank0_reports = request->check && invocation->ranks.launch.rank > 0;
    if (invocation->ranks.is_parent || rank0_reports) {
        return OK;
    }
    args->swarm = invocation->positionals[0];
    args->reports_only = request->check;
    args->overrides = invocation->overrides;
    args->override_count = invocation->override_count;
    TRY(member_run_read(member, args, fault));
    if (request->check) {
        return report_member_needs(member, request->json, fault);
    }
    TRY(check_fit(member, request->json, fault));
    TRY(member_run_prepare(member, fault));
    service_send_lines("READY=1\nSTATUS=member of the swarm");
    enum status status = member_run_execute(member, fault);
    service_send_lines("STOPPING=1");
    return status;
}

static void finish_join(void *context) {
    struct request *request = context;
    member_run_finish(&request->member);
}

static const struct option OPTIONS[] = {
    {OPTION("--check", FLAG, check),
     .help = "report memory, time, disk, traffic, data, admission and reachability, and exit",
     .example = "austen.skep --check"},
    {OPTION("--identity", TEXT, args.identity), .value_name = "FILE",
     .help = "identity of this member; default: skep/identity in $XDG_CONFIG_HOME",
     .example = "austen.skep --identity anna.identity"},
    {OPTION("--listen", TEXT, args.listen), .value_name = "ADDR",
     .help = "address to listen on for other members; default: any free port; none: do not listen",
     .example = "austen.skep --listen tcp://0.0.0.0:7701"},
    {OPTION("--name", TEXT, args.name), .value_name = "NAME",
     .help = "name of this member in the reports of the tracker",
     .example = "austen.skep --name anna-2"},
    {OPTION("--public", TEXT, args.public_address), .value_name = "ADDR",
     .help = "address that other members use, if it differs from --listen",
     .example = "austen.skep --listen tcp://0.0.0.0:7701 --public tcp://192.0.2.7:7701"},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX, .value_name = "N",
     .help = "number of ranks to start on this machine; default: 1",
     .example = "austen.skep --ranks 2"},
    {OPTION("--json", FLAG, json), .help = "print the report as one JSON document",
     .example = "austen.skep --check --json"},
    {.name = "--target",
     .kind = OPTION_RUN_KEY,
     .value_name = "TARGET",
     .help = "profile to plan for; default: this machine",
     .example = "austen.skep --target rtx4090-24g"},
};

const struct command COMMAND_JOIN = {
    .name = "join",
    .arguments = "SWARM",
    .summary = "train as a member of a swarm, given as NAME.skep or tcp://HOST:PORT#KEY",
    .details =
        "SWARM is the manifest NAME.skep or the join string tcp://HOST:PORT#KEY of a tracker. "
        "Local "
        "keys such as data.train and threads can be set; shared keys come from the manifest. The "
        "member keeps its state in $STATE_DIRECTORY, else in skep/NAME in $XDG_STATE_HOME, and "
        "resumes from it.",
    .example = "austen.skep data.train=train.txt data.validation=validation.txt",
    .positional_count = 1,
    .takes_overrides = true,
    .runs_long = true,
    REQUEST_OPTIONS,
    .run = run_join,
    .finish = finish_join,
};
