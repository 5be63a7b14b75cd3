#include "tests/emulated/block.h"

#include "base/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK_BYTES = 64 * 1024, STACK_GUARD = 4096, SIGNAL_STACK_BYTES = 64 * 1024 };

struct emulated_index threadIdx, blockIdx, blockDim, gridDim;
struct block emulated_block;

static struct emulated_kernel *kernels;
static char *stacks; /* of EMULATED_THREADS_MAX threads, each above a page that ends the process */
static uint64_t random_state = 20260117;
static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;

/* ---- what a kernel must not do ---- */

void emulated_fail(const char *format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    fprintf(stderr, "emulated device: %s, block (%u, %u, %u), thread %u: %s\n",
            emulated_block.kernel != NULL ? emulated_block.kernel->name : "no kernel", blockIdx.x,
            blockIdx.y, blockIdx.z, threadIdx.x, what);
    abort();
}

/* The compiler's checks end in an instruction that does not exist. */
static void on_signal(int number) {
    emulated_fail(number == SIGILL ? "an access that is not aligned, or beyond its array"
                                   : "an access outside of memory");
}

enum { CAUGHT = 3 };
static const int SIGNALS[CAUGHT] = {SIGILL, SIGSEGV, SIGBUS};

static void catch_signals(struct sigaction before[CAUGHT], stack_t *stack_before) {
    static char signal_stack[SIGNAL_STACK_BYTES];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    (void)sigaltstack(&stack, stack_before);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    for (int i = 0; i < CAUGHT; i++) {
        (void)sigaction(SIGNALS[i], &action, &before[i]);
    }
}

static void release_signals(const struct sigaction before[CAUGHT], const stack_t *stack_before) {
    for (int i = 0; i < CAUGHT; i++) {
        (void)sigaction(SIGNALS[i], &before[i], NULL);
    }
    (void)sigaltstack(stack_before, NULL);
}

/* ---- orders ---- */

void emulated_seed(uint64_t seed) {
    random_state = seed;
}

