/* serving_limits: how much a tracker and a member send on request. All figures are in this file.
 *
 *     tracker   strangers     bytes of all of them together
 *               listed        bytes of all connections with a proof of a known identity, together
 *               connection    queries and pings of one connection
 *               identity      new starts of one identity; ledger entries of one member
 *               guests        new identities that an open swarm admits without a name
 *     member    peer          contributions, results and leaves of one peer
 *
 * A stranger is a process whose key is neither on the allow-list nor a member's. Limits on bytes
 * are checked before an answer, whatever its length, and charged with its length, so a long answer
 * is followed by a pause. */
#ifndef SKEP_SWARM_WIRE_SERVING_LIMITS_H
#define SKEP_SWARM_WIRE_SERVING_LIMITS_H

#include "base/token_bucket.h"

#include <stdint.h>

/* Strangers: 1 Mbit/s is 1/20 of a tracker's uplink at home (20 Mbit/s) and sends six manifests of
 * 20 KB a second. The burst answers the queries of a dozen strangers at once. */
static const struct token_limit SERVE_STRANGERS_BYTES = {.rate = 125e3, .burst = 256e3};

/* Listed: an operator who reads the ledger, and members that fetch the manifest before they join.
 * 8 Mbit/s leaves most of a home's uplink to the members. */
static const struct token_limit SERVE_LISTED_BYTES = {.rate = 1e6, .burst = 8e6};

/* A connection: introductions and queries for the manifest and the status. Clients repeat an
 * unanswered query each second. */
static const struct token_limit SERVE_QUERIES = {.rate = 1, .burst = 4};

/* A connection of a stranger or client: a joiner measures the round trip with seven pings. */
static const struct token_limit SERVE_PINGS = {.rate = 20, .burst = 64};

/* An identity: each start of a member causes a session, which the tracker syncs to its disk. */
static const struct token_limit SERVE_STARTS = {.rate = 1, .burst = 4};

/* Guests of an open swarm: a new identity costs nothing to make, and the swarm one close and one
 * SUSPEND entry. The burst fills the largest swarm at once; then 32 an hour, 768 a day. */
static const struct token_limit SERVE_NEW_GUESTS = {.rate = 32. / 3600, .burst = 64};

enum {
    /* A member: it needs each ledger entry once, and again after it has lost its disk. */
    SERVE_LEDGER_TIMES_A_DAY = 2,
    SERVE_LEDGER_ENTRIES_MIN = 1024, /* entries in addition, for short ledgers */
    /* A peer: it needs each contribution and each result once a round, and again when a connection
     * was lost with the bytes that were in transit. */
    SERVE_SLICES_TIMES_A_ROUND = 2,
    SERVE_LOST_SLICES = 16,  /* slices in addition, for swarms of few slices */
    SERVE_RESULT_ROUNDS = 8, /* the round's results, and those of seven missed rounds */
    /* A peer: it needs the state once a day, when it has missed too many rounds. The bytes in
     * addition let a member of a small swarm restart as often as it likes. */
    SERVE_STATES_BURST = 2,
    SERVE_STATE_BYTES_MIN = 64 << 20,
    SERVE_LEAVES_RATE_MIN = 128 << 10, /* bytes a second: 1 Mbit/s, as for all strangers */
};

static const double SERVE_DAY_S = 86400;

#endif
