/* tracker_pace: the waits for the parts of a round: how long the tracker waits for members that
 * have not finished a part. As long as no earlier round has measured a part, its wait follows from
 * the times of the seats that have finished the part in this round. So neither a guess nor a seat
 * that never finishes delays the round. */
#include "base/statistics.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    /* minimum factor on the median time of a part that no earlier round has measured, because slow
     * members do not have a smaller share of the work yet */
    UNMEASURED_FACTOR_MIN = 2,
    FIRST_WAIT_MIN_MS = 1000, /* minimum wait: a process that has just started may pause so long */
};

/* The times of the voters that have finished a part of the round. */
struct finish_times {
    /* [count]: durations from the start of the part to its end, in any order */
    int64_t times_ms[SWARM_MEMBERS_MAX];
    uint32_t count; /* number of times */
    uint32_t seats; /* number of all voters, including those that have not finished the part */
};

static void add_finish_time(struct finish_times *finished, bool is_finished, int64_t time_ms) {
    ASSERT(finished->seats < SWARM_MEMBERS_MAX);
    finished->seats++;
    if (is_finished) {
        finished->times_ms[finished->count++] = time_ms;
    }
}

/* The lower median of the times of all seats, where a seat that has not finished counts as slower
 * than all others; 0 until half of the seats have finished. */
static int64_t median_ms(struct finish_times *finished) {
    uint32_t middle = finished->seats == 0 ? 0 : (finished->seats - 1) / 2;
    return middle >= finished->count
               ? 0
               : sorted_value_i64(finished->times_ms, (int)finished->count, (int)middle);
}

/* The wait that follows from the median `time_ms`, or `otherwise_ms` if the median is 0: not
 * known. */
static int64_t wait_from_median(const struct tracker *tracker, int64_t time_ms, double factor,
                                int64_t otherwise_ms) {
    const struct tracker_deadlines *deadlines = &tracker->deadlines;
    int64_t slack_ms = timing_slack_ms(&deadlines->timing, deadlines->times.round_trip_ms);
    int64_t wait_ms = (int64_t)(factor * (double)time_ms) + slack_ms;
    wait_ms = wait_ms > FIRST_WAIT_MIN_MS ? wait_ms : FIRST_WAIT_MIN_MS;
    return time_ms > 0 ? wait_ms : otherwise_ms;
}

/* The factor on the median time of a part that no earlier round has measured. */
static double unmeasured_factor(const struct tracker *tracker) {
    double patience = tracker->settings.training.patience;
    return patience > UNMEASURED_FACTOR_MIN ? patience : UNMEASURED_FACTOR_MIN;
}

/* ---- what is observed ---- */

void tracker_begin_pace(struct tracker *tracker) {
    struct tracker_pace *pace = &tracker->pace;
    memset(pace, 0, sizeof *pace);
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        pace->owners |= seat_bit(tracker->record.table.slices[s].owner);
    }
}

/* Expected and received contributions, over the slices of one owner that have no result yet. */
struct open_slices {
    /* by seat: slices of the owner, without a result, that expect the seat's contribution */
    uint32_t expected[SWARM_MEMBERS_MAX];
    /* by seat: slices of the owner, without a result, for which the seat's contribution arrived */
    uint32_t received[SWARM_MEMBERS_MAX];
};

static void count_open_slices(const struct tracker *tracker, uint32_t owner,
                              struct open_slices *open) {
    for (uint32_t s = 0; s < tracker->settings.slice_count; s++) {
        const struct slice_plan *plan = &tracker->record.table.slices[s];
        const struct slice_report *report =
            plan->owner == owner ? tracker_find_slice_report(tracker, owner, s) : NULL;
        bool is_current = report != NULL && report->epoch == plan->epoch;
        if (plan->owner != owner || (is_current && report->has_result != 0)) {
            continue;
        }
        SEATS_EACH(seat, plan->expected_seats & tracker_live_seats(tracker) & ~seat_bit(owner)) {
            open->expected[seat]++;
            open->received[seat] += is_current && seats_contain(report->received_seats, seat);
        }
    }
}

