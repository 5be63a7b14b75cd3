/* leases: the promises that keep two copies of a tracker from continuing the same swarm. They are
 * the leases and resignations of members, and the operator's order to continue without leases
 * (docs/decisions/0023-leases-against-forks.md).
 *
 *     ledger    ... COMMIT ---------- OPEN ---------------- COMMIT
 *               = state entry         seats of more than    votes of more than
 *               its roster: the       half of the           half of the
 *               electors              electors              electors
 *
 * With its vote for a commit, a member gives a lease on the state entry to the tracker start that
 * proposed the commit. Until the next state entry, the member votes for no other commit that a copy
 * of that tracker proposes. So two copies cannot both have the votes of more than half of the
 * electors.
 *
 * The room owns the content of these promises, the signatures of resignations and orders, the rules
 * by which a member votes, and the file in which it remembers its last promise. It knows no entries
 * and no messages: runtime/swarm/ledger checks resignations and orders in entries, and
 * runtime/swarm/member_machine gives leases.
 *
 * public   continue_file.h lease_file.h */
#ifndef SKEP_SWARM_LEASES_LEASES_H
#define SKEP_SWARM_LEASES_LEASES_H

#include "base/check.h"
#include "base/hash.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

/* Maximum number of members that an order can name, which is the number of seats of a roster. */
enum { ORDER_MEMBERS_MAX = 64 };

/* Identifies one start of a tracker process. The number has the place of the tracker's store in its
 * upper 32 bits and a random number in the others, so two copies of a tracker have different
 * numbers, even if both count the same incarnation. Starts in the same place use one store, in
 * which each start disables the earlier ones: they cannot write an entry any more. */
struct tracker_start {
    uint32_t incarnation; /* number of starts, counted durably by the tracker */
    /* 1 .. 2^63 - 1: place of the tracker's store, and a random number; 0: no start */
    uint64_t number;
};

/* The promise of a member about a state entry: its lease or its resignation. All zero: no
 * promise. */
struct lease {
    struct hash state;   /* hash of the state entry, or of an OPEN that the operator ordered */
    uint32_t round;      /* round of `vote`, or of the state entry from which the member resigned */
    bool is_resignation; /* the member resigned as an elector; `start` and `vote` are zero */
    /* The only start whose proposals the member votes for; number 0: it votes only for the
     * commit `vote`. */
    struct tracker_start start;
    struct hash vote; /* hash of the commit that the member voted for last */
};

/* The operator's order to continue after a state entry with the listed members, without leases. It
 * is valid for one start of the tracker. */
struct continue_order {
    uint32_t count; /* number of members; 0: no order */
    /* [count]: signing keys of the members, ascending */
    uint8_t members[ORDER_MEMBERS_MAX][KEY_BYTES];
    uint8_t signature[SIGNATURE_BYTES]; /* signature of the operator */
};

/* tracker_start_equal: whether `a` and `b` are the same start.
 * tracker_start_replaces: whether `a` is a later start than `b` in the same place.
 * tracker_start_number: the number of a start in `place`, which is 1 .. 2^31 - 1. `drawn` is a
 * random number. */
bool tracker_start_equal(const struct tracker_start *a, const struct tracker_start *b);
bool tracker_start_replaces(const struct tracker_start *a, const struct tracker_start *b);
uint64_t tracker_start_number(uint32_t place, uint32_t drawn);

/* lease_allows_vote: whether a member with the lease `held` may vote for the commit with the hash
 * `vote`, which the tracker start `start` proposed after the state entry `state`. A start that
 * replaces the start with the lease has the lease too.
 * lease_after_vote: the lease that a member gives with `vote`. If the member already voted for the
 * same commit of a start in another place, the new lease allows no other commit, because either
 * start may commit this one.
 * lease_release: clear the lease `held` if the member gave it with a vote in the round `round`, to
 * `start` or to a start that `start` replaces. Called after `start` has aborted that round: no
 * start that had the lease can then commit the proposal that the member voted for.
 * lease_allows_resignation: whether a member with the lease `held` may resign from the state entry
 * `state`, because the member has not voted for a commit after that entry.
 * limits  start->number is not 0 */
MUST_CHECK bool lease_allows_vote(const struct lease *held, const struct hash *state,
                                  const struct tracker_start *start, const struct hash *vote);
struct lease lease_after_vote(const struct lease *held, const struct lease *vote);
void lease_release(struct lease *held, uint32_t round, const struct tracker_start *start);
MUST_CHECK bool lease_allows_resignation(const struct lease *held, const struct hash *state);

/* resignation_sign: sign that this member takes no part in the choice of what follows the state
 * entry `state`.
 * resignation_is_signed: whether the member with the key `sign_key` signed this resignation.
 * swarm   hash of the manifest */
void resignation_sign(const struct key_pairs *keys, const struct hash *swarm,
                      const struct hash *state, uint8_t signature[static SIGNATURE_BYTES]);
MUST_CHECK bool resignation_is_signed(const uint8_t sign_key[static KEY_BYTES],
                                      const struct hash *swarm, const struct hash *state,
                                      const uint8_t signature[static SIGNATURE_BYTES]);

/* continue_order_sign: sign the order, with the operator's keys.
 * continue_order_is_signed: whether the operator signed it for this state entry and this start.
 * limits  continue_order_error(order) is NULL */
void continue_order_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                         const struct hash *state, const struct tracker_start *start,
                         struct continue_order *order);
MUST_CHECK bool continue_order_is_signed(const uint8_t operator_key[static KEY_BYTES],
                                         const struct hash *swarm, const struct hash *state,
                                         const struct tracker_start *start,
                                         const struct continue_order *order);

/* continue_order_error: the first error in the fields of an order with members, or NULL.
 * continue_order_has_member: whether the order names this member. */
MUST_CHECK const char *continue_order_error(const struct continue_order *order);
bool continue_order_has_member(const struct continue_order *order,
                               const uint8_t key[static KEY_BYTES]);

#endif
