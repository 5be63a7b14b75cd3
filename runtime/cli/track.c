/* track: `skep track RUN.yaml` runs the tracker of a swarm: it writes the manifest, prints the join
 * string and serves members until it is stopped. With `--rollback ROUND` the command orders the
 * running tracker of that swarm to return to the state after round ROUND. */
#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/swarm_setup/rollback_setup.h"
#include "runtime/swarm_setup/tracker_delegation.h"
#include "runtime/swarm_setup/tracker_setup.h"
#include "transport/site/service.h"
#include "transport/site/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct request { /* options of `skep track`, and the tracker that it runs */
    struct tracker_setup_args args;
    struct tracker_setup setup;
    int64_t rollback_round; /* round to return to; 0: run the tracker */
    const char *delegate;   /* public key of the tracker to delegate to; NULL: run the tracker */
    bool continues;         /* order the tracker to continue after a fork, and exit */
    int64_t days;           /* number of days for which the delegation is valid; 0: forever */
    bool json;              /* --json */
};

/* Opens *fd, which becomes readable when SIGINT, SIGTERM or SIGHUP arrives, so that the tracker's
 * loop wakes. Threads started later inherit the signal mask, so none of them receives these
 * signals. */
static enum status watch_signals(int *fd, struct fault *fault) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    *fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? OK
                    : fault_set_errno(fault, STATUS_FAILED, "signals", "cannot be watched", errno);
}

static void print_json(const struct tracker_setup *setup, const char *join) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "join", join);
    json_add_text(json, "name", setup->manifest.name);
    json_add_hex(json, "hash", setup->manifest.hash.bytes, HASH_BYTES);
    json_add_text(json, "manifest", setup->manifest_path);
    json_add_text(json, "roster", setup->allow_list_path);
    json_add_text(json, "state", setup->state_folder);
    json_stdout_end(&out);
}

/* Warns if the address in the join string has changed, or has another port number than the one on
 * which the tracker listens. */
static void warn_of_addresses(const struct request *request) {
    const struct tracker_setup *setup = &request->setup;
    const char *listen_port = strrchr(setup->listen_address, ':');
    const char *public_port = strrchr(setup->join.address, ':');
    if (strcmp(setup->join.address, setup->manifest.join.address) != 0) {
        log_line(
            LOG_WARNING,
            "%s: the tracker's address has changed from %s to %s: members need the new join string",
            setup->manifest_path, setup->manifest.join.address, setup->join.address);
    }
    if (request->args.listen_address == NULL && strcmp(listen_port, public_port) != 0) {
        log_line(LOG_WARNING,
                 "the join string has port %s, but the tracker listens on port %s; unless a router "
                 "forwards it and the next one, add --listen tcp://*:%s",
                 public_port + 1, listen_port + 1, public_port + 1);
    }
}

/* Prints the join string, and logs the addresses, files and limits of the swarm. */
static void report_listening(const struct request *request,
                             const struct tracker_loop_options *options) {
    const struct tracker_setup *setup = &request->setup;
    char join[JOIN_STRING_BYTES], hash[HASH_HEX_BYTES], bytes[24];
    join_string_write(&setup->join, join);
    if (request->json) {
        print_json(setup, join);
    } else {
        puts(join);
    }
    fflush(stdout);
    log_line(LOG_INFO, "swarm %s, manifest %.16s%s in %s", setup->manifest.name,
             hash_hex(&setup->manifest.hash, hash), setup->is_new ? ", created now," : "",
             setup->manifest_path);
    log_line(LOG_INFO,
             "listening on %s and, for the delegation, on the port after it; advertised as %s; "
             "allow-list: %s",
             setup->listen_address, setup->join.address, setup->allow_list_path);
    warn_of_addresses(request);
    log_line(LOG_INFO, "%u slices, at most %u members, %u committed rounds; %s of memory reserved",
             options->settings.slice_count, options->members_max, options->settings.commits_max,
             text_format_bytes(tracker_loop_bytes(options), bytes));
}

static enum status serve_requests(const struct request *request,
                                  const struct tracker_loop_options *options, struct region *region,
                                  struct fault *fault) {
    struct tracker_loop *loop;
    TRY(tracker_loop_open(options, region, &loop, fault));
    report_listening(request, options);
    service_send_lines("READY=1\nSTATUS=admitting members");
    enum status status = tracker_loop_run(loop, fault);
    service_send_lines("STOPPING=1");
    tracker_loop_close(loop);
    return status;
}

