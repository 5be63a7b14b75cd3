/* replica_apply: applies a round's results to the outer state, or, in a trial for a vote, only
 * computes the root that the state would have. */
#include "base/check.h"
#include "kernels/items.h"
#include "kernels/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <math.h>
#include <string.h>

float replica_outer_momentum(const struct replica_shape *shape, uint32_t members) {
    ASSERT(members > 0);
    if (shape->rate_per_gain <= 0) {
        return shape->outer_momentum;
    }
    const double momentum = 1 - shape->rate_per_gain / sqrt((double)members);
    return momentum > 0 ? (float)momentum : 0;
}

/* The results that an outer step applies, and the momentum of their round. */
struct round_step {
    uint32_t round; /* round whose results are applied */
    float momentum; /* outer momentum of that round */
};

/* Buffers for the output of the outer step of a chunk. */
struct step_output {
    float *params, *momentum; /* [chunk.count]: receive the new values; no momentum: NULL */
};

/* Performs the outer step of one chunk with a sparse codec, which has no momentum. With a momentum
 * of 0 the step does not depend on the moments, but overwrites them, so they get the buffer of the
 * sums of shares, which are no longer needed. */
static void step_sparse_chunk(const struct compute *compute, const struct replica *replica,
                              uint32_t round, struct replica_chunk chunk, float *next_params) {
    float *mean = replica_scratch(replica, 0);
    float *shares = replica_scratch(replica, 1);
    replica_sparse_mean(compute, replica, round, chunk, mean, shares);
    struct outer_step_args args = {.count = chunk.count,
                                   .rate = replica->shape.outer_rate,
                                   .momentum = 0,
                                   .params = replica->params + chunk.begin,
                                   .moments = shares,
                                   .gradients = mean,
                                   .next_params = next_params,
                                   .next_moments = shares};
    outer_step_run(compute, &args);
}

/* Performs the outer step of one chunk with the results of a round on the threads of `compute`. */
static void step_chunk(const struct compute *compute, const struct replica *replica,
                       struct round_step step, struct replica_chunk chunk,
                       struct step_output destination) {
    const struct replica_shape *shape = &replica->shape;
    float *mean = replica_scratch(replica, 0);
    if (slices_are_sparse(&shape->slices)) {
        step_sparse_chunk(compute, replica, step.round, chunk, destination.params);
        return;
    }
    const uint8_t *results = replica_result(replica, step.round, 0);
    codec_decode(compute, shape->slices.codec, chunk.count,
                 results + replica_encoded_offset(replica, chunk.begin), mean);
    struct outer_step_args args = {.count = chunk.count,
                                   .rate = shape->outer_rate,
                                   .momentum = step.momentum,
                                   .params = replica->params + chunk.begin,
                                   .moments = replica->momentum + chunk.begin,
                                   .gradients = mean,
                                   .next_params = destination.params,
                                   .next_moments = destination.momentum};
    outer_step_run(compute, &args);
}

/* One outer step over the whole parameter space. */
struct outer_step_pass {
    struct replica *replica; /* the replica to step */
    struct round_step step;  /* results and momentum of the round */
    bool is_trial;           /* the new values go to scratch memory, not to the state */
    struct hash *hashes;     /* receives the new leaf hashes; NULL: do not hash */
    bool is_finite;          /* no value that was hashed is infinite or NaN */
};

static struct replica_chunk chunk_at_index(const struct outer_step_pass *pass, int64_t index) {
    return replica_chunk_at(index * REPLICA_CHUNK_ELEMENTS,
                            pass->replica->shape.slices.parameter_count);
}

static int slot_of_chunk(int64_t index) {
    return (int)(index % REPLICA_DEVICE_SLOTS);
}

static struct step_output output_of_chunk(const struct outer_step_pass *pass, int64_t index) {
    const struct replica *replica = pass->replica;
    int64_t begin = chunk_at_index(pass, index).begin;
    int first = replica->device == NULL ? 0 : 2 * slot_of_chunk(index);
    float *moments = replica->momentum == NULL ? NULL : replica_scratch(replica, first + 1);
    return pass->is_trial
               ? (struct step_output){replica_scratch(replica, first), moments}
               : (struct step_output){replica->params + begin, replica_momentum_at(replica, begin)};
}

