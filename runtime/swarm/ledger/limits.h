/* limits: the fixed bounds of a swarm's tables, each with the reason for its size. */
#ifndef SKEP_SWARM_LEDGER_LIMITS_H
#define SKEP_SWARM_LEDGER_LIMITS_H

enum {
    SWARM_PROTOCOL = 1,        /* rises when members of unlike versions could not work together */
    SWARM_MEMBERS_MAX = 64,    /* a roster is one 64-bit word of seats */
    SWARM_SLICES_MAX = 16384,  /* 16 GiB encoded: 15 billion parameters in int8 */
    SWARM_SEAT_RANGES_MAX = 4, /* a round's new range and the kept ones of three aborted rounds */
    SWARM_RETURNED_MAX = 512,  /* every seat's ranges twice: two bad rounds in a row */
    ROLLBACK_STATES_MAX = 32,  /* committed states that a rollback can go back to */
    REPLAY_ROUNDS_MAX = 7,     /* rounds that a returner replays, and whose results members keep on
                                   disk: in int8 they are nearly as much as the state */
    SWARM_EPOCH_MAX = 65535,   /* of a slice in a round: a frame has two bytes for it */
    CONTRIBUTION_SLOTS_PER_MEMBER =
        4,                      /* contributions of one member that an owner has asked for or holds
                                   and has not summed: 4 MiB, a link of 500 Mbit/s at 60 ms */
    RESULT_REQUESTS_MAX = 8,    /* results asked of one member and not come: twice that, for an
                                   owner may sum while its line is idle */
    SWARM_REQUESTS_MAX = 1024,  /* made at once: every window of every member, with room */
    SWARM_IDENTITY_BYTES = 32,  /* an Ed25519 public key */
    SWARM_SIGNATURE_BYTES = 64, /* an Ed25519 signature */
};

_Static_assert(SWARM_REQUESTS_MAX >=
                   SWARM_MEMBERS_MAX * (CONTRIBUTION_SLOTS_PER_MEMBER + RESULT_REQUESTS_MAX),
               "all that the windows allow can be asked for in one step");
_Static_assert(SWARM_RETURNED_MAX >= 2 * SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX,
               "the cursor must hold what two rounds without a commit return");

#endif
