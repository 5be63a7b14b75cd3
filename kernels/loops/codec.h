/* codec kernels: the innermost loops of kernels/codec.h with a variant for each instruction set.
 * All variants give the same bits. */
#ifndef SKEP_KERNELS_LOOPS_CODEC_H
#define SKEP_KERNELS_LOOPS_CODEC_H

#include "base/dtype.h"
#include "kernels/codec.h"
#include "kernels/cpu_level.h"

#include <float.h>
#include <stddef.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the codecs copy numbers from memory, so the CPU must be little-endian"
#endif

/* A part of a vector to encode. It starts at the start of a block. */
struct codec_part {
    const float *source;   /* [count] values to encode */
    const float *feedback; /* [count] encoding errors of earlier rounds, to be added; or NULL */
    float *residual;       /* [count] output: encoding errors of this round; or NULL */
    int64_t count;         /* number of elements */
    uint8_t *bytes;        /* encoded output */
};

/* The loops of one codec. They process whole blocks; only the last block may be shorter. */
struct codec_loops {
    bool (*encode)(const struct codec_part *part); /* returns false if a value is not finite */
    void (*decode)(const uint8_t *bytes, int64_t count, float *values);
    void (*add)(const uint8_t *bytes, int64_t count, float weight, float *sums);
};

struct codec_kernels {
    struct codec_loops loops[CODEC_COUNT];
};

/* codec_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void codec_kernels_init(struct codec_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void codec_kernels_init_avx2(struct codec_kernels *kernels);
void codec_kernels_init_avx512(struct codec_kernels *kernels);
void codec_kernels_init_neon(struct codec_kernels *kernels);

/* The plain C loops. Faster variants call them for the remainder that is shorter than a block or a
 * vector. */
extern const struct codec_loops CODEC_PORTABLE[CODEC_COUNT];

enum { CODEC_INT8_SCALE_BYTES = 4, CODEC_INT4_SCALE_BYTES = 2 };
enum { CODEC_INT8_CODE_MAX = 127, CODEC_INT4_CODE_MAX = 7 };

/* Bits of an fp32 number: a mask of all bits but the sign, and the bits of infinity. */
enum { CODEC_MAGNITUDE_MASK = 0x7fffffff, CODEC_INFINITY_BITS = 0x7f800000 };

static inline float codec_code_max(enum codec codec) {
    return codec == CODEC_INT8 ? (float)CODEC_INT8_CODE_MAX : (float)CODEC_INT4_CODE_MAX;
}

static inline int codec_scale_bytes(enum codec codec) {
    return codec == CODEC_INT8 ? CODEC_INT8_SCALE_BYTES : CODEC_INT4_SCALE_BYTES;
}

/* codec_part_skip: returns the rest of a part after its first `elements` elements, encoded in
 * `bytes` bytes. */
static inline struct codec_part codec_part_skip(const struct codec_part *part, int64_t elements,
                                                int64_t bytes) {
    return (struct codec_part){
        .source = part->source + elements,
        .feedback = part->feedback == NULL ? NULL : part->feedback + elements,
        .residual = part->residual == NULL ? NULL : part->residual + elements,
        .count = part->count - elements,
        .bytes = part->bytes + bytes,
    };
}

/* codec_compute_scale: compute the scale of a block from the bits of its largest absolute value.
 * Compared as integers, the bits of infinities and NaN are larger than those of all finite numbers,
 * so the maximum keeps them. Return false if the largest decoded value would not be finite. */
static inline bool codec_compute_scale(enum codec codec, uint32_t absmax_bits, float *scale) {
    float absmax;
    memcpy(&absmax, &absmax_bits, sizeof absmax);
    float exact = absmax / codec_code_max(codec);
    if (codec == CODEC_INT4) {
        exact = bf16_to_f32(bf16_from_f32(exact));
    }
    *scale = exact < FLT_MIN ? 0 : exact;
    return *scale * codec_code_max(codec) <= FLT_MAX;
}

static inline float codec_inverse_scale(float scale) {
    return scale == 0 ? 0 : 1 / scale;
}

static inline void codec_store_scale(enum codec codec, uint8_t *bytes, float scale) {
    if (codec == CODEC_INT8) {
        memcpy(bytes, &scale, CODEC_INT8_SCALE_BYTES);
        return;
    }
    uint16_t bits = bf16_from_f32(scale);
    memcpy(bytes, &bits, CODEC_INT4_SCALE_BYTES);
}

static inline float codec_load_scale(enum codec codec, const uint8_t *bytes) {
    if (codec == CODEC_INT8) {
        float scale;
        memcpy(&scale, bytes, CODEC_INT8_SCALE_BYTES);
        return scale;
    }
    uint16_t bits;
    memcpy(&bits, bytes, CODEC_INT4_SCALE_BYTES);
    return bf16_to_f32(bits);
}

#endif
