/* block: the block that is running: its threads, and how they wait for each other. */
#ifndef SKEP_TESTS_EMULATED_BLOCK_H
#define SKEP_TESTS_EMULATED_BLOCK_H

#include "tests/emulated/fiber.h"
#include "tests/emulated/threads.h"

enum {
    LANES = 32,
    WARPS_MAX = EMULATED_THREADS_MAX / LANES,
    COPIES_MAX = 256, /* of a thread, under way at once */
};

enum thread_state { THREAD_RUNS, THREAD_AT_BARRIER, THREAD_AT_STEP, THREAD_ENDED };

/* What the 32 threads of a warp do together. */
enum step_kind { STEP_SYNC, STEP_SHUFFLE, STEP_MMA, STEP_LOAD, STEP_LOAD_TRANSPOSED };

struct step {
    enum step_kind kind;
    int line;
    uint32_t value;    /* shuffle */
    const void *in[2]; /* mma: a and b; load: the row */
    void *out;         /* mma: d; load: r */
};

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    int group;
};

struct thread {
    struct fiber fiber;
    enum thread_state state;
    int line; /* of the barrier where it waits */
    struct step step;
    int group; /* of copies, that is open now */
    int copy_count;
    struct copy copies[COPIES_MAX]; /* oldest first */
};

struct warp {
    unsigned steps; /* that were taken */
    /* What each thread brought to the last shuffle and to the one before it: a thread reads after
     * others have come to the next one, but no thread passes that. */
    uint32_t brought[2][LANES];
};

struct block {
    const struct emulated_kernel *kernel;
    const void *params;
    uint64_t number; /* of all blocks that ever ran, from 1 */
    int thread_count;
    int current; /* thread */
    struct fiber scheduler;
    struct warp warps[WARPS_MAX];
    struct thread threads[EMULATED_THREADS_MAX];
};

extern struct block emulated_block;

/* emulated_step: wait until the warp has taken this step together. */
void emulated_step(const struct step *step);

/* step_take: do what the warp's 32 threads, that have all come, brought. */
void step_take(struct warp *warp, struct thread threads[LANES]);

/* ---- shared memory ---- */

/* shared_init: before the first launch. */
void shared_init(void);

/* shared_begin: dynamic shared memory of this size, full of garbage, for the next block. */
void shared_begin(unsigned dynamic_bytes);

/* shared_end: the block's red zones still stand. */
void shared_end(void);

/* shared_holds: whether these bytes lie in shared memory of the block. */
_Bool shared_holds(const void *bytes, size_t count);

#endif
