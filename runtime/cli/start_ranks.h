/* start_ranks: makes the process of a command one rank of a site, and ends that rank. */
#ifndef SKEP_CLI_START_RANKS_H
#define SKEP_CLI_START_RANKS_H

#include "runtime/session/session.h"

struct invocation;

/* The parameters with which a command starts its ranks. */
struct ranks_request {
    int64_t count;          /* number of ranks from --ranks; 0: not given */
    bool reads_environment; /* whether to use the variables that launchers set */
    /* The command saves a snapshot on a stop request. Before ranks_begin returns, a stop request
     * ends the process with exit code 0. */
    bool saves_snapshots;
};

/* This process as one rank of a site, or as the process that starts the ranks. */
struct ranks {
    struct session *session; /* session of the rank; NULL: ranks_begin was not called */
    struct launch_info launch;
    bool is_parent;      /* this process only started the ranks, all of which have ended */
    int exit_code;       /* if is_parent: exit code of this process */
    char log_prefix[32]; /* beginning of each log line, such as "rank 3: " */
};

/* ranks_begin: determines the rank of this process, and sets session->ranks, local_ranks and site.
 * With --ranks, this process starts the ranks and waits until they end. ranks.is_parent is then
 * true, and the caller must return. Otherwise this process connects to the other ranks. From then
 * on, a lost rank ends this process with exit code 4 and one message. If the command saves
 * snapshots, starts to watch for signals (watch_stop_signals).
 * memory  the site is in the session's region; invocation->ranks must not move
 * errors  those of launch_detect, launch_children, site_open and site_start_watch */
MUST_CHECK enum status ranks_begin(const struct ranks_request *request, struct session *session,
                                   struct invocation *invocation);

/* ranks_determine_count: determines how many ranks ranks_begin would start, without starting or
 * connecting any. Sets session->ranks and local_ranks; launch.rank is LAUNCH_PARENT if ranks_begin
 * would start ranks.
 * errors  those of launch_detect */
MUST_CHECK enum status ranks_determine_count(const struct ranks_request *request,
                                             struct session *session,
                                             struct invocation *invocation);

/* ranks_end: returns the exit code of a command that ends with `status`. Prints the fault, unless
 * another rank on the same terminal prints it. Ranks that end together leave the site. A rank that
 * fails alone sends its fault to the others. Call it before session_finish. */
int ranks_end(struct ranks *ranks, enum status status, const struct fault *fault);

#endif
