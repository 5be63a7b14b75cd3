/* rig: a small model's schedule over some ranks, with its plan. */
#ifndef SKEP_TESTS_UNIT_SCHEDULE_RIG_H
#define SKEP_TESTS_UNIT_SCHEDULE_RIG_H

#include "arena/arena.h"
#include "runtime/schedule/schedule.h"

enum { RIG_FAMILIES = 4, RIG_LAYERS = 4, RIG_UNITS_MAX = 16 };

/* What a schedule is made of. Zero-initialised: f32 on one rank of a machine with one memory, no
 * recomputation, nothing ahead. */
struct rig_case {
    int family; /* gpt2 (tied), llama (untied), qwen3 (tied), mistral (untied) */
    int zero, shard, replicate, prefetch, live;
    bool keep_gathered;
    enum reduce_at reduce_at;
    enum dtype compute, reduce;
    enum recompute recompute;
    unsigned offload; /* enum offload */
    bool separate;    /* spaces of their own: batches and scalars are copied */
    bool mixed;       /* unit u at ZeRO (zero + u) % 4 */
    bool no_training;
    bool frozen;    /* the second block */
    int64_t hidden; /* 0: 32 */
    const struct resident_extent *resident;
    int resident_count;
};

struct rig {
    struct rig_case of;
    struct region region;
    struct blueprint blueprint;
    struct unit_table units;
    struct unit_strategy strategies[RIG_UNITS_MAX];
    struct sharding sharding;
    struct target target;
    struct schedule schedule;
    struct plan plan;
};

/* rig_init: build and plan, without the proofs. */
void rig_init(struct rig *rig, const struct rig_case *of);

/* rig_prove: verify the plan and the order; on failure, fail the test with the title of the
 * case. */
void rig_prove(struct rig *rig);

/* rig_title: the case in words; valid until the next call. */
const char *rig_title(const struct rig_case *of);

void rig_finish(struct rig *rig);

#endif
