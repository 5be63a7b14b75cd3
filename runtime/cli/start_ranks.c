#include "runtime/cli/start_ranks.h"

#include "base/log.h"
#include "runtime/cli/cli.h"
#include "transport/site/launch.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 512 }; /* maximum number of arguments of the command that starts a rank */

/* Starts the ranks with the arguments of this process. main has removed -q and -v, so they are
 * added again. */
static enum status start_ranks(const struct ranks_request *request, struct invocation *invocation) {
    char *arguments[ARGUMENTS_MAX];
    struct ranks *ranks = &invocation->ranks;
    int next = 0;
    if (invocation->argc + 3 > ARGUMENTS_MAX) {
        return fault_set(&invocation->fault, STATUS_USAGE, invocation->argv[0],
                         "pass fewer arguments", "the command has more than %d arguments",
                         ARGUMENTS_MAX - 3);
    }
    arguments[next++] = "skep";
    if (!log_is_enabled(LOG_INFO) || log_is_enabled(LOG_DEBUG)) {
        arguments[next++] = log_is_enabled(LOG_DEBUG) ? "-v" : "-q";
    }
    for (int i = 0; i < invocation->argc; i++) {
        arguments[next++] = invocation->argv[i];
    }
    arguments[next] = NULL;
    if (request->saves_snapshots) {
        /* A signal that is not blocked could end one rank while others wait for that rank. */
        block_stop_signals();
    }
    ranks->is_parent = true;
    return launch_children(ranks->launch.world, arguments, &ranks->exit_code, &invocation->fault);
}

/* Prints a fault, with the rank number as prefix unless the subject of the fault is this rank. */
static void print_rank_fault(const struct ranks *ranks, const struct fault *fault) {
    char rank_name[32];
    snprintf(rank_name, sizeof rank_name, "rank %d", ranks->launch.rank);
    if (ranks->launch.rank <= 0 || strcmp(fault->subject, rank_name) == 0) {
        fault_print(fault, STDERR_FILENO);
        return;
    }
    log_show_times(false); /* as fault_print */
    log_line(LOG_ERROR, "skep: %s: %s%s%s", fault->subject, fault->reason,
             fault->remedy[0] != '\0' ? "; " : "", fault->remedy);
}

/* Aborts collectives on a device, which would wait for lost ranks forever. */
static void abort_collectives(const struct ranks *ranks) {
    if (ranks->session->communicator.methods != NULL &&
        program_needs_rehearsal(&ranks->session->bound)) {
        communicator_abort(&ranks->session->communicator);
    }
}

/* Ends the process immediately, because a collective may wait for the lost rank forever.
 * Collectives on a device are aborted first, so that they do not occupy the device after the
 * process has ended. */
static void exit_after_rank_loss(void *context, const struct fault *fault) {
    const struct ranks *ranks = context;
    print_rank_fault(ranks, fault);
    abort_collectives(ranks);
    _exit(fault_exit_code(STATUS_LOST));
}

static enum status join_site(struct ranks *ranks, struct fault *fault) {
    struct session *session = ranks->session;
    /* sets the process's name, which is "exe" in a process that --ranks started */
    (void)prctl(PR_SET_NAME, "skep");
    if (ranks->launch.rank > 0) {
        snprintf(ranks->log_prefix, sizeof ranks->log_prefix, "rank %d: ", ranks->launch.rank);
        log_set_prefix(ranks->log_prefix);
    }
    TRY(site_open(&ranks->launch, &session->region, &session->site, fault));
    return site_start_watch(session->site, exit_after_rank_loss, ranks, fault);
}

enum status ranks_determine_count(const struct ranks_request *request, struct session *session,
                                  struct invocation *invocation) {
    struct launch_info *launch = &invocation->ranks.launch;
    invocation->ranks = (struct ranks){.session = session};
    if (request->count == 0 && !request->reads_environment) {
        *launch = (struct launch_info){.world = 1, .local_world = 1, .source = "alone"};
    } else {
        TRY(launch_detect((int)request->count, launch, &invocation->fault));
    }
    session->ranks = launch->world;
    session->local_ranks = launch->local_world;
    return OK;
}

enum status ranks_begin(const struct ranks_request *request, struct session *session,
                        struct invocation *invocation) {
    struct ranks *ranks = &invocation->ranks;
    if (request->saves_snapshots) {
        exit_on_stop_signals();
    }
    TRY(ranks_determine_count(request, session, invocation));
    if (ranks->launch.rank == LAUNCH_PARENT) {
        return start_ranks(request, invocation);
    }
    enum status status = ranks->launch.world > 1 ? join_site(ranks, &invocation->fault) : OK;
    if (request->saves_snapshots) {
        watch_stop_signals(); /* from here on, a stop signal no longer ends the process at once */
    }
    return status;
}

/* Leaves the site. Returns whether all ranks end with the same status. If not, this rank sends its
 * fault and does not wait for the others, which may be in a collective. Ranks that succeed wait for
 * each other before they leave, so that the loss of a rank before then is detected. */
static bool leave_site(struct ranks *ranks, enum status status, const struct fault *fault) {
    struct fault ignored;
    struct site *site = ranks->session->site;
    bool is_shared = fault_exit_code(status) == 0 || site_has_agreed(site, fault);
    if (!is_shared) {
        site_report_failure(site, fault);
    } else {
        is_shared = site_agree(site, OK, &ignored) == OK;
    }
    site_leave(site);
    return is_shared;
}

/* Whether this rank prints the fault. If the ranks share a terminal and have the same fault, only
 * rank 0 prints it. */
static bool should_print_fault(const struct ranks *ranks, bool is_shared) {
    return ranks->launch.rank <= 0 || !is_shared || strcmp(ranks->launch.source, "--ranks") != 0;
}

int ranks_end(struct ranks *ranks, enum status status, const struct fault *fault) {
    bool is_shared = false;
    if (ranks->session != NULL && ranks->session->site != NULL) {
        is_shared = leave_site(ranks, status, fault);
        if (!is_shared) {
            abort_collectives(ranks);
        }
    }
    if (fault_exit_code(status) != 0 && should_print_fault(ranks, is_shared)) {
        print_rank_fault(ranks, fault);
    }
    return ranks->is_parent && status == OK ? ranks->exit_code : fault_exit_code(status);
}
