/* launch: which rank this process is, by what its launcher says; and a launcher of our own. */
#ifndef SKEP_TRANSPORT_SITE_LAUNCH_H
#define SKEP_TRANSPORT_SITE_LAUNCH_H

#include "transport/site/site.h"

#include <signal.h>
#include <stdbool.h>

enum {
    LAUNCH_PARENT = -1,        /* place.rank of the process that is to start the ranks */
    LAUNCH_GRACE_MS = 4000,    /* for the others to end by themselves: a silent rank shows in 3 s */
    LAUNCH_PORT_FIRST = 20000, /* ports derived from a job's number lie below the kernel's own */
    LAUNCH_PORT_COUNT = 12000,
};

/* A variable of the environment, NULL when it is not set. What it gives stays valid. */
typedef const char *launch_variable(void *context, const char *name);

/* launch_detect: who this process is among its ranks.
 * `ranks` is the flag's value, 0 without the flag. It beats the environment: with two or more this
 * process is the parent (place->rank == LAUNCH_PARENT), unless it was started by one. Otherwise
 * the innermost launcher counts: RANK and its companions, OpenMPI's variables, Slurm's inside an
 * srun step; without any of them a world of one.
 * limits  0 <= ranks <= RANKS_MAX
 * errors  STATUS_INPUT naming the variable, its value and what was wanted */
MUST_CHECK enum status launch_detect(int ranks, struct launch_info *place, struct fault *fault);

/* launch_detect_from: the same by any environment. */
MUST_CHECK enum status launch_detect_from(int ranks, launch_variable *variable, void *context,
                                          struct launch_info *place, struct fault *fault);

/* launch_children: start `ranks` copies of this program with the same arguments and wait for them.
 * Signals SIGINT, SIGTERM, SIGHUP that a process sent are passed on, each once (see
 * launch_is_forwarded); those of a terminal reach the children by themselves. When one ends badly
 * the others have LAUNCH_GRACE_MS to end, then they are killed. One that is stopped for
 * SITE_SILENCE_MS is lost. A killed parent takes its children along (SIGTERM). The caller has no
 * threads and has written out what it buffers.
 * limits     2 <= ranks <= RANKS_MAX
 * exit_code  0 when all ended well; else of the rank that failed by itself first; 4 when one was
 *            lost; 128 + n when ranks ended by signal n after it was passed on
 * errors     STATUS_FAILED when a rank cannot be started; those that were are ended */
MUST_CHECK enum status launch_children(int ranks, char **arguments, int *exit_code,
                                       struct fault *fault);

/* launch_is_forwarded: did the parent pass this signal on? A signal to a whole group or control
 * group reaches a rank twice, directly and forwarded: the number of times that someone asked is the
 * greater of the two counts. Safe in a signal handler. */
bool launch_is_forwarded(const siginfo_t *signal);

#endif
