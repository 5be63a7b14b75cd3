#include "runtime/swarm/member/slice_store.h"

#include "base/bytes.h"
#include "runtime/swarm/member/uplink.h"

#include <math.h>
#include <string.h>

static const struct slices *store_slices(const struct slice_store *store) {
    return &store->options->replica->shape.slices;
}

static size_t result_index_bytes_of(const struct slices *slices) {
    return carve_padded_bytes(result_index_memory_bytes(slices->count));
}

size_t slice_store_memory_bytes(const struct member_loop_options *options) {
    const struct slices *slices = &options->replica->shape.slices;
    return result_index_bytes_of(slices) + carve_padded_bytes(slices->bytes_max) +
           sketch_store_memory_bytes(options);
}

/* Signs a result that this member computed and adds it to the index. */
static void add_signed_result(struct slice_store *store, struct message *result) {
    wire_sign(store->shape, store->options->keys, result);
    *result_index_slot(&store->index, result->round, result->slice) =
        (struct stored_result){.is_stored = true,
                               .epoch = result->epoch,
                               .contributors = result->contributors,
                               .hash = result->hash,
                               .owner = store->id,
                               .signature = result->signature};
}

static void add_stored_results(struct slice_store *store) {
    const struct member_initial_state *start = &store->options->start;
    for (uint32_t s = 0; start->stored_round > 0 && s < store->shape->slice_count; s++) {
        const struct slice_report *stored = &start->stored[s];
        if (stored->has_result != 0) {
            add_signed_result(store, &(struct message){.kind = MESSAGE_RESULT,
                                                       .round = start->stored_round,
                                                       .slice = s,
                                                       .epoch = stored->epoch,
                                                       .contributors = stored->contributors,
                                                       .hash = stored->hash});
        }
    }
}

void slice_store_init(struct slice_store *store, const struct member_loop_options *options,
                      const struct wire_shape *shape, void *memory) {
    const struct slices *slices = &options->replica->shape.slices;
    *store = (struct slice_store){.options = options, .shape = shape};
    memcpy(store->id.bytes, options->keys->public_keys.sign, KEY_BYTES);
    result_index_init(&store->index, memory, slices->count);
    store->incoming = (uint8_t *)memory + result_index_bytes_of(slices);
    sketch_store_init(&store->sketches, options, shape,
                      store->incoming + carve_padded_bytes(slices->bytes_max));
    add_stored_results(store);
}

bool slice_store_receive(struct slice_store *store, uint32_t slice, const uint8_t *bytes,
                         size_t byte_count) {
    const struct slices *slices = store_slices(store);
    if (slice >= slices->count || byte_count != slices_range(slices, slice).bytes) {
        return false;
    }
    ASSERT(byte_count <= slices->bytes_max);
    memcpy(store->incoming, bytes, byte_count);
    store->incoming_bytes = byte_count;
    return true;
}

double slice_store_incoming_norm(const struct slice_store *store, uint32_t slice) {
    const struct replica *replica = store->options->replica;
    return replica_encoding_is_valid(replica, slice, store->incoming, store->incoming_bytes)
               ? sqrt(replica_slice_energy(replica, slice, store->incoming))
               : (double)INFINITY;
}

void slice_store_keep_result(struct slice_store *store, const struct message *message) {
    ASSERT(store->incoming_bytes == slices_range(store_slices(store), message->slice).bytes);
    memcpy(replica_result(store->options->replica, message->round, message->slice), store->incoming,
           store->incoming_bytes);
    *result_index_slot(&store->index, message->round, message->slice) =
        (struct stored_result){.is_stored = true,
                               .epoch = message->epoch,
                               .contributors = message->contributors,
                               .hash = message->hash,
                               .owner = message->owner,
                               .signature = message->signature};
}

void slice_store_keep_contribution(struct slice_store *store, uint32_t seat, uint32_t slot) {
    ASSERT(store->incoming_bytes > 0);
    memcpy(replica_contribution_slot(store->options->replica, seat, slot), store->incoming,
           store->incoming_bytes);
}

void slice_store_begin_sum(struct slice_store *store, uint32_t round, uint32_t slice) {
    (void)result_index_slot(&store->index, round, slice);
}

void slice_store_add_own_result(struct slice_store *store, const struct member_job *sum,
                                const struct hash *hash) {
    ASSERT(sum->kind == ACTION_SUM);
    add_signed_result(store, &(struct message){.kind = MESSAGE_RESULT,
                                               .round = sum->round,
                                               .slice = sum->slice,
                                               .epoch = sum->epoch,
                                               .contributors = sum->contributors,
                                               .hash = *hash});
}

void slice_store_set_contribution(struct slice_store *store, uint32_t round) {
    ASSERT(round == 0 || round >= store->contribution_round);
    store->contribution_round = round;
}

/* The network thread either sends or receives, so `incoming` is not in use while it sends. */
static const uint8_t *read_from_disk(struct slice_store *store, const struct outbox_item *item) {
    const struct member_loop_options *options = store->options;
    bool is_found = item->kind == MESSAGE_RESULT && options->read_stored_result != NULL &&
                    options->read_stored_result(options->stored_result_context, item->round,
                                                item->slice, &item->hash, store->incoming);
    return is_found ? store->incoming : NULL;
}

void slice_store_add_evidence(struct slice_store *store, struct message *message) {
    const struct stored_result *stored =
        result_index_find(&store->index, message->round, message->slice, &message->hash);
    if (stored != NULL) {
        message->signature = stored->signature;
    }
}

const uint8_t *slice_store_find_bytes(struct slice_store *store, const struct outbox_item *item,
                                      struct message *message) {
    const struct replica *replica = store->options->replica;
    if (item->kind == MESSAGE_CONTRIBUTION) {
        if (store->contribution_round != item->round) {
            return NULL;
        }
        replica_prove_slice(replica, item->slice, &store->proof);
        message->proof = &store->proof;
        return replica_own_contribution(replica, item->slice);
    }
    const struct stored_result *stored =
        result_index_find(&store->index, item->round, item->slice, &item->hash);
    if (stored == NULL) {
        return read_from_disk(store, item);
    }
    message->epoch = stored->epoch;
    message->contributors = stored->contributors;
    message->owner = stored->owner;
    message->signature = stored->signature;
    return replica_result(replica, item->round, item->slice);
}
