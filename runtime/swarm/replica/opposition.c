#include "runtime/swarm/replica/opposition.h"

#include "base/check.h"
#include "kernels/sketch.h"
#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

static const double AGREEMENT_MIN = 0.4;
static const double OPPOSITION_MIN = 0.6;
static const double OPPOSITION_PART = 0.95;
static const double SIGMAS = 4;

/* Sums over all slices to which a seat contributed. The rest is the sum of the other contributions,
 * and an energy is a sum of squares. */
struct seat_sums {
    double own_energy;  /* energy of the sketches of this seat's contribution */
    double rest_energy; /* energy of the rest */
    double product;     /* scalar product of the contribution and the rest */
    double variance;    /* variance of `product`, which is an estimate from sketches */
};

static bool read_sketch(const struct opposition_round *round, uint32_t slice, uint32_t seat,
                        struct sketch *sketch) {
    const struct entry *entry = round->entry;
    return (entry->slices[slice].contributors >> seat & 1) != 0 &&
           (round->silent >> seat & 1) == 0 && entry->members[seat].weight > 0 &&
           sketch_read(round->sketches[seat] + (size_t)slice * SKETCH_BYTES, sketch);
}

/* Returns the weight of a seat's contribution, times the clip factor of its norm. */
static double clipped_weight(const struct entry *entry, uint32_t seat) {
    const struct entry_member *member = &entry->members[seat];
    return (double)member->weight * (double)norms_clip_factor(member->norm, entry->reference_norm);
}

static double dot_product(const double *left, const double *right) {
    double product = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        product += left[b] * right[b];
    }
    return product;
}

static void add_slice_sums(const struct opposition_round *round, uint32_t slice,
                           struct seat_sums *sums) {
    double total[SKETCH_BUCKETS] = {0}, rest[SKETCH_BUCKETS];
    struct sketch sketch;
    for (uint32_t seat = 0; seat < round->entry->seat_count; seat++) {
        const double share = clipped_weight(round->entry, seat);
        if (!read_sketch(round, slice, seat, &sketch)) {
            continue;
        }
        for (int b = 0; b < SKETCH_BUCKETS; b++) {
            total[b] += share * sketch.buckets[b];
        }
    }
    for (uint32_t seat = 0; seat < round->entry->seat_count; seat++) {
        const double share = clipped_weight(round->entry, seat);
        if (!read_sketch(round, slice, seat, &sketch)) {
            continue;
        }
        for (int b = 0; b < SKETCH_BUCKETS; b++) {
            rest[b] = total[b] - share * sketch.buckets[b];
        }
        const double own = dot_product(sketch.buckets, sketch.buckets);
        const double others = dot_product(rest, rest);
        const double product = dot_product(sketch.buckets, rest);
        sums[seat].own_energy += own;
        sums[seat].rest_energy += others;
        sums[seat].product += product;
        sums[seat].variance += (own * others + product * product) / SKETCH_BUCKETS;
    }
}

static struct opposition_measure compute_measure(const struct seat_sums *sums) {
    const double scale = sqrt(sums->own_energy) * sqrt(sums->rest_energy);
    const bool is_known = isfinite(scale) && scale > 0 && isfinite(sums->variance);
    return is_known
               ? (struct opposition_measure){sums->product / scale, sqrt(sums->variance) / scale}
               : (struct opposition_measure){0, 0};
}

static bool is_measured(const struct opposition_measure *measure) {
    return measure->deviation > 0;
}

/* Returns the seat that has the lower median of the cosines of `seats`. */
static uint32_t find_median_seat(const struct opposition_measure *measures, uint64_t seats) {
    uint32_t median = 0;
    const uint32_t count = (uint32_t)__builtin_popcountll(seats);
    ASSERT(count > 0);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        uint32_t below = 0;
        for (uint32_t other = 0; other < SWARM_MEMBERS_MAX; other++) {
            const double cosine = measures[other].cosine;
            below +=
                (seats >> other & 1) != 0 && (cosine < measures[seat].cosine ||
                                              (cosine == measures[seat].cosine && other < seat));
        }
        median = (seats >> seat & 1) != 0 && below == (count - 1) / 2 ? seat : median;
    }
    return median;
}

/* Whether the contributions of more than half of the seats `others` have a negative scalar
 * product with that of `seat`. */
static bool opposes_majority(const struct opposition_round *round, uint32_t seat, uint64_t others) {
    double products[SWARM_MEMBERS_MAX] = {0};
    struct sketch own, sketch;
    uint32_t against = 0;
    for (uint32_t slice = 0; slice < round->entry->slice_count; slice++) {
        for (uint32_t other = 0; other < round->entry->seat_count; other++) {
            if ((others >> other & 1) != 0 && read_sketch(round, slice, seat, &own) &&
                read_sketch(round, slice, other, &sketch)) {
                products[other] += dot_product(own.buckets, sketch.buckets);
            }
        }
    }
    for (uint32_t other = 0; other < round->entry->seat_count; other++) {
        against += products[other] < 0;
    }
    return 2 * against > (uint32_t)__builtin_popcountll(others);
}

static bool is_opposed(const struct opposition_round *round,
                       const struct opposition_measure *measures, uint32_t seat, uint64_t voters) {
    const uint64_t others = voters & ~((uint64_t)1 << seat);
    const struct opposition_measure *own = &measures[seat];
    if (!is_measured(own) || __builtin_popcountll(others) < OPPOSITION_VOTERS_MIN - 1) {
        return false;
    }
    const struct opposition_measure *median = &measures[find_median_seat(measures, others)];
    return median->cosine >= AGREEMENT_MIN && own->cosine <= -OPPOSITION_MIN &&
           own->cosine <= -OPPOSITION_PART * median->cosine &&
           own->cosine <= -SIGMAS * own->deviation && opposes_majority(round, seat, others);
}

uint64_t opposition_find(const struct opposition_round *round,
                         struct opposition_measure *measures) {
    struct seat_sums sums[SWARM_MEMBERS_MAX] = {{0}};
    struct opposition_measure found[SWARM_MEMBERS_MAX];
    uint64_t voters = 0, opposed = 0;
    for (uint32_t slice = 0; slice < round->entry->slice_count; slice++) {
        add_slice_sums(round, slice, sums);
    }
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        found[seat] = compute_measure(&sums[seat]);
        voters |= (uint64_t)is_measured(&found[seat]) << seat;
    }
    voters &= entry_voting_seats(round->entry);
    for (uint32_t seat = 0; seat < round->entry->seat_count; seat++) {
        opposed |= (uint64_t)is_opposed(round, found, seat, voters) << seat;
    }
    if (measures != NULL) {
        memcpy(measures, found, sizeof found);
    }
    return opposed;
}
