/* attention_key_range: the keys that each query sees, and the part of a tile of keys that a strip
 * of rows sees. Used by the forward and the backward pass. */
#ifndef SKEP_KERNELS_CPU_ATTENTION_KEY_RANGE_H
#define SKEP_KERNELS_CPU_ATTENTION_KEY_RANGE_H

#include "base/check.h"
#include "base/limits.h"
#include "kernels/attention.h"
#include "kernels/loops/attention.h"

/* The keys [first, last) that one query sees. */
struct attention_key_range {
    int64_t first, last; /* keys [first, last) */
};

/* The keys of one tile that the rows of one strip see, as columns of the tile. All ranges are
 * within [low, high); low is a multiple of ATTENTION_LANES; first and last count from low. */
struct attention_strip_key_range {
    int64_t low, high; /* columns [low, high) contain all columns that the rows see */
    int32_t first[ATTENTION_STRIP], last[ATTENTION_STRIP];
    bool is_row_complete[ATTENTION_STRIP]; /* [row] whether the row sees no key outside this tile */
};

static inline int64_t attention_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t attention_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t attention_round_up(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

static inline int64_t attention_tile_count(int64_t count, int64_t tile) {
    return (count + tile - 1) / tile;
}

static inline int64_t attention_padded_dim(const struct attention_args *args) {
    return attention_round_up(args->head_dim, ATTENTION_LANES);
}

static inline void attention_check_args(const struct attention_args *args) {
    ASSERT(args->rows >= 1 && args->time >= 1);
    ASSERT(args->kv_heads >= 1 && args->heads % args->kv_heads == 0);
    ASSERT(args->head_dim >= 1 && args->head_dim <= HEAD_DIM_MAX);
    ASSERT(args->window >= 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
}

/* attention_prefetch: prefetch a block. Its rows are a token apart, often more than a page, which
 * hardware prefetchers do not follow. */
static inline void attention_prefetch(const struct attention_layout *block, const char *from) {
    enum { CACHE_LINE_BYTES = 64 };
    enum { PREFETCH_READ = 0, PREFETCH_INTO_L2 = 2 }; /* arguments of __builtin_prefetch */
    int64_t element = dtype_bytes(block->dtype);
    for (int64_t r = 0; r < block->rows; r++) {
        for (int64_t b = 0; b < block->dim * element; b += CACHE_LINE_BYTES) {
            __builtin_prefetch(from + r * block->stride * element + b, PREFETCH_READ,
                               PREFETCH_INTO_L2);
        }
    }
}

/* attention_key_range_of: the keys that the query at position `token` sees, which is `depth` tokens
 * into its document. */
static inline struct attention_key_range attention_key_range_of(const struct attention_args *args,
                                                                int64_t token, int64_t depth) {
    ASSERT(depth >= 0);
    int64_t first = attention_max(token - depth, 0);
    if (args->window != 0) {
        first = attention_max(first, token - args->window + 1);
    }
    return (struct attention_key_range){first, token + 1};
}

/* attention_strip_key_range_of: the keys of [key, key + count) that `rows` queries see, with count
 * at most ATTENTION_KEY_TILE. Returns false when no query sees any; *strip is then undefined. */
static inline bool attention_strip_key_range_of(const struct attention_key_range *visible_keys,
                                                int64_t rows, int64_t key, int64_t count,
                                                struct attention_strip_key_range *strip) {
    int64_t low = count;
    int64_t high = 0;
    for (int64_t r = 0; r < rows; r++) {
        low = attention_min(low, attention_max(visible_keys[r].first - key, 0));
        high = attention_max(high, attention_min(visible_keys[r].last - key, count));
    }
    if (low >= high) {
        return false;
    }
    low -= low % ATTENTION_LANES;
    strip->low = low;
    strip->high = high;
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = attention_min(attention_max(visible_keys[r].first - key, low), high);
        int64_t last = attention_min(attention_max(visible_keys[r].last - key, low), high);
        strip->first[r] = (int32_t)(first - low);
        strip->last[r] = (int32_t)(last - low);
        strip->is_row_complete[r] =
            visible_keys[r].first >= key && visible_keys[r].last <= key + count;
    }
    return true;
}

#endif
