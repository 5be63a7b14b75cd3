/* audit: which slices voters audit although their sketches match, and the probability that this
 * finds a false result.
 *
 * Sketches show that a result is the sum of the contributions that its contributors declare. They
 * do not show that an owner's own contribution was declared honestly, and for int4 they would not
 * be exact enough. So in one of AUDIT_ROUNDS proposals each voter draws at most one slice, with a
 * secret of its own, so that neither the tracker nor an owner can predict which one.
 *
 *     codec with sketches   the owner's contribution is fetched, and compared with its sketches
 *     int4                  all contributions are fetched, and the sum is computed again
 *
 * The fetched bytes of all voters are within AUDIT_BYTES_MAX of the bytes of the exchange. */
#ifndef SKEP_SWARM_PROTOCOL_AUDIT_H
#define SKEP_SWARM_PROTOCOL_AUDIT_H

#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AUDIT_ROUNDS = 8,     /* on average, one proposal in this many is audited */
    AUDIT_VOTERS_MIN = 5, /* no audits with fewer voters, where one slow voter delays commits */
};

/* Maximum bytes of audits over many rounds, as a fraction of the bytes of exchanges. */
#define AUDIT_BYTES_MAX_SKETCHED 0.0025
#define AUDIT_BYTES_MAX_INT4     0.01

/* What a voter's draw of a slice depends on. */
struct audit_draw {
    struct hash secret;        /* random bytes that only this voter has */
    struct hash seed;          /* seed of the proposal's sketches */
    const struct entry *entry; /* the proposed entry */
    int seat;                  /* seat of the voter */
    bool has_own;              /* the voter has its own contribution, and need not fetch it */
    bool has_sketches;         /* the codec has sketches; false: int4 */
};

/* audit_draw_slice: draw the slice that a voter audits. Another member owns it, and except with
 * int4, the owner contributes to it. Returns false if the voter audits no slice, which is more
 * likely the more bytes the audit of the drawn slice needs. Equal draws have equal results.
 * audit_needed_seats: the seats whose contributions the voter must fetch to audit a slice. */
bool audit_draw_slice(const struct audit_draw *draw, uint32_t *slice);
uint64_t audit_needed_seats(const struct audit_draw *draw, uint32_t slice);

/* A swarm in which each member owns the same number of slices, and one owner lies. */
struct audit_swarm {
    uint32_t slices;   /* number of slices of the model */
    uint32_t voters;   /* number of voters, all of which contribute; there are no guests */
    bool has_sketches; /* false: int4 */
};

/* audit_detection_probability: the probability that at least one honest voter audits a false result
 * within `rounds` rounds, if one owner has `lies` false results in each of them. An audit counts
 * only if the vote arrives while the tracker waits for it.
 * limits  lies <= slices / voters, rounded up */
double audit_detection_probability(const struct audit_swarm *swarm, uint32_t lies, uint32_t rounds);

/* audit_slices_per_owner: the number of slices of each owner if all own equally many, rounded down,
 * but at least 1. */
uint32_t audit_slices_per_owner(const struct audit_swarm *swarm);

#endif
