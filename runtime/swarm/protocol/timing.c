/* timing: the deadlines of a swarm from the members' measurements. */
#include "runtime/swarm/protocol/protocol.h"

#include "base/check.h"
#include "base/statistics.h"

#include <math.h>
#include <stddef.h>

enum {
    HOUR_MS = 3600 * 1000,        /* one hour in milliseconds */
    MEDIAN_MAX_MS = 24 * HOUR_MS, /* longer medians are cut to this, so that no product overflows */
};

/* The ceil(0.9 * count)-th smallest value of the field at `offset`. */
static uint32_t quantile(const struct timing_measured *members, uint32_t count, size_t offset) {
    int64_t values[SWARM_MEMBERS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        values[i] = *(const uint32_t *)((const char *)&members[i] + offset);
    }
    int64_t value = sorted_value_i64(values, (int)count, (int)((9 * count + 9) / 10 - 1));
    return value < MEDIAN_MAX_MS ? (uint32_t)value : MEDIAN_MAX_MS;
}

static uint32_t clamp_ms(uint64_t value, uint32_t floor_ms, uint32_t ceiling_ms) {
    return value < floor_ms ? floor_ms : value > ceiling_ms ? ceiling_ms : (uint32_t)value;
}

struct timing_measured timing_quantiles(const struct timing_measured *members, uint32_t count) {
    ASSERT(count > 0 && count <= SWARM_MEMBERS_MAX);
    return (struct timing_measured){
        .step_ms = quantile(members, count, offsetof(struct timing_measured, step_ms)),
        .transfer_ms = quantile(members, count, offsetof(struct timing_measured, transfer_ms)),
        .round_trip_ms = quantile(members, count, offsetof(struct timing_measured, round_trip_ms)),
    };
}

struct swarm_timing timing_derive(const struct timing_measured *members, uint32_t count,
                                  const struct timing_training *training) {
    ASSERT(training->patience > 0 && training->patience <= 1e6);
    const struct timing_measured slow = timing_quantiles(members, count);
    const uint64_t step = slow.step_ms;
    const uint64_t transfer = slow.transfer_ms;
    const uint64_t trip = slow.round_trip_ms;
    const double train = training->patience * (double)step * training->steps;
    struct swarm_timing timing;
    timing.heartbeat_ms = clamp_ms(trip, 100, 2000);
    timing.silence_ms = clamp_ms(4 * trip + 4 * (uint64_t)timing.heartbeat_ms, 500, 10000);
    timing.train_ms = clamp_ms((uint64_t)fmin(train, 6 * HOUR_MS), 500, 6 * HOUR_MS);
    timing.exchange_ms = clamp_ms(3 * transfer + 4 * trip, 1000, HOUR_MS);
    timing.round_ms = timing.train_ms + 10 * timing.exchange_ms;
    ASSERT(timing.heartbeat_ms < timing.silence_ms && timing.train_ms < timing.round_ms);
    return timing;
}
