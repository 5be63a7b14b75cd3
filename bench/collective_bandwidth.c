/* collective_bandwidth: how fast ranks on this machine move and sum bytes over shared memory.
 *
 *   collective_bandwidth [RANKS]...      (2 and 4 by default)
 *
 * For each kind and size the time of a call at rank 0, as the mean of calls that follow each other
 * (a single call can look short: the peers may have begun it before): the median and the best of
 * several such batches; rates are the best one's. "alg" is the whole buffer's bytes over that time;
 * "bus" what a rank receives over it, which does not depend on the number of ranks (an all-reduce:
 * twice a gather's). GB/s are 10^9 bytes, Gb/s 10^9 bits a second. */
#include "base/clock.h"
#include "base/text.h"
#include "transport/shm.h"

#include <asm/mman.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_LIMIT = 8, BATCHES = 9, CALLS_MIN = 6, BLOB_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20 };

static const uint64_t SIZES[] = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
static const uint64_t SIZE_MAX_BYTES = 64 << 20;
static const int64_t BATCH_NS = 20000000;

struct row {
    const char *name;
    enum collective_kind kind;
    enum dtype wire;
};

static const struct row ROWS[] = {
    {"all-gather", COLLECTIVE_ALL_GATHER, DTYPE_F32},
    {"reduce-scatter f32", COLLECTIVE_REDUCE_SCATTER, DTYPE_F32},
    {"reduce-scatter bf16", COLLECTIVE_REDUCE_SCATTER, DTYPE_BF16},
    {"all-reduce", COLLECTIVE_ALL_REDUCE, DTYPE_F32},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL, DTYPE_F32},
    {"broadcast", COLLECTIVE_BROADCAST, DTYPE_F32},
    {"barrier", COLLECTIVE_BARRIER, DTYPE_F32},
};

/* What the processes have before they share memory through the communicator. */
struct meeting {
    pthread_barrier_t barrier;
    unsigned char blobs[RANKS_LIMIT][BLOB_BYTES];
};

struct seat {
    struct meeting *meeting;
    int rank, world;
};

static enum status exchange(void *context, const void *mine, size_t bytes, void *all,
                            struct fault *fault) {
    (void)fault;
    struct seat *seat = context;
    ASSERT(bytes <= BLOB_BYTES);
    memcpy(seat->meeting->blobs[seat->rank], mine, bytes);
    pthread_barrier_wait(&seat->meeting->barrier);
    for (int rank = 0; rank < seat->world; rank++) {
        memcpy((unsigned char *)all + (size_t)rank * bytes, seat->meeting->blobs[rank], bytes);
    }
    pthread_barrier_wait(&seat->meeting->barrier);
    return OK;
}

