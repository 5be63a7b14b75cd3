/* timing: the deadlines of a swarm, derived from the members' measurements by one table. */
#ifndef SKEP_SWARM_PROTOCOL_TIMING_H
#define SKEP_SWARM_PROTOCOL_TIMING_H

#include "runtime/swarm/ledger/limits.h"

#include <stdint.h>

/* An upload rate that is not measured yet: the median of the known ones is used. */
enum { TIMING_UNKNOWN = UINT32_MAX };

/* A member's own medians. 0: not measured yet. */
struct timing_measured {
    uint32_t step_ms;       /* one inner step */
    uint32_t transfer_ms;   /* its part of the last exchange */
    uint32_t round_trip_ms; /* to the tracker */
    uint32_t up_kib_s;      /* its upload rate, by which slices are dealt to owners. 0: it owns none
                               while any other member can; TIMING_UNKNOWN */
};

/* The training that a round allows time for. */
struct timing_training {
    uint32_t steps;  /* of a round */
    double patience; /* factor on the time of these steps */
};

struct swarm_timing {
    uint32_t heartbeat_ms; /* between two reports, and between two sends of the same message */
    uint32_t silence_ms;   /* a member is suspected after this time without a message */
    uint32_t train_ms;     /* from OPEN to the last declaration */
    uint32_t exchange_ms;  /* without any progress of an exchange */
    uint32_t round_ms;     /* an older round is aborted */
};

/* timing_derive: each deadline is the 0.9 quantile of the members' medians times a factor, within
 * a minimum and a maximum:
 *   heartbeat  1 x round trip            100 ms ..   2 s
 *   silence    4 x round trip + 4 x heartbeat    500 ms ..  10 s
 *   train      patience x step x steps   500 ms ..   6 h
 *   exchange   3 x transfer + 4 x round trip   1000 ms ..   1 h
 *   round      train + 10 x exchange
 * limits  0 < count <= SWARM_MEMBERS_MAX; 0 < patience <= 1e6 */
struct swarm_timing timing_derive(const struct timing_measured *members, uint32_t count,
                                  const struct timing_training *training);

/* timing_quantiles: the 0.9 quantiles of step, transfer and round trip, for reports; up_kib_s is
 * 0. */
struct timing_measured timing_quantiles(const struct timing_measured *members, uint32_t count);

#endif
