/* member_loop_measure: what the tracker derives deadlines and owners from: round trips, the rate at
 * which bytes arrive in an exchange's best second, and how long the own part of it takes. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"

#include <string.h>

static const int64_t MS = 1000000;
static const int64_t SECOND_NS = 1000000000;

enum {
    KIB = 1024,
    RECENT_MS = 300, /* of several looks at what arrived */
    SHORT_S = 2,     /* a transfer that takes less may have no second with the line full */
    FULL_PERCENT = 80,
};

static void note(struct recent_values *recent, int64_t value) {
    recent->values[recent->count++ % LOOP_RECENT] = value;
}

static uint32_t whole_ms(int64_t ns) {
    int64_t ms = (ns + MS - 1) / MS;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Sorted, least first; 0 of none. */
static int64_t at_rank(const struct recent_values *recent, uint32_t (*rank_of)(uint32_t count)) {
    int64_t sorted[LOOP_RECENT];
    uint32_t count = recent->count < LOOP_RECENT ? recent->count : LOOP_RECENT;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > recent->values[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = recent->values[i];
    }
    return count > 0 ? sorted[rank_of(count)] : 0;
}

static uint32_t middle(uint32_t count) {
    return count / 2;
}

static uint32_t upper_quartile(uint32_t count) {
    return count - 1 - count / 4;
}

static uint32_t top(uint32_t count) {
    return count - 1;
}

static int64_t median(const struct recent_values *recent) {
    return at_rank(recent, middle);
}

/* One at a time: of many that a broken line held back, all answers would come late at once. */
void uplink_ping(struct member_loop *loop, int64_t now_ns) {
    struct uplink_measures *measures = &loop->measures;
    struct frame frame = {.kind = WIRE_PING, .length = sizeof now_ns};
    bool is_out = measures->pinged_ns > 0 && now_ns - measures->pinged_ns < LOOP_PING_MS * MS;
    if (!is_out && uplink_send(loop, loop->options.tracker.curve, CHANNEL_CONTROL, &frame,
                               &now_ns) == SEND_OK) {
        measures->pinged_ns = now_ns;
    }
}

void uplink_on_pong(struct member_loop *loop, const uint8_t *payload, size_t count) {
    struct uplink_measures *measures = &loop->measures;
    int64_t sent_ns;
    if (count != sizeof sent_ns) {
        return;
    }
    memcpy(&sent_ns, payload, sizeof sent_ns);
    if (sent_ns > 0 && sent_ns == measures->pinged_ns) {
        note(&measures->trips, clock_monotonic_ns() - sent_ns);
        measures->pinged_ns = 0;
    }
}

void uplink_on_table(struct member_loop *loop, uint32_t round) {
    struct uplink_measures *measures = &loop->measures;
    if (measures->round != round) {
        measures->round = round;
        measures->table_ns = clock_monotonic_ns();
        measures->progress_ns = measures->table_ns;
        measures->second_ns = 0;
        measures->best_kib_s = 0;
        measures->seconds.count = 0;
        measures->recent_ns = 0;
        measures->recent = INT64_MAX; /* it is just beginning */
    }
}

/* An exchange that came to no commit. */
void uplink_on_open(struct member_loop *loop, uint32_t round) {
    if (loop->measures.round < round) {
        loop->measures.round = 0;
    }
}

void uplink_on_progress(struct member_loop *loop) {
    loop->measures.progress_ns = clock_monotonic_ns();
}

void uplink_on_commit(struct member_loop *loop, const struct entry *entry) {
    struct uplink_measures *measures = &loop->measures;
    uint64_t contributors = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        contributors |= entry->slices[s].contributors;
    }
    loop->view.contributors = (uint32_t)__builtin_popcountll(contributors);
    if (measures->round != entry->round) {
        return; /* of an exchange that it had no part in, or the same again */
    }
    measures->round = 0;
    measures->exchange_ms = whole_ms(clock_monotonic_ns() - measures->table_ns);
    note(&measures->transfers, measures->progress_ns - measures->table_ns);
    if (measures->best_kib_s > 0) {
        int64_t line_kib_s = at_rank(&measures->seconds, upper_quartile);
        note(&measures->ups, measures->best_kib_s);
        note(&measures->lines, line_kib_s);
        measures->free_kib_s = loop->pace.is_shared ? measures->free_kib_s : line_kib_s;
    }
}