/* As a program's arena is: without a name, sealed, present, on huge pages where there are any. */
static int make_arena(uint64_t bytes, unsigned char **address) {
    int fd = memfd_create("skep bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    ASSERT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    unsigned char *room =
        mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(room != MAP_FAILED);
    room += (HUGE_PAGE_BYTES - (uintptr_t)room % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    *address = mmap(room, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    ASSERT(*address != MAP_FAILED);
    memset(*address, 0, bytes);
#ifdef MADV_COLLAPSE
    (void)madvise(*address, bytes, MADV_COLLAPSE);
#endif
    return fd;
}

/* A buffer of `bytes` on the wire; its other buffer lies behind the largest. */
static struct collective_call call_of(const struct row *row, uint64_t bytes, int world) {
    bool apart = row->kind == COLLECTIVE_ALL_TO_ALL || row->wire == DTYPE_BF16;
    bool whole = row->kind == COLLECTIVE_BROADCAST;
    return (struct collective_call){.kind = row->kind,
                                    .wire = row->wire,
                                    .to = apart ? SIZE_MAX_BYTES : 0,
                                    .slot_bytes = whole ? bytes : bytes / (uint64_t)world};
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct result {
    double median_us, best_us;
};

/* All ranks make as many calls as rank 0's first ones let expect. */
static int64_t agreed_calls(int64_t first_ns, struct seat *seat) {
    int64_t calls = BATCH_NS / first_ns;
    int64_t all[RANKS_LIMIT];
    struct fault fault;
    calls = calls < CALLS_MIN ? CALLS_MIN : calls;
    enum status status = exchange(seat, &calls, sizeof calls, all, &fault);
    ASSERT(status == OK);
    return all[0];
}

static int64_t run_batch(struct communicator *communicator, const struct collective_call *call,
                         int64_t calls) {
    int64_t begin = clock_monotonic_ns();
    for (int64_t i = 0; i < calls; i++) {
        collective_run(communicator, call);
    }
    return (clock_monotonic_ns() - begin) / calls + 1;
}

static struct result measure(struct communicator *communicator, const struct collective_call *call,
                             struct seat *seat) {
    int64_t times[BATCHES];
    int64_t calls = agreed_calls(run_batch(communicator, call, CALLS_MIN), seat);
    for (int i = 0; i < BATCHES; i++) {
        times[i] = run_batch(communicator, call, calls);
    }
    qsort(times, BATCHES, sizeof *times, by_time);
    return (struct result){(double)times[BATCHES / 2] * 1e-3, (double)times[0] * 1e-3};
}

static void print_row(const struct row *row, uint64_t bytes, struct result result, int world) {
    char size[24];
    double received = row->kind == COLLECTIVE_BROADCAST ? 1 : (world - 1.0) / world;
    received *= row->kind == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    double algorithm = (double)bytes / result.best_us * 1e-3;
    if (row->kind == COLLECTIVE_BARRIER) {
        printf("%5d  %-20s %9s %10.1f %9.1f\n", world, row->name, "-", result.median_us,
               result.best_us);
        return;
    }
    printf("%5d  %-20s %9s %10.1f %9.1f %9.2f %9.2f %9.1f %9.1f\n", world, row->name,
           text_bytes(bytes, size), result.median_us, result.best_us, algorithm,
           algorithm * received, algorithm * 8, algorithm * received * 8);
    fflush(stdout);
}

static void measure_rows(struct communicator *communicator, struct seat *seat) {
    for (size_t r = 0; r < ARRAY_COUNT(ROWS); r++) {
        bool moves = ROWS[r].kind != COLLECTIVE_BARRIER;
        for (size_t s = 0; s < (moves ? ARRAY_COUNT(SIZES) : 1); s++) {
            struct collective_call call = call_of(&ROWS[r], SIZES[s], seat->world);
            struct result result = measure(communicator, &call, seat);
            if (seat->rank == 0) {
                print_row(&ROWS[r], SIZES[s], result, seat->world);
            }
        }
    }
}

static enum status run_rank(struct seat *seat, struct fault *fault) {
    static struct communicator communicator;
    static struct region region;
    int ranks[RANKS_LIMIT];
    for (int rank = 0; rank < seat->world; rank++) {
        ranks[rank] = rank;
    }
    struct collective_group group = {.ranks = ranks, .size = seat->world, .index = seat->rank};
    struct shm_args args = {.rank = seat->rank,
                            .world = seat->world,
                            .groups = &group,
                            .group_count = 1,
                            .exchange = exchange,
                            .context = seat};
    unsigned char *arena;
    uint64_t bytes = 3 * SIZE_MAX_BYTES; /* bf16 on the wire is twice as long where it is summed */
    int fd = make_arena(bytes, &arena);
    enum status status = shm_open_communicator(&args, &region, &communicator, fault);
    if (status != OK) {
        return status;
    }
    status = shm_register(&communicator, SPACE_DEVICE, fd, arena, bytes, fault);
    if (status == OK) {
        measure_rows(&communicator, seat);
    }
    communicator_close(&communicator);
    region_finish(&region);
    return status;
}

static int run_world(int world) {
    struct meeting *meeting =
        mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(meeting != MAP_FAILED);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&meeting->barrier, &attributes, (unsigned)world);
    fflush(stdout);
    for (int rank = 1; rank < world; rank++) {
        struct seat seat = {meeting, rank, world};
        struct fault fault;
        if (fork() == 0) {
            _exit(run_rank(&seat, &fault) == OK ? 0 : 1);
        }
    }
    struct seat seat = {meeting, 0, world};
    struct fault fault;
    enum status status = run_rank(&seat, &fault);
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    for (int rank = 1; rank < world; rank++) {
        wait(NULL);
    }
    munmap(meeting, sizeof *meeting);
    return fault_exit_code(status);
}

int main(int argc, char **argv) {
    static const int USUAL[] = {2, 4};
    int count = argc > 1 ? argc - 1 : (int)ARRAY_COUNT(USUAL);
    printf("ranks  call                      size  median us   best us  alg GB/s  bus GB/s  alg "
           "Gb/s  bus "
           "Gb/s\n");
    for (int i = 0; i < count; i++) {
        int64_t world = USUAL[i % (int)ARRAY_COUNT(USUAL)];
        bool read = argc == 1 || text_parse_i64(argv[i + 1], &world);
        if (!read || world < 1 || world > RANKS_LIMIT) {
            fprintf(stderr, "usage: collective_bandwidth [RANKS]... (1 to %d)\n", RANKS_LIMIT);
            return 2;
        }
        int code = run_world((int)world);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}
