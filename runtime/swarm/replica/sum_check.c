#include "runtime/swarm/replica/sum_check.h"

#include "base/check.h"
#include "kernels/outer.h"
#include "runtime/swarm/protocol/audit.h"
#include "runtime/swarm/replica/replica_state.h"

#include <math.h>
#include <string.h>

/* Allowed deviation of a bucket, in standard deviations. A normal variable exceeds 7 with a
 * probability of 2.6e-12. The energy of 64 of them exceeds three times the expected one with a
 * probability of 2e-14. */
static const double DEVIATIONS_MAX = 7;
static const double ENERGY_MAX = 3;

/* Allowed energy of a sketch, as a multiple of the squared norm of its vector. For a dense
 * vector the ratio has a chi-squared distribution with 64 degrees of freedom, divided by 64,
 * which exceeds 2.5 with a probability of 1e-9; for a sparse vector it is lower. */
static const double ENERGY_FACTOR = 2.5;

/* Relative error of one rounding to fp32. Adding a contribution rounds twice: its product with
 * the share, and the sum. */
static const double FP32_ROUNDING = 0x1p-24;

/* ---- sketches ---- */

static uint64_t sketch_key_of_slice(const struct hash *seed, uint32_t slice) {
    static const char DOMAIN[] = "skep sketch";
    struct hash_state state;
    uint64_t key;
    hash_begin(&state);
    hash_add(&state, DOMAIN, sizeof DOMAIN);
    hash_add(&state, seed->bytes, HASH_BYTES);
    hash_add(&state, &slice, sizeof slice);
    const struct hash hash = hash_end(&state);
    memcpy(&key, hash.bytes, sizeof key);
    return key;
}

static void sketch_slice(const struct replica *replica, uint32_t slice, const struct hash *seed,
                         const uint8_t *bytes, struct sketch *sketch) {
    const struct slice_range range = slices_range(&replica->shape.slices, slice);
    sketch_run(replica->compute, replica->shape.slices.codec, range.end - range.begin, bytes,
               sketch_key_of_slice(seed, slice), sketch);
}

void sum_check_sketch(const struct replica *replica, uint32_t slice, const struct hash *seed,
                      const uint8_t *bytes, uint8_t encoded[static SKETCH_BYTES]) {
    struct sketch sketch;
    sketch_slice(replica, slice, seed, bytes, &sketch);
    sketch_write(&sketch, encoded);
}

/* ---- the check ---- */

/* The sketch that a result should have according to its parts, and how far it may deviate. */
struct expectation {
    struct sketch sketch; /* weighted mean of the sketches, with the variance of each bucket */
    double magnitude;     /* sum of the norms of all weighted contributions */
    double missing;       /* sum of the norms of the weighted contributions without a sketch */
};

static double sketch_energy(const struct sketch *sketch) {
    double energy = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        energy += sketch->buckets[b] * sketch->buckets[b];
    }
    return energy;
}

/* Adds a contribution to the expectation. Returns false if its sketch cannot be that of a
 * contribution with its norm. */
static bool add_part(struct expectation *expected, const struct sum_part *part, double share) {
    struct sketch sketch;
    expected->magnitude += share * part->norm;
    if (part->sketch == NULL) {
        expected->missing += share * part->norm;
        return true;
    }
    if (!sketch_read(part->sketch, &sketch)) {
        return false;
    }
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        expected->sketch.buckets[b] += share * sketch.buckets[b];
    }
    expected->sketch.variance += share * share * sketch.variance;
    return sketch_energy(&sketch) <= ENERGY_FACTOR * part->norm * part->norm;
}

/* Whether rounding, with this variance in each bucket, and the missing contributions, whose
 * norms add up to `missing`, explain the difference of two sketches. */
static bool is_explained(const struct sketch *found, const struct sketch *expected, double variance,
                         double missing) {
    double energy = 0, largest = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        double difference = found->buckets[b] - expected->buckets[b];
        energy += difference * difference;
        largest = fmax(largest, fabs(difference));
    }
    double allowed = sqrt(ENERGY_MAX * SKETCH_BUCKETS * variance) + sqrt(ENERGY_FACTOR) * missing;
    return energy <= allowed * allowed &&
           (missing > 0 || largest <= DEVIATIONS_MAX * sqrt(variance));
}

/* Whether the result of a slice can be the mean of the contributions in `parts`. */
bool sum_check_matches_parts(const struct replica *replica, uint32_t round, uint32_t slice,
                             const struct hash *seed, const struct sum_part *parts,
                             uint32_t count) {
    struct addend weights[SWARM_MEMBERS_MAX] = {{.weight = 0}};
    struct expectation expected = {.magnitude = 0};
    struct sketch found;
    ASSERT(count <= SWARM_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = (struct addend){.weight = parts[i].weight, .clip = parts[i].clip};
    }
    const uint64_t total = replica_total_weight(weights, count);
    for (uint32_t i = 0; i < count; i++) {
        double share = (double)replica_addend_share(&weights[i], total);
        if (share > 0 && !add_part(&expected, &parts[i], share)) {
            return false;
        }
    }
    sketch_slice(replica, slice, seed, replica_result(replica, round, slice), &found);
    const double rounding = 2 * count * FP32_ROUNDING * expected.magnitude;
    const double variance =
        found.variance + expected.sketch.variance + rounding * rounding / SKETCH_BUCKETS;
    return is_explained(&found, &expected.sketch, variance, expected.missing);
}

struct hash sum_check_recompute(const struct replica *replica, uint32_t slice,
                                const struct addend *addends, uint32_t count) {
    const struct slice_range range = slices_range(&replica->shape.slices, slice);
    uint8_t *bytes = (uint8_t *)replica_scratch(replica, 1);
    ASSERT(range.bytes <= (uint64_t)replica_chunk_elements_max(&replica->shape) * sizeof(float));
    replica_encode_mean(replica, slice, addends, count, bytes);
    return hash_of(bytes, range.bytes);
}

double sum_check_detection_probability(const struct slices *slices, uint32_t voters,
                                       uint32_t rounds) {
    const struct audit_swarm swarm = {
        .slices = slices->count, .voters = voters, .has_sketches = sum_check_has_sketches(slices)};
    return slices_are_sparse(slices)
               ? 1
               : audit_detection_probability(&swarm, audit_slices_per_owner(&swarm), rounds);
}
