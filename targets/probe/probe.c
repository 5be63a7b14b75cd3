#include "targets/probe/probe.h"

#include "base/clock.h"
#include "targets/os/pool.h"
#include "targets/ports/ports.h"
#include "targets/probe/detect.h"
#include "targets/probe/probe_loops.h"

#include <stdio.h>
#include <string.h>

enum {
    /* number of short tries; the best one counts, because other programs use the CPU too */
    FLOPS_TRY_COUNT = 200,
    MEMORY_TRY_COUNT = 12,       /* number of tries for memory, of about 50 ms each */
    ARRAY_BYTES_MAX = 128 << 20, /* larger than the last-level cache of most machines */
    ARRAY_BYTES_MIN = 4 << 20,   /* size to try last when memory is short */
    /* pieces of work per thread, so that one slow thread does not delay the others */
    PIECES_PER_THREAD = 4,
    VECTOR_FLOATS = 4, /* floats in one SIMD vector */
    /* rounds of the first try, which takes about 20 us; the best rate so far sets later ones */
    FIRST_ROUNDS = 4096,
};

/* Sixteen bytes at a time: enough for any machine to reach its memory bandwidth. */
typedef float vector __attribute__((vector_size(VECTOR_FLOATS * sizeof(float))));

static const int64_t FLOPS_TRY_NS = NS_PER_MS;
static const double SPEED_TOLERANCE = 0.9;

struct flops_task {
    struct probe_loop loop;  /* instructions to time */
    int64_t rounds;          /* rounds of the loop in one try */
    float sums[THREADS_MAX]; /* result of each thread, stored so that the loop is not removed */
};

static void run_flops(void *context, int64_t item, int thread) {
    (void)thread;
    struct flops_task *work = context;
    work->sums[item] = work->loop.run(work->rounds);
}

static double time_task(struct pool *pool, pool_task *task, void *context, int64_t items) {
    int64_t begin = clock_monotonic_ns();
    pool_run(pool, task, context, items);
    return clock_seconds_since(begin);
}

/* Operations per second when the pool's threads run `items` copies of the loop. */
static double measure_flops(struct pool *pool, struct probe_loop loop, int items) {
    struct flops_task work = {.loop = loop, .rounds = FIRST_ROUNDS};
    double seconds_per_round = 1;
    for (int i = 0; i < FLOPS_TRY_COUNT; i++) {
        double seconds = time_task(pool, run_flops, &work, items) / (double)work.rounds;
        seconds_per_round = seconds < seconds_per_round ? seconds : seconds_per_round;
        double wanted = (double)FLOPS_TRY_NS * 1e-9 / seconds_per_round;
        work.rounds = (int64_t)wanted > FIRST_ROUNDS ? (int64_t)wanted : FIRST_ROUNDS;
    }
    return loop.operations_per_round * items / seconds_per_round;
}

struct bandwidth_task {
    vector *a;                 /* destination */
    const vector *b, *c;       /* sources */
    int64_t vectors_per_piece; /* size of the piece that one item processes */
};

static void run_triad(void *context, int64_t item, int thread) {
    (void)thread;
    const struct bandwidth_task *work = context;
    vector *a = work->a + item * work->vectors_per_piece;
    const vector *b = work->b + item * work->vectors_per_piece;
    const vector *c = work->c + item * work->vectors_per_piece;
    for (int64_t i = 0; i < work->vectors_per_piece; i++) {
        a[i] = b[i] + 3.0f * c[i];
    }
}

static void run_copy(void *context, int64_t item, int thread) {
    (void)thread;
    const struct bandwidth_task *work = context;
    int64_t begin = item * work->vectors_per_piece;
    memcpy(work->a + begin, work->b + begin, (size_t)work->vectors_per_piece * sizeof(vector));
}

static double measure_task_bandwidth(struct pool *pool, pool_task *task,
                                     struct bandwidth_task *work, double bytes) {
    int items = pool->thread_count * PIECES_PER_THREAD;
    double best = 0;
    for (int i = 0; i < MEMORY_TRY_COUNT; i++) {
        double rate = bytes / time_task(pool, task, work, items);
        best = rate > best ? rate : best;
    }
    return best;
}

/* `block` has room for three arrays of `bytes` bytes. */
static void measure_array_bandwidth(struct pool *pool, void *block, uint64_t bytes,
                                    struct probe_result *result) {
    int pieces = pool->thread_count * PIECES_PER_THREAD;
    int64_t vectors = (int64_t)(bytes / sizeof(vector));
    vector *a = block;
    struct bandwidth_task work = {a, a + vectors, a + 2 * vectors, vectors / pieces};
    double moved = (double)work.vectors_per_piece * pieces * (double)sizeof(vector);
    result->memory_bandwidth = measure_task_bandwidth(pool, run_triad, &work, 3 * moved);
    result->copy_bandwidth = measure_task_bandwidth(pool, run_copy, &work, moved);
}

