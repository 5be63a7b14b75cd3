/* shm_state: the state of an shm communicator. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_STATE_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_STATE_H

#include "transport/collectives/shm.h"
#include "transport/collectives/shm_board.h"
#include "transport/collectives/shm_sum.h"

struct shm {
    struct communicator *communicator;
    struct group_setup setup;        /* how the ranks exchange data while opening and registering */
    void *control;                   /* mapping that contains the signals of the board */
    struct shm_board board;          /* progress of all ranks in their calls */
    unsigned char *own[SPACE_COUNT]; /* this rank's memory of each space */
    unsigned char *
        *arenas[SPACE_COUNT]; /* [world]: memory of each rank in each space, mapped here */
    const void **sources;     /* [world], operands of one sum */
    float *scratch;           /* [SHM_SUM_BLOCK], partial sums */
};

/* shm_run: make one call; `self` is a struct shm. */
void shm_run(void *self, const struct collective_call *call);

#endif
