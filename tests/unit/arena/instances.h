/* instances: packing problems for the tests: random ones, and a training step's lives. */
#ifndef SKEP_TESTS_UNIT_ARENA_INSTANCES_H
#define SKEP_TESTS_UNIT_ARENA_INSTANCES_H

#include "arena/arena.h"
#include "base/region.h"

struct instance {
    struct extent *extents;
    int count;
};

static inline struct arena_problem instance_problem(const struct instance *instance) {
    return (struct arena_problem){instance->extents, instance->count};
}

/* instance_plan: arena_plan of an instance. */
static inline void instance_plan(const struct instance *instance, struct region *region,
                                 struct plan *plan) {
    struct arena_problem problem = instance_problem(instance);
    arena_plan(&problem, region, plan);
}

struct random_instance {
    uint64_t seed;
    int count;
    uint32_t steps;     /* lives lie in [0, steps) */
    uint32_t life_max;  /* longest life */
    uint64_t bytes_max; /* largest size */
    uint64_t unit;      /* sizes are multiples of it */
    uint64_t align_max; /* alignments are powers of two up to it */
    int space_count;    /* 1: all in the device space */
};

/* instance_random: sizes and lives drawn evenly, seeded. */
struct instance instance_random(const struct random_instance *with, struct region *region);

/* instance_tiling: a rectangle of `steps` x `bytes` cut by random guillotine cuts, so that the
 * least peak is known: `bytes`. Hard for greedy orders. */
struct instance instance_tiling(uint64_t seed, int count, uint32_t steps, uint64_t bytes,
                                struct region *region);

/* instance_stack: a training step without anything but a stack: weights alive throughout, each
 * layer saves activations in forward and frees them in backward. Peak is the bound. */
struct instance instance_stack(int layers, struct region *region);

/* instance_training: a whole step of a transformer with gathered weights, saved activations,
 * transients of several sizes, gradients and workspaces; about 24 extents a layer. */
struct instance instance_training(int layers, struct region *region);

#endif
