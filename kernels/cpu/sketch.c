#include "kernels/sketch.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_GROUP_BYTES = 4 * SKETCH_GROUP }; /* size of a group of fp32 values */
enum { CODE_MAX = INT16_MAX };                   /* largest code of an encoded sketch */

/* 1/8 makes a transform of 64 elements orthonormal. */
static const double TRANSFORM_SCALE = 0.125;

/* A rounding error that is uniform over one step has a variance of step^2 / 12. */
static const double STEP_VARIANCE = 1.0 / 12;
static const double BF16_VARIANCE = 0x1p-14 / 12; /* a step is at most 2^-7 of a value */

typedef void (*sketch_loop)(const struct sketch_part *part, double *sums);

static sketch_loop find_sketch_loop(const struct sketch_kernels *kernels, enum codec codec) {
    ASSERT(codec == CODEC_FP32 || codec == CODEC_BF16 || codec == CODEC_INT8);
    return codec == CODEC_INT8   ? kernels->int8
           : codec == CODEC_BF16 ? kernels->bf16
                                 : kernels->fp32;
}

/* The sum of the variances of the rounding errors of all elements of an int8 vector. */
static double int8_variance(int64_t count, const uint8_t *bytes) {
    const uint64_t stride = codec_bytes(CODEC_INT8, CODEC_INT8_BLOCK);
    double squares = 0;
    for (int64_t i = 0; i < items_count(count, CODEC_INT8_BLOCK); i++) {
        double scale = codec_load_scale(CODEC_INT8, bytes + (uint64_t)i * stride);
        squares += scale * scale * (double)item_length(count, CODEC_INT8_BLOCK, i);
    }
    return squares * STEP_VARIANCE;
}

/* Estimates the energy of the vector from its sketch, with a relative error of a few tenths. This
 * needs no second pass over the vector. */
static double sketch_energy(const struct sketch *sketch) {
    double energy = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        energy += sketch->buckets[b] * sketch->buckets[b];
    }
    return energy;
}

void sketch_run(const struct compute *compute, enum codec codec, int64_t count,
                const uint8_t *bytes, uint64_t key, struct sketch *sketch) {
    ASSERT(count >= 0);
    const sketch_loop loop = find_sketch_loop(&compute->table->sketch, codec);
    const int64_t groups = count / SKETCH_GROUP;
    const uint64_t used = codec_bytes(codec, groups * SKETCH_GROUP);
    const uint64_t left = codec_bytes(codec, count) - used;
    double sums[SKETCH_PARTIAL_SUMS] = {0};
    uint8_t last[CODEC_INT8_SCALE_BYTES + LONGEST_GROUP_BYTES] = {0};
    ASSERT(left < sizeof last);
    memcpy(last, bytes + used, left);
    loop(&(struct sketch_part){.bytes = bytes, .group_count = groups, .key = key}, sums);
    if (left > 0) {
        loop(
            &(struct sketch_part){
                .bytes = last, .group_count = 1, .first_group = groups, .key = key},
            sums);
    }
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        sketch->buckets[b] = (sums[2 * b] + sums[2 * b + 1]) * TRANSFORM_SCALE;
    }
    double variance = codec == CODEC_INT8   ? int8_variance(count, bytes)
                      : codec == CODEC_BF16 ? BF16_VARIANCE * sketch_energy(sketch)
                                            : 0;
    sketch->variance = variance / SKETCH_BUCKETS;
}

void sketch_write(const struct sketch *sketch, uint8_t bytes[static SKETCH_BYTES]) {
    double peak = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        peak = fmax(peak, fabs(sketch->buckets[b]));
    }
    double exact = peak / CODE_MAX;
    float scale = exact < (double)FLT_MIN ? 0 : exact > (double)FLT_MAX ? FLT_MAX : (float)exact;
    memcpy(bytes, &scale, sizeof scale);
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        double code = scale == 0 ? 0 : rint(sketch->buckets[b] / (double)scale);
        code = fmin(fmax(code, -CODE_MAX), CODE_MAX);
        int16_t stored = (int16_t)code;
        memcpy(bytes + sizeof scale + (size_t)b * sizeof stored, &stored, sizeof stored);
    }
}

bool sketch_read(const uint8_t bytes[static SKETCH_BYTES], struct sketch *sketch) {
    float scale;
    memcpy(&scale, bytes, sizeof scale);
    int largest = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        int16_t code;
        memcpy(&code, bytes + sizeof scale + (size_t)b * sizeof code, sizeof code);
        largest = abs(code) > largest ? abs(code) : largest;
        sketch->buckets[b] = (double)scale * code;
    }
    /* a scale that is too large would raise the variance */
    bool is_valid = isfinite(scale) && !signbit(scale) && largest == (scale == 0 ? 0 : CODE_MAX);
    sketch->variance = (double)scale * (double)scale * STEP_VARIANCE;
    return is_valid;
}