static void print_rollback_order_json(const struct rollback_effect *plan) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_u64(json, "round", plan->target.state.round);
    json_add_hex(json, "root", plan->target.state.root.bytes, HASH_BYTES);
    json_add_u64(json, "undone", plan->undone_commits);
    json_begin_array(json, "keepers");
    for (uint32_t i = 0; i < plan->target.keeper_count; i++) {
        json_add_hex(json, NULL, plan->target.keepers[i].bytes, SWARM_IDENTITY_BYTES);
    }
    json_end(json);
    json_add_text(json, "order", plan->order_path);
    json_stdout_end(&out);
}

static void print_rollback_order(const struct rollback_effect *plan) {
    enum { SHOWN_BYTES = 6 }; /* number of bytes of a public key that are printed */
    char root[HASH_HEX_BYTES];
    const struct past_state *state = &plan->target.state;
    printf("returns to  round %u, commit %u, root %.16s\n", state->round, state->commits,
           hash_hex(&state->root, root));
    printf("undoes      %u commit%s, up to round %u; their samples will be used again\n",
           plan->undone_commits, plan->undone_commits == 1 ? "" : "s", plan->newest_round);
    printf("stored by  ");
    for (uint32_t i = 0; i < plan->target.keeper_count; i++) {
        char id[2 * SHOWN_BYTES + 1];
        struct text text = text_over(id, sizeof id);
        hex_add(&text, plan->target.keepers[i].bytes, SHOWN_BYTES);
        printf(" %s", id);
    }
    printf("\norder       %s, which the tracker reads at once or when it starts\n",
           plan->order_path);
}

static enum status order_rollback(struct request *request, struct region *region,
                                  struct fault *fault) {
    struct rollback_effect *plan = region_alloc(region, 1, sizeof *plan);
    TRY(rollback_setup_sign_order(&request->args, (uint32_t)request->rollback_round, region,
                                  &request->setup, plan, fault));
    if (request->json) {
        print_rollback_order_json(plan);
    } else {
        print_rollback_order(plan);
    }
    return OK;
}

static enum status order_to_continue(struct request *request, struct region *region,
                                     struct fault *fault) {
    struct continue_file file;
    const struct tracker_setup *setup = &request->setup;
    TRY(continue_setup_sign_order(&request->args, region, &request->setup, &file, fault));
    if (request->json) {
        struct json_stdout out;
        struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
        json_add_hex(json, "state", file.state.bytes, HASH_BYTES);
        json_add_u64(json, "members", file.order.count);
        json_add_text(json, "order", setup->continue_path);
        json_stdout_end(&out);
        return OK;
    }
    printf("continues   with %u member%s that this tracker has; stop every copy of it\n"
           "order       %s, which the tracker reads at once\n",
           file.order.count, file.order.count == 1 ? "" : "s", setup->continue_path);
    return OK;
}

static enum status renew_delegation(struct request *request, struct region *region,
                                    struct fault *fault) {
    const struct tracker_setup *setup = &request->setup;
    char key[KEYS_TEXT_BYTES];
    TRY(tracker_delegation_renew(&request->args, request->delegate, request->days, region,
                                 &request->setup, fault));
    const struct delegation *made = &setup->delegation.delegation;
    public_keys_write(&made->tracker, key);
    if (request->json) {
        struct json_stdout out;
        struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
        json_add_text(json, "tracker", key);
        json_add_u64(json, "serial", made->serial);
        json_add_u64(json, "expires_s", made->expires_s);
        json_add_text(json, "delegation", setup->delegation_path);
        json_stdout_end(&out);
        return OK;
    }
    printf(
        "delegated   to %.16s..., serial %llu%s\ndelegation  %s, which the tracker reads at once "
        "or when it starts\n",
        key, (unsigned long long)made->serial, made->expires_s == 0 ? "" : ", until it expires",
        setup->delegation_path);
    return OK;
}

