/* shm_board: see shm_board.h. */
#include "transport/collectives/shm_board.h"

#include "targets/os/futex.h"

#include <sched.h>
#include <time.h>

/* Number of polls before sleeping, about 300 ns, which avoids a system call if the peer is
 * almost done. Longer spinning would take processor time from the compute threads of this rank. */
enum { SPINS_BEFORE_SLEEP = 16 };

/* Longest sleep. It limits the delay of shm_board_abort if that wakes this rank just before it
 * sleeps. */
static const struct timespec SLEEP = {.tv_nsec = 100000000};

uint64_t shm_board_bytes(int world) {
    return (uint64_t)COLLECTIVE_GROUPS_MAX * (uint64_t)world * sizeof(struct shm_signal);
}

void shm_board_init(struct shm_board *board, struct shm_signal *signals, int rank, int world) {
    cpu_set_t cpus;
    bool crowded = sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < world;
    *board = (struct shm_board){.signals = signals,
                                .rank = rank,
                                .world = world,
                                .spins = crowded ? 0 : SPINS_BEFORE_SLEEP};
}

static struct shm_signal *find_signal(struct shm_board *board, int group, int rank) {
    return &board->signals[(size_t)group * (size_t)board->world + (size_t)rank];
}

/* Without FUTEX_PRIVATE, because one process sleeps and another wakes it. */
static void sleep_shared(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, &SLEEP, NULL, 0);
}

static void wake_shared(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The publishing rank writes the phase and then reads the number of sleepers. A sleeping rank
 * first increments the number of sleepers and then reads the phase. All accesses are
 * sequentially consistent, so at least one of the two ranks sees the other's write. */
uint32_t shm_board_publish(struct shm_board *board, int group) {
    struct shm_signal *own = find_signal(board, group, board->rank);
    uint32_t phase = atomic_fetch_add(&own->phase, 1) + 1;
    if (atomic_load(&own->sleepers) != 0) {
        wake_shared(&own->phase);
    }
    return phase;
}

/* Whether a rank at phase `at` has completed `phase`. Phases of ranks differ by less than 2^31,
 * so the sign of the difference is correct even after an overflow. */
static bool has_completed_phase(uint32_t at, uint32_t phase) {
    return (int32_t)(at - phase) >= 0;
}

bool shm_board_await(struct shm_board *board, int group, int rank, uint32_t phase) {
    struct shm_signal *signal = find_signal(board, group, rank);
    for (int spin = 0; spin < board->spins; spin++) {
        if (has_completed_phase(atomic_load_explicit(&signal->phase, memory_order_acquire),
                                phase)) {
            return atomic_load(&board->is_aborted) == 0;
        }
        futex_pause();
    }
    atomic_fetch_add(&signal->sleepers, 1);
    uint32_t at = atomic_load(&signal->phase);
    while (!has_completed_phase(at, phase) && atomic_load(&board->is_aborted) == 0) {
        sleep_shared(&signal->phase, at);
        at = atomic_load(&signal->phase);
    }
    atomic_fetch_sub(&signal->sleepers, 1);
    return atomic_load(&board->is_aborted) == 0;
}

void shm_board_abort(struct shm_board *board) {
    atomic_store(&board->is_aborted, 1);
    for (int group = 0; group < COLLECTIVE_GROUPS_MAX; group++) {
        for (int rank = 0; rank < board->world; rank++) {
            wake_shared(&find_signal(board, group, rank)->phase);
        }
    }
}
