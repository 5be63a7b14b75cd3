/* tracker_deadlines: the usual times of the members, and the deadlines that follow from them. A
 * usual time is the lower median of all voters' times, which a minority cannot raise above the
 * times of the others. */
#include "base/statistics.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

/* Maximum number of timed-out rounds that are counted. Each one doubles the usual times, so that
 * after this many, all deadlines are at their maximum. */
enum { TIMED_OUT_ROUNDS_MAX = 16 };

/* The lower median of the recent times of all live voters that have any; UINT32_MAX: none has. */

uint32_t tracker_usual_time(const struct tracker *tracker, enum speed_kind kind) {
    int64_t values[SWARM_MEMBERS_MAX];
    int count = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_speed *speed = &tracker->speeds[row];
        if (speed->times[kind].count > 0 && !tracker->members[row].is_silent &&
            !tracker_is_guest(tracker, row)) {
            values[count++] = tracker_recent_time(speed, kind);
        }
    }
    return count == 0 ? UINT32_MAX : (uint32_t)sorted_value_i64(values, count, (count - 1) / 2);
}

static int collect_round_trips(const struct tracker *tracker, int64_t values[SWARM_MEMBERS_MAX]) {
    int count = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        uint32_t trip_ms = tracker->members[row].report.measured.round_trip_ms;
        if (!tracker->members[row].is_silent && trip_ms > 0 && !tracker_is_guest(tracker, row)) {
            values[count++] = trip_ms;
        }
    }
    return count;
}

/* The 0.9 quantile of the reported round trips, but at most twice their lower median, so that a few
 * members that report long round trips cannot make all heartbeats slow. */
static uint32_t usual_round_trip_ms(const struct tracker *tracker) {
    int64_t values[SWARM_MEMBERS_MAX];
    int count = collect_round_trips(tracker, values);
    if (count == 0) {
        return tracker->settings.times.round_trip_ms;
    }
    int64_t median_ms = sorted_value_i64(values, count, (count - 1) / 2);
    int64_t high_ms = sorted_value_i64(values, count, (9 * count + 9) / 10 - 1);
    return (uint32_t)(high_ms < 2 * median_ms ? high_ms : 2 * median_ms);
}

/* Returns the usual time of a part of the round, or `assumed_ms` if no time is known. Each round
 * that was aborted because it took too long doubles this time, because the deadlines of such a
 * round are too short for the members. The time of training is not doubled. */
static uint32_t derive_usual_time(struct tracker *tracker, enum speed_kind kind,
                                  uint32_t assumed_ms) {
    struct tracker_deadlines *deadlines = &tracker->deadlines;
    uint64_t time_ms = tracker_usual_time(tracker, kind);
    deadlines->is_time_assumed[kind] = time_ms == UINT32_MAX;
    time_ms = deadlines->is_time_assumed[kind] ? assumed_ms : time_ms;
    time_ms <<= kind == SPEED_TRAIN ? 0 : deadlines->timed_out_rounds;
    return time_ms < UINT32_MAX ? (uint32_t)time_ms : UINT32_MAX;
}

void tracker_derive_timing(struct tracker *tracker) {
    const struct timing_times *assumed = &tracker->settings.times;
    struct timing_times *times = &tracker->deadlines.times;
    times->train_ms = derive_usual_time(tracker, SPEED_TRAIN, assumed->train_ms);
    times->contribution_ms =
        derive_usual_time(tracker, SPEED_CONTRIBUTION, assumed->contribution_ms);
    times->result_ms = derive_usual_time(tracker, SPEED_RESULT, assumed->result_ms);
    times->apply_ms = derive_usual_time(tracker, SPEED_APPLY, assumed->apply_ms);
    times->round_trip_ms = usual_round_trip_ms(tracker);
    tracker->deadlines.timing = timing_derive(times, tracker->settings.training.patience);
}

void tracker_count_timed_out_round(struct tracker *tracker) {
    uint32_t *rounds = &tracker->deadlines.timed_out_rounds;
    *rounds += *rounds < TIMED_OUT_ROUNDS_MAX;
}

bool tracker_clear_timed_out_rounds(struct tracker *tracker) {
    bool has_any = tracker->deadlines.timed_out_rounds > 0;
    tracker->deadlines.timed_out_rounds = 0;
    return has_any;
}

/* The longest time with which a member counts as being as fast as the others, which usually take
 * usual_ms. */
uint64_t tracker_longest_usual_ms(const struct tracker *tracker, uint32_t usual_ms) {
    const struct tracker_deadlines *deadlines = &tracker->deadlines;
    return (uint64_t)(tracker->settings.training.patience * usual_ms) +
           timing_slack_ms(&deadlines->timing, deadlines->times.round_trip_ms);
}
