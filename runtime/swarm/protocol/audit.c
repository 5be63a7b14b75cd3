#include "runtime/swarm/protocol/audit.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

static const double TWO_64 = 18446744073709551616.0;

/* Two independent random numbers, from which a voter's audit follows. */
struct drawn_numbers {
    uint64_t slice;  /* random number that decides which slice is drawn */
    uint64_t chance; /* random number that decides whether the drawn slice is audited */
};

static struct drawn_numbers draw_numbers(const struct audit_draw *draw) {
    static const char DOMAIN[] = "skep audit";
    struct hash_state state;
    struct drawn_numbers drawn;
    hash_begin(&state);
    hash_add(&state, DOMAIN, sizeof DOMAIN);
    hash_add(&state, draw->secret.bytes, HASH_BYTES);
    hash_add(&state, draw->seed.bytes, HASH_BYTES);
    const struct hash hash = hash_end(&state);
    _Static_assert(sizeof drawn <= HASH_BYTES, "the drawn bytes fit in a hash");
    memcpy(&drawn, hash.bytes, sizeof drawn);
    return drawn;
}

/* Returns the probability with which a voter of an audited proposal audits the slice that it drew,
 * if the audit fetches `fetched` contributions. With this probability the fetched bytes are, on
 * average, AUDIT_BYTES_MAX of the bytes that the voter receives in the exchange. */
static double audit_chance(double slices, double seats, bool has_sketches, double fetched) {
    const double share = 2 * slices * (seats - 1) / seats;
    const double budget = has_sketches ? AUDIT_BYTES_MAX_SKETCHED : AUDIT_BYTES_MAX_INT4;
    const double chance = AUDIT_ROUNDS * budget * share / fetched;
    return chance < 1 ? chance : 1;
}

static bool is_auditable(const struct audit_draw *draw, uint32_t slice) {
    const struct entry_slice *line = &draw->entry->slices[slice];
    ASSERT(line->owner < draw->entry->seat_count);
    const bool has_owner_values = (line->contributors >> line->owner & 1) != 0 &&
                                  draw->entry->members[line->owner].weight > 0;
    return (int)line->owner != draw->seat && (!draw->has_sketches || has_owner_values);
}

uint64_t audit_needed_seats(const struct audit_draw *draw, uint32_t slice) {
    const struct entry_slice *line = &draw->entry->slices[slice];
    ASSERT(slice < draw->entry->slice_count && draw->seat < SWARM_MEMBERS_MAX);
    const uint64_t own = draw->seat >= 0 && draw->has_own ? UINT64_C(1) << draw->seat : 0;
    return draw->has_sketches ? UINT64_C(1) << line->owner : line->contributors & ~own;
}

bool audit_draw_slice(const struct audit_draw *draw, uint32_t *slice) {
    const struct entry *entry = draw->entry;
    const struct drawn_numbers drawn = draw_numbers(draw);
    uint32_t count = 0, at = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        count += is_auditable(draw, s);
    }
    if (count == 0) {
        return false;
    }
    uint32_t skip = (uint32_t)(drawn.slice % count);
    for (; !is_auditable(draw, at) || skip > 0; at++) {
        skip -= is_auditable(draw, at);
    }
    ASSERT(at < entry->slice_count);
    const double fetched = __builtin_popcountll(audit_needed_seats(draw, at));
    const double chance =
        audit_chance(entry->slice_count, entry->seat_count, draw->has_sketches, fmax(fetched, 1));
    *slice = at;
    return (double)drawn.chance < chance * TWO_64;
}

double audit_detection_probability(const struct audit_swarm *swarm, uint32_t lies,
                                   uint32_t rounds) {
    const double slices = swarm->slices, voters = swarm->voters;
    if (swarm->voters < AUDIT_VOTERS_MIN || lies == 0) {
        return 0;
    }
    const double fetched = swarm->has_sketches ? 1 : voters - 1;
    const double chance = audit_chance(slices, voters, swarm->has_sketches, fetched);
    /* number of slices that a voter may draw, which are the slices of other owners */
    const double others = slices - slices / voters;
    const double hit = fmin(chance * lies / others, 1);
    const double found = 1 - pow(1 - hit, voters - 1);
    return 1 - pow(1 - found / AUDIT_ROUNDS, rounds);
}

uint32_t audit_slices_per_owner(const struct audit_swarm *swarm) {
    ASSERT(swarm->voters > 0);
    return swarm->slices < swarm->voters ? 1 : swarm->slices / swarm->voters;
}