static enum status measure_bandwidths(struct pool *pool, struct probe_result *result,
                                      struct fault *fault) {
    struct target here = {.name = "this machine", .kind = TARGET_CPU};
    struct port port;
    void *block;
    uint64_t bytes = ARRAY_BYTES_MAX;
    while (bytes > ARRAY_BYTES_MIN && 6 * bytes > result->machine.memory_available_bytes) {
        bytes /= 2;
    }
    TRY(port_init(&port, &here, fault));
    enum status status = port_reserve(&port, SPACE_DEVICE, 3 * bytes, &block, fault);
    if (status == OK) {
        measure_array_bandwidth(pool, block, bytes, result);
    }
    port_finish(&port);
    return status;
}

enum status probe_measure(int threads, struct probe_result *result, struct fault *fault) {
    struct probe_result measured = {.threads = threads};
    struct pool pool;
    TRY(pool_init(&pool, threads, fault));
    machine_read("", &measured.machine);
    struct probe_loop f32 = probe_loop_f32(measured.machine.isa);
    measured.f32_flops_thread = measure_flops(&pool, f32, 1);
    measured.f32_flops = measure_flops(&pool, f32, threads);
    measured.bf16_flops = measure_flops(&pool, probe_loop_bf16(measured.machine.isa), threads);
    enum status status = measure_bandwidths(&pool, &measured, fault);
    pool_finish(&pool);
    if (status == OK) {
        *result = measured;
    }
    return status;
}

struct probe_comparison probe_compare_figure(const struct target *target, const char *name,
                                             enum probe_unit unit, double promised, double found) {
    bool speed = unit == PROBE_FLOPS || unit == PROBE_BANDWIDTH;
    bool assumed = strcmp(target->origin, "detected") == 0;
    bool enough = found >= (speed ? SPEED_TOLERANCE * promised : promised);
    return (struct probe_comparison){name, unit, promised, found,
                                     assumed  ? PROBE_ASSUMED
                                     : enough ? PROBE_OK
                                              : PROBE_LOWER};
}

int probe_compare(const struct target *target, const struct probe_result *result,
                  struct probe_comparison lines[static PROBE_COMPARISONS_MAX]) {
    const struct machine *machine = &result->machine;
    int count = 0;
    lines[count++] = probe_compare_figure(target, "memory", PROBE_BYTES,
                                          (double)target->spaces[SPACE_DEVICE].capacity_bytes,
                                          (double)machine->memory_total_bytes);
    lines[count++] = probe_compare_figure(target, "memory free for the arena", PROBE_BYTES,
                                          (double)target_available_bytes(target, SPACE_DEVICE),
                                          (double)machine->memory_available_bytes);
    lines[count++] = probe_compare_figure(target, "threads", PROBE_PLAIN_NUMBER, target->threads,
                                          machine->cpu_count);
    lines[count++] = probe_compare_figure(target, "f32 peak", PROBE_FLOPS, target->f32_flops.value,
                                          result->f32_flops);
    lines[count++] = probe_compare_figure(target, "bf16 peak", PROBE_FLOPS,
                                          target->bf16_flops.value, result->bf16_flops);
    lines[count++] = probe_compare_figure(target, "memory bandwidth", PROBE_BANDWIDTH,
                                          target->memory_bandwidth.value, result->memory_bandwidth);
    lines[count++] =
        probe_compare_figure(target, "copy bandwidth", PROBE_BANDWIDTH,
                             target->host_link_bandwidth.value, result->copy_bandwidth);
    ASSERT(count == PROBE_COMPARISONS_MAX);
    int lower = 0;
    for (int i = 0; i < count; i++) {
        lower += lines[i].verdict == PROBE_LOWER;
    }
    return lower;
}

static int isa_position(const char *isa) {
    static const char *const X86[] = {"scalar", "avx2", "avx512", "avx512_bf16"};
    for (int i = 0; i < (int)ARRAY_COUNT(X86); i++) {
        if (strcmp(isa, X86[i]) == 0) {
            return i;
        }
    }
    /* NEON belongs to another architecture: it is comparable only with itself and scalar */
    return -1;
}

bool probe_isa_is_lower(const struct target *target, const struct probe_result *result) {
    if (strcmp(target->isa, result->machine.isa) == 0 || strcmp(target->isa, "scalar") == 0) {
        return false;
    }
    int wanted = isa_position(target->isa);
    return wanted < 0 || isa_position(result->machine.isa) < wanted;
}

const struct target *probe_target(const struct probe_result *result, const char *name,
                                  struct region *region) {
    static const char COPIES[] =
        "measured by skep probe: bytes that a copy within memory moves in a second";
    char source[160];
    struct target *target = region_alloc(region, 1, sizeof *target);
    *target = *target_detect(region);
    snprintf(source, sizeof source, "measured by skep probe on %s with %d threads",
             result->machine.cpu_name, result->threads);
    const char *measured = region_copy_text(region, source);
    target->name = region_copy_text(region, name);
    target->origin = "measured";
    target->threads = result->threads;
    target->f32_flops = (struct target_figure){result->f32_flops, measured};
    target->bf16_flops = (struct target_figure){result->bf16_flops, measured};
    target->memory_bandwidth = (struct target_figure){result->memory_bandwidth, measured};
    target->host_link_bandwidth = (struct target_figure){result->copy_bandwidth, COPIES};
    target->peer_link_bandwidth = (struct target_figure){result->copy_bandwidth, COPIES};
    return target;
}
