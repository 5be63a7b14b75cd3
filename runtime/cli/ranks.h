/* ranks: how a command becomes one rank of a site, and how it ends as one. */
#ifndef SKEP_CLI_RANKS_H
#define SKEP_CLI_RANKS_H

#include "runtime/session/session.h"

/* What a command that runs on several ranks was asked. */
struct ranks_request {
    const char *flag; /* the value of --ranks; NULL: not given */
    bool environment; /* a launcher's variables count too */
    bool saves;       /* it saves when asked to stop; asked before that, it ends with exit code 0 */
    int argc;         /* as the command has them */
    char **argv;
};

struct ranks {
    struct session *session;
    struct launch_info place;
    bool parent;   /* this process only started the ranks, and has ended */
    int exit_code; /* of the parent */
    char who[32];  /* "rank 3: " in front of its lines */
};

/* ranks_begin: who this process is; session->ranks, local_ranks and site are set for it. With
 * --ranks it starts them, waits, and ranks->parent is set: nothing is left to do. A rank finds the
 * others, and from then on a lost one ends this process with exit code 4, said in one line. A
 * command that saves begins to watch for signals (stop_watch).
 * memory  *ranks must stay where it is; the site lives in the session's region
 * errors  STATUS_USAGE, those of launch_detect, launch_children, site_open and site_watch */
MUST_CHECK enum status ranks_begin(const struct ranks_request *request, struct session *session,
                                   struct ranks *ranks, struct fault *fault);

/* ranks_count: how many ranks ranks_begin would make, and where; none is started or met.
 * session->ranks and local_ranks are set; place.rank is LAUNCH_PARENT where it would start them.
 * errors  STATUS_USAGE, those of launch_detect */
MUST_CHECK enum status ranks_count(const struct ranks_request *request, struct session *session,
                                   struct ranks *ranks, struct fault *fault);

/* ranks_end: the exit code of a command that ends with `status`, whose fault is printed where it is
 * news. Ranks that end together leave the site; one that fails alone tells the others why. Comes
 * before session_finish. */
int ranks_end(struct ranks *ranks, enum status status, const struct fault *fault);

#endif
