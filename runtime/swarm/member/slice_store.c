#include "runtime/swarm/member/slice_store.h"

#include "base/bytes.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/replica/sparse_result.h"

#include <math.h>
#include <string.h>

static const struct slices *slices_of_store(const struct slice_store *store) {
    return &store->options->replica->shape.slices;
}

static size_t result_index_bytes_of(const struct slices *slices) {
    return carve_padded_bytes(result_index_memory_bytes(slices->count));
}

static size_t listed_contributions_bytes(const struct member_loop_options *options) {
    return slices_are_sparse(&options->replica->shape.slices)
               ? carve_padded_bytes(options->members_max * sizeof(struct listed_contribution))
               : 0;
}

size_t slice_store_memory_bytes(const struct member_loop_options *options) {
    const struct slices *slices = &options->replica->shape.slices;
    return result_index_bytes_of(slices) + carve_padded_bytes(slices_result_bytes_max(slices)) +
           listed_contributions_bytes(options) + sketch_store_memory_bytes(options);
}

/* Signs a result that this member computed and adds it to the index. */
static void add_signed_result(struct slice_store *store, struct message *result) {
    wire_sign_message(store->shape, store->options->keys, result);
    *result_index_clear_row(&store->index, result->round, result->slice) =
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
    uint8_t *listed = store->incoming + carve_padded_bytes(slices_result_bytes_max(slices));
    store->listed = (struct listed_contribution *)(void *)listed;
    sketch_store_init(&store->sketches, options, shape,
                      listed + listed_contributions_bytes(options));
    add_stored_results(store);
}

/* ---- receive ---- */

