/* launch: which rank this process is, by what its launcher says. */
#ifndef SKEP_TRANSPORT_LAUNCH_H
#define SKEP_TRANSPORT_LAUNCH_H

#include "transport/site.h"

enum {
    LAUNCH_PARENT = -1,        /* place.rank of the process that is to start the ranks */
    LAUNCH_PORT_FIRST = 20000, /* ports derived from a job's number lie below the kernel's own */
    LAUNCH_PORT_COUNT = 12000,
};

/* A variable of the environment, NULL when it is not set. What it gives stays valid. */
typedef const char *launch_variable(void *context, const char *name);

/* launch_place: who this process is among its ranks.
 * `ranks` is the flag's value, 0 without the flag. It beats the environment: with two or more this
 * process is the parent (place->rank == LAUNCH_PARENT), unless it was started by one. Otherwise
 * the innermost launcher counts: RANK and its companions, OpenMPI's variables, Slurm's inside an
 * srun step; without any of them a world of one.
 * limits  0 <= ranks <= RANKS_MAX
 * errors  STATUS_INPUT naming the variable, its value and what was wanted */
MUST_CHECK enum status launch_place(int ranks, struct site_place *place, struct fault *fault);

/* launch_place_by: the same by any environment. */
MUST_CHECK enum status launch_place_by(int ranks, launch_variable *variable, void *context,
                                       struct site_place *place, struct fault *fault);

#endif
