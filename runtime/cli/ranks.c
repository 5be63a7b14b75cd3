#include "runtime/cli/ranks.h"

#include "base/log.h"
#include "runtime/cli/arguments.h"
#include "transport/site/launch.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 512 };

/* The command's arguments as the program had them: main has taken out the verbosity, which must
 * come before a "--". */
static enum status start_ranks(const struct ranks_request *request, int count, int *exit_code,
                               struct fault *fault) {
    char *arguments[ARGUMENTS_MAX];
    int next = 0;
    if (request->argc + 3 > ARGUMENTS_MAX) {
        return fault_set(fault, STATUS_USAGE, request->argv[0], NULL, "more than %d arguments",
                         ARGUMENTS_MAX - 3);
    }
    arguments[next++] = "skep";
    if (!log_enabled(LOG_INFO) || log_enabled(LOG_DEBUG)) {
        arguments[next++] = log_enabled(LOG_DEBUG) ? "-v" : "-q";
    }
    for (int i = 0; i < request->argc; i++) {
        arguments[next++] = request->argv[i];
    }
    arguments[next] = NULL;
    if (request->saves) {
        stop_block_signals(); /* or one rank would leave while another, that met it, stays */
    }
    return launch_children(count, arguments, exit_code, fault);
}

static enum status detect_launch(const struct ranks_request *request, struct launch_info *place,
                                 struct fault *fault) {
    int64_t wanted = 0;
    TRY(argument_i64("--ranks", request->flag, 1, &wanted, fault));
    if (wanted > RANKS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--ranks", NULL, "%lld ranks; at most %d make a site",
                         (long long)wanted, RANKS_MAX);
    }
    if (request->flag == NULL && !request->environment) {
        *place = (struct launch_info){.world = 1, .local_world = 1, .source = "alone"};
        return OK;
    }
    return launch_detect((int)wanted, place, fault);
}

/* A fault that says which rank this is needs no rank in front of it. */
static void print_fault(const struct ranks *ranks, const struct fault *fault) {
    char own[32];
    snprintf(own, sizeof own, "rank %d", ranks->place.rank);
    if (ranks->place.rank <= 0 || strcmp(fault->subject, own) == 0) {
        fault_print(fault, STDERR_FILENO);
        return;
    }
    log_line(LOG_ERROR, "skep: %s: %s%s%s", fault->subject, fault->reason,
             fault->remedy[0] != '\0' ? "; " : "", fault->remedy);
}

/* What runs on a device, for others that do not come any more. */
static void end_collectives(const struct ranks *ranks) {
    if (ranks->session->communicator.methods != NULL && program_waits(&ranks->session->bound)) {
        communicator_abort(&ranks->session->communicator);
    }
}

/* Nothing can be asked of the others any more, and a collective may be waiting for ever: the
 * process ends here and now. What runs on a device is ended before: another process would find it
 * busy. */
static void exit_rank_lost(void *context, const struct fault *fault) {
    const struct ranks *ranks = context;
    print_fault(ranks, fault);
    end_collectives(ranks);
    _exit(fault_exit_code(STATUS_LOST));
}

static enum status join_site(struct ranks *ranks, struct fault *fault) {
    struct session *session = ranks->session;
    (void)prctl(PR_SET_NAME, "skep"); /* started by --ranks it would be "exe" */
    if (ranks->place.rank > 0) {
        snprintf(ranks->who, sizeof ranks->who, "rank %d: ", ranks->place.rank);
        log_set_prefix(ranks->who);
    }
    TRY(site_open(&ranks->place, &session->region, &session->site, fault));
    return site_watch(session->site, exit_rank_lost, ranks, fault);
}

enum status ranks_begin(const struct ranks_request *request, struct session *session,
                        struct ranks *ranks, struct fault *fault) {
    *ranks = (struct ranks){.session = session};
    if (request->saves) {
        stop_exit_immediately();
    }
    enum status status = detect_launch(request, &ranks->place, fault);
    if (status == OK && ranks->place.rank == LAUNCH_PARENT) {
        ranks->parent = true;
        return start_ranks(request, ranks->place.world, &ranks->exit_code, fault);
    }
    if (status != OK) {
        return status;
    }
    session->ranks = ranks->place.world;
    session->local_ranks = ranks->place.local_world;
    status = ranks->place.world > 1 ? join_site(ranks, fault) : OK;
    if (request->saves) {
        stop_watch(); /* only now: to meet may take a minute */
    }
    return status;
}

enum status ranks_count(const struct ranks_request *request, struct session *session,
                        struct ranks *ranks, struct fault *fault) {
    *ranks = (struct ranks){.session = session};
    TRY(detect_launch(request, &ranks->place, fault));
    session->ranks = ranks->place.world;
    session->local_ranks = ranks->place.local_world;
    return OK;
}

/* Whether the others know what this rank knows. If not they are told, and not waited for: they may
 * sit in a collective. Ranks that are done part together, so that a loss before that is noticed. */
static bool part(struct ranks *ranks, enum status status, const struct fault *fault) {
    struct fault ignored;
    struct site *site = ranks->session->site;
    bool together = fault_exit_code(status) == 0 || site_has_agreed(site, fault);
    if (!together) {
        site_fail(site, fault);
    } else {
        together = site_agree(site, OK, &ignored) == OK;
    }
    site_leave(site);
    return together;
}

/* Ranks that share a terminal say once what all of them know. */
static bool is_news(const struct ranks *ranks, bool together) {
    return ranks->place.rank <= 0 || !together || strcmp(ranks->place.source, "--ranks") != 0;
}

int ranks_end(struct ranks *ranks, enum status status, const struct fault *fault) {
    bool together = false;
    if (ranks->session->site != NULL) {
        together = part(ranks, status, fault);
        if (!together) {
            end_collectives(ranks); /* nobody is left to take leave of */
        }
    }
    if (fault_exit_code(status) != 0 && is_news(ranks, together)) {
        print_fault(ranks, fault);
    }
    return ranks->parent && status == OK ? ranks->exit_code : fault_exit_code(status);
}
