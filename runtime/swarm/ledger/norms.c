#include "runtime/swarm/ledger/norms.h"

#include <math.h>

/* Relative tolerance for the rounding of norms and of the sums of a mean. */
static const double ROUNDING = 1e-6;

/* Largest factor by which encoding increases a value, including the rounding of an int4 scale to
 * bf16. */
static const double ENCODING_GROWTH = 2 * (1 + 0x1p-7);

/* The norm of one member, or the last reference norm, and its number of votes in the median. */
struct norm_vote {
    double norm;
    uint64_t votes;
};

bool norm_is_valid(double norm) {
    return isfinite(norm) && !signbit(norm);
}

/* Returns the mask of the voters whose weight is not 0. */
static uint64_t weighted_voters(const struct entry_member *members, uint32_t seat_count,
                                uint64_t voters) {
    uint64_t weighted = 0;
    ASSERT(seat_count <= SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < seat_count; i++) {
        weighted |= (uint64_t)(members[i].weight > 0) << i;
    }
    return weighted & voters;
}

/* Returns the upper median of the weights of voters, without zeros; 0 if all are 0. */
static uint64_t median_weight(const struct entry_member *members, uint32_t seat_count,
                              uint64_t voters) {
    const uint64_t weighted = weighted_voters(members, seat_count, voters);
    const uint32_t count = (uint32_t)__builtin_popcountll(weighted);
    uint64_t median = 0;
    for (uint32_t i = 0; i < seat_count; i++) {
        uint32_t not_above = 0;
        for (uint32_t k = 0; k < seat_count; k++) {
            not_above += (weighted >> k & 1) != 0 && members[k].weight <= members[i].weight;
        }
        bool is_upper_half = (weighted >> i & 1) != 0 && not_above > count / 2;
        median = is_upper_half && (median == 0 || members[i].weight < median) ? members[i].weight
                                                                              : median;
    }
    return median;
}

/* Returns the smallest norm such that at least half of all votes are at or below it. */
static double find_lower_median(const struct norm_vote *rows, uint32_t count) {
    double median = INFINITY;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += rows[i].votes;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t not_above = 0;
        for (uint32_t k = 0; k < count; k++) {
            not_above += rows[k].norm <= rows[i].norm ? rows[k].votes : 0;
        }
        bool is_half = not_above >= total - not_above;
        median = is_half && rows[i].norm < median ? rows[i].norm : median;
    }
    ASSERT(count > 0 && isfinite(median));
    return median;
}

double norms_find_reference(const struct entry_member *members, uint32_t seat_count,
                            uint64_t voters, double last) {
    struct norm_vote rows[SWARM_MEMBERS_MAX + 1];
    const uint64_t weighted = weighted_voters(members, seat_count, voters);
    const uint64_t seats = seat_count < 64 ? (UINT64_C(1) << seat_count) - 1 : UINT64_MAX;
    uint64_t full = median_weight(members, seat_count, voters);
    uint32_t count = 0;
    ASSERT(seat_count <= SWARM_MEMBERS_MAX && norm_is_valid(last));
    for (uint32_t i = 0; i < seat_count; i++) {
        ASSERT(norm_is_valid(members[i].norm));
        if ((weighted >> i & 1) != 0) {
            uint64_t votes = members[i].weight < full ? members[i].weight : full;
            rows[count++] = (struct norm_vote){members[i].norm, votes};
        }
    }
    if (count == 0) {
        return last;
    }
    if (count % 2 == 0 && last > 0) {
        rows[count++] = (struct norm_vote){last, full};
    }
    bool is_alone = count == 1 && (voters & seats) == seats;
    bool is_kept = rows[0].norm < last && rows[0].norm >= last / NORM_EFFECT_DIVISOR;
    return is_alone && is_kept ? last : find_lower_median(rows, count);
}

static enum norm_position find_norm_position(const struct entry_member *member,
                                             uint64_t full_weight, double reference) {
    double part = full_weight == 0 ? 1 : (double)member->weight / (double)full_weight;
    part = part < 1 ? part : 1;
    if (member->norm > NORM_BOUND_FACTOR * reference) {
        return NORM_ABOVE_BOUND;
    }
    return member->norm < reference * part * part / NORM_EFFECT_DIVISOR ? NORM_WITHOUT_EFFECT
                                                                        : NORM_WITHIN_BOUNDS;
}

/* Sets the weight of each member whose norm is outside the bounds of `reference` to 0. Returns
 * the number of these members. */
