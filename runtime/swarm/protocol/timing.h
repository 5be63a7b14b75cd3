/* timing: the times that the members of a swarm take, and the deadlines that follow from them. Both
 * state machines call these pure functions. */
#ifndef SKEP_SWARM_PROTOCOL_TIMING_H
#define SKEP_SWARM_PROTOCOL_TIMING_H

#include <stdint.h>

enum { TIMING_UNKNOWN = UINT32_MAX }; /* the upload rate was not measured */

/* Medians that a member measures itself, for status reports; 0: not measured yet. Of these, only
 * the round trip affects deadlines. */
struct timing_measured {
    uint32_t step_ms;       /* Time of one inner step. */
    uint32_t transfer_ms;   /* Time that the member spent on transfers in the last exchange. */
    uint32_t round_trip_ms; /* Round-trip time to the tracker. */
    /* Upload rate in KiB/s, or TIMING_UNKNOWN. 0: the member accepts no connections, so it owns
     * slices only if no other member can. */
    uint32_t upload_kib_s;
};

/* The amount of training in a round, and the factor by which deadlines exceed usual times. */
struct timing_training {
    uint32_t steps;  /* Number of inner steps in a round. */
    double patience; /* Factor by which a deadline exceeds the usual time, at least 1. */
};

/* The time that each part of a round usually takes: the lower median of the members' recent times,
 * as the tracker and the other members observed them. */
struct timing_times {
    uint32_t train_ms;        /* Time from OPEN until a full share of the samples is declared. */
    uint32_t contribution_ms; /* Time that owners wait for the contributions of a member. */
    uint32_t result_ms;       /* Time from the first TABLE until an owner has all its results. */
    uint32_t apply_ms;        /* Time from COMMIT until a member has applied it. */
    uint32_t round_trip_ms; /* Round trip between a member and the tracker, as members report it. */
};

/* The interval of heartbeats, and the deadlines of a round. */
struct swarm_timing {
    uint32_t heartbeat_ms;    /* Interval between two reports, and before a message is repeated. */
    uint32_t silence_ms;      /* Time without a message after which a member is silent. */
    uint32_t train_ms;        /* Time from OPEN until members stop training. */
    uint32_t exchange_ms;     /* Time for an owner to have its results, before it is replaced. */
    uint32_t round_ms;        /* Maximum age of a round, after which it is aborted. */
    uint32_t contribution_ms; /* Time after which an owner no longer waits for contributions. */
    uint32_t apply_ms;        /* Time after COMMIT for members to apply it before the next OPEN. */
};

/* timing_derive: each deadline is `patience` times the usual time of its part of the round and a
 * slack of one heartbeat and two round trips, within a minimum and a maximum:
 *   heartbeat     1 x round trip                     100 ms ..   2 s
 *   silence       4 x round trip + 4 x heartbeat     500 ms ..  10 s
 *   train         patience x train + slack           500 ms ..   6 h
 *   contribution  patience x contribution + slack   1000 ms ..   1 h
 *   exchange      patience x result + slack    contribution ..   1 h
 *   apply         patience x apply + slack     2 heartbeats ..   1 h
 *   round         train + 10 x (exchange + apply)
 * limits  1 <= patience <= 1e6 */
struct swarm_timing timing_derive(const struct timing_times *times, double patience);

/* timing_slack_ms: the slack that every deadline includes: a heartbeat and two round trips. */
uint32_t timing_slack_ms(const struct swarm_timing *timing, uint32_t round_trip_ms);

#endif
