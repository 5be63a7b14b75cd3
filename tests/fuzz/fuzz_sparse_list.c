/* fuzz_sparse_list: what a member receives as the result of a slice with a sparse codec: arbitrary
 * bytes, and valid lists with a few changed bytes, with or without the receiver's own encoding. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "runtime/swarm/member/slice_store.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/replica/sparse_result.h"
#include "transport/identity/keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 4,
    MEMBERS = 4,
    SLICES = 3,
    ELEMENTS = 2 * SPARSE_BLOCK,          /* of each slice but the last */
    COUNT = (SLICES - 1) * ELEMENTS + 77, /* parameters */
    PART_INPUT_BYTES = 96,                /* input that one contribution is made of */
    VALUES = (PART_INPUT_BYTES - 32) / 4, /* of these, numbers to encode */
    CHANGE_BYTES = 3,                     /* position, bits */
    LIST_MAX = 1 << 14,
    ROUND = 5,
    IS_RAW = 128,    /* bits of the first byte: the rest is the list */
    HAS_OWN = 64,    /* the receiver has its own contribution */
    IS_LEFT_OUT = 32 /* and the list lacks it */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const struct compute *compute_at(enum cpu_level level) {
    static struct kernel_table table;
    static struct pool pool = {.thread_count = 1};
    static struct compute compute = {.table = &table, .pool = &pool};
    table.level = level;
    return &compute;
}

/* ---- a member, with nothing but what it needs to receive a list ---- */

struct receiver {
    struct replica replica;
    struct key_pairs keys;
    struct member_loop_options options;
    struct wire_shape shape;
    struct slice_store store;
    void *memory;
};

static struct slices slices_of(struct sparse_shape shape) {
    return (struct slices){.parameter_count = COUNT,
                           .sparse = shape,
                           .elements = ELEMENTS,
                           .count = SLICES,
                           .members_max = MEMBERS,
                           .bytes_max = sparse_bytes(shape, ELEMENTS),
                           .bytes = sparse_bytes(shape, COUNT)};
}

/* All memory has exactly the size that the member plans. */
static struct receiver *make_receiver(struct sparse_shape shape) {
    struct receiver *made = calloc(1, sizeof *made);
    struct replica *replica = &made->replica;
    replica->shape = (struct replica_shape){.slices = slices_of(shape), .members_max = MEMBERS};
    const struct replica_memory memory = replica_memory_of(&replica->shape);
    replica->compute = compute_at(CPU_SCALAR);
    replica->results = malloc(memory.results);
    replica->contribution = calloc(1, memory.contribution);
    replica_bind_declared(replica, calloc(1, memory.declared));
    made->options = (struct member_loop_options){
        .keys = &made->keys, .members_max = MEMBERS, .replica = replica};
    made->shape =
        (struct wire_shape){.slice_count = SLICES, .members_max = MEMBERS, .is_sparse = true};
    made->memory = aligned_alloc(64, slice_store_memory_bytes(&made->options));
    slice_store_init(&made->store, &made->options, &made->shape, made->memory);
    return made;
}

static void free_receiver(struct receiver *receiver) {
    free(receiver->replica.results);
    free(receiver->replica.contribution);
    free(receiver->replica.declared_nodes);
    free(receiver->memory);
    free(receiver);
}

/* ---- lists ---- */