static uint32_t exclude_members(struct entry_member *members, uint32_t seat_count, uint64_t voters,
                                double reference, enum norm_position *positions) {
    uint64_t full_weight = median_weight(members, seat_count, voters);
    uint32_t excluded = 0;
    for (uint32_t i = 0; i < seat_count; i++) {
        if (members[i].weight == 0) {
            continue;
        }
        positions[i] = find_norm_position(&members[i], full_weight, reference);
        if (positions[i] != NORM_WITHIN_BOUNDS) {
            members[i].weight = 0;
            excluded++;
        }
    }
    return excluded;
}

static uint64_t sum_weights(const struct entry_member *members, uint32_t seat_count,
                            uint64_t seats) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < seat_count; i++) {
        sum += (seats >> i & 1) != 0 ? members[i].weight : 0;
    }
    return sum;
}

/* Returns the largest total weight that all guests together may have. */
static uint64_t guest_weight_max(const struct entry_member *members, uint32_t seat_count,
                                 uint64_t voters) {
    return sum_weights(members, seat_count, voters) / NORM_GUEST_DIVISOR;
}

/* Lowers the weights of guests to their common limit. No product or sum overflows: weights are
 * below 2^57, and their sums below 2^63. */
static void limit_guest_weights(struct entry_member *members, uint32_t seat_count,
                                uint64_t voters) {
    const uint64_t most = guest_weight_max(members, seat_count, voters);
    const uint64_t sum = sum_weights(members, seat_count, ~voters);
    for (uint32_t i = 0; sum > most && i < seat_count; i++) {
        if ((voters >> i & 1) == 0) {
            members[i].weight = (uint64_t)((unsigned __int128)members[i].weight * most / sum);
        }
    }
}

double norms_limit_weights(struct entry_member *members, uint32_t seat_count, uint64_t voters,
                           double last, enum norm_position *positions) {
    for (uint32_t i = 0; i < seat_count; i++) {
        positions[i] = NORM_WITHIN_BOUNDS;
    }
    double reference = norms_find_reference(members, seat_count, voters, last);
    /* Bounded, because each repetition excludes at least one member. */
    for (uint32_t i = 0;
         i <= seat_count && exclude_members(members, seat_count, voters, reference, positions) > 0;
         i++) {
        reference = norms_find_reference(members, seat_count, voters, last);
    }
    /* a lower weight only lowers the smallest norm that a member may have, so no other guest is
     * excluded */
    limit_guest_weights(members, seat_count, voters);
    ASSERT(norms_error(members, seat_count, voters, last, reference) == NULL);
    return reference;
}

const char *norms_error(const struct entry_member *members, uint32_t seat_count, uint64_t voters,
                        double last, double reference) {
    uint64_t full_weight = median_weight(members, seat_count, voters);
    if (norms_find_reference(members, seat_count, voters, last) != reference) {
        return "has a reference norm that does not follow from its members' norms";
    }
    for (uint32_t i = 0; i < seat_count; i++) {
        if (members[i].weight > 0 &&
            find_norm_position(&members[i], full_weight, reference) != NORM_WITHIN_BOUNDS) {
            return "gives a weight to a member whose norm is out of bounds";
        }
    }
    return sum_weights(members, seat_count, ~voters) <=
                   guest_weight_max(members, seat_count, voters)
               ? NULL
               : "gives its guests together more than half of the weight of its voters";
}

float norms_clip_factor(double norm, double reference) {
    double most = NORM_CLIP_FACTOR * reference;
    ASSERT(norm_is_valid(norm) && norm_is_valid(reference));
    return norm > most ? (float)(most / norm) : 1;
}

double norms_value_limit(double reference, uint64_t sent) {
    ASSERT(norm_is_valid(reference) && sent > 0);
    return NORM_VALUE_FACTOR * (reference / sqrt((double)sent));
}

bool norm_has_effect(double reference, uint32_t slice_count, double slice) {
    ASSERT(norm_is_valid(reference) && slice_count > 0);
    return slice > 0 && slice >= reference / NORM_EFFECT_DIVISOR / sqrt((double)slice_count);
}

bool norm_allows_slice(double whole, double slice) {
    return isfinite(slice) && slice <= whole * (1 + ROUNDING);
}

bool norm_allows_result(double reference, double result) {
    return isfinite(result) &&
           result <= ENCODING_GROWTH * NORM_CLIP_FACTOR * reference * (1 + ROUNDING);
}
