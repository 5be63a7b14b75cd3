/* sum_check: checks whether the result of a slice is the mean of the contributions that it lists,
 * by sketches of the contributions (kernels/sketch.h), without the contributions themselves.
 *
 *     each contributor      sketch of its contribution ──────────┐ x share x clip factor, added
 *     each voter            sketch of the result ──── difference ┴─► no more than rounding explains
 *
 * The seed of the sketches is drawn after all results are fixed, so no owner can choose a result
 * whose error they do not show. Sums in int4 are not checked by sketches, because its encoding
 * loses too much (sum_check_has_sketches). The results of a sparse codec are not sums. */
#ifndef SKEP_SWARM_REPLICA_SUM_CHECK_H
#define SKEP_SWARM_REPLICA_SUM_CHECK_H

#include "kernels/sketch.h"
#include "runtime/swarm/replica/replica.h"

/* sum_check_has_sketches: whether sums of the codec are checked by sketches. */
static inline bool sum_check_has_sketches(const struct slices *slices) {
    return !slices_are_sparse(slices) && slices->codec != CODEC_INT4;
}

/* sum_check_sketch: the encoded sketch of an encoded slice, under the key of this seed and slice.
 * limits  the bytes passed replica_encoding_is_valid */
void sum_check_sketch(const struct replica *replica, uint32_t slice, const struct hash *seed,
                      const uint8_t *bytes, uint8_t sketch[static SKETCH_BYTES]);

/* One contribution to a result, as known to the member that checks the result. */
struct sum_part {
    /* [SKETCH_BYTES]: encoded sketch of the contribution; NULL: it was not received */
    const uint8_t *sketch;
    uint64_t weight; /* weight of the contribution, as in struct addend */
    float clip;      /* clip factor of the contribution, in [0, 1] */
    double norm;     /* upper bound of the contribution's L2 norm, which its member declared */
};

/* sum_check_matches_parts: whether the result of a slice can be the mean of `parts`. In each bucket
 * the difference must be within 7 standard deviations of the rounding of the result and the
 * sketches, and all together must have at most three times the expected energy. A part whose sketch
 * was not received may change the result by its norm times its share. The parts do not match if a
 * sketch has more energy than 2.5 x norm^2.
 * accuracy  the error of int8 is at most 3.6 % of the norm of the result, and 1.3 % for values with
 * a normal distribution; a change of 10 % of the norm then passes with a probability of at most
 * 1e-6, or 1e-12 for such values
 * shapes  parts [count], in any order
 * limits  sum_check_has_sketches; the result passed replica_encoding_is_valid */
MUST_CHECK bool sum_check_matches_parts(const struct replica *replica, uint32_t round,
                                        uint32_t slice, const struct hash *seed,
                                        const struct sum_part *parts, uint32_t count);

/* sum_check_recompute: the hash that replica_sum gives for these addends. The result, the residual
 * and the state stay unchanged. */
struct hash sum_check_recompute(const struct replica *replica, uint32_t slice,
                                const struct addend *addends, uint32_t count);

/* sum_check_detection_probability: the probability that, within `rounds` rounds, the audits of
 * `voters` members find an owner that has an equal share of the slices and signs a false result in
 * each of them (audit.h); 1 with a sparse codec, whose results every member checks. */
double sum_check_detection_probability(const struct slices *slices, uint32_t voters,
                                       uint32_t rounds);

#endif
