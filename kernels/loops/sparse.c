#include "kernels/loops/sparse.h"

static struct sparse_bounds bound_magnitudes(const float *values, int columns) {
    struct sparse_bounds bounds = {.lower_bound = SPARSE_MAGNITUDE_MASK, .largest = 0};
    for (int first = 0; first < columns; first += SPARSE_COLUMNS) {
        uint32_t largest[SPARSE_COLUMNS] = {0};
        for (int row = first; row < SPARSE_BLOCK; row += columns) {
            for (int c = 0; c < SPARSE_COLUMNS; c++) {
                uint32_t size = sparse_magnitude(values[row + c]);
                largest[c] = size > largest[c] ? size : largest[c];
            }
        }
        for (int c = 0; c < SPARSE_COLUMNS; c++) {
            bounds.lower_bound = largest[c] < bounds.lower_bound ? largest[c] : bounds.lower_bound;
            bounds.largest = largest[c] > bounds.largest ? largest[c] : bounds.largest;
        }
    }
    return bounds;
}

static int mask_at_least(const float *values, uint32_t threshold,
                         uint64_t masks[SPARSE_MASK_COUNT]) {
    int marked = 0;
    for (int m = 0; m < SPARSE_MASK_COUNT; m++) {
        uint64_t mask = 0;
        for (int i = 0; i < 64; i++) {
            uint64_t is_set = sparse_magnitude(values[64 * m + i]) >= threshold;
            mask |= is_set << i;
            marked += (int)is_set;
        }
        masks[m] = mask;
    }
    return marked;
}

static int count_at_least(const uint32_t *magnitudes, int length, uint32_t threshold) {
    int counted = 0;
    for (int i = 0; i < length; i++) {
        counted += magnitudes[i] >= threshold;
    }
    return counted;
}

void sparse_kernels_init(struct sparse_kernels *kernels, enum cpu_level level) {
    *kernels = (struct sparse_kernels){.bound_magnitudes = bound_magnitudes,
                                       .mask_at_least = mask_at_least,
                                       .count_at_least = count_at_least};
    OVERLAY_X86(sparse, kernels, level);
}
