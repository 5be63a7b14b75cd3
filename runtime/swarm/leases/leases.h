/* leases: the signed statements that keep two copies of a tracker from continuing the same swarm:
 * leases and resignations of members, and the operator's order to continue without them
 * (docs/decisions/0023-leases-against-forks.md).
 *
 *     ledger    ... COMMIT ---------- OPEN -------------- COMMIT
 *               = state entry         leases of more      votes of more
 *               its roster: the       than half of        than half of
 *               electors              the electors        the electors
 *
 * A lease says which start of the tracker may open the rounds that follow a state entry. Each
 * elector gives one, so two starts cannot both have more than half of them.
 *
 * The room owns the content and the signatures of these statements, the rules by which a member
 * gives a lease, and the file in which it remembers the last one. It knows no entries and no
 * messages: runtime/swarm/ledger checks them in entries, runtime/swarm/member_machine gives leases,
 * and runtime/swarm/tracker_machine collects them.
 *
 * public   lease_file.h */
#ifndef SKEP_SWARM_LEASES_LEASES_H
#define SKEP_SWARM_LEASES_LEASES_H

#include "base/check.h"
#include "base/hash.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum { ORDER_MEMBERS_MAX = 64 }; /* members that an order can name: the seats of a roster */

/* Identifies one start of a tracker process. Two copies of a tracker have different numbers, even
 * if both count the same incarnation. */
struct tracker_start {
    uint32_t incarnation; /* counted durably by the tracker */
    uint64_t number;      /* random, 1 .. 2^63 - 1; 0: no start */
};

/* What a member has signed about a state entry. */
struct lease {
    struct hash state;          /* hash of the state entry */
    uint32_t round;             /* round of that entry; not signed, because the hash covers it */
    bool is_resignation;        /* it has no part in the choice of what follows; start is zero */
    struct tracker_start start; /* the start that may open the rounds after the entry */
};

/* The operator's order to continue after a state entry with these members, without leases. It is
 * valid for one start of the tracker. */
struct continue_order {
    uint32_t count;                                /* 0: no order */
    uint8_t members[ORDER_MEMBERS_MAX][KEY_BYTES]; /* signing keys, ascending */
    uint8_t signature[SIGNATURE_BYTES];            /* of the operator */
};

/* tracker_start_equal: whether both name the same start. */
bool tracker_start_equal(const struct tracker_start *a, const struct tracker_start *b);

/* lease_sign: sign a lease or a resignation, with the keys of a member.
 * lease_is_signed: whether the member with this key signed it.
 * swarm   hash of the manifest */
void lease_sign(const struct key_pairs *keys, const struct hash *swarm, const struct lease *lease,
                uint8_t signature[static SIGNATURE_BYTES]);
MUST_CHECK bool lease_is_signed(const uint8_t sign_key[static KEY_BYTES], const struct hash *swarm,
                                const struct lease *lease,
                                const uint8_t signature[static SIGNATURE_BYTES]);

/* How a member answers a request. */
enum lease_answer {
    LEASE_REPEAT, /* with the lease or resignation that it has */
    LEASE_WRITE,  /* with the requested one, once that is durable */
    LEASE_FORK,   /* as REPEAT; the request is that of a copy of the tracker */
    LEASE_IGNORE, /* not at all: the request is outdated, or cannot be met */
};

/* lease_answer: the rules of a member. It has one lease for a state entry. The lease moves only to
 * a higher incarnation, and a resignation is given only instead of a lease, both only while the
 * member has stored no results of a later round than that of the state entry: it stores them before
 * it votes. A resignation never moves.
 * held          the last lease that is durable; start.number 0 and no resignation: none
 * asked         the requested one. Its state entry is held->state or a later one of the member's
 *               ledger, which the caller checks
 * stored_round  newest round whose results the member has stored; 0: none */
enum lease_answer lease_answer(const struct lease *held, const struct lease *asked,
                               uint32_t stored_round);

/* lease_is_held: whether `held` is a lease for this state entry and this start. */
bool lease_is_held(const struct lease *held, const struct hash *state,
                   const struct tracker_start *start);

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
 * continue_order_has: whether the order names this member. */
MUST_CHECK const char *continue_order_error(const struct continue_order *order);
bool continue_order_has(const struct continue_order *order, const uint8_t key[static KEY_BYTES]);

#endif
