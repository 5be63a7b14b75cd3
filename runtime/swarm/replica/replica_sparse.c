/* replica_sparse: the arithmetic of a round with a sparse codec: encodes a member's contribution,
 * lists the contributions to the slices that it owns, computes means from such lists, and updates
 * the error feedback. */
#include "base/bytes.h"
#include "base/check.h"
#include "kernels/items.h"
#include "runtime/swarm/replica/replica_state.h"
#include "runtime/swarm/replica/sparse_result.h"

#include <string.h>

/* The fraction of the feedback that the next contribution takes over. A value that is never among
 * the largest of its block thereby fades, instead of being sent many rounds late. */
static const float FEEDBACK_DECAY = 0.95F;

/* ---- this member's contribution ---- */

struct blend_call {        /* arguments of blend_item */
    const float *feedback; /* [count]: unsent rest of earlier contributions */
    float *gradient;       /* [count]: gets FEEDBACK_DECAY x feedback added */
    int64_t count;         /* number of elements */
};

/* Adds the decayed feedback to the pseudo-gradient. The product rounds once, and the sum once. */
static void blend_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct blend_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    int64_t end = first + item_length(call->count, ITEM_ELEMENTS, item);
    for (int64_t i = first; i < end; i++) {
        float kept = FEEDBACK_DECAY * call->feedback[i];
        call->gradient[i] = call->gradient[i] + kept;
    }
}

/* Computes this member's contribution before its encoding: outer - inner weights, plus feedback.
 * shapes  values [chunk.count] */
static void compute_exact_contribution(const struct replica *replica, struct replica_chunk chunk,
                                       float *values) {
    struct blend_call call = {replica->feedback + chunk.begin, values, chunk.count};
    replica_pseudo_gradient(replica, chunk, values);
    pool_run(replica->compute->pool, blend_item, &call, items_count(chunk.count, ITEM_ELEMENTS));
}

/* Returns the encoding of the chunk's elements in the contribution to their slice. */
static uint8_t *encoded_chunk(const struct replica *replica, uint32_t slice,
                              struct replica_chunk chunk) {
    const struct slice_range range = slices_range(&replica->shape.slices, slice);
    return replica->contribution + range.offset +
           sparse_bytes(replica->shape.slices.sparse, chunk.begin - range.begin);
}

bool replica_encode_sparse(struct replica *replica) {
    const struct slices *slices = &replica->shape.slices;
    float *values = replica_scratch(replica, 0);
    bool is_finite = true;
    ASSERT(replica->device == NULL);
    for (uint32_t slice = 0; slice < slices->count && is_finite; slice++) {
        const struct slice_range range = slices_range(slices, slice);
        for (int64_t at = range.begin; at < range.end && is_finite; at += REPLICA_CHUNK_ELEMENTS) {
            const struct replica_chunk chunk = replica_chunk_at(at, range.end);
            compute_exact_contribution(replica, chunk, values);
            is_finite = sparse_encode(replica->compute, slices->sparse, chunk.count, values,
                                      encoded_chunk(replica, slice, chunk));
        }
    }
    return is_finite;
}

/* ---- lists ---- */

static struct contribution_part make_contribution_part(const struct replica *replica,
                                                       uint32_t slice, const struct addend *addend,
                                                       const struct slice_proof *proof) {
    struct contribution_part part = {.weight = addend->weight, .clip = addend->clip};
    if (addend->is_own) {
        replica_prove_slice(replica, slice, &part.proof);
    } else {
        part.proof = *proof;
    }
    return part;
}

struct hash replica_write_list(struct replica *replica, uint32_t round, uint32_t slice,
                               const struct addend_list *list) {
    const struct slices *slices = &replica->shape.slices;
    const uint64_t bytes = slices_range(slices, slice).bytes;
    const uint32_t count = (uint32_t)__builtin_popcountll(list->seats);
    uint8_t *result = replica_result(replica, round, slice);
    ASSERT(slices_are_sparse(slices) && count <= slices->members_max);
    replica_drop_voted_root(replica);
    sparse_result_begin_list(result, list->seats, list->value_limit);
    for (uint32_t i = 0; i < count; i++) {
        const struct contribution_part part =
            make_contribution_part(replica, slice, &list->addends[i], list->proofs[i]);
        sparse_result_write_head(slices, result, i, &part);
        memcpy(result + sparse_result_encoding_offset(slices, slice, count, i),
               list->addends[i].bytes, bytes);
    }
    return hash_of(result, sparse_result_bytes(slices, slice, count));
}

/* ---- means ---- */

void replica_sparse_mean(const struct compute *compute, const struct replica *replica,
                         uint32_t round, struct replica_chunk chunk, float *mean,
                         float *sums_of_shares) {
    const struct slices *slices = &replica->shape.slices;
    const int64_t end = chunk.begin + chunk.count;
    for (int64_t at = chunk.begin; at < end;) {
        const uint32_t slice = (uint32_t)(at / slices->elements);
        const int64_t stop = min_i64(end, slices_range(slices, slice).end);
        sparse_result_mean(compute, slices, slice, replica_result(replica, round, slice),
                           (struct replica_chunk){at, stop - at}, mean + (at - chunk.begin),
                           sums_of_shares + (at - chunk.begin));
        at = stop;
    }
}

/* ---- feedback ---- */

/* Sets the feedback of a chunk to the exact contribution, minus the encoded one if it was sent. */
static void advance_chunk_feedback(struct replica *replica, uint32_t slice,
                                   struct replica_chunk chunk, bool is_sent) {
    float *values = replica_scratch(replica, 0);
    compute_exact_contribution(replica, chunk, values);
    const struct sparse_add_args sent = {
        .shape = replica->shape.slices.sparse, .count = chunk.count, .factor = -1, .sums = values};
    if (is_sent) {
        sparse_add(replica->compute, &sent, encoded_chunk(replica, slice, chunk));
    }
    memcpy(replica->feedback + chunk.begin, values, sizeof *values * (size_t)chunk.count);
}

static bool has_contributed(const struct entry *entry, uint32_t seat) {
    uint64_t contributors = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        contributors |= entry->slices[s].contributors;
    }
    return entry->members[seat].weight > 0 && (contributors >> seat & 1) != 0;
}

void replica_advance_sparse_feedback(struct replica *replica, const struct entry *entry,
                                     uint32_t seat) {
    const struct slices *slices = &replica->shape.slices;
    ASSERT(entry->slice_count == slices->count && seat < entry->seat_count);
    if (!has_contributed(entry, seat)) {
        return;
    }
    for (uint32_t slice = 0; slice < slices->count; slice++) {
        const struct slice_range range = slices_range(slices, slice);
        const bool is_sent = (entry->slices[slice].contributors >> seat & 1) != 0;
        for (int64_t at = range.begin; at < range.end; at += REPLICA_CHUNK_ELEMENTS) {
            advance_chunk_feedback(replica, slice, replica_chunk_at(at, range.end), is_sent);
        }
    }
}
