/* limits: the fixed bounds of a swarm's tables, each with the reason for its size. */
#ifndef SKEP_SWARM_LIMITS_H
#define SKEP_SWARM_LIMITS_H

enum {
    SWARM_PROTOCOL = 1,         /* rises when members of unlike versions could not work together */
    SWARM_MEMBERS_MAX = 64,     /* a roster is one 64-bit word of seats */
    SWARM_SLICES_MAX = 16384,   /* 16 GiB encoded: 15 billion parameters in int8 */
    SWARM_SEAT_RANGES_MAX = 4,  /* a round's new range and the kept ones of three aborted rounds */
    SWARM_RETURNED_MAX = 512,   /* every seat's ranges twice: two bad rounds in a row */
    SWARM_EPOCH_MAX = 65535,    /* of a slice in a round: a frame has two bytes for it */
    SWARM_FETCHES_MAX = 256,    /* asked for at a heartbeat: 256 MiB a heartbeat at most */
    SWARM_IDENTITY_BYTES = 32,  /* an Ed25519 public key */
    SWARM_SIGNATURE_BYTES = 64, /* an Ed25519 signature */
};

_Static_assert(SWARM_RETURNED_MAX >= 2 * SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX,
               "the cursor must hold what two rounds without a commit return");

#endif
