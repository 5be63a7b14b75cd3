/* values_sparse: results that are lists of contributions. Owners make them by the replica and
 * members check them as the program does. The oracle writes the same list byte by byte, and
 * computes its mean and the step, from what the contributors made. */
#include "tests/sim/values_sparse.h"

#include "kernels/cpu/cpu.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/replica/sparse_result.h"
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/sparse_reference.h"
#include "tests/sim/parts.h"

#include <math.h>
#include <string.h>

static const float OUTER_RATE = 0.1F; /* that of values_real.c */

struct slices values_sparse_slices(const struct world *world) {
    const int64_t count = (int64_t)world->slice_count * SLICE_ELEMENTS;
    return (struct slices){.parameter_count = count,
                           .sparse = world->sparse,
                           .elements = SLICE_ELEMENTS,
                           .count = world->slice_count,
                           .members_max = MEMBERS_MOST,
                           .bytes_max = sparse_bytes(world->sparse, SLICE_ELEMENTS),
                           .bytes = sparse_bytes(world->sparse, count)};
}

bool values_have_lists(const struct world *world) {
    return world->sparse.keep > 0;
}

uint64_t values_sent_values(const struct world *world) {
    if (!values_have_lists(world)) {
        return 0;
    }
    const struct slices slices = values_sparse_slices(world);
    return slices_sent_values(&slices);
}

void values_encode_sparse(const struct world *world, const float *values, struct coded *coded) {
    static double decoded[SLICE_ELEMENTS];
    (void)sparse_reference_encode(world->sparse, SLICE_ELEMENTS, values, coded->bytes, decoded);
}

/* ---- bytes of a list ---- */

static uint32_t count_seats(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

/* A damaged list may name more seats than there are; then it is as long as its memory. */
size_t values_result_bytes(const struct world *world, const struct coded *result) {
    if (!values_have_lists(world)) {
        return values_bytes(world);
    }
    const struct slices slices = values_sparse_slices(world);
    const uint32_t count = count_seats(sparse_result_seats(result->bytes));
    ASSERT(sparse_result_bytes(&slices, 0, MEMBERS_MOST) <= sizeof result->bytes);
    return count > MEMBERS_MOST ? sizeof result->bytes : sparse_result_bytes(&slices, 0, count);
}

struct hash values_result_hash(const struct world *world, const struct coded *result) {
    return hash_of(result->bytes, values_result_bytes(world, result));
}

/* The position of the encoding of a seat in a list; 0: it has none. */
static size_t find_encoding(const struct world *world, const struct coded *list, uint64_t seat) {
    const struct slices slices = values_sparse_slices(world);
    const uint64_t seats = sparse_result_seats(list->bytes);
    return (seats & seat) == 0 || count_seats(seats) > MEMBERS_MOST
               ? 0
               : sparse_result_encoding_offset(&slices, 0, count_seats(seats),
                                               count_seats(seats & (seat - 1)));
}

void values_leave_out(const struct world *world, uint32_t slice, uint64_t left_out,
                      struct coded *list) {
    const size_t at =
        left_out != 0 && values_have_lists(world) ? find_encoding(world, list, left_out) : 0;
    (void)slice;
    if (at > 0) {
        const size_t rest = at + values_bytes(world);
        memmove(list->bytes + at, list->bytes + rest, sizeof list->bytes - rest);
    }
}

/* Only a contribution of this start of the member is at hand. */
bool values_restore(const struct world *world, uint32_t index, struct message *message,
                    struct coded *list) {
    const struct node *node = &world->nodes[index];
    const size_t bytes = values_bytes(world);
    if (message->values.left_out == 0 || !values_have_lists(world)) {
        return true;
    }
    const size_t at = find_encoding(world, list, message->values.left_out);
    if (at == 0 || message->slice >= world->slice_count || node->own.round != message->round ||
        node->own.start != node->start) {
        return false;
    }
    memmove(list->bytes + at + bytes, list->bytes + at, sizeof list->bytes - at - bytes);
    memcpy(list->bytes + at, node->own.slices[message->slice].bytes, bytes);
    message->values.left_out = 0;
    return true;
}

bool values_inspect(const struct world *world, struct message *message,
                    const struct coded *result) {
    static struct listed_contribution listed[MEMBERS_MOST];
    if (!values_have_lists(world)) {
        message->values.norm = values_norm(world, result);
        return values_are_sound(world, result);
    }
    const struct slices slices = values_sparse_slices(world);
    if (!sparse_result_is_valid(&slices, message->slice, result->bytes,
                                values_result_bytes(world, result)) ||
        sparse_result_seats(result->bytes) != message->contributors) {
        return false;
    }
    const uint32_t count = count_seats(message->contributors);
    for (uint32_t i = 0; i < count; i++) {
        struct coded coded = {{0}};
        memcpy(coded.bytes,
               result->bytes + sparse_result_encoding_offset(&slices, message->slice, count, i),
               values_bytes(world));
        listed[i].hash = values_hash(world, &coded);
        listed[i].norm = values_norm(world, &coded);
        ASSERT(sparse_result_read_head(&slices, result->bytes, i, &listed[i].part));
    }
    message->values.norm = 0;
    message->values.value_limit = sparse_result_value_limit(result->bytes);
    message->values.listed = listed;
    return true;
}

/* ---- owners ---- */

/* Lists the addends, each with the proof that came with it. */
void values_make_list(struct replica *replica, const struct node *node, const struct action *action,
                      const struct addend *addends, struct coded *list) {
    const struct slices *slices = &replica->shape.slices;
    const struct slice_proof *proofs[MEMBERS_MOST];
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < MEMBERS_MOST; seat++) {
        if ((action->contributors >> seat & 1) != 0) {
            const bool is_own = (int)seat == action->seat;
            proofs[count++] = is_own ? NULL : &node->slot_proofs[seat][action->slots[seat]];
        }
    }
    const struct addend_list made = {.seats = action->contributors,
                                     .addends = addends,
                                     .proofs = proofs,
                                     .value_limit = norms_value_limit(action->table->reference_norm,
                                                                      slices_sent_values(slices))};
    (void)replica_write_list(replica, action->round, action->slice, &made);
    memcpy(list->bytes, replica_result(replica, action->round, action->slice),
           sparse_result_bytes(slices, action->slice, count));
}

