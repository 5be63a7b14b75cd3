/* processes: ranks as processes that were forked, with a way to exchange bytes before they share
 * anything through the code under test. */
#ifndef SKEP_TESTS_CONTRACT_PROCESSES_H
#define SKEP_TESTS_CONTRACT_PROCESSES_H

#include "base/fault.h"
#include "tests/contract/world.h"

#include <pthread.h>
#include <sys/types.h>

enum { BLOB_BYTES = 4096 };

/* Shared by all, before and without the code under test. */
struct processes_board {
    pthread_barrier_t barrier;
    unsigned char blobs[WORLD_MAX][BLOB_BYTES];
    struct outcome outcomes[WORLD_MAX];
};

struct processes {
    int world;
    struct processes_board *board;
    pid_t ids[WORLD_MAX]; /* 0: has ended */
};

/* What one process runs; it ends when this returns. */
typedef void process_body(struct processes *processes, int rank, void *context);

/* Context of processes_exchange. */
struct processes_seat {
    struct processes *processes;
    int rank;
};

void processes_start(struct processes *processes, int world, process_body *body, void *context);

/* processes_wait: until all have ended; when one ends badly, the others are killed. Those that were
 * killed by the test itself are forgiven by setting ids[rank] to 0 first. */
void processes_wait(struct processes *processes);

/* processes_finish: give the board back. */
void processes_finish(struct processes *processes);

/* processes_exchange: a groups_exchange; context is a struct processes_seat. */
enum status processes_exchange(void *context, const void *mine, size_t bytes, void *all,
                               struct fault *fault);

/* shared_memory: memory without a name, sealed against being made shorter; its descriptor. */
int shared_memory(uint64_t bytes, unsigned char **address);

/* run_shm_member: one rank from opening to closing. */
void run_shm_member(struct processes *processes, struct member *member, member_body *body,
                    void *context);

#endif