static uint32_t count_seats(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

static int64_t elements_of(const struct slices *slices, uint32_t slice) {
    const struct slice_range range = slices_range(slices, slice);
    return range.end - range.begin;
}

/* Encodes numbers of the input, each in an element that the input chooses; numbers that are not
 * finite are left out. */
static void encode_part(const struct slices *slices, uint32_t slice, const uint8_t *input,
                        uint8_t *encoded) {
    static float values[ELEMENTS];
    const int64_t count = elements_of(slices, slice);
    memset(values, 0, sizeof values);
    for (int i = 0; i < VALUES; i++) {
        float value;
        memcpy(&value, input + 4 * i, sizeof value);
        const int64_t element = (input[4 * i] * 97 + i * input[4 * i + 1]) % count;
        values[element] = isfinite(value) && fabsf(value) < 1e38F ? value : 0;
    }
    ASSERT(sparse_encode(compute_at(CPU_SCALAR), slices->sparse, count, values, encoded));
}

static struct contribution_part make_part(const struct slices *slices, const uint8_t *input) {
    struct contribution_part part = {.proof.path_count =
                                         input[0] % (contribution_path_max(slices->count) + 1)};
    memcpy(&part.weight, input + 1, 5);
    memcpy(&part.proof.norm, input + 8, sizeof part.proof.norm);
    part.proof.norm = isfinite(part.proof.norm) ? fabs(part.proof.norm) : 1;
    part.clip = (float)input[6] / 255;
    memset(part.proof.path, input[7], part.proof.path_count * sizeof part.proof.path[0]);
    return part;
}

/* Writes a valid list of the contributions of `seats`; returns its size. The encoding of the
 * receiver's seat is that of its contribution. */
static uint64_t write_list(struct receiver *receiver, uint32_t slice, uint64_t seats, uint64_t own,
                           const uint8_t *input, uint8_t *list) {
    const struct slices *slices = &receiver->replica.shape.slices;
    const uint32_t count = count_seats(seats);
    uint32_t index = 0;
    sparse_result_begin_list(list, seats, (double)input[0] / 16);
    for (uint32_t seat = 0; seat < MEMBERS; seat++) {
        const uint8_t *from = input + seat * PART_INPUT_BYTES;
        if ((seats >> seat & 1) == 0) {
            continue;
        }
        uint8_t *encoded = list + sparse_result_encoding_offset(slices, slice, count, index);
        const struct contribution_part part = make_part(slices, from);
        sparse_result_write_head(slices, list, index++, &part);
        encode_part(slices, slice, from + 32, encoded);
        if ((own >> seat & 1) != 0) {
            memcpy(replica_own_contribution(&receiver->replica, slice), encoded,
                   slices_range(slices, slice).bytes);
        }
    }
    return sparse_result_bytes(slices, slice, count);
}

/* Removes the encoding of the receiver's seat; returns the new size. */
static uint64_t remove_own(const struct slices *slices, uint32_t slice, uint64_t seats,
                           uint64_t own, uint8_t *list, uint64_t size) {
    const uint64_t bytes = slices_range(slices, slice).bytes;
    const uint64_t at = sparse_result_encoding_offset(slices, slice, count_seats(seats),
                                                      count_seats(seats & (own - 1)));
    memmove(list + at, list + at + bytes, size - at - bytes);
    return size - bytes;
}

/* ---- checks ---- */

/* The mean of chunks of a block has the bits of the whole mean. */
static void check_mean(const struct slices *slices, uint32_t slice, const uint8_t *list) {
    static float whole[ELEMENTS], mean[ELEMENTS], shares[ELEMENTS];
    const struct slice_range range = slices_range(slices, slice);
    const int64_t count = range.end - range.begin;
    sparse_result_mean(compute_at(CPU_SCALAR), slices, slice, list,
                       (struct replica_chunk){range.begin, count}, whole, shares);
    for (int64_t at = 0; at < count; at += SPARSE_BLOCK) {
        const int64_t left = count - at < SPARSE_BLOCK ? count - at : SPARSE_BLOCK;
        sparse_result_mean(compute_at(CPU_SCALAR), slices, slice, list,
                           (struct replica_chunk){range.begin + at, left}, mean + at, shares);
    }
    ASSERT(memcmp(mean, whole, (size_t)count * sizeof *mean) == 0);
    for (int64_t i = 0; i < count; i++) {
        ASSERT(!isnan(mean[i]));
    }
}

/* A list that is accepted has one spelling: writing what it contains gives the same bytes. */
static void check_accepted(const struct receiver *receiver, const struct message *message,
                           const struct message_values *values) {
    static uint8_t again[LIST_MAX];
    const struct slices *slices = &receiver->replica.shape.slices;
    const struct slice_store *store = &receiver->store;
    const uint32_t count = count_seats(message->contributors);
    const uint64_t bytes = slices_range(slices, message->slice).bytes;
    ASSERT(values->norm == 0 && values->listed == store->listed);
    ASSERT(store->incoming_bytes == sparse_result_bytes(slices, message->slice, count));
    sparse_result_begin_list(again, message->contributors, values->value_limit);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at = sparse_result_encoding_offset(slices, message->slice, count, i);
        const struct hash hash = hash_of(store->incoming + at, bytes);
        sparse_result_write_head(slices, again, i, &values->listed[i].part);
        memcpy(again + at, store->incoming + at, bytes);
        ASSERT(hash_equal(&hash, &values->listed[i].hash) && isfinite(values->listed[i].norm));
    }
    ASSERT(memcmp(again, store->incoming, store->incoming_bytes) == 0);
    check_mean(slices, message->slice, again);
}

