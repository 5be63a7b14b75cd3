#include "runtime/swarm/replica/replica.h"

#include "base/bytes.h"
#include "base/check.h"
#include "runtime/swarm/replica/sparse_result.h"

_Static_assert(SLICE_GRANULE % CODEC_INT8_BLOCK == 0 && SLICE_GRANULE % CODEC_INT4_BLOCK == 0,
               "each slice ends at a block boundary");

/* Limits of the length of a slice, in elements. */
struct slice_limits {
    int64_t granule;  /* the lengths of all slices but the last are multiples of the granule */
    int64_t min, max; /* shortest and longest slice, multiples of the granule */
};

static enum status too_many_slices_fault(const struct slices *slices, int64_t count,
                                         struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, "swarm.codec",
                     "choose a codec with fewer bits per parameter",
                     "%lld parameters in %s need %lld slices; a swarm has at most %d",
                     (long long)slices->parameter_count, slices_codec_name(slices),
                     (long long)count, (int)SWARM_SLICES_MAX);
}

/* Sets `elements` and `count`: SLICES_PER_MEMBER equal slices a member, as far as limits allow. */
static enum status choose_partition(struct slices *slices, uint32_t members_max,
                                    const struct slice_limits *limits, struct fault *fault) {
    const int64_t parameter_count = slices->parameter_count;
    ASSERT(parameter_count > 0 && members_max > 0 && members_max <= SWARM_MEMBERS_MAX);
    int64_t target_count = (int64_t)SLICES_PER_MEMBER * members_max;
    int64_t even = round_up(div_ceil(parameter_count, target_count), limits->granule);
    int64_t elements = even < limits->min ? limits->min : even;
    elements = elements > limits->max ? limits->max : elements;
    int64_t count = div_ceil(parameter_count, elements);
    if (count > SWARM_SLICES_MAX) {
        return too_many_slices_fault(slices, count, fault);
    }
    slices->elements = elements;
    slices->count = (uint32_t)count;
    return OK;
}

static int64_t whole_granule_elements(enum codec codec, uint64_t bytes) {
    int64_t elements = codec_elements_within(codec, bytes);
    return elements - elements % SLICE_GRANULE;
}

enum status slices_divide(int64_t parameter_count, enum codec codec, uint32_t members_max,
                          struct slices *slices, struct fault *fault) {
    struct slices made = {.parameter_count = parameter_count, .codec = codec};
    const struct slice_limits limits = {.granule = SLICE_GRANULE,
                                        .min = whole_granule_elements(codec, SLICE_BYTES_MIN),
                                        .max = whole_granule_elements(codec, SLICE_BYTES_MAX)};
    TRY(choose_partition(&made, members_max, &limits, fault));
    int64_t longest = min_i64(parameter_count, made.elements);
    made.bytes_max = codec_bytes(codec, longest);
    made.bytes = codec_bytes(codec, parameter_count);
    *slices = made;
    return OK;
}

enum status slices_divide_sparse(int64_t parameter_count, struct sparse_shape shape,
                                 uint32_t members_max, struct slices *slices, struct fault *fault) {
    struct slices made = {
        .parameter_count = parameter_count, .sparse = shape, .members_max = members_max};
    const int64_t block_bytes = (int64_t)sparse_block_bytes(shape);
    const int64_t most = ((int64_t)SLICE_BYTES_MAX - SPARSE_RESULT_HEADER_BYTES) / members_max -
                         (int64_t)sparse_result_head_bytes(SWARM_SLICES_MAX);
    const struct slice_limits limits = {.granule = SPARSE_BLOCK,
                                        .min = SLICE_SPARSE_BYTES_MIN / block_bytes * SPARSE_BLOCK,
                                        .max = most / block_bytes * SPARSE_BLOCK};
    TRY(choose_partition(&made, members_max, &limits, fault));
    made.bytes_max = sparse_bytes(shape, min_i64(parameter_count, made.elements));
    made.bytes = sparse_bytes(shape, parameter_count);
    ASSERT(slices_result_bytes_max(&made) <= SLICE_BYTES_MAX);
    *slices = made;
    return OK;
}

