/* shm_sum: see shm_sum.h. */
#include "transport/collectives/shm_sum.h"

#include "base/check.h"

/* `out` may be equal to `sum` or `next`, but never overlaps them partly, so vectors are safe. The
 * pragma states this; otherwise the compiler would check at run time and use scalar code. */
static void add_f32(float *out, const float *sum, const float *next, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        out[i] = sum[i] + next[i];
    }
}

static void add_bf16(float *out, const float *sum, const uint16_t *next, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        out[i] = sum[i] + bf16_to_f32(next[i]);
    }
}

static void add_both_bf16(float *out, const uint16_t *first, const uint16_t *next, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        out[i] = bf16_to_f32(first[i]) + bf16_to_f32(next[i]);
    }
}

static void widen_bf16(float *out, const uint16_t *bits, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; i++) {
        out[i] = bf16_to_f32(bits[i]);
    }
}

/* The partial sum is in `scratch`. Only the last addition writes `sum`, which may be a source. */
static void sum_block_f32(const void *const *sources, int count, size_t begin, float *scratch,
                          float *sum, size_t elements) {
    const float *running = (const float *)sources[0] + begin;
    if (count == 1) {
        memmove(sum, running, elements * sizeof *sum);
    }
    for (int i = 1; i < count; i++) {
        float *out = i == count - 1 ? sum : scratch;
        add_f32(out, running, (const float *)sources[i] + begin, elements);
        running = out;
    }
}

static void sum_block_bf16(const void *const *sources, int count, size_t begin, float *scratch,
                           float *sum, size_t elements) {
    const uint16_t *first = (const uint16_t *)sources[0] + begin;
    if (count == 1) {
        widen_bf16(sum, first, elements);
    }
    for (int i = 1; i < count; i++) {
        float *out = i == count - 1 ? sum : scratch;
        const uint16_t *next = (const uint16_t *)sources[i] + begin;
        if (i == 1) {
            add_both_bf16(out, first, next, elements);
        } else {
            add_bf16(out, scratch, next, elements);
        }
    }
}

void shm_sum(enum dtype wire, const void *const *sources, int count, float *scratch, float *sum,
             size_t elements) {
    ASSERT(count >= 1 && (wire == DTYPE_F32 || wire == DTYPE_BF16));
    for (size_t begin = 0; begin < elements; begin += SHM_SUM_BLOCK) {
        size_t left = elements - begin;
        size_t block = left < SHM_SUM_BLOCK ? left : SHM_SUM_BLOCK;
        if (wire == DTYPE_F32) {
            sum_block_f32(sources, count, begin, scratch, sum + begin, block);
        } else {
            sum_block_bf16(sources, count, begin, scratch, sum + begin, block);
        }
    }
}
