/* The board's phases are counted in 32 bits: what waits must not notice where they begin anew. */
#include "transport/collectives/shm_board.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, PHASES = 2000 };

static struct shm_signal signals[COLLECTIVE_GROUPS_MAX * RANKS];

struct walker {
    struct shm_board board;
    int early; /* times that the other one was behind although awaited */
    bool ended;
};

static uint32_t phase_of(int rank) {
    return atomic_load(&signals[rank].phase);
}

/* Post, await the other, look: it is there, and at most one phase ahead. */
static void *walk(void *argument) {
    struct walker *walker = argument;
    int other = 1 - walker->board.rank;
    for (int i = 0; i < PHASES; i++) {
        uint32_t phase = shm_board_publish(&walker->board, 0);
        walker->ended = walker->ended || !shm_board_await(&walker->board, 0, other, phase);
        uint32_t ahead = phase_of(other) - phase;
        walker->early += ahead > 1;
    }
    return NULL;
}

static void ranks_keep_pace_where_phases_begin_anew(void **state) {
    (void)state;
    static const uint32_t STARTS[] = {0, (uint32_t)INT32_MAX - PHASES / 2, UINT32_MAX - PHASES / 2};
    for (size_t start = 0; start < sizeof STARTS / sizeof STARTS[0]; start++) {
        struct walker walkers[RANKS];
        pthread_t threads[RANKS];
        memset(signals, 0, sizeof signals);
        memset(walkers, 0, sizeof walkers);
        for (int rank = 0; rank < RANKS; rank++) {
            atomic_store(&signals[rank].phase, STARTS[start]);
            shm_board_init(&walkers[rank].board, signals, rank, RANKS);
        }
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(pthread_create(&threads[rank], NULL, walk, &walkers[rank]), 0);
        }
        /* All first: one that has ended may still be what another, not yet awake, sleeps on. */
        for (int rank = 0; rank < RANKS; rank++) {
            pthread_join(threads[rank], NULL);
        }
        for (int rank = 0; rank < RANKS; rank++) {
            assert_int_equal(walkers[rank].early, 0);
            assert_false(walkers[rank].ended);
            assert_int_equal(phase_of(rank), (uint32_t)(STARTS[start] + PHASES));
            assert_int_equal(atomic_load(&signals[rank].sleepers), 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_keep_pace_where_phases_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
