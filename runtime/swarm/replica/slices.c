#include "runtime/swarm/replica/replica.h"

#include "base/bytes.h"
#include "base/check.h"

_Static_assert(SLICE_GRANULE % CODEC_INT8_BLOCK == 0 && SLICE_GRANULE % CODEC_INT4_BLOCK == 0,
               "each slice ends at a block boundary");

static int64_t granules_within(enum codec codec, uint64_t bytes) {
    int64_t elements = codec_elements_within(codec, bytes);
    return elements - elements % SLICE_GRANULE;
}

enum status slices_plan(int64_t parameter_count, enum codec codec, uint32_t members_max,
                        struct slices *slices, struct fault *fault) {
    ASSERT(parameter_count > 0 && members_max > 0 && members_max <= SWARM_MEMBERS_MAX);
    int64_t target_count = (int64_t)SLICES_PER_MEMBER * members_max;
    int64_t max_elements = granules_within(codec, SLICE_BYTES_MAX);
    int64_t min_elements = granules_within(codec, SLICE_BYTES_MIN);
    int64_t even = round_up(div_ceil(parameter_count, target_count), SLICE_GRANULE);
    int64_t elements = even < min_elements ? min_elements : even;
    elements = elements > max_elements ? max_elements : elements;
    int64_t count = div_ceil(parameter_count, elements);
    if (count > SWARM_SLICES_MAX) {
        return fault_set(
            fault, STATUS_INPUT, "swarm.codec", "choose a codec with fewer bits per parameter",
            "%lld parameters in %s need %lld slices; a swarm has at most %d",
            (long long)parameter_count, codec_name(codec), (long long)count, (int)SWARM_SLICES_MAX);
    }
    int64_t longest = parameter_count < elements ? parameter_count : elements;
    *slices = (struct slices){.parameter_count = parameter_count,
                              .codec = codec,
                              .elements = elements,
                              .count = (uint32_t)count,
                              .bytes_max = codec_bytes(codec, longest),
                              .bytes = codec_bytes(codec, parameter_count)};
    return OK;
}

struct slice_range slices_range(const struct slices *slices, uint32_t index) {
    ASSERT(index < slices->count);
    int64_t begin = index * slices->elements;
    int64_t left = slices->parameter_count - begin;
    int64_t count = left < slices->elements ? left : slices->elements;
    return (struct slice_range){.begin = begin,
                                .end = begin + count,
                                .offset = codec_bytes(slices->codec, begin),
                                .bytes = codec_bytes(slices->codec, count)};
}

/* The leaf of a slice of zeros. In every codec, zeros are encoded as zero bytes: scales of 0 and
 * codes of 0. */
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
    const struct hash top = merkle_top(&stack);
    return merkle_list_root_from_top(slices->count, &top);
}
