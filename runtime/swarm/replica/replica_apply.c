/* replica_apply: a round's results become the outer state: tried out for the vote, then taken. */
#include "base/check.h"
#include "kernels/items.h"
#include "kernels/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>

/* Where the outer step of a stretch goes. */
struct taken {
    float *params, *momentum; /* [stretch.count] */
};

/* The outer step of one stretch by the results of `round`, by the threads of `compute`. */
static void step_stretch(const struct compute *compute, const struct replica *replica,
                         uint32_t round, struct replica_chunk stretch, struct taken taken) {
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

/* The outer step over the whole space. */
struct walk {
    struct replica *replica;
    uint32_t round;
    bool tries;         /* nothing is overwritten */
    struct hash *names; /* of the leaves as they are then; NULL: not wanted */
};

static struct replica_chunk stretch_of(const struct walk *walk, int64_t index) {
    return replica_chunk_at(index * REPLICA_CHUNK_ELEMENTS,
                            walk->replica->shape.slices.parameter_count);
}

static int slot_of(int64_t index) {
    return (int)(index % REPLICA_DEVICE_SLOTS);
}

static struct taken taken_by(const struct walk *walk, int64_t index) {
    const struct replica *replica = walk->replica;
    int64_t begin = stretch_of(walk, index).begin;
    int first = replica->device == NULL ? 0 : 2 * slot_of(index);
    return walk->tries ? (struct taken){replica_scratch(replica, first),
                                        replica_scratch(replica, first + 1)}
                       : (struct taken){replica->params + begin, replica->momentum + begin};
}

static void begin_stretch(const struct walk *walk, int64_t index) {
    const struct replica *replica = walk->replica;
    struct replica_chunk stretch = stretch_of(walk, index);
    struct taken taken = taken_by(walk, index);
    if (replica->device == NULL) {
        step_stretch(replica->compute, replica, walk->round, stretch, taken);
        return;
    }
    const struct device_step step = {.stretch = stretch,
                                     .round = walk->round,
                                     .params = taken.params,
                                     .momentum = taken.momentum,
                                     .follows = !walk->tries};
    replica->device->methods->step(replica->device, slot_of(index), &step);
}

static void end_stretch(const struct walk *walk, int64_t index) {
    struct taken taken = taken_by(walk, index);
    bool steps_are_finite = replica_settle(walk->replica, slot_of(index));
    (void)steps_are_finite;
    if (walk->names != NULL) {
        replica_hash_leaves(walk->replica, stretch_of(walk, index), taken.params, taken.momentum,
                            walk->names);
    }
}

/* While one stretch is named, a device works on the next. */
static void walk_all(const struct walk *walk) {
    int64_t count =
        items_count(walk->replica->shape.slices.parameter_count, REPLICA_CHUNK_ELEMENTS);
    int64_t ahead = walk->replica->device == NULL ? 1 : REPLICA_DEVICE_SLOTS;
    for (int64_t i = 0; i < count + ahead; i++) {
        if (i >= ahead) {
            end_stretch(walk, i - ahead);
        }
        if (i < count) {
            begin_stretch(walk, i);
        }
    }
}

struct hash replica_root_after(struct replica *replica, uint32_t round) {
    const struct walk walk = {replica, round, true, replica->voted};
    walk_all(&walk);
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
    const struct walk walk = {replica, entry->round, false, is_named ? NULL : replica->leaves};
    walk_all(&walk);
    if (is_named) {
        memcpy(replica->leaves, replica->voted, replica_leaf_count(count) * sizeof(struct hash));
    }
    replica->root = replica_root_of(replica, replica->leaves);
    replica->voted_round = 0;
    if (replica->device == NULL) {
        replica_reset_inner(replica);
    } else {
        replica_reset_inner_on_cpu(replica); /* the device's own did with each step */
    }
    return replica->root;
}

void replica_replay_leaf(const struct compute *compute, struct replica *replica, uint64_t index,
                         uint32_t round) {
    struct replica_chunk leaf = replica_chunk_of_leaf(replica, index);
    struct taken own = {replica->params + leaf.begin, replica->momentum + leaf.begin};
    size_t half = sizeof(float) * (size_t)leaf.count;
    step_stretch(compute, replica, round, leaf, own);
    replica->leaves[index] = merkle_leaf_joined(own.params, half, own.momentum, half);
}