static uint32_t count_seats(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

/* Returns the list of a sparse codec, with a gap in place of the encoding of the seat in the mask
 * `left_out`. */
static struct slice_data list_with_gap(const struct slices *slices, uint32_t slice,
                                       const uint8_t *list, uint64_t left_out) {
    const uint64_t seats = sparse_result_seats(list);
    const uint32_t count = count_seats(seats);
    struct slice_data data = {.bytes = list,
                              .byte_count = sparse_result_bytes(slices, slice, count)};
    if ((seats & left_out) != 0) {
        data.gap_begin = sparse_result_encoding_offset(slices, slice, count,
                                                       count_seats(seats & (left_out - 1)));
        data.gap_bytes = slices_range(slices, slice).bytes;
    }
    return data;
}

/* Returns this member's seat in the round of the contribution that the replica has, as a mask. */
static uint64_t own_seat_of_list(const struct slice_store *store, const struct message *message) {
    return store->contribution_round == message->round && store->contribution_seat >= 0
               ? UINT64_C(1) << store->contribution_seat
               : 0;
}

/* Copies a list to `incoming`, with this member's encoding where it was left out. */
static bool receive_list(struct slice_store *store, const struct message *message,
                         const uint8_t *bytes, size_t byte_count) {
    const struct slices *slices = slices_of_store(store);
    const uint32_t slice = message->slice;
    if (byte_count < SPARSE_RESULT_HEADER_BYTES || byte_count > slices_result_bytes_max(slices)) {
        return false;
    }
    const uint64_t seats = sparse_result_seats(bytes);
    if (count_seats(seats) > slices->members_max || seats != message->contributors) {
        return false;
    }
    struct slice_data whole = list_with_gap(slices, slice, bytes, own_seat_of_list(store, message));
    if (byte_count == whole.byte_count) {
        memcpy(store->incoming, bytes, byte_count);
    } else if (whole.gap_bytes > 0 && byte_count == whole.byte_count - whole.gap_bytes) {
        const uint64_t rest = whole.gap_begin + whole.gap_bytes;
        memcpy(store->incoming, bytes, whole.gap_begin);
        memcpy(store->incoming + whole.gap_begin,
               replica_own_contribution(store->options->replica, slice), whole.gap_bytes);
        memcpy(store->incoming + rest, bytes + whole.gap_begin, whole.byte_count - rest);
    } else {
        return false;
    }
    store->incoming_bytes = whole.byte_count;
    return true;
}

bool slice_store_receive(struct slice_store *store, const struct message *message,
                         const uint8_t *bytes, size_t byte_count) {
    const struct slices *slices = slices_of_store(store);
    if (message->slice >= slices->count) {
        return false;
    }
    if (message->kind == MESSAGE_RESULT && slices_are_sparse(slices)) {
        return receive_list(store, message, bytes, byte_count);
    }
    if (byte_count != slices_range(slices, message->slice).bytes) {
        return false;
    }
    ASSERT(byte_count <= slices->bytes_max);
    memcpy(store->incoming, bytes, byte_count);
    store->incoming_bytes = byte_count;
    return true;
}

static void compute_list_values(struct slice_store *store, const struct message *message,
                                struct message_values *values) {
    const struct replica *replica = store->options->replica;
    const struct slices *slices = &replica->shape.slices;
    const uint32_t count = count_seats(message->contributors);
    const uint64_t bytes = slices_range(slices, message->slice).bytes;
    if (!sparse_result_is_valid(slices, message->slice, store->incoming, store->incoming_bytes) ||
        sparse_result_seats(store->incoming) != message->contributors) {
        values->norm = (double)INFINITY;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct listed_contribution *listed = &store->listed[i];
        const uint8_t *encoding =
            store->incoming + sparse_result_encoding_offset(slices, message->slice, count, i);
        const bool is_valid = sparse_result_read_head(slices, store->incoming, i, &listed->part);
        ASSERT(is_valid);
        listed->hash = hash_of(encoding, bytes);
        listed->norm = sqrt(replica_slice_energy(replica, message->slice, encoding));
    }
    values->value_limit = sparse_result_value_limit(store->incoming);
    values->listed = store->listed;
}

void slice_store_compute_values(struct slice_store *store, const struct message *message,
                                struct message_values *values) {
    const struct replica *replica = store->options->replica;
    if (message->kind == MESSAGE_RESULT && slices_are_sparse(&replica->shape.slices)) {
        compute_list_values(store, message, values);
    } else {
        values->norm = replica_encoding_is_valid(replica, message->slice, store->incoming,
                                                 store->incoming_bytes)
                           ? sqrt(replica_slice_energy(replica, message->slice, store->incoming))
                           : (double)INFINITY;
    }
}

/* ---- keep ---- */

void slice_store_keep_result(struct slice_store *store, const struct message *message) {
    ASSERT(store->incoming_bytes <=
           slices_range(slices_of_store(store), message->slice).result_bytes);
    memcpy(replica_result(store->options->replica, message->round, message->slice), store->incoming,
           store->incoming_bytes);
    *result_index_clear_row(&store->index, message->round, message->slice) =
        (struct stored_result){.is_stored = true,
                               .epoch = message->epoch,
                               .contributors = message->contributors,
                               .hash = message->hash,
                               .owner = message->owner,
                               .signature = message->signature};
}

void slice_store_keep_contribution(struct slice_store *store, uint32_t seat, uint32_t slot,
                                   const struct slice_proof *proof) {
    const struct replica *replica = store->options->replica;
    ASSERT(store->incoming_bytes > 0);
    memcpy(replica_contribution_slot(replica, seat, slot), store->incoming, store->incoming_bytes);
    if (slices_are_sparse(&replica->shape.slices)) {
        *replica_slot_proof(replica, seat, slot) = *proof;
    }
}

void slice_store_drop_result(struct slice_store *store, uint32_t round, uint32_t slice) {
    (void)result_index_clear_row(&store->index, round, slice);
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

void slice_store_record_own_contribution(struct slice_store *store, uint32_t round, int seat) {
    ASSERT(round == 0 || round >= store->contribution_round);
    store->contribution_round = round;
    store->contribution_seat = seat;
}

/* ---- send ---- */

/* Reads a result from disk into `incoming`. The network thread either sends or receives, so
 * `incoming` is not in use while it sends. */
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

/* Returns a result as it is sent for this item. */
static struct slice_data data_of_result(const struct slice_store *store,
                                        const struct outbox_item *item, const uint8_t *result) {
    const struct slices *slices = slices_of_store(store);
    const bool is_sparse = slices_are_sparse(slices);
    /* the bytes may be those of a damaged file */
    if (result == NULL ||
        (is_sparse && count_seats(sparse_result_seats(result)) > slices->members_max)) {
        return (struct slice_data){.bytes = NULL};
    }
    return is_sparse ? list_with_gap(slices, item->slice, result, item->left_out)
                     : (struct slice_data){.bytes = result,
                                           .byte_count = slices_range(slices, item->slice).bytes};
}

struct slice_data slice_store_find_bytes(struct slice_store *store, const struct outbox_item *item,
                                         struct message *message) {
    const struct replica *replica = store->options->replica;
    if (item->kind == MESSAGE_CONTRIBUTION) {
        if (store->contribution_round != item->round) {
            return (struct slice_data){.bytes = NULL};
        }
        replica_prove_slice(replica, item->slice, &store->proof);
        message->proof = &store->proof;
        return (struct slice_data){.bytes = replica_own_contribution(replica, item->slice),
                                   .byte_count =
                                       slices_range(slices_of_store(store), item->slice).bytes};
    }
    const struct stored_result *stored =
        result_index_find(&store->index, item->round, item->slice, &item->hash);
    if (stored == NULL) {
        return data_of_result(store, item, read_from_disk(store, item));
    }
    message->epoch = stored->epoch;
    message->contributors = stored->contributors;
    message->owner = stored->owner;
    message->signature = stored->signature;
    return data_of_result(store, item, replica_result(replica, item->round, item->slice));
}
