/* shm_board: how far each rank has come in the calls of each group, in memory they all share.
 *
 * A call is a fixed number of phases; a rank that reaches one counts its own signal up and wakes
 * who sleeps on it. Only the owner writes a signal's phase. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_BOARD_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_BOARD_H

#include "transport/collectives/collective.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One rank's progress in one group, on a cache line of its own. Starts as zeros. */
struct shm_signal {
    _Alignas(64) _Atomic uint32_t phase;
    _Atomic uint32_t
        sleepers; /* who is killed asleep stays counted: that costs a wake-up, no more */
};

struct shm_board {
    struct shm_signal *signals; /* [COLLECTIVE_GROUPS_MAX][world], mapped by all ranks */
    int rank, world;
    int spins;              /* looks at a signal before going to sleep */
    _Atomic uint32_t ended; /* this rank waits for nobody any more */
};

/* shm_board_bytes: of the signals, for `world` ranks. */
uint64_t shm_board_bytes(int world);

/* shm_board_init: a view of the signals. Spins only where each rank has a processor. */
void shm_board_init(struct shm_board *board, struct shm_signal *signals, int rank, int world);

/* shm_board_publish: this rank has reached the next phase of `group`, which is returned. */
uint32_t shm_board_publish(struct shm_board *board, int group);

/* shm_board_await: until `rank` (of the world) has reached `phase`.
 * errors  false when shm_board_end was called, then within 0.2 s */
bool shm_board_await(struct shm_board *board, int group, int rank, uint32_t phase);

/* shm_board_end: end all waits of this rank, now and to come. From any thread. */
void shm_board_end(struct shm_board *board);

#endif
