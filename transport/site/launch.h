/* launch: reads the launcher's environment to determine this process's rank, and starts the
 * ranks of one machine. */
#ifndef SKEP_TRANSPORT_SITE_LAUNCH_H
#define SKEP_TRANSPORT_SITE_LAUNCH_H

#include "transport/site/site.h"

#include <signal.h>
#include <stdbool.h>

enum {
    /* value of launch_info.rank in the parent process, which starts the ranks */
    LAUNCH_PARENT = -1,
    LAUNCH_GRACE_MS = 4000, /* time for ranks to end after a failure, above the 3 s to detect it */
    /* first port derived from a job id, below the range that the kernel assigns */
    LAUNCH_PORT_FIRST = 20000,
    LAUNCH_PORT_COUNT = 12000, /* number of ports that a job id selects from */
};

/* Returns a variable of the environment, or NULL if it is not set. The text stays valid. */
typedef const char *launch_variable(void *context, const char *name);

/* launch_detect: find out which rank this process is. `ranks` is the value of --ranks, 0 without
 * it. The flag takes precedence over the environment: with two or more ranks this process is the
 * parent (launch->rank == LAUNCH_PARENT), unless a parent started it. Otherwise the innermost
 * launcher decides: RANK and related variables, OpenMPI's variables, or Slurm's in an srun step.
 * Without any of them the world has one rank.
 * limits  0 <= ranks <= RANKS_MAX
 * errors  STATUS_INPUT: a variable is missing or invalid; the fault identifies it */
MUST_CHECK enum status launch_detect(int ranks, struct launch_info *launch, struct fault *fault);

/* launch_detect_from: launch_detect with environment variables that `variable` returns. */
MUST_CHECK enum status launch_detect_from(int ranks, launch_variable *variable, void *context,
                                          struct launch_info *launch, struct fault *fault);

/* launch_children: start `ranks` copies of this program with the same arguments and wait for them.
 * SIGINT, SIGTERM and SIGHUP from another process are forwarded, each once (see
 * launch_is_forwarded); a terminal sends its signals to the children directly. After one rank
 * fails, the others have LAUNCH_GRACE_MS to end before they are killed. A rank that is stopped for
 * SITE_SILENCE_MS is lost. If the parent is killed, its children get SIGTERM.
 * limits     2 <= ranks <= RANKS_MAX; the caller has no threads and no buffered output
 * exit_code  0 if all ranks succeeded; else that of the first rank that failed by itself; 4 if a
 *            rank was lost; 128 + n if ranks ended by signal n after it was forwarded
 * errors     STATUS_FAILED: a rank cannot be started; the started ones have been killed */
MUST_CHECK enum status launch_children(int ranks, char **arguments, int *exit_code,
                                       struct fault *fault);

/* launch_is_forwarded: whether the parent forwarded this signal. A signal to a process group or
 * control group reaches a rank twice, directly and forwarded. The number of stop requests is
 * therefore the greater of the two counts. Safe in a signal handler. */
bool launch_is_forwarded(const siginfo_t *signal);

#endif
