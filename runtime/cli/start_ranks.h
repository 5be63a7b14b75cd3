/* start_ranks: how a command becomes one rank of a site, and how it ends as one. */
#ifndef SKEP_CLI_START_RANKS_H
#define SKEP_CLI_START_RANKS_H

#include "runtime/session/session.h"

struct invocation;

struct ranks_request {
    int64_t count;          /* the value of --ranks; 0: not given */
    bool reads_environment; /* a launcher's variables count too */
    bool saves;             /* saves on a stop request; before ranks_begin returns, such a
                                  request ends the process with exit code 0 */
};

struct ranks {
    struct session *session; /* NULL: ranks_begin was not called */
    struct launch_info launch;
    bool is_parent;      /* this process only started the ranks, and all have ended */
    int exit_code;       /* of the parent */
    char log_prefix[32]; /* "rank 3: " */
};

/* ranks_begin: find out which rank this process is, and set session->ranks, local_ranks and site.
 * With --ranks, this process starts the ranks and waits for their end: ranks.is_parent is then
 * set, and nothing remains to be done. A rank connects to the others. From then on, a lost rank
 * ends this process with exit code 4 and one message. A command that saves begins to watch for
 * signals (watch_stop_signals).
 * memory  the site is in the session's region; invocation->ranks must not move
 * errors  those of launch_detect, launch_children, site_open and site_watch */
MUST_CHECK enum status ranks_begin(const struct ranks_request *request, struct session *session,
                                   struct invocation *invocation);

/* ranks_count: determine how many ranks ranks_begin would make, without starting or connecting any.
 * Sets session->ranks and local_ranks; launch.rank is LAUNCH_PARENT if ranks_begin would start
 * ranks.
 * errors  those of launch_detect */
MUST_CHECK enum status ranks_count(const struct ranks_request *request, struct session *session,
                                   struct invocation *invocation);

/* ranks_end: the exit code of a command that ends with `status`. Prints the fault, unless another
 * rank on the same terminal prints it. Ranks that end together leave the site. A rank that fails
 * alone sends its fault to the others. Call it before session_finish. */
int ranks_end(struct ranks *ranks, enum status status, const struct fault *fault);

#endif
