#include "runtime/swarm/protocol/timing.h"

#include "base/check.h"

#include <math.h>

enum {
    HOUR_MS = 3600 * 1000,      /* milliseconds in an hour */
    TIME_MAX_MS = 24 * HOUR_MS, /* measured times are clamped to this, so no product overflows */
    /* a round is aborted after train_ms and this many times exchange_ms + apply_ms */
    EXCHANGES_PER_ROUND = 10,
};

static uint32_t clamp_ms(uint64_t value, uint32_t floor_ms, uint32_t ceiling_ms) {
    return value < floor_ms ? floor_ms : value > ceiling_ms ? ceiling_ms : (uint32_t)value;
}

/* Returns the deadline of a part of a round that usually takes time_ms, counted from the start of
 * the part. */
static uint64_t part_limit_ms(uint32_t time_ms, double patience, uint32_t slack_ms) {
    uint32_t usual_ms = time_ms < TIME_MAX_MS ? time_ms : TIME_MAX_MS;
    return (uint64_t)fmin(patience * usual_ms, TIME_MAX_MS) + slack_ms;
}

uint32_t timing_slack_ms(const struct swarm_timing *timing, uint32_t round_trip_ms) {
    return timing->heartbeat_ms + 2 * clamp_ms(round_trip_ms, 0, HOUR_MS);
}

struct swarm_timing timing_derive(const struct timing_times *times, double patience) {
    ASSERT(patience >= 1 && patience <= 1e6);
    const uint64_t trip = clamp_ms(times->round_trip_ms, 0, HOUR_MS);
    struct swarm_timing timing = {0};
    timing.heartbeat_ms = clamp_ms(trip, 100, 2000);
    timing.silence_ms = clamp_ms(4 * trip + 4 * (uint64_t)timing.heartbeat_ms, 500, 10000);
    const uint32_t slack_ms = timing_slack_ms(&timing, times->round_trip_ms);
    timing.train_ms =
        clamp_ms(part_limit_ms(times->train_ms, patience, slack_ms), 500, 6 * HOUR_MS);
    timing.contribution_ms =
        clamp_ms(part_limit_ms(times->contribution_ms, patience, slack_ms), 1000, HOUR_MS);
    timing.exchange_ms = clamp_ms(part_limit_ms(times->result_ms, patience, slack_ms),
                                  timing.contribution_ms, HOUR_MS);
    timing.apply_ms = clamp_ms(part_limit_ms(times->apply_ms, patience, slack_ms),
                               2 * timing.heartbeat_ms, HOUR_MS);
    timing.round_ms =
        timing.train_ms + EXCHANGES_PER_ROUND * (timing.exchange_ms + timing.apply_ms);
    ASSERT(timing.heartbeat_ms < timing.silence_ms && timing.train_ms < timing.round_ms);
    return timing;
}
