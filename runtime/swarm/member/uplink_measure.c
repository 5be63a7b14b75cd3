#include "runtime/swarm/member/uplink.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "runtime/swarm/wire/wire.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum {
    KIB = 1024, /* bytes in a KiB */
    /* length of the short window, in which the messenger's counters are read several times */
    SHORT_WINDOW_MS = 300,
    /* a shorter transfer may have no second in which the uplink was full */
    LONG_TRANSFER_MIN_S = 2,
    FULL_UPLINK_PERCENT = 80, /* from this percentage of the best rate, the uplink counts as full */
    PING_TIMEOUT_MS = 2000,   /* time until an unanswered ping is replaced */
};

static void add_value(struct recent_values *recent, int64_t value) {
    recent->values[recent->count++ % UPLINK_RECENT_VALUES] = value;
}

static int stored_value_count(const struct recent_values *recent) {
    return (int)min_u64(recent->count, UPLINK_RECENT_VALUES);
}

/* Returns the median; 0 without values. */
static int64_t median_of_recent(const struct recent_values *recent) {
    int count = stored_value_count(recent);
    return count > 0 ? median_i64(recent->values, count) : 0;
}

static int64_t upper_quartile_of_recent(const struct recent_values *recent) {
    int count = stored_value_count(recent);
    return count > 0 ? sorted_value_i64(recent->values, count, count - 1 - count / 4) : 0;
}

static int64_t largest_of_recent(const struct recent_values *recent) {
    int count = stored_value_count(recent);
    return count > 0 ? sorted_value_i64(recent->values, count, count - 1) : 0;
}

static uint32_t rounded_up_ms(int64_t ns) {
    return (uint32_t)min_i64(div_ceil(ns, NS_PER_MS), UINT32_MAX);
}

/* Only one ping is unanswered at a time: after a stall, the answers to many pings would all be
 * late. */
void uplink_measurements_send_ping(struct uplink_measurements *measures,
                                   struct messenger *messenger,
                                   const uint8_t tracker_curve[static KEY_BYTES], int64_t now_ns) {
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame frame = {.kind = WIRE_PING};
    frame.length = (uint32_t)wire_write_ping((uint64_t)now_ns, payload);
    bool is_unanswered =
        measures->pinged_ns > 0 && now_ns - measures->pinged_ns < PING_TIMEOUT_MS * NS_PER_MS;
    if (!is_unanswered &&
        messenger_send(messenger, tracker_curve, CHANNEL_CONTROL, &frame, payload) == SEND_OK) {
        measures->pinged_ns = now_ns;
    }
}

void uplink_measurements_on_pong(struct uplink_measurements *measures, const uint8_t *payload,
                                 size_t count) {
    uint64_t number = 0;
    if (wire_read_ping(payload, count, &number) == NULL && number > 0 &&
        number == (uint64_t)measures->pinged_ns) {
        add_value(&measures->round_trips, clock_monotonic_ns() - measures->pinged_ns);
        measures->pinged_ns = 0;
    }
}

bool uplink_measurements_on_table(struct uplink_measurements *measures, uint32_t round) {
    ASSERT(round > 0);
    if (measures->round == round) {
        return false;
    }
    measures->round = round;
    measures->table_received_ns = clock_monotonic_ns();
    measures->last_result_ns = measures->table_received_ns;
    measures->second_window = (struct rate_window){.begin_ns = 0};
    measures->short_window = (struct rate_window){.begin_ns = 0};
    measures->best_kib_s = 0;
    measures->busy_second_rates.count = 0;
    measures->short_window_rate = INT64_MAX;
    return true;
}

void uplink_measurements_on_round_open(struct uplink_measurements *measures, uint32_t round) {
    if (measures->round < round) {
        measures->round = 0;
    }
}

void uplink_measurements_on_result(struct uplink_measurements *measures) {
    measures->last_result_ns = clock_monotonic_ns();
}

void uplink_measurements_on_commit(struct uplink_measurements *measures, uint32_t round,
                                   bool was_paced) {
    if (measures->round != round) {
        return; /* the COMMIT was repeated, or this member took no part in the exchange */
    }
    ASSERT(measures->last_result_ns >= measures->table_received_ns);
    measures->round = 0;
    measures->exchange_ms = rounded_up_ms(clock_monotonic_ns() - measures->table_received_ns);
    add_value(&measures->transfer_times, measures->last_result_ns - measures->table_received_ns);
    if (measures->best_kib_s > 0) {
        int64_t typical_kib_s = upper_quartile_of_recent(&measures->busy_second_rates);
        add_value(&measures->best_rates, measures->best_kib_s);
        add_value(&measures->typical_rates, typical_kib_s);
        measures->unpaced_kib_s = was_paced ? measures->unpaced_kib_s : typical_kib_s;
    }
}

