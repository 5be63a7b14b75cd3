/* shm_board: the progress of each rank in the calls of each group, in shared memory.
 *
 * A call has a fixed number of phases. A rank that completes one increments the phase of its own
 * signal and wakes the ranks that sleep on it. Only the owner of a signal writes its phase. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_BOARD_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_BOARD_H

#include "transport/collectives/collectives.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The progress of one rank in one group, on its own cache line. Initially zero. */
struct shm_signal {
    _Alignas(64) _Atomic uint32_t phase; /* number of phases that the rank has completed */
    _Atomic uint32_t
        /* number of sleeping ranks; a rank that is killed while it sleeps stays counted, which
         * only causes unneeded wake-ups */
        sleepers;
};

struct shm_board {
    struct shm_signal *signals;  /* [COLLECTIVE_GROUPS_MAX][world], mapped by all ranks */
    int rank, world;             /* rank of this process, and number of ranks */
    int spins;                   /* polls of a signal before sleeping */
    _Atomic uint32_t is_aborted; /* 1: every wait of this rank returns false */
};

/* shm_board_bytes: size of the signals for `world` ranks. */
uint64_t shm_board_bytes(int world);

/* shm_board_init: use the given signals. Waits spin only if each rank has its own processor. */
void shm_board_init(struct shm_board *board, struct shm_signal *signals, int rank, int world);

/* shm_board_publish: complete the next phase of this rank in `group`, and return it. */
uint32_t shm_board_publish(struct shm_board *board, int group);

/* shm_board_await: wait until `rank`, counted in the world, has completed `phase`.
 * errors  false: shm_board_abort was called; a running wait ends within 0.2 s of it */
bool shm_board_await(struct shm_board *board, int group, int rank, uint32_t phase);

/* shm_board_abort: end all waits of this rank, now and later. May be called from any thread. */
void shm_board_abort(struct shm_board *board);

#endif