/* Whether the line is in use now. */
static void measure_recent(struct uplink_measures *measures,
                           const struct messenger_counts *counts) {
    int64_t passed_ns = counts->confirmed_ns - measures->recent_ns;
    if (measures->recent_ns > 0 && passed_ns < RECENT_MS * MS) {
        return;
    }
    if (measures->recent_ns > 0) {
        double bytes = (double)(counts->confirmed_bytes - measures->recent_bytes);
        measures->recent = (uint64_t)(bytes * (double)SECOND_NS / (double)passed_ns);
    }
    measures->recent_ns = counts->confirmed_ns;
    measures->recent_bytes = counts->confirmed_bytes;
}

/* Seconds with less than half of the best one are none of the line's: there was nothing to send, as
 * while all wait for a slow member or hash for the vote, or only to who takes it slowly. */
static void note_second(struct uplink_measures *measures, double kib_s) {
    if (kib_s > 2.0 * measures->best_kib_s) {
        measures->seconds.count = 0;
    }
    if (2.0 * kib_s >= measures->best_kib_s) {
        note(&measures->seconds, (int64_t)kib_s);
    }
    if (kib_s > measures->best_kib_s) {
        measures->best_kib_s = kib_s < INT32_MAX ? (uint32_t)kib_s : INT32_MAX;
    }
}

/* What a line carries is what arrived in the best second of an exchange: at other times there may
 * have been nothing to send. One that is over within a second says nothing. */
void uplink_sample(struct member_loop *loop) {
    struct uplink_measures *measures = &loop->measures;
    const struct messenger_counts counts = messenger_counts(loop->messenger);
    if (measures->round == 0) {
        return;
    }
    measure_recent(measures, &counts);
    int64_t passed_ns = counts.confirmed_ns - measures->second_ns;
    if (measures->second_ns > 0 && passed_ns < SECOND_NS) {
        return;
    }
    if (measures->second_ns > 0) {
        double bytes = (double)(counts.confirmed_bytes - measures->second_bytes);
        double kib_s = bytes / KIB * (double)SECOND_NS / (double)passed_ns;
        note_second(measures, kib_s);
    }
    measures->second_ns = counts.confirmed_ns;
    measures->second_bytes = counts.confirmed_bytes;
}

/* Confirmations come late and then many at once, so that in its best second a line seems to carry
 * more than it can. An exchange that was paced shows no more than what it was paced by; so one that
 * was not, and showed much more than those before, is believed alone. Where most seconds carry far
 * less than the best one, the line was not what exchanges waited for, and its rate is not known. */
struct uplink_rate uplink_measured_rate(const struct member_loop *loop) {
    bool is_long = median(&loop->measures.transfers) >= SHORT_S * SECOND_NS;
    uint64_t median_of_all = (uint64_t)median(&loop->measures.lines);
    uint64_t free = (uint64_t)loop->measures.free_kib_s;
    uint64_t before = free > median_of_all + median_of_all / 4 ? free : median_of_all;
    uint64_t now = (uint64_t)at_rank(&loop->measures.seconds, upper_quartile);
    uint64_t most = (uint64_t)at_rank(&loop->measures.ups, top);
    bool was_full = before >= most / 100 * FULL_PERCENT;
    return (struct uplink_rate){.rate = (before > now ? before : now) * KIB,
                                .recent = loop->measures.recent,
                                .is_known = before > 0 && is_long && was_full};
}

/* Who cannot be reached can own no slice. */
static uint32_t up_kib_s(const struct member_loop *loop) {
    uint64_t limit = (loop->options.limit_up + KIB - 1) / KIB;
    uint32_t best = (uint32_t)median(&loop->measures.ups);
    uint32_t measured = best > 0 ? best : LOOP_UP_KIB_S;
    if (!loop->is_reachable) {
        return 0;
    }
    return limit > 0 && limit < measured ? (uint32_t)limit : measured;
}

struct timing_measured uplink_measured(const struct member_loop *loop) {
    return (struct timing_measured){.step_ms = loop->measured.step_ms,
                                    .transfer_ms = whole_ms(median(&loop->measures.transfers)),
                                    .round_trip_ms = whole_ms(median(&loop->measures.trips)),
                                    .up_kib_s = up_kib_s(loop)};
}
