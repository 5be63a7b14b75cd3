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
    LLOYD_STEPS = 4,
};

static const int64_t COUNT_MAX = (int64_t)1 << 44;

/* ---- selection ---- */

struct block {
    const struct sparse_kernels *kernels;
    const float *values; /* [length] */
    int length;          /* number of elements, at most SPARSE_BLOCK */
    int keep;
};

/* The selected elements have a magnitude above `least`, or equal to it and are among the first
 * `equal_count` of these. */
struct cut {
    uint32_t least;
    int equal_count;
};

/* Magnitudes between which a cut is sought by bisection. */
struct range {
    uint32_t least;         /* at least `keep` elements have this magnitude, or all that are sent */
    uint32_t above;         /* fewer than `keep` elements have this magnitude */
    int count, above_count; /* number of elements of at least these magnitudes */
};

struct selection {
    int count;
    uint16_t indices[SPARSE_KEEP_MAX];    /* ascending */
    uint32_t magnitudes[SPARSE_KEEP_MAX]; /* as bits */
};

struct candidates {
    int count;
    uint16_t indices[CANDIDATES_MAX];
    uint32_t magnitudes[CANDIDATES_MAX];
};

/* A block that is shorter than the others, which only the last one of a vector is. */
static int mark_part(const struct block *block, uint32_t threshold,
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

static int mark(const struct block *block, uint32_t threshold, uint64_t masks[SPARSE_MASK_COUNT]) {
    return block->length == SPARSE_BLOCK ? block->kernels->mark(block->values, threshold, masks)
                                         : mark_part(block, threshold, masks);
}

static struct sparse_bounds bound(const struct block *block) {
    if (block->length == SPARSE_BLOCK) {
        int columns = block->keep < SPARSE_COLUMNS ? SPARSE_COLUMNS : block->keep;
        return block->kernels->bound(block->values, columns);
    }
    struct sparse_bounds bounds = {0};
    for (int i = 0; i < block->length; i++) {
        uint32_t size = sparse_magnitude(block->values[i]);
        bounds.largest = size > bounds.largest ? size : bounds.largest;
    }
    return bounds;
}

static void select_element(struct selection *selection, const struct cut *cut, int *equal_count,
                           int index, uint32_t magnitude) {
    bool is_equal = magnitude == cut->least;
    if (magnitude > cut->least || (is_equal && *equal_count < cut->equal_count)) {
        *equal_count += is_equal;
        selection->indices[selection->count] = (uint16_t)index;
        selection->magnitudes[selection->count++] = magnitude;
    }
}

/* Selects from all elements, when too many are equal for a list of candidates. */
static void select_from_block(const struct block *block, const struct cut *cut,
                              struct selection *selection) {
    int equal_count = 0;
    for (int i = 0; i < block->length; i++) {
        select_element(selection, cut, &equal_count, i, sparse_magnitude(block->values[i]));
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

static bool is_wide(const struct range *range) {
    return range->above - range->least > 1;
}

static uint32_t middle_of(const struct range *range) {
    return range->least + (range->above - range->least) / 2;
}

/* Moves one end of the range to `middle`, which `count` elements reach. */
static void narrow(struct range *range, int keep, uint32_t middle, int count) {
    if (count >= keep) {
        range->least = middle;
        range->count = count;
    } else {
        range->above = middle;
        range->above_count = count;
    }
}

/* The cut at the lower end of a range. With at most `keep` elements, all are selected. */
static struct cut cut_at(const struct range *range, int keep) {
    return (struct cut){.least = range->least,
                        .equal_count = range->count <= keep ? keep : keep - range->above_count};
}

static void select_from_candidates(const struct candidates *candidates, const struct cut *cut,
                                   struct selection *selection) {
    int equal_count = 0;
    for (int i = 0; i < candidates->count; i++) {
        select_element(selection, cut, &equal_count, candidates->indices[i],
                       candidates->magnitudes[i]);
    }
}

/* Selects the elements to send; returns false if a value is not finite. */
static bool select_elements(const struct block *block, struct selection *selection) {
    const struct sparse_bounds bounds = bound(block);
    uint64_t masks[SPARSE_MASK_COUNT];
    struct candidates candidates;
    struct range range = {.least = bounds.least};
    selection->count = 0;
    if (bounds.largest >= SPARSE_INFINITY_BITS) {
        return false;
    }
    if (range.least < SPARSE_NORMAL_BITS) {
        range.least = SPARSE_NORMAL_BITS;
    }
    range.above = bounds.largest < range.least ? range.least : bounds.largest + 1;
    range.count = mark(block, range.least, masks);
    bool is_long = range.count > CANDIDATES_MAX;
    while (range.count > CANDIDATES_MAX && is_wide(&range)) {
        uint32_t middle = middle_of(&range);
        narrow(&range, block->keep, middle, mark(block, middle, masks));
    }
    if (range.count > CANDIDATES_MAX) {
        const struct cut cut = cut_at(&range, block->keep);
        select_from_block(block, &cut, selection);
        return true;
    }
    if (is_long) {
        mark(block, range.least, masks);
    }
    list_candidates(block, masks, &candidates);
    while (range.count > block->keep && is_wide(&range)) {
        uint32_t middle = middle_of(&range);
        narrow(&range, block->keep, middle,
               block->kernels->count(candidates.magnitudes, candidates.count, middle));
    }
    const struct cut cut = cut_at(&range, block->keep);
    select_from_candidates(&candidates, &cut, selection);
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
    double low, high;
    int low_count;
};

static struct means means_at(const struct selection *selection, double boundary) {
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
    struct means means = means_at(selection, boundary);
    for (int step = 0; step < LLOYD_STEPS && means.low_count > 0; step++) {
        boundary = (means.low + means.high) / 2;
        means = means_at(selection, boundary);
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
    enum { LAST = SPARSE_LEVELS_MAX - 1 };
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
        double place = ((double)magnitude_of(selection, i) - low) * LAST / range + 0.5;
        int nearest = place < 0 ? 0 : place > LAST ? LAST : (int)place;
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

static void pack(const struct sparse_layout *layout, const struct selection *selection,
                 const float *values, const uint8_t *codes, uint8_t *bytes) {
    uint8_t *remainders = bytes + layout->remainders_at;
    uint8_t *quotients = bytes + layout->quotients_at;
    int next = 0;  /* the lowest index that the next element may have */
    int place = 0; /* of the next 1 bit of the quotients, without the zeros before it */
    for (int i = 0; i < selection->count; i++) {
        int index = selection->indices[i];
        int gap = index - next;
        int at = i * layout->remainder_bits;
        uint16_t word;
        memcpy(&word, remainders + at / 8, sizeof word);
        word = (uint16_t)(word | (gap & ((1 << layout->remainder_bits) - 1)) << at % 8);
        memcpy(remainders + at / 8, &word, sizeof word);
        place += gap >> layout->remainder_bits;
        quotients[place / 8] = (uint8_t)(quotients[place / 8] | 1 << place % 8);
        place++;
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
    pack(layout, &selection, block->values, codes, bytes);
    return levels.high < SPARSE_INFINITY_BITS >> 16;
}

/* ---- driver ---- */

struct encode_work {
    struct sparse_kernels kernels;
    struct sparse_layout layout;
    int64_t count;
    const float *values;
    uint8_t *bytes;
    _Atomic bool has_failed; /* set when a block has no encoding */
};

static void encode_item(void *context, int64_t item, int thread) {
    (void)thread;
    struct encode_work *work = context;
    int64_t begin = item * ITEM_ELEMENTS;
    int64_t end = begin + item_length(work->count, ITEM_ELEMENTS, item);
    for (int64_t first = begin; first < end; first += SPARSE_BLOCK) {
        const struct block block = {
            .kernels = &work->kernels,
            .values = work->values + first,
            .length = (int)(end - first < SPARSE_BLOCK ? end - first : SPARSE_BLOCK),
            .keep = work->layout.keep,
        };
        uint8_t *bytes = work->bytes + first / SPARSE_BLOCK * work->layout.bytes;
        if (!encode_block(&block, &work->layout, bytes)) {
            atomic_store_explicit(&work->has_failed, true, memory_order_relaxed);
        }
    }
}

bool sparse_encode(const struct compute *compute, struct sparse_shape shape, int64_t count,
                   const float *values, uint8_t *bytes) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    struct encode_work work = {
        .layout = sparse_layout_of(shape), .count = count, .values = values, .bytes = bytes};
    sparse_kernels_init(&work.kernels, compute->table->level);
    pool_run(compute->pool, encode_item, &work, items_count(count, ITEM_ELEMENTS));
    return !atomic_load_explicit(&work.has_failed, memory_order_relaxed);
}
