/* attention sight: which keys each query sees, and how far a strip of rows sees into a tile of
 * keys. Shared by the forward and the backward driver. */
#ifndef SKEP_KERNELS_CPU_ATTENTION_KEY_RANGE_H
#define SKEP_KERNELS_CPU_ATTENTION_KEY_RANGE_H

#include "base/check.h"
#include "base/limits.h"
#include "kernels/attention.h"
#include "kernels/loops/attention.h"

/* The keys [first, last) that one query sees. */
struct attention_key_range {
    int64_t first, last;
};

/* What the rows of one strip see in one tile of keys, in columns of the tile. All rows' sights lie
 * in [low, high); low is a multiple of ATTENTION_LANES; first and last count from low. */
struct attention_strip_key_range {
    int64_t low, high;
    int32_t first[ATTENTION_STRIP], last[ATTENTION_STRIP];
    bool whole[ATTENTION_STRIP]; /* the row sees no key outside this tile */
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

static inline int64_t attention_tiles(int64_t count, int64_t tile) {
    return (count + tile - 1) / tile;
}

static inline int64_t attention_padded_dim(const struct attention_args *args) {
    return attention_round_up(args->head_dim, ATTENTION_LANES);
}

static inline void attention_check(const struct attention_args *args) {
    ASSERT(args->rows >= 1 && args->time >= 1);
    ASSERT(args->kv_heads >= 1 && args->heads % args->kv_heads == 0);
    ASSERT(args->head_dim >= 1 && args->head_dim <= HEAD_DIM_MAX);
    ASSERT(args->window >= 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
}

/* attention_prefetch: begin to bring a block near. Rows lie a token apart, often a page, where the
 * machine's own prefetching does not follow. */
static inline void attention_prefetch(const struct attention_block *block, const char *from) {
    enum { LINE_BYTES = 64, READ = 0, INTO_L2 = 2 };
    int64_t element = dtype_bytes(block->dtype);
    for (int64_t r = 0; r < block->rows; r++) {
        for (int64_t b = 0; b < block->dim * element; b += LINE_BYTES) {
            __builtin_prefetch(from + r * block->stride * element + b, READ, INTO_L2);
        }
    }
}

/* attention_key_range_of: the keys seen by the query at position `token`, `depth` tokens into its
 * document. */
static inline struct attention_key_range attention_key_range_of(const struct attention_args *args,
                                                                int64_t token, int64_t depth) {
    ASSERT(depth >= 0);
    int64_t first = attention_max(token - depth, 0);
    if (args->window != 0) {
        first = attention_max(first, token - args->window + 1);
    }
    return (struct attention_key_range){first, token + 1};
}

/* attention_strip_key_range_of: what `rows` queries see of the keys [key, key + count), count at
 * most ATTENTION_KEY_TILE. false when none of them sees any; *strip is then undefined. */
static inline bool attention_strip_key_range_of(const struct attention_key_range *sights,
                                                int64_t rows, int64_t key, int64_t count,
                                                struct attention_strip_key_range *strip) {
    int64_t low = count;
    int64_t high = 0;
    for (int64_t r = 0; r < rows; r++) {
        low = attention_min(low, attention_max(sights[r].first - key, 0));
        high = attention_max(high, attention_min(sights[r].last - key, count));
    }
    if (low >= high) {
        return false;
    }
    low -= low % ATTENTION_LANES;
    strip->low = low;
    strip->high = high;
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = attention_min(attention_max(sights[r].first - key, low), high);
        int64_t last = attention_min(attention_max(sights[r].last - key, low), high);
        strip->first[r] = (int32_t)(first - low);
        strip->last[r] = (int32_t)(last - low);
        strip->whole[r] = sights[r].first >= key && sights[r].last <= key + count;
    }
    return true;
}

#endif
