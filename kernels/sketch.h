/* sketch: 64 random linear functions of an encoded vector, by which sums of vectors are checked
 * without the vectors: the sketch of a sum is the sum of the sketches.
 *
 *     values   | group 0: 256 | group 1: 256 | ...        the last group is filled with zeros
 *     group    element e belongs to transform e % 4, in which its index is e / 4
 *     bucket b = 1/8 x sum over groups and transforms t of
 *                    sign(b, t) x sum over i of (-1)^popcount(b & i) x sign(i, t) x element(i, t)
 *
 * Each transform is a Walsh-Hadamard transform of 64 elements between two sets of random signs. A
 * change of one element changes all 64 buckets by the same amount, so a sparse change cannot hide
 * between buckets; a dense one gives each bucket an independent, nearly normal value. The mean
 * square of a bucket is 1/64 of the square of the vector's L2 norm. All signs follow from the key.
 *
 * Arithmetic, with the same bits at every CPU level: int8 codes are transformed as integers, and
 * each group's result is multiplied once by its scale, which a double holds exactly. fp32 and bf16
 * values are transformed in fp64, by the same additions in the same order. Groups are added in
 * ascending order in fp64, and nothing is fused. */
#ifndef SKEP_KERNELS_SKETCH_H
#define SKEP_KERNELS_SKETCH_H

#include "kernels/codec.h"

enum {
    SKETCH_BUCKETS = 64,                   /* values of a sketch */
    SKETCH_GROUP = 256,                    /* elements of a group: a block of int8 */
    SKETCH_BYTES = 4 + 2 * SKETCH_BUCKETS, /* encoded: a scale in fp32, and codes of 16 bits */
};

struct sketch {
    double buckets[SKETCH_BUCKETS];
    /* Variance of the rounding error of a bucket: the error of the vector's encoding or, in a
     * sketch from sketch_read, that of the sketch's encoding. */
    double variance;
};

/* sketch_run: the sketch of an encoded vector.
 * variance  for values that were rounded to the codec's nearest: int8 scale^2 / 12 for each
 *           element; bf16 2^-14 / 12 of the energy, because a step is at most 2^-7 of a value; fp32
 *           0; divided by 64
 * limits    codec is not int4, whose error is too large for a check; bytes of any alignment,
 *           accepted by codec_check
 * memory    reads only bytes, on one thread
 * errors    none
 * source    Charikar, Chen, Farach-Colton 2002 (CountSketch); Ailon, Chazelle 2009 (transforms) */
void sketch_run(const struct compute *compute, enum codec codec, int64_t count,
                const uint8_t *bytes, uint64_t key, struct sketch *sketch);

/* sketch_write: encode the buckets as 16-bit multiples of one scale, rounded to nearest. Little-
 * endian: scale fp32, then the 64 codes. Equal buckets give equal bytes.
 * sketch_read: decode; the variance is scale^2 / 12. Returns false if the scale is not finite, is
 * negative or -0, or does not follow from the largest code, which is 32,767, or 0 with a scale of
 * 0. */
void sketch_write(const struct sketch *sketch, uint8_t bytes[static SKETCH_BYTES]);
MUST_CHECK bool sketch_read(const uint8_t bytes[static SKETCH_BYTES], struct sketch *sketch);

#endif
