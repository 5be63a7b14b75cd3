/* sparse_encode: selects the elements of each block, quantises and packs them. Only the passes over
 * all values of a block depend on the CPU level; everything here is over its candidates. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/sparse_block.h"
#include "kernels/items.h"

#include <stdatomic.h>

_Static_assert(ITEM_ELEMENTS % SPARSE_BLOCK == 0, "an item must be whole blocks");

enum {
    /* More candidates than this are rare: a pass over columns leaves 270 of normally distributed
     * values with k = 64, and 1,200 with k = 256. */
    CANDIDATES_MAX = 2048,
    LLOYD_STEPS = 4, /* iterations of Lloyd's algorithm for two levels */
};

static const int64_t COUNT_MAX = (int64_t)1 << 44;

/* ---- selection ---- */

struct block {
    const struct sparse_kernels *kernels;
    const float *values; /* [length] */
    int length;          /* number of elements, at most SPARSE_BLOCK */
    int keep;            /* number of elements to send */
};

/* Selects the elements to send: those with a greater magnitude, and the first `equal_count` of
 * those with this magnitude. */
struct magnitude_threshold {
    uint32_t magnitude; /* bits of a float without its sign */
    int equal_count;    /* number of elements of exactly this magnitude to send */
};

/* The bisection for the threshold, which lies between two magnitudes. */
struct threshold_range {
    uint32_t low;  /* magnitude that at least `keep` elements, or all that are sent, reach */
    uint32_t high; /* magnitude that fewer than `keep` elements reach */
    int low_count, high_count; /* numbers of elements that reach `low` and `high` */
};

struct selection {
    int count;                            /* number of selected elements */
    uint16_t indices[SPARSE_KEEP_MAX];    /* [count]: positions in the block, ascending */
    uint32_t magnitudes[SPARSE_KEEP_MAX]; /* [count]: bits of the floats without their signs */
};

struct candidates {
    int count;
    uint16_t indices[CANDIDATES_MAX];
    uint32_t magnitudes[CANDIDATES_MAX];
};

/* Sets the bit of each element whose magnitude is at least `threshold`, and returns their number,
 * for a block of fewer than SPARSE_BLOCK elements, which only the last one of a vector may be. */
static int mask_short_block(const struct block *block, uint32_t threshold,
                            uint64_t masks[SPARSE_MASK_COUNT]) {
    int marked = 0;
    memset(masks, 0, SPARSE_MASK_COUNT * sizeof *masks);
    for (int i = 0; i < block->length; i++) {
        if (sparse_magnitude(block->values[i]) >= threshold) {
            masks[i / 64] |= (uint64_t)1 << i % 64;
            marked++;
        }
    }
    return marked;
}

static int mask_block(const struct block *block, uint32_t threshold,
                      uint64_t masks[SPARSE_MASK_COUNT]) {
    return block->length == SPARSE_BLOCK
               ? block->kernels->mask_at_least(block->values, threshold, masks)
               : mask_short_block(block, threshold, masks);
}

static struct sparse_bounds bound_block_magnitudes(const struct block *block) {
    if (block->length == SPARSE_BLOCK) {
        int columns = block->keep < SPARSE_COLUMNS ? SPARSE_COLUMNS : block->keep;
        return block->kernels->bound_magnitudes(block->values, columns);
    }
    struct sparse_bounds bounds = {0};
    for (int i = 0; i < block->length; i++) {
        uint32_t size = sparse_magnitude(block->values[i]);
        bounds.largest = size > bounds.largest ? size : bounds.largest;
    }
    return bounds;
}

static void select_element(struct selection *selection, const struct magnitude_threshold *threshold,
                           int *equal_count, int index, uint32_t magnitude) {
    bool is_equal = magnitude == threshold->magnitude;
    if (magnitude > threshold->magnitude || (is_equal && *equal_count < threshold->equal_count)) {
        *equal_count += is_equal;
        selection->indices[selection->count] = (uint16_t)index;
        selection->magnitudes[selection->count++] = magnitude;
    }
}

/* Selects from all elements of the block. Used if too many elements have equal magnitudes for a
 * list of candidates. */
static void select_from_block(const struct block *block,
                              const struct magnitude_threshold *threshold,
                              struct selection *selection) {
    int equal_count = 0;
    for (int i = 0; i < block->length; i++) {
        select_element(selection, threshold, &equal_count, i, sparse_magnitude(block->values[i]));
    }
}

static void list_candidates(const struct block *block, const uint64_t masks[SPARSE_MASK_COUNT],
                            struct candidates *candidates) {
    int count = 0;
    for (int m = 0; m < SPARSE_MASK_COUNT; m++) {
        for (uint64_t mask = masks[m]; mask != 0; mask &= mask - 1) {
            int index = 64 * m + __builtin_ctzll(mask);
            candidates->indices[count] = (uint16_t)index;
            candidates->magnitudes[count++] = sparse_magnitude(block->values[index]);
        }
    }
    candidates->count = count;
}

static bool can_be_halved(const struct threshold_range *range) {
    return range->high - range->low > 1;
}

