/* replica_apply: a round's results become the outer state: tried out for the vote, then taken. */
#include "base/check.h"
#include "kernels/outer.h"
#include "runtime/swarm/replica_state.h"

#include <string.h>

/* Where the outer step of a stretch goes. */
struct taken {
    float *params, *momentum; /* [stretch.count] */
};

/* The outer step of one stretch by the results of `round`, by the threads of `compute`. */
static void step_stretch(const struct compute *compute, const struct replica *replica,
                         uint32_t round, struct stretch stretch, struct taken taken) {
    const struct replica_shape *shape = &replica->shape;
    float *mean = replica_scratch(replica, 0);
    const uint8_t *results = replica_result(replica, round, 0);
    codec_decode(compute, shape->slices.codec, stretch.count,
                 results + replica_encoded(replica, stretch.begin), mean);
    struct outer_step_args args = {.count = stretch.count,
                                   .rate = shape->outer_rate,
                                   .momentum = shape->outer_momentum,
                                   .params = replica->params + stretch.begin,
                                   .moments = replica->momentum + stretch.begin,
                                   .gradients = mean,
                                   .next_params = taken.params,
                                   .next_moments = taken.momentum};
    outer_step_run(compute, &args);
}

struct hash replica_root_after(struct replica *replica, uint32_t round) {
    int64_t count = replica->shape.slices.parameter_count;
    struct taken tried = {replica_scratch(replica, 0), replica_scratch(replica, 1)};
    for (int64_t at = 0; at < count; at += REPLICA_STRETCH) {
        struct stretch stretch = replica_stretch(at, count);
        step_stretch(replica->compute, replica, round, stretch, tried);
        replica_name(replica, stretch, tried.params, tried.momentum, replica->voted);
    }
    replica->voted_root = replica_root_of(replica, replica->voted);
    replica->voted_round = round;
    return replica->voted_root;
}

struct hash replica_apply(struct replica *replica, const struct entry *entry, int seat) {
    ASSERT(entry->kind == ENTRY_COMMIT);
    int64_t count = replica->shape.slices.parameter_count;
    bool is_named =
        replica->voted_round == entry->round && hash_equal(&replica->voted_root, &entry->root);
    if (seat >= 0 && replica->feedback != NULL) {
        replica_advance_feedback(replica, entry, (uint32_t)seat);
    }
    for (int64_t at = 0; at < count; at += REPLICA_STRETCH) {
        struct stretch stretch = replica_stretch(at, count);
        struct taken own = {replica->params + at, replica->momentum + at};
        step_stretch(replica->compute, replica, entry->round, stretch, own);
        if (!is_named) {
            replica_name(replica, stretch, own.params, own.momentum, replica->leaves);
        }
    }
    if (is_named) {
        memcpy(replica->leaves, replica->voted, replica_leaf_count(count) * sizeof(struct hash));
    }
    replica->root = replica_root_of(replica, replica->leaves);
    replica->voted_round = 0;
    replica_follow(replica);
    return replica->root;
}

void replica_leaf_forward(const struct compute *compute, struct replica *replica, uint64_t index,
                          uint32_t round) {
    struct stretch leaf = replica_leaf_stretch(replica, index);
    struct taken own = {replica->params + leaf.begin, replica->momentum + leaf.begin};
    size_t half = sizeof(float) * (size_t)leaf.count;
    step_stretch(compute, replica, round, leaf, own);
    replica->leaves[index] = merkle_leaf_joined(own.params, half, own.momentum, half);
}
