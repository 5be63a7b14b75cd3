/* shm_state: the state of the shm communicator, made by shm.c, and its calls. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_STATE_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_STATE_H

#include "transport/collectives/shm.h"
#include "transport/collectives/shm_board.h"
#include "transport/collectives/shm_sum.h"

struct shm {
    struct communicator *communicator;
    struct group_setup meeting;
    void *control; /* the mapping that the board's signals are in */
    struct shm_board board;
    unsigned char *own[SPACE_COUNT];
    unsigned char **arenas[SPACE_COUNT]; /* [world], by rank; the own one is own[] */
    const void **sources;                /* [world]: of one sum */
    float *scratch;                      /* [SHM_SUM_BLOCK] */
};

/* shm_run: one call; `self` is a struct shm (struct communicator_methods). */
void shm_run(void *self, const struct collective_call *call);

#endif
