/* codec: encodes fp32 vectors as bytes that members send to each other, and decodes them.
 *
 * Layouts. All numbers are little-endian and unaligned. Blocks are independent of each other. A
 * vector of `count` elements has exactly codec_bytes() bytes and no header.
 *
 *   fp32   count x fp32
 *   bf16   count x bf16: the upper half of the fp32 number, rounded to nearest even
 *   int8   blocks of 256 elements, the last one of 1 to 256:
 *              +---------------+------ .. ------+
 *              | scale: fp32   | i8 per element |        element = code x scale
 *              +---------------+------ .. ------+
 *          codes in [-127, 127]; scale = largest magnitude in the block / 127
 *   int4   blocks of 64 elements, the last one of 1 to 64:
 *              +---------------+------- .. -------+
 *              | scale: bf16   | i4 per element   |      element = code x scale
 *              +---------------+------- .. -------+
 *          byte j holds element 2j in its low and element 2j + 1 in its high four bits, in two's
 *          complement; after an odd last element the high bits are 0
 *          codes in [-7, 7]; scale = bf16(largest magnitude in the block / 7)
 *
 * Arithmetic, with the same bits at every CPU level and for any thread count. All in fp32; every
 * operation below rounds once to nearest even, and none are fused:
 *   adjusted = source + feedback                (source alone without feedback)
 *   scale    = largest |adjusted| / 127 or 7    (a true division; int4: then rounded to bf16);
 *              0 if below 2^-126, the smallest normal number
 *   inverse  = 1 / scale                        (a true division; 0 for a scale of 0)
 *   code     = nearest integer, ties to even, of (adjusted x inverse)
 *   decoded  = code x scale
 *   residual = adjusted - decoded
 * No clamp is needed: adjusted x inverse exceeds 127 by less than 2^-15, and 7 by at most 2^-5. */
#ifndef SKEP_KERNELS_CODEC_H
#define SKEP_KERNELS_CODEC_H

#include "base/fault.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

/* The number of a codec is its position in the choices of the setting swarm.codec. */
enum codec { CODEC_FP32 = 0, CODEC_BF16 = 1, CODEC_INT8 = 2, CODEC_INT4 = 3, CODEC_COUNT };

enum { CODEC_INT8_BLOCK = 256, CODEC_INT4_BLOCK = 64 }; /* elements with the same scale */

/* codec_name: "fp32", "bf16", "int8" or "int4". */
const char *codec_name(enum codec codec);

/* codec_parse: set *codec to the codec called `name`. Return false if there is none, and leave
 * *codec unchanged. */
bool codec_parse(const char *name, enum codec *codec);

/* codec_block_elements: number of elements in one block; 1 for fp32 and bf16. Only the last block
 * of a vector may be shorter, so a vector that is split at block boundaries encodes to the same
 * bytes as the whole vector. */
int64_t codec_block_elements(enum codec codec);

/* codec_bytes: the exact number of bytes of `count` encoded elements.
 * limits  0 <= count <= 2^44 */
uint64_t codec_bytes(enum codec codec, int64_t count);

/* codec_elements_within: the number of elements in the whole blocks that fit into `bytes` bytes. */
int64_t codec_elements_within(enum codec codec, uint64_t bytes);

struct codec_encode_args {
    enum codec codec;      /* encoding to use */
    int64_t count;         /* number of elements */
    const float *source;   /* [count] */
    const float *feedback; /* [count]: encoding error of earlier rounds, added to source; or NULL */
    float *residual;       /* [count]: encoding error of this round; may be `feedback`; or NULL */
};

/* codec_encode: encode args->source and write codec_bytes() bytes. With error feedback, the
 * residual of one round is the feedback of the next, so that the sum of the decoded vectors stays
 * within one residual of the sum of the sources. A caller that may have to undo a round uses two
 * buffers, or computes the residual later from the same inputs: source + feedback, then
 * codec_decode_add with weight -1, gives the same bits.
 * shapes    source, feedback, residual [count]; bytes [codec_bytes()]
 * limits    residual is feedback or overlaps no input; bytes overlaps no other buffer and
 *           has any alignment
 * memory    caller owns all; no workspace
 * errors    false when an element, its decoded value, or a scale times 127 (int4: times 7) is not
 *           finite; bytes and residual are then undefined
 * accuracy  fp32 exact; bf16 2^-8 relative; int8 half a step, where a step is the block's largest
 *           magnitude / 127; int4 half a step of its rounded scale; int8 and int4 plus 2^-15 of a
 *           step; a block whose scale would be below 2^-126 becomes zeros
 * source    Seide et al. 2014 and Karimireddy et al. 2019, arXiv:1901.09847 (error feedback) */
MUST_CHECK bool codec_encode(const struct compute *compute, const struct codec_encode_args *args,
                             uint8_t *bytes);

/* codec_decode: decode `bytes` to values[count].
 * limits    bytes of any alignment, accepted by codec_check or written by codec_encode. Otherwise
 *           the values are meaningless, but no memory outside the buffers is accessed
 * memory    caller owns all
 * errors    none */
void codec_decode(const struct compute *compute, enum codec codec, int64_t count,
                  const uint8_t *bytes, float *values);

struct codec_add_args {
    enum codec codec;
    int64_t count;
    float weight; /* factor of the decoded values */
};

/* codec_decode_add: sums[count] += weight x decoded: the product is rounded, then the sum.
 * limits, memory, errors  as codec_decode */
void codec_decode_add(const struct compute *compute, const struct codec_add_args *args,
                      const uint8_t *bytes, float *sums);

/* codec_check: whether `size` received bytes are an encoding of `count` elements: the exact number
 * of bytes; finite decoded elements; scales that are positive and normal, or +0; codes within their
 * range; a code of the largest magnitude in each block, or only 0 with a scale of 0; unused bits 0.
 * It accepts everything that codec_encode writes.
 * limits    0 <= count <= 2^44
 * memory    reads only bytes[size], on one thread, at several GB/s
 * errors    STATUS_INPUT with the block or element as its subject */
MUST_CHECK enum status codec_check(enum codec codec, int64_t count, const uint8_t *bytes,
                                   uint64_t size, struct fault *fault);

/* codec_energy: the sum of the squares of the decoded elements, with the same bits on every
 * machine. int8 and int4: the squares of a block's codes are summed as integers, and multiplied
 * once by the square of the scale, which a double holds exactly. Elements and blocks are added in
 * ascending order in fp64.
 * limits    bytes accepted by codec_check or written by codec_encode; the result is then finite
 * memory    reads only bytes, on one thread
 * errors    none
 * accuracy  2^-53 relative for each block, or each element of fp32 and bf16 */
double codec_energy(enum codec codec, int64_t count, const uint8_t *bytes);

#endif