static uint32_t middle_of_range(const struct threshold_range *range) {
    return range->low + (range->high - range->low) / 2;
}

/* Replaces one end of the range by `middle`; `count` elements have at least this magnitude. */
static void narrow_range(struct threshold_range *range, int keep, uint32_t middle, int count) {
    if (count >= keep) {
        range->low = middle;
        range->low_count = count;
    } else {
        range->high = middle;
        range->high_count = count;
    }
}

/* Returns the threshold at the low end of a range. If at most `keep` elements have this magnitude,
 * all of them are selected. */
static struct magnitude_threshold threshold_at_low_end(const struct threshold_range *range,
                                                       int keep) {
    return (struct magnitude_threshold){
        .magnitude = range->low,
        .equal_count = range->low_count <= keep ? keep : keep - range->high_count};
}

static void select_from_candidates(const struct candidates *candidates,
                                   const struct magnitude_threshold *threshold,
                                   struct selection *selection) {
    int equal_count = 0;
    for (int i = 0; i < candidates->count; i++) {
        select_element(selection, threshold, &equal_count, candidates->indices[i],
                       candidates->magnitudes[i]);
    }
}

/* Selects the elements to send; returns false if a value is not finite. */
static bool select_elements(const struct block *block, struct selection *selection) {
    const struct sparse_bounds bounds = bound_block_magnitudes(block);
    uint64_t masks[SPARSE_MASK_COUNT];
    struct candidates candidates;
    struct threshold_range range = {.low = bounds.lower_bound};
    selection->count = 0;
    if (bounds.largest >= SPARSE_INFINITY_BITS) {
        return false;
    }
    if (range.low < SPARSE_NORMAL_BITS) {
        range.low = SPARSE_NORMAL_BITS;
    }
    range.high = bounds.largest < range.low ? range.low : bounds.largest + 1;
    range.low_count = mask_block(block, range.low, masks);
    bool is_long = range.low_count > CANDIDATES_MAX;
    while (range.low_count > CANDIDATES_MAX && can_be_halved(&range)) {
        uint32_t middle = middle_of_range(&range);
        narrow_range(&range, block->keep, middle, mask_block(block, middle, masks));
    }
    if (range.low_count > CANDIDATES_MAX) {
        const struct magnitude_threshold threshold = threshold_at_low_end(&range, block->keep);
        select_from_block(block, &threshold, selection);
        return true;
    }
    if (is_long) {
        mask_block(block, range.low, masks);
    }
    list_candidates(block, masks, &candidates);
    while (range.low_count > block->keep && can_be_halved(&range)) {
        uint32_t middle = middle_of_range(&range);
        narrow_range(
            &range, block->keep, middle,
            block->kernels->count_at_least(candidates.magnitudes, candidates.count, middle));
    }
    const struct magnitude_threshold threshold = threshold_at_low_end(&range, block->keep);
    select_from_candidates(&candidates, &threshold, selection);
    return true;
}

/* ---- quantisation ---- */

static float magnitude_of(const struct selection *selection, int i) {
    float value;
    memcpy(&value, &selection->magnitudes[i], sizeof value);
    return value;
}

static double mean_magnitude(const struct selection *selection) {
    double sum = 0;
    for (int i = 0; i < selection->count; i++) {
        sum += (double)magnitude_of(selection, i);
    }
    return sum / selection->count;
}

/* The means of the magnitudes below a boundary and of the others. */
struct means {
    double low, high; /* mean of the smaller magnitudes; mean of the others */
    int low_count;
};

static struct means means_around(const struct selection *selection, double boundary) {
    struct means means = {0};
    for (int i = 0; i < selection->count; i++) {
        double size = (double)magnitude_of(selection, i);
        bool is_low = size < boundary;
        means.low += is_low ? size : 0;
        means.high += is_low ? 0 : size;
        means.low_count += is_low;
    }
    means.low = means.low_count == 0 ? 0 : means.low / means.low_count;
    means.high = means.high / (selection->count - means.low_count);
    return means;
}

static struct sparse_levels find_two_levels(const struct selection *selection, uint8_t *codes) {
    double boundary = mean_magnitude(selection);
    struct means means = means_around(selection, boundary);
    for (int step = 0; step < LLOYD_STEPS && means.low_count > 0; step++) {
        boundary = (means.low + means.high) / 2;
        means = means_around(selection, boundary);
    }
    struct sparse_levels levels = {.low = bf16_from_f32((float)means.low),
                                   .high = bf16_from_f32((float)means.high)};
    if (levels.low == levels.high) {
        levels.low = 0;
    }
    for (int i = 0; i < selection->count; i++) {
        codes[i] = levels.low == 0 || (double)magnitude_of(selection, i) >= boundary;
    }
    return levels;
}