/* Whether an owner waits for at most half of its contributors that are voters, and has received all
 * the contributions that it has room for from its other contributors. */
static bool is_owner_blocked(const struct tracker *tracker, uint32_t owner) {
    struct open_slices open = {0};
    const uint64_t voters = entry_voting_seats(&tracker->record.head);
    uint64_t seats = 0;
    uint64_t complete = 0;
    count_open_slices(tracker, owner, &open);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        uint32_t room = open.expected[seat] < CONTRIBUTION_SLOTS_PER_MEMBER
                            ? open.expected[seat]
                            : CONTRIBUTION_SLOTS_PER_MEMBER;
        seats |= room > 0 ? seat_bit(seat) : 0;
        complete |= room > 0 && open.received[seat] >= room ? seat_bit(seat) : 0;
    }
    return complete != seats && (complete & voters) != 0 &&
           2 * seats_count(complete & voters) >= seats_count(seats & voters);
}

void tracker_observe_owner_report(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_pace *pace = &tracker->pace;
    int owner = tracker->seats.seat_of_row[row];
    if (owner == NO_SEAT || tracker->stage.kind < STAGE_EXCHANGE ||
        !tracker->deadlines.is_time_assumed[SPEED_CONTRIBUTION]) {
        return;
    }
    int64_t passed_ms = now_ms - tracker->exchange.assigned_ms[owner];
    /* the time began again, because the owner got another plan */
    if (passed_ms < pace->reported_ms[owner]) {
        pace->busy_ms[owner] = 0;
        pace->reported_ms[owner] = 0;
        pace->blocked_owners &= ~seat_bit((uint32_t)owner);
    }
    if (!seats_contain(pace->blocked_owners, (uint32_t)owner)) {
        pace->busy_ms[owner] += passed_ms - pace->reported_ms[owner];
    }
    pace->reported_ms[owner] = passed_ms;
    pace->blocked_owners &= ~seat_bit((uint32_t)owner);
    pace->blocked_owners |=
        is_owner_blocked(tracker, (uint32_t)owner) ? seat_bit((uint32_t)owner) : 0;
}

void tracker_observe_result_spread(struct tracker *tracker, uint64_t owners, int64_t now_ms) {
    int64_t passed_ms = now_ms - tracker->exchange.table_ms;
    SEATS_EACH(owner, owners) {
        if (tracker->pace.spread_ms[owner] == 0) {
            tracker->pace.spread_ms[owner] = passed_ms > 0 ? passed_ms : 1;
        }
    }
}

/* Returns when an owner began. One that took over slices during the exchange began later than the
 * others: the time lost with the former owner does not count, else a former owner could lengthen
 * all deadlines. */
int64_t tracker_owner_began_ms(const struct tracker *tracker, uint32_t owner) {
    ASSERT(owner < SWARM_MEMBERS_MAX && tracker->stage.kind >= STAGE_EXCHANGE);
    return seats_contain(tracker->pace.owners, owner) ? tracker->exchange.table_ms
                                                      : tracker->exchange.assigned_ms[owner];
}

/* ---- waits ---- */

static bool is_time_assumed(const struct tracker *tracker, enum speed_kind kind) {
    return tracker->deadlines.is_time_assumed[kind];
}

/* The time in which half of the owners had all their results; 0 while that is not known. */
static int64_t median_result_ms(const struct tracker *tracker) {
    struct finish_times finished = {0};
    SEATS_EACH(owner, tracker->pace.owners & tracker_live_voters(tracker)) {
        uint32_t time_ms = tracker->exchange.result_ms[owner];
        add_finish_time(&finished, time_ms > 0, time_ms);
    }
    return median_ms(&finished);
}

/* Returns how long an owner waits for contributions. A blocked owner stops waiting for members that
 * are slower than half of the others. An owner that is not blocked has as long as the other owners
 * took for their results. */
