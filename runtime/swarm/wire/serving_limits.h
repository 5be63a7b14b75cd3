/* serving_limits: how much a tracker and a member send on request. All figures are in this file.
 *
 *     tracker   strangers     bytes of all of them together
 *               listed        bytes of all connections with a proof of a known identity, together
 *               connection    queries and pings of one connection
 *               identity      new starts of one identity; ledger entries of one member
 *               guests        new identities that an open swarm admits without a name
 *     member    peer          contributions, results and leaves of one peer
 *
 * A stranger is a process whose key is neither on the allow-list nor a member's. A limit on bytes
 * allows or denies an answer without regard to its length. The length is then charged, so a long
 * answer is followed by a pause. */
#ifndef SKEP_SWARM_WIRE_SERVING_LIMITS_H
#define SKEP_SWARM_WIRE_SERVING_LIMITS_H

#include "base/token_bucket.h"

#include <stdint.h>

/* Strangers: 1 Mbit/s is 1/20 of the uplink of a tracker at home (20 Mbit/s), and is enough for
 * six manifests of 20 KB a second. The burst is enough for the queries of a dozen strangers at
 * once. */
static const struct token_limit SERVE_STRANGERS_BYTES = {.rate = 125e3, .burst = 256e3};

/* Processes on the allow-list: an operator that reads the ledger, and members that fetch the
 * manifest before they join. 8 Mbit/s leaves most of a home uplink to the members. */
static const struct token_limit SERVE_LISTED_BYTES = {.rate = 1e6, .burst = 8e6};

/* One connection: its introductions and its queries for the manifest and the status. Clients
 * repeat an unanswered query each second. */
static const struct token_limit SERVE_QUERIES = {.rate = 1, .burst = 4};

/* One connection of a stranger or client: its pings. A joiner measures the round trip with
 * seven. */
static const struct token_limit SERVE_PINGS = {.rate = 20, .burst = 64};

/* One identity: its starts. Each start creates a member session, which the tracker syncs to its
 * disk. */
static const struct token_limit SERVE_STARTS = {.rate = 1, .burst = 4};

/* Guests of an open swarm: an attacker makes new identities for free, and each can delay one
 * round and add one SUSPEND entry to the ledger. The burst fills the largest swarm at once;
 * after it, 32 new guests are admitted an hour. */
static const struct token_limit SERVE_NEW_GUESTS = {.rate = 32. / 3600, .burst = 64};

enum {
    /* Times a day that one member may fetch the whole ledger. A member needs each entry once, and
     * again if it lost its disk. */
    SERVE_LEDGER_TIMES_A_DAY = 2,
    /* entries added to the limit of a member, for short ledgers */
    SERVE_LEDGER_ENTRIES_EXTRA = 1024,
    /* Times a round that one peer may fetch all contributions and results. A peer needs each of
     * them once, and again after a connection broke while the bytes were in transit. */
    SERVE_SLICES_TIMES_A_ROUND = 2,
    SERVE_SLICES_EXTRA = 16, /* slices added to a peer's limit, for swarms with few slices */
    /* rounds whose results a peer may need: the current one and seven missed ones */
    SERVE_RESULT_ROUNDS = 8,
    /* Number of whole states that one peer may fetch at once. A peer needs the state about once a
     * day, after it missed too many rounds. */
    SERVE_STATES_BURST = 2,
    /* Bytes added to the burst of states, so that a member of a small swarm can restart often. */
    SERVE_STATE_BYTES_EXTRA = 64 << 20,
    SERVE_LEAVES_RATE_MIN = 128 << 10, /* lowest rate of leaves for a peer in bytes a second */
};

static const double SERVE_DAY_S = 86400;

#endif