const char *slices_codec_name(const struct slices *slices) {
    return slices_are_sparse(slices) ? "sparse" : codec_name(slices->codec);
}

/* Returns the number of values that a contribution sends for `count` elements. */
static uint64_t sent_values(struct sparse_shape shape, int64_t count) {
    const int64_t rest = count % SPARSE_BLOCK;
    return (uint64_t)(count / SPARSE_BLOCK * shape.keep + min_i64(rest, shape.keep));
}

uint64_t slices_sent_values(const struct slices *slices) {
    const int64_t last = slices->parameter_count - (slices->count - 1) * slices->elements;
    return slices_are_sparse(slices)
               ? (slices->count - 1) * sent_values(slices->sparse, slices->elements) +
                     sent_values(slices->sparse, last)
               : 0;
}

uint64_t slices_result_bytes_max(const struct slices *slices) {
    return slices_are_sparse(slices) ? sparse_result_bytes(slices, 0, slices->members_max)
                                     : slices->bytes_max;
}

uint64_t slices_results_bytes(const struct slices *slices) {
    if (!slices_are_sparse(slices)) {
        return slices->bytes;
    }
    const struct slice_range last = slices_range(slices, slices->count - 1);
    return last.result_offset + last.result_bytes;
}

int64_t slices_leaf_elements(const struct slices *slices) {
    return slices_are_sparse(slices) ? LEAF_SPARSE_ELEMENTS : LEAF_ELEMENTS;
}

static uint64_t encoded_bytes(const struct slices *slices, int64_t count) {
    return slices_are_sparse(slices) ? sparse_bytes(slices->sparse, count)
                                     : codec_bytes(slices->codec, count);
}

struct slice_range slices_range(const struct slices *slices, uint32_t index) {
    ASSERT(index < slices->count);
    int64_t begin = index * slices->elements;
    int64_t left = slices->parameter_count - begin;
    int64_t count = left < slices->elements ? left : slices->elements;
    struct slice_range range = {.begin = begin,
                                .end = begin + count,
                                .offset = index * encoded_bytes(slices, slices->elements),
                                .bytes = encoded_bytes(slices, count)};
    range.result_offset = range.offset;
    range.result_bytes = range.bytes;
    if (slices_are_sparse(slices)) {
        const uint64_t list = SPARSE_RESULT_HEADER_BYTES +
                              slices->members_max * sparse_result_head_bytes(slices->count);
        range.result_offset = index * list + slices->members_max * range.offset;
        range.result_bytes = list + slices->members_max * range.bytes;
    }
    return range;
}

/* Returns the leaf of a slice of zeros. In every codec, zeros are encoded as zero bytes: scales of
 * 0 and codes of 0. */
static struct hash zero_leaf(const struct slices *slices, uint32_t index) {
    static const uint8_t ZEROS[4096];
    struct hash_state state;
    hash_begin(&state);
    for (uint64_t left = slices_range(slices, index).bytes; left > 0;) {
        size_t count = left < sizeof ZEROS ? (size_t)left : sizeof ZEROS;
        hash_add(&state, ZEROS, count);
        left -= count;
    }
    const struct hash hash = hash_end(&state);
    return contribution_leaf(&hash, 0);
}

/* Computes only two leaves, because only the last slice may have another length. */
struct hash slices_zero_root(const struct slices *slices) {
    struct merkle_stack stack = {.leaf_count = 0};
    const struct hash first = zero_leaf(slices, 0);
    const struct hash last = zero_leaf(slices, slices->count - 1);
    for (uint32_t index = 0; index + 1 < slices->count; index++) {
        merkle_push_leaf(&stack, &first);
    }
    merkle_push_leaf(&stack, &last);
    const struct hash top = merkle_tree_top(&stack);
    return merkle_list_root_from_top(slices->count, &top);
}