static enum status run_track(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct tracker_setup_args *args = &request->args;
    struct fault *fault = &invocation->fault;
    watch_stop_signals();
    args->run_path = invocation->positionals[0];
    args->overrides = invocation->overrides;
    args->override_count = invocation->override_count;
    if (request->delegate != NULL) {
        return renew_delegation(request, &invocation->region, fault);
    }
    if (request->days > 0) {
        return fault_set(fault, STATUS_USAGE, "--days", "add --delegate KEY, or leave out --days",
                         "limits a delegation, but none is signed");
    }
    if (request->rollback_round > 0) {
        return order_rollback(request, &invocation->region, fault);
    }
    if (request->continues) {
        return order_to_continue(request, &invocation->region, fault);
    }
    TRY(tracker_setup_prepare(args, &invocation->region, &request->setup, fault));
    struct tracker_loop_options options = tracker_setup_options(&request->setup);
    TRY(watch_signals(&options.stop_fd, fault));
    enum status status =
        stop_requested() ? OK : serve_requests(request, &options, &invocation->region, fault);
    close(options.stop_fd);
    return status;
}

static void finish_track(void *context) {
    struct request *request = context;
    keys_wipe(&request->setup.keys);
}

static const struct option OPTIONS[] = {
    {OPTION("--listen", TEXT, args.listen_address), .value_name = "ADDR",
     .help = "address to listen on; port number 0: any free one; default: tcp://*:7700",
     .example = "run.yaml --listen tcp://0.0.0.0:7700"},
    {OPTION("--public", TEXT, args.public_address), .value_name = "ADDR",
     .help = "address in the join string, if it differs from --listen",
     .example = "run.yaml --public tcp://swarm.example.org:7700"},
    {OPTION("--state", TEXT, args.state_folder), .value_name = "DIR",
     .help = "folder for manifest, identity and ledger; default: RUN/ beside RUN.yaml",
     .example = "run.yaml --state tracker"},
    {OPTION("--roster", TEXT, args.allow_list_path), .value_name = "FILE",
     .help = "allow-list; default: roster.yaml in the state folder",
     .example = "run.yaml --roster roster.yaml"},
    {OPTION("--identity", TEXT, args.identity_path), .value_name = "FILE",
     .help = "identity of the tracker; default: `identity` in the state folder",
     .example = "run.yaml --identity tracker.identity"},
    {OPTION("--ledger", TEXT, args.ledger_copy_path), .value_name = "FILE",
     .help = "copy of the ledger from a member, to recreate a lost store",
     .example = "run.yaml --ledger ledger.jsonl"},
    {OPTION("--operator-key", TEXT, args.operator_key_path), .value_name = "FILE",
     .help = "key of the operator; default: operator.key in the state folder",
     .example = "run.yaml --operator-key operator.key"},
    {OPTION("--delegate", TEXT, delegate), .value_name = "KEY",
     .help = "sign a delegation to the tracker with this public key, and exit",
     .example = "run.yaml --delegate KEY --operator-key operator.key"},
    {OPTION("--days", INTEGER, days), .minimum = 1, .maximum = 36500, .value_name = "D",
     .help = "with --delegate: days for which the delegation is valid; default: for ever",
     .example = "run.yaml --delegate KEY --days 90"},
    {OPTION("--rollback", INTEGER, rollback_round), .minimum = 1, .maximum = UINT32_MAX,
     .value_name = "ROUND",
     .help = "order the tracker to return to the state after this round, and exit",
     .example = "run.yaml --rollback 12"},
    {OPTION("--continue", FLAG, continues),
     .help = "order the tracker to continue with the members that it has, after a fork, and exit",
     .example = "run.yaml --continue"},
    {OPTION("--json", FLAG, json),
     .help = "print the join string and the paths as one JSON document",
     .example = "run.yaml --json"},
};

const struct command COMMAND_TRACK = {
    .name = "track",
    .arguments = "RUN.yaml",
    .summary = "run the tracker of a swarm, or order it to roll back; prints the join string",
    .details =
        "The tracker admits members, opens rounds and keeps the ledger; it holds no weights. The "
        "first start creates the manifest NAME.skep, and each start prints the join string.",
    .example = "run.yaml --listen tcp://0.0.0.0:7700",
    .positional_count = 1,
    .takes_overrides = true,
    .runs_long = true,
    REQUEST_OPTIONS,
    .run = run_track,
    .finish = finish_track,
};
