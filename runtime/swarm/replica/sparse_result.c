#include "runtime/swarm/replica/sparse_result.h"

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/outer.h"
#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they are in memory, which must be little-endian");

/* Sums of weights must be below this, because outer_token_share requires it. */
static const uint64_t WEIGHTS_END = (uint64_t)1 << 53;

/* ---- layout ---- */

uint64_t sparse_result_head_bytes(uint32_t slice_count) {
    return SPARSE_RESULT_HEAD_BYTES + contribution_path_max(slice_count) * (uint64_t)HASH_BYTES;
}

uint64_t sparse_result_bytes(const struct slices *slices, uint32_t slice, uint32_t count) {
    return sparse_result_encoding_offset(slices, slice, count, count);
}

uint64_t sparse_result_encoding_offset(const struct slices *slices, uint32_t slice, uint32_t count,
                                       uint32_t index) {
    ASSERT(index <= count && count <= SWARM_MEMBERS_MAX);
    return SPARSE_RESULT_HEADER_BYTES + count * sparse_result_head_bytes(slices->count) +
           index * slices_range(slices, slice).bytes;
}

static uint64_t head_offset(const struct slices *slices, uint32_t index) {
    return SPARSE_RESULT_HEADER_BYTES + index * sparse_result_head_bytes(slices->count);
}

void sparse_result_begin_list(uint8_t *bytes, uint64_t seats, double value_limit) {
    memcpy(bytes, &seats, sizeof seats);
    memcpy(bytes + sizeof seats, &value_limit, sizeof value_limit);
}

uint64_t sparse_result_seats(const uint8_t *bytes) {
    uint64_t seats;
    memcpy(&seats, bytes, sizeof seats);
    return seats;
}

double sparse_result_value_limit(const uint8_t *bytes) {
    double limit;
    memcpy(&limit, bytes + sizeof(uint64_t), sizeof limit);
    return limit;
}

/* ---- heads ---- */

/* The head of a contribution in a list, without the path that follows it. */
struct contribution_head {
    uint64_t weight;     /* weight of the contribution */
    double norm;         /* its declared L2 norm */
    float clip;          /* clip factor, in [0, 1] */
    uint32_t path_count; /* number of hashes in the path */
};

_Static_assert(sizeof(struct contribution_head) == SPARSE_RESULT_HEAD_BYTES,
               "the head has no padding");

void sparse_result_write_head(const struct slices *slices, uint8_t *bytes, uint32_t index,
                              const struct contribution_part *part) {
    uint8_t *at = bytes + head_offset(slices, index);
    const struct contribution_head head = {part->weight, part->proof.norm, part->clip,
                                           part->proof.path_count};
    ASSERT(part->proof.path_count <= contribution_path_max(slices->count));
    memset(at, 0, sparse_result_head_bytes(slices->count));
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, part->proof.path, part->proof.path_count * sizeof part->proof.path[0]);
}

static bool are_all_zero(const uint8_t *bytes, uint64_t count) {
    uint8_t bits = 0;
    for (uint64_t i = 0; i < count; i++) {
        bits |= bytes[i];
    }
    return bits == 0;
}

bool sparse_result_read_head(const struct slices *slices, const uint8_t *bytes, uint32_t index,
                             struct contribution_part *part) {
    const uint8_t *at = bytes + head_offset(slices, index);
    const uint64_t size = sparse_result_head_bytes(slices->count);
    struct contribution_head head;
    memcpy(&head, at, sizeof head);
    if (head.path_count > contribution_path_max(slices->count)) {
        return false;
    }
    const uint64_t used = sizeof head + head.path_count * (uint64_t)HASH_BYTES;
    *part = (struct contribution_part){.weight = head.weight,
                                       .clip = head.clip,
                                       .proof = {.norm = head.norm, .path_count = head.path_count}};
    memcpy(part->proof.path, at + sizeof head, used - sizeof head);
    return norm_is_valid(head.norm) && head.clip >= 0 && head.clip <= 1 && !signbit(head.clip) &&
           head.weight < WEIGHTS_END / SWARM_MEMBERS_MAX && are_all_zero(at + used, size - used);
}

/* ---- check ---- */

