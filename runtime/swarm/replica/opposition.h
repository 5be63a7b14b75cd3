/* opposition: which members of a commit contributed the opposite of what the others did, as the
 * sketches of whole contributions show it (kernels/sketch.h).
 *
 *     c_i   contribution of member i           r_i   sum of those of the others, with their shares
 *     a_i   cosine of c_i and r_i, estimated from 64 numbers a slice
 *     m_i   lower median of a_j over the other voters j
 *
 * A member is opposed if all of this holds:
 *     m_i >= 0.4            the others agree although its contribution is part of what each of them
 *                           is compared with
 *     a_i <= -0.6           it points away from the others
 *     a_i <= -0.95 m_i      it opposes the others nearly as much as they agree
 *     a_i <= -4 sigma       the error of the estimate does not explain it
 *     <c_i, c_j> < 0        with more than half of the other voters
 *
 * Honest members whose data differ do oppose each other: when training has converged, the
 * contributions add up to zero, and each is the opposite of the sum of the others. Then all a_i are
 * negative, so no m_i reaches 0.4 and no member is opposed. Before training has converged, an
 * honest member whose data differ much can be opposed in single rounds (docs/BENCHMARKS.md). So a
 * member is suspended only after several of eight rounds (tracker_strikes.c), and an opposed
 * contribution is no proof of a lie. The last condition prevents a minority of the members from
 * making another member seem opposed. */
#ifndef SKEP_SWARM_REPLICA_OPPOSITION_H
#define SKEP_SWARM_REPLICA_OPPOSITION_H

#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stdint.h>

/* Minimum number of voters of a round in which a voter can be opposed. With fewer, the other voters
 * may be one honest member and one liar. */
enum { OPPOSITION_VOTERS_MIN = 4 };

/* What a voter knows of the contributions to a proposed commit. */
struct opposition_round {
    const struct entry *entry; /* the proposed commit, with its slices */
    /* For each seat, encoded sketches [entry->slice_count][SKETCH_BYTES]. Only those of slices
     * to which the seat contributed are read. */
    const uint8_t *const *sketches;
    uint64_t silent; /* seats whose sketches are missing */
};

/* The cosine of one contribution and the sum of the others, and the standard deviation of this
 * estimate. */
struct opposition_measure {
    double cosine, deviation; /* {0, 0}: not measured */
};

/* opposition_find: the seats of opposed members, in O(members x slices) and O(members x slices) for
 * each seat that seems opposed. Equal sketches give equal bits.
 * measures  [SWARM_MEMBERS_MAX], by seat; {0, 0} for seats without a weight or sketches; may be
 *           NULL
 * errors    none; a sketch that cannot be read leaves out its member in this slice */
uint64_t opposition_find(const struct opposition_round *round, struct opposition_measure *measures);

#endif
