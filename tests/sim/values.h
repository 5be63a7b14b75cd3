/* values: what the data plane computes with the values of slices. values_toy.c has a codec of eight
 * bits and sketches that are the values themselves; values_real.c (SIM_REAL) calls the replica,
 * with the codec of the world, and each member computes at a CPU level of its own. */
#ifndef SKEP_TESTS_SIM_VALUES_H
#define SKEP_TESTS_SIM_VALUES_H

#include "tests/sim/world.h"

/* Encoded slices.
 * values_encode    of SLICE_ELEMENTS values; one that is not sound, or zeros, if one is not finite
 * values_decode    the SLICE_ELEMENTS values of a sound slice
 * values_norm      L2 norm; infinite if the slice is not sound
 * values_bytes     size on the wire, of a contribution
 * values_damage    change one byte
 * values_destroy   make it unsound */
struct coded values_encode(const struct world *world, const float *values);
void values_decode(const struct world *world, const struct coded *coded, float *values);
double values_norm(const struct world *world, const struct coded *coded);
bool values_are_sound(const struct world *world, const struct coded *coded);
struct hash values_hash(const struct world *world, const struct coded *coded);
size_t values_bytes(const struct world *world);
void values_damage(const struct world *world, struct coded *coded, uint64_t byte, uint8_t bits);
void values_destroy(const struct world *world, struct coded *coded);

/* Results: an encoded mean, or with a sparse codec (SIM_SPARSE) the list of the contributions.
 * values_have_lists    whether results are lists
 * values_result_bytes  size on the wire
 * values_inspect       Set what a receiver finds out about a result. False: it is not sound.
 * values_leave_out     Leave the encoding of this seat, a mask, out of a list that is sent.
 * values_restore       Put the receiver's own encoding back. False: it has none.
 * values_spoil         what an owner that lies makes of its list */
bool values_have_lists(const struct world *world);
size_t values_result_bytes(const struct world *world, const struct coded *result);
struct hash values_result_hash(const struct world *world, const struct coded *result);
bool values_inspect(const struct world *world, struct message *message, const struct coded *result);
void values_leave_out(const struct world *world, uint32_t slice, uint64_t left_out,
                      struct coded *list);
bool values_restore(const struct world *world, uint32_t node, struct message *message,
                    struct coded *list);
void values_spoil(const struct world *world, const struct action *action, struct coded *list);

/* Computed for the oracle, of contributions in the order of their seats:
 * values_mean    their mean, before it is encoded
 * values_result  the result that an owner must make of them and of this mean
 * values_step    Let the parameters of a slice take a step with the mean. False: not written a
 *                second time. */
struct value_part {
    const struct coded *coded;
    const struct truth *truth; /* of this contribution; for lists */
    uint64_t weight;
    float clip;
};
void values_mean(const struct world *world, const struct entry *entry,
                 const struct value_part *parts, uint32_t count, float *mean);
struct coded values_result(const struct world *world, const struct entry *entry, uint32_t slice,
                           const struct value_part *parts, uint32_t count, const float *mean);
bool values_step(const struct world *world, const float *mean, float *params);

/* values_root: of an outer state. */
struct hash values_root(const struct world *world, const struct outer *outer);
struct hash values_zero_root(const struct world *world); /* of a contribution of zeros */

/* A running member. The durable outer state is node->outer.
 * values_sent_values         how many values a contribution to a sparse codec has; 0
 * values_start, values_stop   It begins with that state and without feedback, or stops.
 * values_contribute   Encode the contribution to all slices: node->own.slices and .residual.
 * values_declare      The tree over the slices of a contribution, and its root and norm.
 * values_sum          The result of the action's slice.
 * values_root_after   The root after an entry's results, which the node has; zero: not finite.
 * values_apply        Apply them to the outer state, and update the feedback.
 * values_adopt        Take another outer state.
 * values_feedback     [slice_count * SLICE_ELEMENTS]: what earlier encodings left out */
uint64_t values_sent_values(const struct world *world);
void values_start(struct world *world, uint32_t node);
void values_stop(struct world *world, uint32_t node);
void values_contribute(struct world *world, uint32_t node, const float *gradient);
struct hash values_declare(const struct world *world, struct truth *own, double *norm);
struct coded values_sum(struct world *world, uint32_t node, const struct action *action);
struct hash values_root_after(struct world *world, uint32_t node, const struct entry *entry);
void values_apply(struct world *world, uint32_t node, const struct action *action);
void values_adopt(struct world *world, uint32_t node);
const float *values_feedback(const struct world *world, uint32_t node);

/* Checks of sums.
 * values_have_sketches   whether this codec has sketches
 * values_sketch       of a contribution to a slice
 * values_allow        whether sketches and result of a slice agree
 * values_opposed      seats whose contributions oppose the others; toy sketches do not show it
 * values_recheck      what is wrong with the slice of the action, by its contributions */
bool values_have_sketches(const struct world *world);
struct page_sketch values_sketch(struct world *world, uint32_t node, uint32_t slice,
                                 const struct hash *seed, const struct coded *coded);
bool values_allow(struct world *world, uint32_t node, const struct action *action, uint32_t slice);
uint64_t values_opposed(const struct world *world, uint32_t node, const struct action *action);
struct message_refusal values_recheck(struct world *world, uint32_t node,
                                      const struct action *action);

/* values_silence: the largest change of a result that a check may allow where contributors with
 * `norm` of the mean are silent. */
double values_silence(const struct coded *result, double norm);

/* values_owner_residual: what the oracle adds to the feedback of the owner of a slice: the part of
 * its mean that the encoding left out. False: nothing. */
bool values_owner_residual(const struct world *world, const float *mean, float share,
                           uint32_t count, float *residual);

#endif
