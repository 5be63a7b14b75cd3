/* uplink_measure: the measurements from which the tracker derives deadlines and slice owners: round
 * trips to the tracker, the rate of this member's uplink, and how long its part of an exchange
 * takes. Each is the median of recent ones, so that a broken connection or a dead peer does not
 * spoil them. */
#ifndef SKEP_SWARM_MEMBER_UPLINK_MEASURE_H
#define SKEP_SWARM_MEMBER_UPLINK_MEASURE_H

#include "runtime/swarm/ledger/entry.h"
#include "transport/messages/messages.h"

enum { UPLINK_RECENT = 16 /* measurements that a median is of */ };

struct recent_values {
    int64_t values[UPLINK_RECENT];
    uint32_t count; /* of all that were ever added */
};

/* One window over which sent bytes are counted. */
struct rate_window {
    int64_t begin_ns; /* 0: not begun */
    uint64_t begin_bytes;
};

struct uplink_measures {
    struct recent_values round_trips, transfers; /* ns */
    struct recent_values best_rates;             /* KiB/s: each exchange's best second, ... */
    struct recent_values typical_rates;          /* ... and the upper quartile of its seconds */
    struct recent_values seconds;                /* KiB/s: the busy seconds of this exchange */
    int64_t unpaced_kib_s;             /* typical rate of the last exchange without pacing */
    int64_t pinged_ns;                 /* the ping that is not answered; 0: none */
    uint32_t round;                    /* of the exchange that is measured; 0: none */
    int64_t table_ns, progress_ns;     /* its begin, and the last result in it */
    struct rate_window second, moment; /* a second, and a shorter time */
    uint32_t best_kib_s;               /* of this exchange */
    uint64_t moment_rate; /* bytes/s in the last short time; INT64_MAX: not yet known */
    uint32_t exchange_ms; /* of the last exchange */
};

/* uplink_measures_ping: send a ping to the tracker, unless one is unanswered.
 * uplink_measures_on_pong: its payload was returned. */
void uplink_measures_ping(struct uplink_measures *measures, struct messenger *messenger,
                          const uint8_t tracker_curve[static KEY_BYTES], int64_t now_ns);
void uplink_measures_on_pong(struct uplink_measures *measures, const uint8_t *payload,
                             size_t count);

/* What happens in an exchange: its TABLE, a result that was made or received, and its COMMIT. The
 * OPEN of a later round ends it without a COMMIT. uplink_measures_on_table returns whether this
 * TABLE is the first of its round. */
bool uplink_measures_on_table(struct uplink_measures *measures, uint32_t round);
void uplink_measures_on_result(struct uplink_measures *measures);
void uplink_measures_on_commit(struct uplink_measures *measures, uint32_t round, bool was_paced);
void uplink_measures_on_open(struct uplink_measures *measures, uint32_t round);

/* uplink_measures_sample: read what the messenger sent so far.
 * limits  several times a second */
void uplink_measures_sample(struct uplink_measures *measures,
                            const struct messenger_counts *counts);

/* The uplink's rate in bytes a second, as far as exchanges have shown it. */
struct uplink_rate {
    uint64_t rate;
    uint64_t moment; /* in the last short time; INT64_MAX at the beginning of an exchange */
    bool is_known;   /* earlier exchanges took long enough, and used the uplink fully */
};
struct uplink_rate uplink_measures_rate(const struct uplink_measures *measures);

/* Medians for the tracker; 0: not measured. */
uint32_t uplink_measures_round_trip_ms(const struct uplink_measures *measures);
uint32_t uplink_measures_transfer_ms(const struct uplink_measures *measures);
uint32_t uplink_measures_best_kib_s(const struct uplink_measures *measures);

#endif
