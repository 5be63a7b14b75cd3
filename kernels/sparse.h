/* sparse: encodes of each block of 4,096 fp32 values only the largest, for members that send their
 * contributions to each other. The rest stays in the sender's error feedback.
 *
 * Layout. A vector has one encoding a block, all of the same size, without a header. The last block
 * may have 1 to 4,096 elements. A block has four fields in fixed places, each padded to whole bytes
 * for the longest case, so that every size is known before a round:
 *
 *     +---------+-----------+------------+-----------+
 *     | levels  | values    | remainders | quotients |      k = 64, 2 bits: 4 + 16 + 40 + 24 = 84
 *     +---------+-----------+------------+-----------+
 *
 *   levels      bf16 magnitudes: `high`; before it `low`, unless a value has 1 bit
 *   values      k codes of `value_bits` bits, least significant bits first
 *   remainders  k numbers of b bits, least significant bits first; 2^b = 2,048 / k
 *   quotients   unary numbers: that many 0 bits, then a 1 bit
 *
 * The n <= k elements that are sent have ascending indices. The gap before each (the number of
 * elements between it and the one before it, or the start of the block) is coded as by Rice: its
 * remainder modulo 2^b in one field, its quotient in the other. n is the number of 1 bits in the
 * quotients. All bits that belong to no element are 0. A block without elements is all zeros.
 *
 *   value_bits  code                                  magnitude
 *   1           sign                                  high
 *   2           sign x 2 + m                          m = 0: low; m = 1: high
 *   4           sign x 8 + m, m in [0, 7]             low + (high - low) x m / 7
 *
 * Levels are normal numbers and low < high; the smallest m and the largest m both occur. When all
 * values of a block have one magnitude, low is 0 and every m is the largest. Each set of indices
 * and values thereby has exactly one encoding.
 *
 * Selection: the k elements of largest magnitude; of equal ones, those of lower index. Elements
 * below 2^-126, the smallest normal number, are not sent. Arithmetic, with the same bits at every
 * CPU level and for any thread count; sums over the sent elements are in fp64 and ascending order:
 *   1 bit   high = bf16(mean of the magnitudes)
 *   2 bits  the boundary is first the mean of the magnitudes, then four times the middle between
 *           the means of the magnitudes below it and of the others (Lloyd-Max); low and high are
 *           these means, rounded to bf16
 *   4 bits  low and high = bf16(smallest and largest magnitude); m = nearest, in fp64, but 0 for
 *           the smallest and 7 for the largest */
#ifndef SKEP_KERNELS_SPARSE_H
#define SKEP_KERNELS_SPARSE_H

#include "base/fault.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPARSE_BLOCK = 4096, SPARSE_KEEP_MAX = 256 }; /* elements of a block; maximum sent of them */

struct sparse_shape {
    int keep;       /* k, the number of elements that a block sends: 32, 64, 128 or 256 */
    int value_bits; /* bits of a value: 1, 2 or 4 */
};

/* sparse_shape_is_valid: whether the encoder supports the shape. All other functions require it. */
bool sparse_shape_is_valid(struct sparse_shape shape);

/* sparse_block_bytes: encoded size of a block, whatever its number of elements. sparse_bytes: of
 * `count` elements.
 * limits  0 <= count <= 2^44 */
uint64_t sparse_block_bytes(struct sparse_shape shape);
uint64_t sparse_bytes(struct sparse_shape shape, int64_t count);

/* sparse_encode: encode `values`, to which the caller has added its feedback, and write
 * sparse_bytes() bytes. Afterwards, sparse_add with a factor of -1 leaves in `values` what was not
 * sent.
 * shapes    values [count]; bytes [sparse_bytes()], any alignment
 * limits    0 <= count <= 2^44; bytes overlaps no input
 * memory    caller owns all; no workspace
 * errors    false when an element or a level is not finite; bytes are then undefined
 * accuracy  selection exact; 1 bit and 2 bits as defined above; 4 bits 1/14 of (high - low) plus
 *           2^-8 of the magnitude, and for the smallest and the largest magnitude 2^-8 of it
 * source    Lin et al. 2017, arXiv:1712.01887 (top-k with feedback); Rice 1979; Sarfi et al. 2025,
 *           arXiv:2508.15706 (blocks of 4,096, 2 bits a value) */
MUST_CHECK bool sparse_encode(const struct compute *compute, struct sparse_shape shape,
                              int64_t count, const float *values, uint8_t *bytes);

/* sparse_decode: decode `bytes` to values[count], 0 where nothing was sent.
 * limits    bytes of any alignment, accepted by sparse_check or written by sparse_encode. Otherwise
 *           the values are meaningless, but no memory outside the buffers is accessed
 * memory    caller owns all
 * errors    none */
void sparse_decode(const struct compute *compute, struct sparse_shape shape, int64_t count,
                   const uint8_t *bytes, float *values);

struct sparse_add_args {
    struct sparse_shape shape;
    int64_t count;  /* number of elements */
    float factor;   /* factor of the decoded values */
    float weight;   /* added to `weights` for each element that was sent */
    float *sums;    /* [count] += factor x decoded: the product is rounded, then the sum */
    float *weights; /* [count] += weight where an element was sent; or NULL */
};

/* sparse_add: add an encoded vector to sums.
 * limits, memory, errors  as sparse_decode */
void sparse_add(const struct compute *compute, const struct sparse_add_args *args,
                const uint8_t *bytes);

/* sparse_mean: divide sums[count] by weights[count], the total weight of the members that sent each
 * element; the mean is 0 where that weight is 0.
 * errors    none */
void sparse_mean(const struct compute *compute, int64_t count, const float *weights, float *sums);

/* sparse_check: whether `size` received bytes are an encoding of `count` elements as described
 * above. It accepts everything that sparse_encode writes, and no two byte strings that decode to
 * the same values.
 * limits    0 <= count <= 2^44
 * memory    reads only bytes[size], on one thread
 * errors    STATUS_INPUT with the block as its subject */
MUST_CHECK enum status sparse_check(struct sparse_shape shape, int64_t count, const uint8_t *bytes,
                                    uint64_t size, struct fault *fault);

/* sparse_energy: the sum of the squares of the decoded values, with the same bits on every machine:
 * in each block the number of values of each level times its square in fp64, from the smallest
 * level to the largest; blocks in ascending order.
 * limits    bytes accepted by sparse_check or written by sparse_encode; the result is then finite
 * errors    none */
double sparse_energy(struct sparse_shape shape, int64_t count, const uint8_t *bytes);

/* sparse_block_peak: the largest magnitude that a block decodes to; 0 for a block without elements.
 * limits  as sparse_energy; block [sparse_block_bytes()]
 * errors  none */
float sparse_block_peak(struct sparse_shape shape, const uint8_t *block);

#endif
