/* team: the ranks of a site as threads of this process: one program, bound once for each rank,
 * joined by in-process communicators, trained on rows that depend only on the step. */
#ifndef SKEP_TESTS_UNIT_PROGRAM_TEAM_H
#define SKEP_TESTS_UNIT_PROGRAM_TEAM_H

#include "runtime/program/program.h"
#include "tests/support/inproc.h"

enum { TEAM_RANKS_MAX = 8, TEAM_STEPS = 5, TEAM_ROWS = 12, TEAM_TIME = 11, TEAM_UNITS_MAX = 8 };

/* Zero-initialised: one rank, f32, ZeRO 0. TEAM_ROWS rows a step, `microbatch` a rank at a time. */
struct team_case {
    const char *config;
    int shard, replicate;
    int zero, prefetch, live;
    bool mixed; /* unit u at ZeRO (zero + u) % 4 */
    bool keep_gathered;
    enum reduce_at reduce_at;
    enum dtype compute, reduce;
    enum recompute recompute;
    unsigned offload; /* enum offload */
    bool noisy;       /* bf16 moments, rounded by noise */
    bool separate;    /* spaces of their own, as a device with a host has them */
    int64_t microbatch;
    uint64_t disturbance; /* not 0: instructions begin late at random, drawn from it */
};

struct team;

struct team_member {
    struct team *team;
    int index;
    uint64_t disturbance;
    struct bound_program bound;
    struct communicator communicator;
    double loss[TEAM_STEPS], norm[TEAM_STEPS];
};

struct team {
    struct team_case of;
    int world;
    int64_t accumulation;
    struct region region;
    struct blueprint blueprint;
    struct target target;
    struct unit_strategy strategies[TEAM_UNITS_MAX];
    struct sharding sharding;
    struct program program;
    struct inproc_hub hub;
    int group_ranks[TEAM_RANKS_MAX][AXIS_COUNT][TEAM_RANKS_MAX];
    struct collective_group groups[TEAM_RANKS_MAX][AXIS_COUNT];
    struct team_member members[TEAM_RANKS_MAX];
};

/* team_init: compile, bind and connect every rank, fill in the same drawn weights. A failure fails
 * the running cmocka test. */
void team_init(struct team *team, const struct team_case *of);

/* team_train: TEAM_STEPS steps, then every other segment once, on one thread a rank. */
void team_train(struct team *team);

/* team_gather: parameter `index` in f32 as the ranks hold it together, in view VIEW_MASTER or a
 * moment.
 * values  room for its elements; every element comes from exactly one rank of the first replica, or
 *         from rank 0 where each has the whole */
void team_gather(const struct team *team, int index, enum param_view view, float *values);

/* team_hash: losses, norms, masters and moments. */
struct hash team_hash(const struct team *team);

const char *team_title(const struct team_case *of);

void team_finish(struct team *team);

#endif
