/* limits: the limits of a swarm, each with the reason for its size. */
#ifndef SKEP_SWARM_LEDGER_LIMITS_H
#define SKEP_SWARM_LEDGER_LIMITS_H

enum {
    SWARM_PROTOCOL = 1,        /* raised when members of different versions cannot work together */
    SWARM_MEMBERS_MAX = 64,    /* a roster is one 64-bit word of seats */
    SWARM_SLICES_MAX = 16384,  /* 16 GiB encoded: 15 billion parameters in int8 */
    SWARM_SEAT_RANGES_MAX = 4, /* a round's new range, and those of three aborted rounds */
    SWARM_RETURNED_MAX = 512,  /* all ranges of all seats, of two aborted rounds in a row */
    ROLLBACK_STATES_MAX = 32,  /* committed states that a rollback can return to */
    REPLAY_ROUNDS_MAX = 7,     /* rounds that a returning member replays, and whose results members
                                   store: in int8 they are nearly as large as the state */
    SWARM_EPOCH_MAX = 65535,   /* of a slice in a round: a frame has two bytes for it */
    CONTRIBUTION_SLOTS_PER_MEMBER = 4, /* contributions of one member that an owner requested or has
                                   not summed: 4 MiB, a link of 500 Mbit/s at 60 ms */
    RESULT_REQUESTS_MAX = 8,    /* results requested from one member: twice as many, since an owner
                                   may sum while its uplink is idle */
    SWARM_REQUESTS_MAX = 1024,  /* open at once: every window of every member, with room */
    SWARM_IDENTITY_BYTES = 32,  /* an Ed25519 public key */
    SWARM_SIGNATURE_BYTES = 64, /* an Ed25519 signature */
};

_Static_assert(SWARM_REQUESTS_MAX >=
                   SWARM_MEMBERS_MAX * (CONTRIBUTION_SLOTS_PER_MEMBER + RESULT_REQUESTS_MAX),
               "all requests that the windows allow can be sent in one step");
_Static_assert(SWARM_RETURNED_MAX >= 2 * SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX,
               "the cursor has room for what two rounds without a commit return");

#endif
