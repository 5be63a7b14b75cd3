/* serving_budget: how many bytes this member sends to each peer on request, within the limits in
 * serving_limits.h. A peer that has used up its budget gets nothing until the next round, or, for
 * leaves, until enough time has passed. A budget belongs to an identity, so reconnecting does not
 * renew it. */
#ifndef SKEP_SWARM_MEMBER_SERVING_BUDGET_H
#define SKEP_SWARM_MEMBER_SERVING_BUDGET_H

#include "base/token_bucket.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdbool.h>
#include <stdint.h>

/* Kinds of bytes, each with a budget of its own. */
enum served_kind { SERVED_CONTRIBUTIONS, SERVED_RESULTS, SERVED_LEAVES };

/* Sizes from which the budgets are computed. */
struct serving_sizes {
    uint64_t round_bytes; /* encoded size of all slices */
    uint64_t slice_bytes; /* encoded size of the longest slice */
    uint64_t state_bytes; /* size of the outer state */
};

/* What this member has sent to one peer. */
struct peer_usage {
    struct identity id;                  /* the peer's identity */
    uint32_t round;                      /* round in which this row was last updated */
    uint64_t charged_contribution_bytes; /* bytes of contributions sent to the peer in that round */
    /* bytes of results sent to the peer, minus what later rounds allowed */
    uint64_t charged_result_bytes;
    struct token_bucket leaves; /* bytes of leaves that the peer may still get */
};

struct serving_budget {
    struct serving_sizes sizes; /* sizes from which the budgets are computed */
    uint32_t round;             /* round of the newest OPEN */
    /* what was sent to each peer, by row of struct peers */
    struct peer_usage usages[SWARM_MEMBERS_MAX];
};

/* A peer that requests bytes: its row in struct peers, and the identity that the row has now. */
struct served_peer {
    uint32_t row;       /* row in struct peers */
    struct identity id; /* public key of the peer */
};

void serving_budget_init(struct serving_budget *budget, const struct serving_sizes *sizes);

/* serving_budget_on_round_open: renew the budgets, because a round has opened. */
void serving_budget_on_round_open(struct serving_budget *budget, uint32_t round);

/* serving_budget_has_bytes_left: whether a peer may be sent more bytes of this kind.
 * serving_budget_charge: charge bytes that were sent to a peer.
 * limits  now_ms never decreases */
MUST_CHECK bool serving_budget_has_bytes_left(struct serving_budget *budget,
                                              const struct served_peer *peer, enum served_kind kind,
                                              int64_t now_ms);
void serving_budget_charge(struct serving_budget *budget, const struct served_peer *peer,
                           enum served_kind kind, uint64_t bytes, int64_t now_ms);

#endif