static void begin_step_of_chunk(const struct outer_step_pass *pass, int64_t index) {
    const struct replica *replica = pass->replica;
    struct replica_chunk chunk = chunk_at_index(pass, index);
    struct step_output destination = output_of_chunk(pass, index);
    if (replica->device == NULL) {
        step_chunk(replica->compute, replica, pass->step, chunk, destination);
        return;
    }
    const struct device_step step = {.chunk = chunk,
                                     .round = pass->step.round,
                                     .outer_momentum = pass->step.momentum,
                                     .params = destination.params,
                                     .momentum = destination.momentum,
                                     .resets_inner = !pass->is_trial};
    replica->device->methods->step(replica->device, slot_of_chunk(index), &step);
}

static void end_step_of_chunk(struct outer_step_pass *pass, int64_t index) {
    struct step_output destination = output_of_chunk(pass, index);
    bool steps_are_finite = replica_wait_slot(pass->replica, slot_of_chunk(index));
    (void)steps_are_finite;
    if (pass->hashes != NULL) {
        pass->is_finite &=
            replica_hash_leaves(pass->replica, chunk_at_index(pass, index), destination.params,
                                destination.momentum, pass->hashes);
    }
}

/* Executes the pass chunk by chunk. A device computes the next chunk while the CPU hashes the
 * current one. */
static void execute_pass(struct outer_step_pass *pass) {
    int64_t count =
        items_count(pass->replica->shape.slices.parameter_count, REPLICA_CHUNK_ELEMENTS);
    int64_t ahead = pass->replica->device == NULL ? 1 : REPLICA_DEVICE_SLOTS;
    for (int64_t i = 0; i < count + ahead; i++) {
        if (i >= ahead) {
            end_step_of_chunk(pass, i - ahead);
        }
        if (i < count) {
            begin_step_of_chunk(pass, i);
        }
    }
}

static struct round_step step_of_round(const struct replica *replica, uint32_t round,
                                       uint32_t members) {
    return (struct round_step){round, replica_outer_momentum(&replica->shape, members)};
}

struct hash replica_root_after(struct replica *replica, uint32_t round, uint32_t members) {
    static const struct hash NO_ROOT;
    struct outer_step_pass pass = {replica, step_of_round(replica, round, members), true,
                                   replica->voted_leaves, true};
    execute_pass(&pass);
    if (!pass.is_finite) {
        replica_drop_voted_root(replica);
        return NO_ROOT;
    }
    const struct hash root = replica_root_of(replica, replica->voted_leaves);
    replica_set_voted_root(replica, round, &root);
    return root;
}

struct hash replica_apply(struct replica *replica, const struct entry *entry, int seat) {
    ASSERT(entry->kind == ENTRY_COMMIT);
    const struct slices *slices = &replica->shape.slices;
    bool is_hashed =
        replica->voted_round == entry->round && hash_equal(&replica->voted_root, &entry->root);
    if (seat >= 0 && slices_are_sparse(slices)) {
        replica_advance_sparse_feedback(replica, entry, (uint32_t)seat);
    } else if (seat >= 0 && replica->feedback != NULL) {
        replica_advance_feedback(replica, entry, (uint32_t)seat);
    }
    struct outer_step_pass pass = {replica, step_of_round(replica, entry->round, entry->seat_count),
                                   false, is_hashed ? NULL : replica->leaves, true};
    execute_pass(&pass);
    if (is_hashed) {
        memcpy(replica->leaves, replica->voted_leaves,
               replica_leaf_count(slices) * sizeof(struct hash));
    }
    const struct hash root = replica_root_of(replica, replica->leaves);
    replica_set_root(replica, &root);
    if (replica->device == NULL) {
        replica_reset_inner(replica);
    } else {
        /* The device has already reset its inner weights (device_step.resets_inner). */
        replica_reset_inner_on_cpu(replica);
    }
    return root;
}

void replica_replay_leaf(const struct compute *compute, struct replica *replica, uint64_t index,
                         uint32_t round, uint32_t members) {
    struct replica_chunk leaf = replica_chunk_of_leaf(replica, index);
    struct step_output own = {replica->params + leaf.begin,
                              replica_momentum_at(replica, leaf.begin)};
    step_chunk(compute, replica, step_of_round(replica, round, members), leaf, own);
    const struct hash hash = replica_leaf_hash(own.params, own.momentum, leaf.count);
    replica_set_leaf_hash(replica, index, &hash);
}