static struct sparse_levels find_eight_levels(const struct selection *selection, uint8_t *codes) {
    enum { LAST = SPARSE_LEVELS_MAX - 1 }; /* index of the largest level */
    uint32_t least = selection->magnitudes[0], most = selection->magnitudes[0];
    for (int i = 1; i < selection->count; i++) {
        uint32_t size = selection->magnitudes[i];
        least = size < least ? size : least;
        most = size > most ? size : most;
    }
    float bounds[2];
    memcpy(bounds, (uint32_t[]){least, most}, sizeof bounds);
    struct sparse_levels levels = {.low = bf16_from_f32(bounds[0]),
                                   .high = bf16_from_f32(bounds[1])};
    if (levels.low == levels.high) {
        levels.low = 0;
    }
    double low = (double)bf16_to_f32(levels.low);
    double range = (double)bf16_to_f32(levels.high) - low;
    for (int i = 0; i < selection->count; i++) {
        uint32_t size = selection->magnitudes[i];
        double quotient_bit = ((double)magnitude_of(selection, i) - low) * LAST / range + 0.5;
        int nearest = quotient_bit < 0 ? 0 : quotient_bit > LAST ? LAST : (int)quotient_bit;
        codes[i] = (uint8_t)(levels.low == 0 || size == most ? LAST : size == least ? 0 : nearest);
    }
    return levels;
}

static struct sparse_levels find_levels(const struct selection *selection, int value_bits,
                                        uint8_t *codes) {
    if (value_bits == 2) {
        return find_two_levels(selection, codes);
    }
    if (value_bits == 4) {
        return find_eight_levels(selection, codes);
    }
    memset(codes, 0, (size_t)selection->count);
    return (struct sparse_levels){.high = bf16_from_f32((float)mean_magnitude(selection))};
}

/* ---- packing ---- */

static void pack_block(const struct sparse_layout *layout, const struct selection *selection,
                       const float *values, const uint8_t *codes, uint8_t *bytes) {
    uint8_t *remainders = bytes + layout->remainders_at;
    uint8_t *quotients = bytes + layout->quotients_at;
    int next = 0; /* the lowest index that the next element may have */
    /* index of the bit for the next quotient's 1, without the 0 bits before it */
    int quotient_bit = 0;
    for (int i = 0; i < selection->count; i++) {
        int index = selection->indices[i];
        int gap = index - next;
        int at = i * layout->remainder_bits;
        uint16_t word;
        memcpy(&word, remainders + at / 8, sizeof word);
        word = (uint16_t)(word | (gap & ((1 << layout->remainder_bits) - 1)) << at % 8);
        memcpy(remainders + at / 8, &word, sizeof word);
        quotient_bit += gap >> layout->remainder_bits;
        quotients[quotient_bit / 8] =
            (uint8_t)(quotients[quotient_bit / 8] | 1 << quotient_bit % 8);
        quotient_bit++;
        next = index + 1;
        int code_at = i * layout->value_bits;
        int code = codes[i] | (values[index] < 0) << (layout->value_bits - 1);
        uint8_t *byte = bytes + layout->values_at + code_at / 8;
        *byte = (uint8_t)(*byte | code << code_at % 8);
    }
}

static bool encode_block(const struct block *block, const struct sparse_layout *layout,
                         uint8_t *bytes) {
    struct selection selection;
    uint8_t codes[SPARSE_KEEP_MAX];
    memset(bytes, 0, (size_t)layout->bytes);
    if (!select_elements(block, &selection)) {
        return false;
    }
    if (selection.count == 0) {
        return true;
    }
    const struct sparse_levels levels = find_levels(&selection, layout->value_bits, codes);
    sparse_store_levels(layout, levels, bytes);
    pack_block(layout, &selection, block->values, codes, bytes);
    return levels.high < SPARSE_INFINITY_BITS >> 16;
}

/* ---- driver ---- */

struct encode_call {
    struct sparse_kernels kernels;
    struct sparse_layout layout;
    int64_t count;
    const float *values;
    uint8_t *bytes;
    _Atomic bool has_failed; /* set when a block has no encoding */
};

static void encode_item(void *context, int64_t item, int thread) {
    (void)thread;
    struct encode_call *call = context;
    int64_t begin = item * ITEM_ELEMENTS;
    int64_t end = begin + item_length(call->count, ITEM_ELEMENTS, item);
    for (int64_t first = begin; first < end; first += SPARSE_BLOCK) {
        const struct block block = {
            .kernels = &call->kernels,
            .values = call->values + first,
            .length = (int)(end - first < SPARSE_BLOCK ? end - first : SPARSE_BLOCK),
            .keep = call->layout.keep,
        };
        uint8_t *bytes = call->bytes + first / SPARSE_BLOCK * call->layout.bytes;
        if (!encode_block(&block, &call->layout, bytes)) {
            atomic_store_explicit(&call->has_failed, true, memory_order_relaxed);
        }
    }
}

bool sparse_encode(const struct compute *compute, struct sparse_shape shape, int64_t count,
                   const float *values, uint8_t *bytes) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    struct encode_call call = {
        .layout = sparse_layout_of(shape), .count = count, .values = values, .bytes = bytes};
    sparse_kernels_init(&call.kernels, compute->table->level);
    pool_run(compute->pool, encode_item, &call, items_count(count, ITEM_ELEMENTS));
    return !atomic_load_explicit(&call.has_failed, memory_order_relaxed);
}