static uint32_t random_word(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

/* i -> (start + i step) % count meets each of 0 .. count - 1 once. */
struct sort_key {
    uint64_t start, step, count;
};

static uint64_t shared_factor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct sort_key order_of(uint64_t count) {
    struct sort_key order = {random_word() % count, 1 + random_word() % count, count};
    while (shared_factor(order.step, count) != 1) {
        order.step++;
    }
    return order;
}

static uint64_t order_at(struct sort_key order, uint64_t i) {
    return (order.start + i * order.step) % order.count;
}

/* ---- threads ---- */

static void leave_to_scheduler(void) {
    fiber_switch(&emulated_block.threads[emulated_block.current].fiber, &emulated_block.scheduler);
}

static void run_thread(void) {
    struct thread *thread = &emulated_block.threads[emulated_block.current];
    emulated_block.kernel->body(emulated_block.params);
    thread->state = THREAD_ENDED;
    leave_to_scheduler();
    abort();
}

void emulated_barrier(int line) {
    struct thread *thread = &emulated_block.threads[emulated_block.current];
    thread->line = line;
    thread->state = THREAD_AT_BARRIER;
    leave_to_scheduler();
}

void emulated_step(const struct step *step) {
    struct thread *thread = &emulated_block.threads[emulated_block.current];
    thread->step = *step;
    thread->state = THREAD_AT_STEP;
    leave_to_scheduler();
}

static void start_threads(void) {
    for (int i = 0; i < emulated_block.thread_count; i++) {
        struct thread *thread = &emulated_block.threads[i];
        thread->state = THREAD_RUNS;
        thread->group = 0;
        thread->copy_count = 0;
        fiber_start(&thread->fiber, stacks + (size_t)i * STACK_BYTES + STACK_GUARD,
                    STACK_BYTES - STACK_GUARD, run_thread);
    }
    for (int i = 0; i < emulated_block.thread_count / LANES; i++) {
        emulated_block.warps[i].steps = 0;
    }
}

static void run_lanes(int warp) {
    struct sort_key order = order_of(LANES);
    for (uint64_t i = 0; i < LANES; i++) {
        int thread = warp * LANES + (int)order_at(order, i);
        if (emulated_block.threads[thread].state == THREAD_RUNS) {
            emulated_block.current = thread;
            threadIdx.x = (unsigned)thread;
            fiber_switch(&emulated_block.scheduler, &emulated_block.threads[thread].fiber);
        }
    }
}

/* Whether the warp has a step to take: then all 32 threads must have come to the same one. */
static bool step_is_due(const struct thread threads[LANES], int first) {
    int there = -1;
    for (int i = 0; i < LANES; i++) {
        there = threads[i].state == THREAD_AT_STEP ? i : there;
    }
    for (int i = 0; i < LANES && there >= 0; i++) {
        threadIdx.x = (unsigned)(first + i);
        if (threads[i].state != THREAD_AT_STEP) {
            emulated_fail("%s while thread %d of its warp takes the step of line %d",
                          threads[i].state == THREAD_ENDED ? "has ended" : "is at a barrier",
                          first + there, threads[there].step.line);
        }
        if (threads[i].step.kind != threads[there].step.kind ||
            threads[i].step.line != threads[there].step.line) {
            emulated_fail("takes the step of line %d while thread %d of its warp takes that of "
                          "line %d",
                          threads[i].step.line, first + there, threads[there].step.line);
        }
    }
    return there >= 0;
}

/* One warp runs to its next barrier before another does: as far ahead as it may ever be. */
static void run_warp(int warp) {
    struct thread *threads = &emulated_block.threads[warp * LANES];
    run_lanes(warp);
    while (step_is_due(threads, warp * LANES)) {
        step_take(&emulated_block.warps[warp], threads);
        for (int i = 0; i < LANES; i++) {
            threads[i].state = THREAD_RUNS;
        }
        run_lanes(warp);
    }
}

/* Opens the barrier where all threads wait that have not ended; false when all have. */
static bool open_barrier(void) {
    int line = -1;
    for (int i = 0; i < emulated_block.thread_count; i++) {
        struct thread *thread = &emulated_block.threads[i];
        if (thread->state == THREAD_ENDED) {
            continue;
        }
        if (line >= 0 && thread->line != line) {
            threadIdx.x = (unsigned)i;
            emulated_fail("waits at the barrier of line %d, others at that of line %d",
                          thread->line, line);
        }
        line = thread->line;
        thread->state = THREAD_RUNS;
    }
    return line >= 0;
}

static void run_block(unsigned shared_bytes) {
    emulated_block.number++;
    shared_begin(shared_bytes);
    start_threads();
    do {
        struct sort_key order = order_of((uint64_t)emulated_block.thread_count / LANES);
        for (uint64_t i = 0; i < order.count; i++) {
            run_warp((int)order_at(order, i));
        }
    } while (open_barrier());
    shared_end();
}

/* ---- kernels ---- */

void emulated_register(struct emulated_kernel *kernel) {
    ASSERT(emulated_find(kernel->name) == NULL);
    kernel->next = kernels;
    kernels = kernel;
}

struct emulated_kernel *emulated_find(const char *name) {
    for (struct emulated_kernel *kernel = kernels; kernel != NULL; kernel = kernel->next) {
        if (strcmp(kernel->name, name) == 0) {
            return kernel;
        }
    }
    return NULL;
}

void emulated_allow_shared(struct emulated_kernel *kernel, unsigned shared_bytes) {
    ASSERT(shared_bytes <= EMULATED_SHARED_MAX);
    kernel->shared_allowed = shared_bytes;
}

static void check_launch(const struct emulated_kernel *kernel, unsigned threads,
                         unsigned shared_bytes) {
    unsigned threads_max = kernel->threads_max != 0 ? kernel->threads_max : EMULATED_THREADS_MAX;
    if (threads == 0 || threads % LANES != 0 || threads > threads_max) {
        emulated_fail("launched with %u threads, it takes warps of %d, at most %u", threads, LANES,
                      threads_max);
    }
    unsigned allowed = kernel->shared_allowed > EMULATED_SHARED_DEFAULT ? kernel->shared_allowed
                                                                        : EMULATED_SHARED_DEFAULT;
    if (shared_bytes > allowed) {
        emulated_fail("launched with %u bytes of shared memory, it may have %u", shared_bytes,
                      allowed);
    }
}

static void map_stacks(void) {
    if (stacks != NULL) {
        return;
    }
    size_t bytes = (size_t)EMULATED_THREADS_MAX * STACK_BYTES;
    stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    ASSERT(stacks != MAP_FAILED);
    for (int i = 0; i < EMULATED_THREADS_MAX; i++) {
        ASSERT(mprotect(stacks + (size_t)i * STACK_BYTES, STACK_GUARD, PROT_NONE) == 0);
    }
    shared_init();
}

static void run_grid(unsigned shared_bytes) {
    struct sort_key order = order_of((uint64_t)gridDim.x * gridDim.y * gridDim.z);
    for (uint64_t i = 0; i < order.count; i++) {
        uint64_t block = order_at(order, i);
        blockIdx = (struct emulated_index){
            (unsigned)(block % gridDim.x),
            (unsigned)(block / gridDim.x % gridDim.y),
            (unsigned)(block / gridDim.x / gridDim.y),
        };
        run_block(shared_bytes);
    }
}

void emulated_launch(const struct emulated_kernel *kernel, const unsigned grid[3], unsigned threads,
                     unsigned shared_bytes, const void *params) {
    ASSERT(grid[0] > 0 && grid[1] > 0 && grid[2] > 0 && grid[1] < 65536 && grid[2] < 65536);
    ASSERT(pthread_mutex_lock(&one_launch) == 0);
    struct sigaction actions[CAUGHT];
    stack_t stack;
    map_stacks();
    catch_signals(actions, &stack);
    emulated_block.kernel = kernel;
    emulated_block.params = params;
    emulated_block.thread_count = (int)threads;
    gridDim = (struct emulated_index){grid[0], grid[1], grid[2]};
    blockDim = (struct emulated_index){threads, 1, 1};
    blockIdx = threadIdx = (struct emulated_index){0};
    check_launch(kernel, threads, shared_bytes);
    run_grid(shared_bytes);
    emulated_block.kernel = NULL;
    release_signals(actions, &stack);
    ASSERT(pthread_mutex_unlock(&one_launch) == 0);
}