/* If the window is over, begins a new one and returns the rate of the old one in bytes a second.
 * Returns a negative value if the window is not over. */
static double end_window(struct rate_window *window, const struct messenger_counts *counts,
                         int64_t window_ns) {
    int64_t passed_ns = counts->acked_ns - window->begin_ns;
    bool is_begun = window->begin_ns > 0;
    if (is_begun && passed_ns < window_ns) {
        return -1;
    }
    double bytes = (double)(counts->acked_bytes - window->begin_bytes);
    *window = (struct rate_window){counts->acked_ns, counts->acked_bytes};
    return is_begun ? bytes * (double)NS_PER_SECOND / (double)passed_ns : -1;
}

/* Adds the rate of one second of an exchange. Ignores seconds with less than half of the best rate:
 * the uplink was not full then, because there was little to send (for example while members wait
 * for a slow one or hash for the vote) or because the only receiver was slow. */
static void add_second_rate(struct uplink_measurements *measures, double kib_s) {
    if (kib_s > 2.0 * measures->best_kib_s) {
        measures->busy_second_rates.count = 0;
    }
    if (2.0 * kib_s >= measures->best_kib_s) {
        add_value(&measures->busy_second_rates, (int64_t)kib_s);
    }
    if (kib_s > measures->best_kib_s) {
        measures->best_kib_s = kib_s < INT32_MAX ? (uint32_t)kib_s : INT32_MAX;
    }
}

/* Records the rate of the best second of an exchange, because in other seconds there may have been
 * nothing to send. An exchange that takes less than a second is not measured. */
void uplink_measurements_read_counters(struct uplink_measurements *measures,
                                       const struct messenger_counts *counts) {
    if (measures->round == 0) {
        return;
    }
    double short_window_rate =
        end_window(&measures->short_window, counts, SHORT_WINDOW_MS * NS_PER_MS);
    if (short_window_rate >= 0) {
        measures->short_window_rate = (uint64_t)short_window_rate;
    }
    double second_rate = end_window(&measures->second_window, counts, NS_PER_SECOND);
    if (second_rate >= 0) {
        add_second_rate(measures, second_rate / KIB);
    }
}

/* The rate comes from typical seconds, because acknowledgements arrive in bursts, so that the
 * best second shows a higher rate than the uplink has. A paced exchange cannot show a rate above
 * that of its pacing, so if the last unpaced exchange was much faster than the median, its rate
 * is used. If typical seconds are far below the best one, the uplink was not the bottleneck, and
 * its rate is not known. */
struct uplink_rate uplink_measurements_rate(const struct uplink_measurements *measures) {
    uint64_t typical = (uint64_t)median_of_recent(&measures->typical_rates);
    uint64_t unpaced = (uint64_t)measures->unpaced_kib_s;
    uint64_t earlier = unpaced > typical + typical / 4 ? unpaced : typical;
    uint64_t current = (uint64_t)upper_quartile_of_recent(&measures->busy_second_rates);
    bool was_full =
        earlier >= (uint64_t)largest_of_recent(&measures->best_rates) / 100 * FULL_UPLINK_PERCENT;
    bool was_long =
        median_of_recent(&measures->transfer_times) >= LONG_TRANSFER_MIN_S * NS_PER_SECOND;
    return (struct uplink_rate){.rate = max_u64(earlier, current) * KIB,
                                .short_window_rate = measures->short_window_rate,
                                .is_known = earlier > 0 && was_long && was_full};
}

uint32_t uplink_measurements_round_trip_ms(const struct uplink_measurements *measures) {
    return rounded_up_ms(median_of_recent(&measures->round_trips));
}

uint32_t uplink_measurements_transfer_ms(const struct uplink_measurements *measures) {
    return rounded_up_ms(median_of_recent(&measures->transfer_times));
}

uint32_t uplink_measurements_best_kib_s(const struct uplink_measurements *measures) {
    return (uint32_t)median_of_recent(&measures->best_rates);
}
