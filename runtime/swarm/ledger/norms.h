/* norms: the rule by which the declared norms of the contributions to a round decide which of them
 * have a weight, and by how much they are scaled down. It depends only on fields of the ledger, so
 * that the tracker, every voter and every reader of the ledger find the same values.
 *
 * The norm of a contribution is the L2 norm of all its decoded values. The *reference norm* of a
 * round is the lower weighted median of the norms of the voters that have a weight. A member has
 * as many votes as its weight, at most the upper median of all weights, so that none of three or
 * more members has half of the votes. If the number of members is even, the reference norm of the
 * last commit takes part too, with as many votes as the median of the weights. A median of two
 * members and the last reference norm lies between the norm of either member and the last
 * reference norm. If one voter is alone in a round, and its norm is below the last reference norm
 * but has an effect by it, the reference norm stays. Otherwise a member with a ten times larger
 * norm that missed one round would be excluded from every later round with that voter. In rounds
 * with guests it follows the voter, because the bounds of the guests must do so.
 *
 *     norm     0 ........ effect bound ........ 2 x reference ........ 8 x reference ........
 *              no weight             unchanged            scaled down              no weight
 *
 * The effect bound is reference / 16 for a member with full weight, and falls with the square of
 * its weight: the norm of a shorter training is smaller, and in a warm-up of the learning rate it
 * falls with the square of the number of steps.
 *
 * Guests follow the same bounds, and have no part in the median. Together they have at most
 * 1 / NORM_GUEST_DIVISOR of the weight of all voters. At their largest norm, of 2 x reference, they
 * can cancel the work of the voters, and not reverse it. */
#ifndef SKEP_SWARM_LEDGER_NORMS_H
#define SKEP_SWARM_LEDGER_NORMS_H

#include "runtime/swarm/ledger/entry.h"

enum {
    NORM_CLIP_FACTOR = 2,     /* contributions are scaled down to this multiple of the reference */
    NORM_BOUND_FACTOR = 8,    /* multiple of the reference above which a contribution is excluded */
    NORM_EFFECT_DIVISOR = 16, /* the effect bound is the reference divided by this */
    /* largest value of a sparse contribution, as a multiple of the root mean square of the values
     * of a contribution with the reference norm */
    NORM_VALUE_FACTOR = 8,
    NORM_GUEST_DIVISOR = 2 /* maximum weight of all guests: that of all voters, divided by this */
};

/* Where a norm lies in relation to the bounds of its round. */
enum norm_position {
    NORM_WITHIN_BOUNDS, /* the contribution keeps its weight */
    NORM_ABOVE_BOUND,   /* the norm is above NORM_BOUND_FACTOR x reference */
    NORM_WITHOUT_EFFECT /* the norm is below the effect bound */
};

/* norm_is_valid: whether a number can be a norm: finite, and +0 or greater. */
bool norm_is_valid(double norm);

/* norms_find_reference: the reference norm of the voters whose weight is not 0.
 * shapes  members [seat_count]; bit s of `voters`: members[s] is not a guest
 * limits  the norms and `last`, the reference norm of the last commit or 0 if there is none, are
 *         valid; the sum of the weights fits 63 bits
 * returns `last` if no voter has a weight */
double norms_find_reference(const struct entry_member *members, uint32_t seat_count,
                            uint64_t voters, double last);

/* norms_limit_weights: set the weights of all members to 0 whose norms are outside the bounds. The
 * reference norm of the others decides the bounds, so it is found again after each exclusion. Then
 * reduce the weights of all guests in proportion to their common limit.
 * `positions` [seat_count] receives the reason of each exclusion. Returns the reference norm. */
double norms_limit_weights(struct entry_member *members, uint32_t seat_count, uint64_t voters,
                           double last, enum norm_position *positions);

/* norms_error: NULL if `reference` is the reference norm of these members, the norm of each
 * member with a weight above 0 is within its bounds, and the guests are within their limit; else
 * a text that describes the error. Why a weight was lowered is not checked. */
MUST_CHECK const char *norms_error(const struct entry_member *members, uint32_t seat_count,
                                   uint64_t voters, double last, double reference);

/* norms_clip_factor: the factor, in [0, 1], that scales a contribution with this norm down to
 * NORM_CLIP_FACTOR x reference. The quotient is rounded once to fp64 and once to fp32.
 * limits  both norms are valid */
float norms_clip_factor(double norm, double reference);

/* norms_value_limit: the largest magnitude that a value of a sparse contribution may have in a
 * mean: NORM_VALUE_FACTOR x reference / sqrt(sent), where `sent` is the number of values that a
 * whole contribution sends. Where only one member sends an element, its value is the mean, so the
 * norm alone would allow a liar to change few elements by very much.
 * limits  the reference norm is valid; sent > 0 */
double norms_value_limit(double reference, uint64_t sent);

/* norm_has_effect: whether a slice with the norm `slice` is more than a negligible part of a
 * contribution: at least 1 / NORM_EFFECT_DIVISOR of the norm of each of `slice_count` equal parts
 * of a contribution with the reference norm. Below that, slices of honest contributions can be
 * equal: the parameters of rare tokens only decay.
 * limits  the reference norm is valid; slice_count > 0 */
bool norm_has_effect(double reference, uint32_t slice_count, double slice);

/* norm_allows_slice: whether a slice with the norm `slice` can be part of a contribution with the
 * norm `whole`. A slice may have the whole norm.
 * norm_allows_result: whether the result of a slice with this norm can be a weighted mean of
 * contributions, each scaled down to NORM_CLIP_FACTOR x reference. Encoding the mean again at most
 * doubles each value, because a value below half a step becomes 0. */
bool norm_allows_slice(double whole, double slice);
bool norm_allows_result(double reference, double result);

#endif