static uint32_t count_seats(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

bool sparse_result_is_valid(const struct slices *slices, uint32_t slice, const uint8_t *bytes,
                            uint64_t size) {
    if (size < SPARSE_RESULT_HEADER_BYTES) {
        return false;
    }
    const struct slice_range range = slices_range(slices, slice);
    const uint32_t count = count_seats(sparse_result_seats(bytes));
    if (count > slices->members_max || size != sparse_result_bytes(slices, slice, count) ||
        !norm_is_valid(sparse_result_value_limit(bytes))) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct contribution_part part;
        struct fault ignored;
        if (!sparse_result_read_head(slices, bytes, i, &part) ||
            sparse_check(slices->sparse, range.end - range.begin,
                         bytes + sparse_result_encoding_offset(slices, slice, count, i),
                         range.bytes, &ignored) != OK) {
            return false;
        }
    }
    return true;
}

/* ---- mean ---- */

/* A contribution that is added to a mean. */
struct added_part {
    const struct compute *compute; /* threads and kernels that add the contribution */
    struct sparse_shape shape;     /* sparse encoding of the contribution's blocks */
    const uint8_t *bytes;          /* encoding of the first element that is added */
    int64_t count;                 /* number of elements */
    /* the contribution's share of all weights, and its clip factor */
    float share, clip;
    double value_limit;   /* largest magnitude of a value in the mean */
    float *sums, *shares; /* [count] sums of values and of shares */
};

/* Returns the factor by which the values of a block are multiplied. */
static float find_block_factor(const struct added_part *part, const uint8_t *block) {
    const double peak = (double)sparse_block_peak(part->shape, block);
    return peak * (double)part->clip > part->value_limit ? (float)(part->value_limit / peak)
                                                         : part->clip;
}

static void add_blocks(const struct added_part *part, int64_t first, int64_t end, float factor) {
    const int64_t begin = first * SPARSE_BLOCK;
    const int64_t stop = min_i64(end * SPARSE_BLOCK, part->count);
    const struct sparse_add_args args = {.shape = part->shape,
                                         .count = stop - begin,
                                         .factor = part->share * factor,
                                         .weight = part->share,
                                         .sums = part->sums + begin,
                                         .weights = part->shares + begin};
    sparse_add(part->compute, &args,
               part->bytes + (uint64_t)first * sparse_block_bytes(part->shape));
}

/* Adds each stretch of blocks with equal factors at once: usually the whole contribution. */
static void add_part(const struct added_part *part) {
    const int64_t blocks = div_ceil(part->count, SPARSE_BLOCK);
    int64_t first = 0;
    float factor = part->clip;
    for (int64_t i = 0; i < blocks; i++) {
        const float next =
            find_block_factor(part, part->bytes + (uint64_t)i * sparse_block_bytes(part->shape));
        if (next != factor) {
            add_blocks(part, first, i, factor);
            first = i;
            factor = next;
        }
    }
    add_blocks(part, first, blocks, factor);
}

static uint64_t sum_weights(const struct slices *slices, const uint8_t *bytes, uint32_t count) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct contribution_part part;
        const bool is_valid = sparse_result_read_head(slices, bytes, i, &part);
        ASSERT(is_valid);
        total += part.weight;
    }
    return total;
}

void sparse_result_mean(const struct compute *compute, const struct slices *slices, uint32_t slice,
                        const uint8_t *bytes, struct replica_chunk chunk, float *mean,
                        float *sums_of_shares) {
    const struct slice_range range = slices_range(slices, slice);
    const uint32_t count = count_seats(sparse_result_seats(bytes));
    const uint64_t total = sum_weights(slices, bytes, count);
    const int64_t skipped = chunk.begin - range.begin;
    ASSERT(skipped >= 0 && skipped % SPARSE_BLOCK == 0 && chunk.begin + chunk.count <= range.end);
    memset(mean, 0, (size_t)chunk.count * sizeof *mean);
    memset(sums_of_shares, 0, (size_t)chunk.count * sizeof *sums_of_shares);
    for (uint32_t i = 0; i < count; i++) {
        struct contribution_part part;
        const bool is_valid = sparse_result_read_head(slices, bytes, i, &part);
        ASSERT(is_valid);
        if (part.weight == 0) {
            continue;
        }
        const struct added_part added = {
            .compute = compute,
            .shape = slices->sparse,
            .bytes = bytes + sparse_result_encoding_offset(slices, slice, count, i) +
                     sparse_bytes(slices->sparse, skipped),
            .count = chunk.count,
            .share = outer_token_share((int64_t)part.weight, (int64_t)total),
            .clip = part.clip,
            .value_limit = sparse_result_value_limit(bytes),
            .sums = mean,
            .shares = sums_of_shares};
        add_part(&added);
    }
    sparse_mean(compute, chunk.count, sums_of_shares, mean);
}