/* Removes the last contribution. */
static void drop_last(const struct slices *slices, struct coded *list) {
    const uint64_t seats = sparse_result_seats(list->bytes);
    const uint32_t count = count_seats(seats);
    const uint64_t last = UINT64_C(1) << (63 - __builtin_clzll(seats));
    const size_t from = sparse_result_encoding_offset(slices, 0, count, 0);
    const size_t to = sparse_result_encoding_offset(slices, 0, count - 1, 0);
    memmove(list->bytes + to, list->bytes + from, sizeof list->bytes - from);
    sparse_result_begin_list(list->bytes, seats & ~last, sparse_result_value_limit(list->bytes));
}

enum spoiled { SPOILED_SIGN, SPOILED_DROP, SPOILED_WEIGHT, SPOILED_CLIP, SPOILED_NORM, SPOILS };

/* Each round another lie; a list without contributions gets another value limit. */
void values_spoil(const struct world *world, const struct action *action, struct coded *list) {
    const struct slices slices = values_sparse_slices(world);
    const uint32_t count = count_seats(sparse_result_seats(list->bytes));
    static float values[SLICE_ELEMENTS];
    struct contribution_part part;
    struct coded coded = {{0}};
    if (count == 0) {
        sparse_result_begin_list(list->bytes, 0, 1 + 2 * sparse_result_value_limit(list->bytes));
        return;
    }
    uint8_t *encoding = list->bytes + sparse_result_encoding_offset(&slices, 0, count, 0);
    ASSERT(sparse_result_read_head(&slices, list->bytes, 0, &part));
    switch ((enum spoiled)(action->round % SPOILS)) {
    case SPOILED_SIGN:
        memcpy(coded.bytes, encoding, values_bytes(world));
        values_decode(world, &coded, values);
        values[0] = values[0] != 0 ? -values[0] : 1;
        coded = values_encode(world, values);
        memcpy(encoding, coded.bytes, values_bytes(world));
        return;
    case SPOILED_DROP:
        drop_last(&slices, list);
        return;
    case SPOILED_WEIGHT:
        part.weight += 1;
        break;
    case SPOILED_CLIP:
        part.clip = part.clip / 2;
        break;
    default:
        part.proof.norm = 1 + 2 * part.proof.norm;
        break;
    }
    sparse_result_write_head(&slices, list->bytes, 0, &part);
}