/* A stored list is sent as it was received, or without the encoding of the member that asks. */
static void check_sent(struct receiver *receiver, const struct message *message) {
    struct message sent = {.kind = MESSAGE_RESULT};
    for (uint64_t left_out = 0; left_out < 1 << MEMBERS; left_out = left_out * 2 + !left_out) {
        const struct outbox_item item = {.kind = MESSAGE_RESULT,
                                         .round = message->round,
                                         .slice = message->slice,
                                         .left_out = left_out,
                                         .hash = message->hash};
        const struct slice_data data = slice_store_find_bytes(&receiver->store, &item, &sent);
        const uint64_t bytes = slices_range(&receiver->replica.shape.slices, message->slice).bytes;
        const bool has_gap = (message->contributors & left_out) != 0;
        ASSERT(data.bytes != NULL && data.byte_count == receiver->store.incoming_bytes);
        ASSERT(data.gap_bytes == (has_gap ? bytes : 0));
        ASSERT(data.gap_begin + data.gap_bytes <= data.byte_count);
        ASSERT(memcmp(data.bytes, receiver->store.incoming, data.byte_count) == 0);
    }
}

static bool receive(struct receiver *receiver, const struct message *message, const uint8_t *list,
                    uint64_t size) {
    struct message_values values = {.norm = 0};
    uint8_t *received = malloc(size > 0 ? size : 1);
    memcpy(received, list, size);
    const bool has_length = slice_store_receive(&receiver->store, message, received, size);
    free(received);
    if (!has_length) {
        return false;
    }
    slice_store_compute_values(&receiver->store, message, &values);
    if (!isfinite(values.norm)) {
        ASSERT(values.listed == NULL);
        return false;
    }
    check_accepted(receiver, message, &values);
    slice_store_keep_result(&receiver->store, message);
    check_sent(receiver, message);
    return true;
}

/* ---- input ---- */

/* Fills with numbers of all sizes, and with zeros. */
static void fill(uint8_t *input, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i++) {
        seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
        seed ^= seed >> 29;
        input[i] = (uint8_t)(seed >> 40);
    }
}

/* A list of contributions that follow from `seed` is accepted. With changed bytes, of which the
 * input has the positions and the bits, it may be. */
static void receive_made(struct receiver *receiver, struct message *message, uint8_t choices,
                         uint8_t seed, const uint8_t *bytes, size_t count) {
    static uint8_t list[LIST_MAX], input[MEMBERS * PART_INPUT_BYTES];
    const struct slices *slices = &receiver->replica.shape.slices;
    const uint64_t own = (uint64_t)1 << (choices & 3);
    fill(input, sizeof input, seed);
    uint64_t size = write_list(receiver, message->slice, message->contributors, own, input, list);
    slice_store_record_own_contribution(&receiver->store, (choices & HAS_OWN) != 0 ? ROUND : 0,
                                        choices & 3);
    const bool is_left_out = (choices & IS_LEFT_OUT) != 0 && (message->contributors & own) != 0;
    if (is_left_out) {
        size = remove_own(slices, message->slice, message->contributors, own, list, size);
    }
    ASSERT(receive(receiver, message, list, size) == (!is_left_out || (choices & HAS_OWN) != 0));
    for (size_t at = 0; at + CHANGE_BYTES <= count; at += CHANGE_BYTES) {
        list[(bytes[at] | bytes[at + 1] << 8) % size] ^= bytes[at + 2];
        (void)receive(receiver, message, list, size);
    }
}

/* The first byte chooses what the rest is and the receiver's seat, the second the shape and the
 * slice, the third the seats of the contributions, the fourth what these are. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count < HEADER_BYTES) {
        return 0;
    }
    const struct sparse_shape shape = {.keep = 32 << (bytes[1] & 3),
                                       .value_bits = 1 << (bytes[1] >> 2 & 3) % 3};
    struct receiver *receiver = make_receiver(shape);
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = ROUND,
                              .slice = (uint32_t)(bytes[1] >> 4) % SLICES,
                              .contributors = bytes[2] % (1 << MEMBERS),
                              .hash = hash_of(bytes, count)};
    if ((bytes[0] & IS_RAW) != 0) {
        slice_store_record_own_contribution(&receiver->store, (bytes[0] & HAS_OWN) != 0 ? ROUND : 0,
                                            bytes[0] & 3);
        (void)receive(receiver, &message, bytes + HEADER_BYTES, count - HEADER_BYTES);
    } else {
        receive_made(receiver, &message, bytes[0], bytes[3], bytes + HEADER_BYTES,
                     count - HEADER_BYTES);
    }
    free_receiver(receiver);
    return 0;
}