int64_t tracker_contribution_wait_ms(const struct tracker *tracker, uint32_t owner) {
    const struct tracker_pace *pace = &tracker->pace;
    int64_t usual_ms = tracker->deadlines.timing.contribution_ms;
    if (!is_time_assumed(tracker, SPEED_CONTRIBUTION)) {
        return usual_ms;
    }
    int64_t time_ms = seats_contain(pace->blocked_owners, owner) ? pace->busy_ms[owner] + 1
                                                                 : median_result_ms(tracker);
    return wait_from_median(tracker, time_ms, unmeasured_factor(tracker), usual_ms);
}

/* The wait for a part that owners do. If the usual time is known, the wait is never shorter than
 * `usual_ms`, and longer if the owners of this round are slower: when all uplinks have become
 * slower than in the last rounds, no owner is late.
 * time_ms  the time in which half of the owners have finished the part; 0 while not known */
static int64_t owner_wait_ms(const struct tracker *tracker, int64_t time_ms, bool is_known,
                             int64_t usual_ms) {
    double factor = is_known ? tracker->settings.training.patience : unmeasured_factor(tracker);
    int64_t wait_ms = wait_from_median(tracker, time_ms, factor, usual_ms);
    return is_known && wait_ms < usual_ms ? usual_ms : wait_ms;
}

int64_t tracker_result_wait_ms(const struct tracker *tracker) {
    return owner_wait_ms(tracker, median_result_ms(tracker),
                         !is_time_assumed(tracker, SPEED_RESULT),
                         tracker->deadlines.timing.exchange_ms);
}

int64_t tracker_vote_wait_ms(const struct tracker *tracker) {
    const struct swarm_timing *timing = &tracker->deadlines.timing;
    bool is_known =
        !is_time_assumed(tracker, SPEED_RESULT) && !is_time_assumed(tracker, SPEED_APPLY);
    struct finish_times finished = {0};
    SEATS_EACH(owner, tracker->pace.owners & tracker_live_voters(tracker)) {
        int64_t time_ms = tracker->pace.spread_ms[owner];
        add_finish_time(&finished, time_ms > 0, time_ms);
    }
    return owner_wait_ms(tracker, median_ms(&finished), is_known,
                         (int64_t)timing->exchange_ms + timing->apply_ms);
}

int64_t tracker_apply_wait_ms(const struct tracker *tracker) {
    int64_t usual_ms = tracker->deadlines.timing.apply_ms;
    struct finish_times finished = {0};
    if (!is_time_assumed(tracker, SPEED_APPLY)) {
        return usual_ms;
    }
    SEATS_EACH(seat, tracker_live_voters(tracker)) {
        const struct tracker_speed *speed = &tracker->speeds[tracker->seats.row_of_seat[seat]];
        uint32_t time_ms = tracker_recent_time(speed, SPEED_APPLY);
        add_finish_time(&finished, !speed->is_applying && time_ms > 0, time_ms);
    }
    return wait_from_median(tracker, median_ms(&finished), unmeasured_factor(tracker), usual_ms);
}

/* The wait for training. Members stop by themselves at the deadline in the OPEN. */
static int64_t train_wait_ms(const struct tracker *tracker, double factor) {
    int64_t usual_ms = tracker->record.head.train_ms;
    struct finish_times finished = {0};
    if (!is_time_assumed(tracker, SPEED_TRAIN)) {
        return usual_ms;
    }
    SEATS_EACH(seat, tracker_live_voters(tracker)) {
        const struct tracker_speed *speed = &tracker->speeds[tracker->seats.row_of_seat[seat]];
        uint32_t time_ms = tracker_recent_time(speed, SPEED_TRAIN);
        add_finish_time(&finished, time_ms > 0, time_ms);
    }
    int64_t wait_ms = wait_from_median(tracker, median_ms(&finished), factor, usual_ms);
    return wait_ms < usual_ms ? wait_ms : usual_ms;
}

int64_t tracker_training_end_ms(const struct tracker *tracker) {
    return train_wait_ms(tracker, tracker->settings.training.patience);
}

int64_t tracker_declaration_wait_ms(const struct tracker *tracker) {
    return train_wait_ms(tracker, unmeasured_factor(tracker)) +
           tracker->deadlines.timing.silence_ms;
}