/* ---- for the oracle ---- */

static size_t put(struct coded *list, size_t at, const void *bytes, size_t count) {
    ASSERT(at + count <= sizeof list->bytes);
    memcpy(list->bytes + at, bytes, count);
    return at + count;
}

static size_t put_head(const struct world *world, uint32_t slice, const struct value_part *part,
                       struct coded *list, size_t at) {
    static const uint8_t ZEROS[HASH_BYTES];
    const struct truth *truth = part->truth;
    struct slice_proof proof;
    contribution_prove(truth->nodes, truth->norms, world->slice_count, slice, &proof);
    at = put(list, at, &part->weight, 8);
    at = put(list, at, &truth->norms[slice], 8);
    at = put(list, at, &part->clip, 4);
    at = put(list, at, &proof.path_count, 4);
    for (uint32_t i = 0; i < contribution_path_max(world->slice_count); i++) {
        at = put(list, at, i < proof.path_count ? proof.path[i].bytes : ZEROS, HASH_BYTES);
    }
    return at;
}

struct coded values_result(const struct world *world, const struct entry *entry, uint32_t slice,
                           const struct value_part *parts, uint32_t count, const float *mean) {
    struct coded list = {{0}};
    if (!values_have_lists(world)) {
        return values_encode(world, mean);
    }
    const double limit = 8 * entry->reference_norm / sqrt((double)values_sent_values(world));
    size_t at = put(&list, 0, &entry->slices[slice].contributors, 8);
    at = put(&list, at, &limit, 8);
    for (uint32_t i = 0; i < count; i++) {
        at = put_head(world, slice, &parts[i], &list, at);
    }
    for (uint32_t i = 0; i < count; i++) {
        at = put(&list, at, parts[i].coded->bytes, values_bytes(world));
    }
    return list;
}

/* Adds one contribution: its share of each value, limited by blocks, and its share where it has a
 * value. */
static void add_part(const struct world *world, const struct value_part *part, float share,
                     double limit, float *sums, float *shares) {
    static float values[SLICE_ELEMENTS];
    values_decode(world, part->coded, values);
    for (int first = 0; first < SLICE_ELEMENTS; first += SPARSE_BLOCK) {
        const int end =
            first + SPARSE_BLOCK < SLICE_ELEMENTS ? first + SPARSE_BLOCK : SLICE_ELEMENTS;
        double peak = 0;
        for (int i = first; i < end; i++) {
            peak = fmax(peak, fabs((double)values[i]));
        }
        const bool is_limited = peak * (double)part->clip > limit;
        const float factor = share * (is_limited ? (float)(limit / peak) : part->clip);
        for (int i = first; i < end; i++) {
            float product = factor * values[i];
            sums[i] = values[i] != 0 ? sums[i] + product : sums[i];
            shares[i] = values[i] != 0 ? shares[i] + share : shares[i];
        }
    }
}

void values_mean_of_list(const struct world *world, const struct entry *entry,
                         const struct value_part *parts, uint32_t count, float *mean) {
    const double limit = 8 * entry->reference_norm / sqrt((double)values_sent_values(world));
    static float shares[SLICE_ELEMENTS];
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += parts[i].weight;
    }
    memset(mean, 0, sizeof shares);
    memset(shares, 0, sizeof shares);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].weight > 0) {
            const float share = (float)((double)parts[i].weight / (double)total);
            add_part(world, &parts[i], share, limit, mean, shares);
        }
    }
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        mean[i] = shares[i] == 0 ? 0 : mean[i] / shares[i];
    }
}

bool values_step(const struct world *world, const float *mean, float *params) {
    for (int i = 0; i < SLICE_ELEMENTS && values_have_lists(world); i++) {
        float step = OUTER_RATE * mean[i];
        params[i] = params[i] - step;
    }
    return values_have_lists(world);
}
