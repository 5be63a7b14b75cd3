/* replica_feedback: error feedback: the difference between a member's exact contribution to a
 * committed round and its encoding, which the member adds to its next contribution. */
#include "base/check.h"
#include "kernels/items.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>

struct feedback_args {
    float *feedback;     /* error feedback, which is updated */
    const float *values; /* pseudo-gradients, or the residual of a re-encoding */
    float divisor;       /* 1, or for a residual this member's share of the weight of the sum */
    int64_t count;       /* number of elements */
};

static void update_feedback_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct feedback_args *feedback_args = context;
    int64_t first = item * ITEM_ELEMENTS;
    int64_t end = first + item_length(feedback_args->count, ITEM_ELEMENTS, item);
    for (int64_t i = first; i < end; i++) {
        feedback_args->feedback[i] =
            feedback_args->values[i] / feedback_args->divisor + feedback_args->feedback[i];
    }
}

static void update_feedback_on_cpu(const struct replica *replica, struct replica_chunk chunk,
                                   const float *values, float divisor) {
    struct feedback_args feedback_args = {replica->feedback + chunk.begin, values, divisor,
                                          chunk.count};
    pool_run(replica->compute->pool, update_feedback_item, &feedback_args,
             items_count(chunk.count, ITEM_ELEMENTS));
}

/* Sets feedback = gradient + feedback - decoded contribution, bit-identical to the residual of
 * codec_encode. */
static void update_chunk_feedback_on_cpu(struct replica *replica, struct replica_chunk chunk) {
    float *gradient = replica_scratch(replica, 0);
    replica_pseudo_gradient(replica, chunk, gradient);
    update_feedback_on_cpu(replica, chunk, gradient, 1);
    struct codec_add_args sent = {
        .codec = replica->shape.slices.codec, .count = chunk.count, .weight = -1};
    codec_decode_add(replica->compute, &sent,
                     replica->contribution + replica_encoded_offset(replica, chunk.begin),
                     replica->feedback + chunk.begin);
}

/* Updates the feedback of one chunk. On a device, consecutive chunks use alternating slots. */
static void update_chunk_feedback(struct replica *replica, struct replica_chunk chunk, int *slot) {
    if (replica->device == NULL) {
        update_chunk_feedback_on_cpu(replica, chunk);
        return;
    }
    bool was_finite =
        /* cannot fail: the same values were encoded, and so checked, before */
        replica_wait_slot(replica, *slot);
    (void)was_finite;
    replica->device->methods->advance(replica->device, *slot, chunk);
    *slot = (*slot + 1) % REPLICA_DEVICE_SLOTS;
}

static void update_feedback_of_sent_slices(struct replica *replica, const struct entry *entry,
                                           uint32_t seat) {
    int slot = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        struct slice_range range = slices_range(&replica->shape.slices, s);
        bool sent = (entry->slices[s].contributors >> seat & 1) != 0;
        for (int64_t at = range.begin; sent && at < range.end; at += REPLICA_CHUNK_ELEMENTS) {
            update_chunk_feedback(replica, replica_chunk_at(at, range.end), &slot);
        }
    }
    for (int i = 0; i < REPLICA_DEVICE_SLOTS; i++) {
        bool was_finite = replica_wait_slot(replica, i);
        (void)was_finite;
    }
}

void replica_advance_feedback(struct replica *replica, const struct entry *entry, uint32_t seat) {
    const struct slices *slices = &replica->shape.slices;
    ASSERT(entry->slice_count == slices->count && seat < entry->seat_count);
    if (entry->members[seat].weight > 0) {
        update_feedback_of_sent_slices(replica, entry, seat);
    }
    for (uint32_t s = 0; s < slices->count; s++) {
        const struct entry_slice *line = &entry->slices[s];
        struct residual_source *source = &replica->residual_sources[s];
        struct slice_range range = slices_range(slices, s);
        bool made = line->owner == seat && hash_equal(&line->hash, &source->result);
        for (int64_t at = range.begin; made && source->divisor > 0 && at < range.end;
             at += REPLICA_CHUNK_ELEMENTS) {
            update_feedback_on_cpu(replica, replica_chunk_at(at, range.end), replica->residual + at,
                                   source->divisor);
        }
        source->divisor = 0;
    }
}

static uint64_t find_seats_of_identity(const struct entry *entry, const struct identity *id) {
    uint64_t seats = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        bool is_it = memcmp(&entry->seats[seat].id, id, sizeof *id) == 0;
        seats |= is_it && entry->members[seat].weight > 0 ? UINT64_C(1) << seat : 0;
    }
    return seats;
}

void replica_clear_sent_feedback(struct replica *replica, const struct entry *entry,
                                 const struct identity *id) {
    const struct slices *slices = &replica->shape.slices;
    ASSERT(entry->slice_count == slices->count);
    uint64_t seats = find_seats_of_identity(entry, id);
    for (uint32_t s = 0; replica->feedback != NULL && s < slices->count; s++) {
        struct slice_range range = slices_range(slices, s);
        if ((entry->slices[s].contributors & seats) != 0) {
            memset(replica->feedback + range.begin, 0,
                   sizeof(float) * (size_t)(range.end - range.begin));
        }
    }
}
