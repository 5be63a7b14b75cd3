/* tracker_speed: how fast each member is, as the tracker and the other members observe, and the
 * share of the work of a round that the member is given. A member's own speed decides only that
 * share, never how long the others wait. */
#include "base/statistics.h"
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    AIM_PERCENT = 95,     /* percentage of the usual time that a slow member's share should take */
    JUDGED_ROUNDS = 3,    /* minimum rounds measured before a member is judged by its times */
    RETRY_ROUNDS_MIN = 8, /* rounds until owners wait for a slow member again; doubled each time */
    RETRY_ROUNDS_MAX = 512, /* maximum rounds until owners wait for a slow member again */
    /* factor on the rounds until owners wait for a slow member that delivers less than half */
    RETRY_FACTOR = 4,
    /* consecutive exchanges in time after which an owner's next term without slices is halved */
    OWNER_CLEAN_ROUNDS = 64,
    LOSS_ROUNDS = 8, /* a second loss within this many rounds counts against the member */
    /* percentage of the usual time that an exchange must exceed for its losses to count */
    LOSS_COST_PERCENT = 125,
    /* a member that was lost twice at first contributes to 1 / LOSS_PART of the slices */
    LOSS_PART = 8,
    COUNT_BITS = 4, /* bits of the record that hold the number of recent times of one speed_kind */
    OWNER_MEDIAN = 1000, /* value of SPEED_OWNER for an owner with the median time */
    /* minimum duration, in heartbeats, of a transfer from which an upload rate is measured */
    RATE_MIN_HEARTBEATS = 4,
};

static void add_value(struct speed_history *history, uint32_t value) {
    history->values[history->count++ % SPEED_ROUNDS] = value;
}

/* The lower median of the recent values; 0 if there are none. */
static uint32_t recent_value(const struct speed_history *history) {
    int64_t values[SPEED_ROUNDS];
    uint32_t count = history->count < SPEED_ROUNDS ? history->count : SPEED_ROUNDS;
    for (uint32_t i = 0; i < count; i++) {
        values[i] = history->values[i];
    }
    return count == 0 ? 0 : (uint32_t)sorted_value_i64(values, (int)count, (int)(count - 1) / 2);
}

uint32_t tracker_recent_time(const struct tracker_speed *speed, enum speed_kind kind) {
    ASSERT(kind < SPEED_KINDS);
    return recent_value(&speed->times[kind]);
}

void tracker_clear_speed(struct tracker *tracker, uint32_t row) {
    ASSERT(row < SWARM_MEMBERS_MAX);
    tracker->speeds[row] = (struct tracker_speed){0};
}

/* ---- training ---- */

void tracker_mark_resumed_samples(struct tracker *tracker, uint32_t row, bool has_resumed_samples) {
    tracker->speeds[row].has_resumed_samples = has_resumed_samples;
}

/* Records the time that the member would have needed for a full share. Work that began in an
 * aborted round, or before the tracker started, is not measured. */
void tracker_observe_training_time(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_speed *speed = &tracker->speeds[row];
    uint64_t samples = tracker->members[row].trained.samples;
    int64_t passed_ms = now_ms - tracker->stage.round_began_ms;
    ASSERT(tracker->stage.kind == STAGE_TRAIN && passed_ms >= 0);
    if (samples == 0 || speed->has_resumed_samples || tracker->stage.is_inherited) {
        return;
    }
    double full_ms = (double)passed_ms * (double)tracker->settings.seat_samples / (double)samples;
    add_value(&speed->times[SPEED_TRAIN], full_ms < UINT32_MAX ? (uint32_t)full_ms : UINT32_MAX);
}

uint64_t tracker_samples_of_row(const struct tracker *tracker, uint32_t row) {
    const struct tracker_settings *settings = &tracker->settings;
    uint64_t full = settings->seat_samples;
    uint64_t step = full / (settings->training.steps > 0 ? settings->training.steps : 1);
    uint32_t own_ms = recent_value(&tracker->speeds[row].times[SPEED_TRAIN]);
    uint32_t usual_ms = tracker->deadlines.times.train_ms;
    if (own_ms <= tracker_longest_usual_ms(tracker, usual_ms)) {
        return full;
    }
    step = step > 0 ? step : 1;
    uint64_t samples =
        (uint64_t)((double)full * usual_ms * AIM_PERCENT / 100.0 / own_ms) / step * step;
    return samples > step ? samples : step;
}

/* Returns the seats whose declarations the tracker waits for. A slow member that was given fewer
 * samples does not delay the others: if even these take it longer than the others usually train,
 * its declaration counts only if it arrives in time. */
uint64_t tracker_awaited_seats(const struct tracker *tracker, uint64_t seats) {
    const uint64_t full = tracker->settings.seat_samples;
    uint64_t awaited = 0;
    SEATS_EACH(seat, seats) {
        int row = tracker->seats.row_of_seat[seat];
        ASSERT(row != NO_SEAT);
        uint64_t samples = seat_samples(&tracker->record.head.seats[seat]);
        double own_ms = recent_value(&tracker->speeds[row].times[SPEED_TRAIN]);
        double needed_ms = own_ms * (double)samples / (double)full;
        double limit_ms =
            samples < full ? tracker->deadlines.times.train_ms : tracker->deadlines.timing.train_ms;
        bool is_fast = tracker->speeds[row].has_resumed_samples || needed_ms <= limit_ms;
        awaited |= is_fast ? seat_bit(seat) : 0;
    }
    return awaited;
}

/* ---- the exchange ---- */

/* Whether a member is treated like one with a slow uplink, because it trains slowly: it takes more
 * than twice the usual time for a sample, by more than the slack, and adds less to the work of the
 * others than it lengthens their exchange. The exchange of n members is longer by 1 / (n (n - 2))
 * than that of n - 1 members. */
static bool is_slow_trainer(const struct tracker *tracker, uint32_t row) {
    uint64_t seats = tracker->record.head.seat_count;
    uint64_t own_ms = recent_value(&tracker->speeds[row].times[SPEED_TRAIN]);
    uint32_t usual_ms = tracker->deadlines.times.train_ms;
    return seats > 2 && own_ms > UINT64_C(2) * usual_ms &&
           own_ms > tracker_longest_usual_ms(tracker, usual_ms) &&
           own_ms * (seats - 1) > usual_ms * seats * (seats - 2);
}

/* Whether owners wait for the row's contributions. They wait for a guest only after it has
 * delivered to an exchange in time, so that an identity that has done nothing yet costs them no
 * time. */
bool tracker_is_fast_enough(const struct tracker *tracker, uint32_t row) {
    bool is_new_guest =
        tracker->speeds[row].times[SPEED_CONTRIBUTION].count == 0 && tracker_is_guest(tracker, row);
    return !is_new_guest && !tracker->speeds[row].is_slow && !is_slow_trainer(tracker, row) &&
           !tracker_has_many_pairs(tracker, row);
}

bool tracker_is_known_fast(const struct tracker *tracker, uint32_t row) {
    const struct tracker_speed *speed = &tracker->speeds[row];
    return !speed->is_slow && speed->times[SPEED_CONTRIBUTION].count >= JUDGED_ROUNDS;
}

/* Whether an owner is usually as fast as the others. Owners are compared within each round, so a
 * contributor that delays all of them makes none slow. */
static bool is_owner_in_time(const struct tracker *tracker, const struct tracker_speed *speed) {
    const struct speed_history *times = &speed->times[SPEED_OWNER];
    uint32_t usual_ms = tracker->deadlines.times.result_ms;
    uint64_t own_ms = (uint64_t)recent_value(times) * usual_ms / OWNER_MEDIAN;
    return times->count < JUDGED_ROUNDS || own_ms <= tracker_longest_usual_ms(tracker, usual_ms);
}

/* Whether the row may own slices. A slow owner would delay every slice that it owns, so it owns
 * none, not even on trial. */
bool tracker_may_own_slices(const struct tracker *tracker, uint32_t row) {
    const struct tracker_speed *speed = &tracker->speeds[row];
    return tracker_is_fast_enough(tracker, row) && !speed->is_retried &&
           is_owner_in_time(tracker, speed);
}

/* The upload rate of a row in contributions per SPEED_RATE_MS; 0: not known. */
uint32_t tracker_upload_rate(const struct tracker *tracker, uint32_t row) {
    return recent_value(&tracker->speeds[row].times[SPEED_RATE]);
}

/* Whether a member contributes to a slice. A slow member contributes to `share` of SHARE_FULL
 * slices, in each round to different ones. */
bool tracker_contributes_to_slice(const struct tracker *tracker, uint32_t row, uint32_t slice) {
    uint32_t share = tracker->speeds[row].is_slow ? tracker->speeds[row].share : SHARE_FULL;
    uint32_t slices = tracker->settings.slice_count;
    uint64_t count = (uint64_t)slices * share / SHARE_FULL;
    /* at least one slice, which shows whether the member is still slow */
    count = count > 0 ? count : 1;
    uint64_t at = (slice + tracker->record.head.round) % slices;
    return (at + 1) * count / slices > at * count / slices;
}

/* The lower median of the times for which the other voters waited for this seat's contributions; 0
 * if no voter waited. */
static uint32_t median_awaited_ms(const struct tracker *tracker, uint32_t seat) {
    int64_t values[SWARM_MEMBERS_MAX];
    int count = 0;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_report *report = &tracker->members[row].report;
        bool is_other =
            tracker->seats.seat_of_row[row] != (int)seat && !tracker_is_guest(tracker, row);
        if (is_other && tracker->seats.seat_of_row[row] != NO_SEAT &&
            report->awaited_ms[seat] > 0) {
            values[count++] = report->awaited_ms[seat];
        }
    }
    return count == 0 ? 0 : (uint32_t)sorted_value_i64(values, count, (count - 1) / 2);
}

/* The upper median of the owners' times until they had all results; 1 if there is none. */
static uint32_t owner_median_ms(const struct tracker_exchange *exchange) {
    int64_t values[SWARM_MEMBERS_MAX];
    int count = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if (exchange->result_ms[seat] > 0) {
            values[count++] = exchange->result_ms[seat];
        }
    }
    return count == 0 ? 1 : (uint32_t)sorted_value_i64(values, count, count / 2);
}

/* Returns the owners that stopped waiting for a contributor, which is why their results were
 * late. */
static uint64_t find_excused_owners(const struct tracker_exchange *exchange) {
    uint64_t owners = 0;
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        owners |= exchange->missed_by[seat];
    }
    return owners;
}

/* Updates the term in which an owner that was slow owns no slices. The term doubles each time that
 * the owner was slow, since each trial costs the others a wait. Many exchanges in time halve it. */
static void update_owner_term(struct tracker_speed *speed, bool is_in_time) {
    uint32_t *term = &speed->owner_term;
    speed->owner_rounds_in_time = is_in_time ? speed->owner_rounds_in_time + 1 : 0;
    if (!is_in_time) {
        *term = *term == 0 ? RETRY_ROUNDS_MIN : *term < RETRY_ROUNDS_MAX ? 2 * *term : *term;
    } else if (speed->owner_rounds_in_time >= OWNER_CLEAN_ROUNDS) {
        speed->owner_rounds_in_time = 0;
        *term = *term > RETRY_ROUNDS_MIN ? *term / 2 : *term;
    }
}

/* Adds the time of an owner (0: no slices). A member that has owned no slices for its term may own
 * some again. The member's next time alone then decides whether it is slow, because its history is
 * reset to one bad and one good value. */
static void add_owner_time(const struct tracker *tracker, struct tracker_speed *speed,
                           uint32_t result_ms, uint32_t median_ms) {
    struct speed_history *times = &speed->times[SPEED_OWNER];
    if (result_ms > 0) {
        uint64_t relative = (uint64_t)result_ms * OWNER_MEDIAN / median_ms;
        add_value(&speed->times[SPEED_RESULT], result_ms);
        add_value(times, relative < UINT32_MAX ? (uint32_t)relative : UINT32_MAX);
        speed->rounds_without_slices = 0;
        update_owner_term(speed, is_owner_in_time(tracker, speed));
    } else if (++speed->rounds_without_slices >= max_u64(speed->owner_term, RETRY_ROUNDS_MIN) &&
               times->count >= JUDGED_ROUNDS) {
        *times = (struct speed_history){.count = 2, .values = {UINT32_MAX, 0}};
    }
}

/* Adds the times of a seat in the committed exchange. The contribution time of a slow seat is left
 * out, because the seat had less than a full share. */
static void add_exchange_of_seat(struct tracker *tracker, uint32_t seat,
                                 const struct seat_delivery *delivery) {
    int row = tracker->seats.row_of_seat[seat];
    struct tracker_speed *speed = &tracker->speeds[row];
    const struct tracker_exchange *exchange = &tracker->exchange;
    uint32_t time_ms = median_awaited_ms(tracker, seat);
    uint32_t min_ms = RATE_MIN_HEARTBEATS * tracker->deadlines.timing.heartbeat_ms;
    if (time_ms >= min_ms) {
        add_value(&speed->times[SPEED_RATE],
                  (uint32_t)((uint64_t)delivery->delivered * SPEED_RATE_MS / time_ms));
    }
    if (!speed->is_slow) {
        add_value(&speed->times[SPEED_CONTRIBUTION], time_ms);
    }
    if (!seats_contain(find_excused_owners(exchange), seat)) {
        add_owner_time(tracker, speed, exchange->result_ms[seat], owner_median_ms(exchange));
    }
}

/* The smallest share of a slow member, which is that of one slice. */
static uint32_t min_share(const struct tracker *tracker) {
    uint32_t slices = tracker->settings.slice_count;
    return slices < SHARE_FULL ? (SHARE_FULL + slices - 1) / slices : 1;
}

/* Marks a member as slow, because it did not deliver in time or usually takes longer than the
 * others. It contributes to a smaller share of the slices, and no owner waits for it. */
static void mark_slow_with_share(const struct tracker *tracker, struct tracker_speed *speed,
                                 uint64_t share) {
    if (!speed->is_slow) {
        speed->retry_rounds = speed->retry_rounds == 0                 ? RETRY_ROUNDS_MIN
                              : speed->retry_rounds < RETRY_ROUNDS_MAX ? 2 * speed->retry_rounds
                                                                       : RETRY_ROUNDS_MAX;
        speed->slow_rounds = 0;
    }
    ASSERT(share <= SHARE_FULL);
    speed->is_slow = true;
    speed->share = share > min_share(tracker) ? (uint32_t)share : min_share(tracker);
    speed->times[SPEED_CONTRIBUTION].count = 0;
}

void tracker_mark_slow(struct tracker *tracker, uint32_t row) {
    mark_slow_with_share(tracker, &tracker->speeds[row], 0);
}

uint32_t tracker_slow_share(const struct tracker *tracker, uint32_t row) {
    const struct tracker_speed *speed = &tracker->speeds[row];
    return speed->is_slow ? speed->share : 0;
}

void tracker_restore_share(struct tracker *tracker, uint32_t row, uint32_t share) {
    tracker->speeds[row].is_slow = false;
    tracker->speeds[row].retry_rounds = 0;
    if (share > 0) {
        mark_slow_with_share(tracker, &tracker->speeds[row],
                             share < SHARE_FULL ? share : SHARE_FULL);
    }
}

/* Returns the number of values of a history as the record stores it in COUNT_BITS bits: at most
 * 2 * SPEED_ROUNDS - 1, with the same index of the next value in the ring. */
static uint32_t count_in_rings(uint32_t count) {
    return count < SPEED_ROUNDS ? count : SPEED_ROUNDS + count % SPEED_ROUNDS;
}

void tracker_save_speed(const struct tracker *tracker, uint32_t row, struct record_speed *kept) {
    const struct tracker_speed *speed = &tracker->speeds[row];
    _Static_assert((int)RECORD_TIMES == (int)SPEED_KINDS &&
                       (int)RECORD_TIMES_RECENT == (int)SPEED_ROUNDS &&
                       2 * SPEED_ROUNDS <= 1 << COUNT_BITS && COUNT_BITS * SPEED_KINDS <= 32,
                   "the record has room for the times of a member");
    *kept =
        (struct record_speed){.round_trip_ms = tracker->members[row].report.measured.round_trip_ms,
                              .owner_term = speed->owner_term,
                              .owner_rounds_in_time = speed->owner_rounds_in_time,
                              .rounds_without_slices = speed->rounds_without_slices,
                              .slow_rounds = speed->slow_rounds,
                              .retry_rounds = speed->retry_rounds,
                              .lost_round = speed->lost_round,
                              .replaced_round = speed->replaced_round};
    for (uint32_t kind = 0; kind < SPEED_KINDS; kind++) {
        memcpy(kept->times[kind], speed->times[kind].values, sizeof kept->times[kind]);
        kept->counts |= count_in_rings(speed->times[kind].count) << COUNT_BITS * kind;
    }
}

void tracker_restore_speed(struct tracker *tracker, uint32_t row, const struct record_speed *kept) {
    struct tracker_speed *speed = &tracker->speeds[row];
    for (uint32_t kind = 0; kind < SPEED_KINDS; kind++) {
        memcpy(speed->times[kind].values, kept->times[kind], sizeof kept->times[kind]);
        speed->times[kind].count = kept->counts >> COUNT_BITS * kind & ((1U << COUNT_BITS) - 1);
    }
    speed->owner_term = kept->owner_term;
    speed->owner_rounds_in_time = kept->owner_rounds_in_time;
    speed->rounds_without_slices = kept->rounds_without_slices;
    speed->slow_rounds = kept->slow_rounds;
    speed->retry_rounds = kept->retry_rounds;
    speed->lost_round = kept->lost_round;
    speed->replaced_round = kept->replaced_round;
    tracker_restore_round_trip(&tracker->members[row], kept->round_trip_ms);
}

/* Whether owners wait for a slow seat again, on trial, although it did not deliver a full share in
 * time. A short exchange may end before an optional contribution arrives, even from a seat that is
 * as fast as the others. The trial of a seat that delivers less than half comes much later, because
 * the seat may be as slow as before, and then costs a wait. */
static bool is_retry_due(const struct tracker *tracker, const struct tracker_speed *speed,
                         const struct seat_delivery *delivery) {
    bool has_half = 2 * delivery->delivered >= tracker->settings.slice_count;
    return speed->slow_rounds >= (has_half ? 1 : RETRY_FACTOR) * speed->retry_rounds;
}

/* Decides the share of a seat in the next exchange. The share of a slow seat doubles while the seat
 * delivers in time. Owners wait for the seat again after it has delivered a full share in time, and
 * in any case after retry_rounds, which double each time that the seat becomes slow. */
static void update_share(struct tracker *tracker, uint32_t seat,
                         const struct seat_delivery *delivery) {
    struct tracker_speed *speed = &tracker->speeds[tracker->seats.row_of_seat[seat]];
    uint64_t limit_ms =
        tracker_longest_usual_ms(tracker, tracker_usual_time(tracker, SPEED_CONTRIBUTION));
    bool is_slow = speed->is_slow;
    const struct speed_history *times = &speed->times[SPEED_CONTRIBUTION];
    uint32_t time_ms = is_slow                         ? median_awaited_ms(tracker, seat)
                       : times->count >= JUDGED_ROUNDS ? recent_value(times)
                                                       : 0;
    uint32_t before = is_slow ? speed->share : SHARE_FULL;
    speed->slow_rounds += is_slow;
    speed->is_retried = is_slow && is_retry_due(tracker, speed, delivery);
    if (!delivery->is_late && time_ms <= limit_ms) {
        speed->is_slow = before < SHARE_FULL;
        speed->share = 2 * before < SHARE_FULL ? 2 * before : SHARE_FULL;
    } else {
        uint64_t by_items = (uint64_t)before * delivery->delivered / delivery->planned;
        uint64_t by_time = time_ms > limit_ms ? before * limit_ms / time_ms : before;
        mark_slow_with_share(tracker, speed, by_items < by_time ? by_items : by_time);
    }
    speed->is_slow &= !speed->is_retried;
}

/* Forgets the times of earlier exchanges. After rounds that were aborted because they took too
 * long, these times do not show how long an exchange takes now. */
static void forget_exchange_times(struct tracker *tracker) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        tracker->speeds[row].times[SPEED_CONTRIBUTION].count = 0;
        tracker->speeds[row].times[SPEED_RESULT].count = 0;
    }
}

static bool is_recent(uint32_t earlier_round, uint32_t round) {
    return earlier_round > 0 && round <= earlier_round + LOSS_ROUNDS;
}

/* Owners that were replaced cost the others a wait. An owner that failed twice in LOSS_ROUNDS, or
 * again after a term without slices, owns no slices for its term, unless it is suspended. */
static void observe_failed_owners(struct tracker *tracker) {
    const struct entry *commit = &tracker->record.head;
    SEATS_EACH(seat, tracker->exchange.failed_owners & roster_seats(commit)) {
        const uint32_t row = tracker_find_row(tracker, &commit->seats[seat].id);
        if (row == ROW_NONE || tracker->strikes[row].due != SUSPENSION_NONE) {
            continue;
        }
        struct tracker_speed *speed = &tracker->speeds[row];
        if (speed->owner_term > 0 || is_recent(speed->replaced_round, commit->round)) {
            speed->times[SPEED_OWNER] = (struct speed_history){
                .count = JUDGED_ROUNDS, .values = {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
            speed->rounds_without_slices = 0;
            update_owner_term(speed, false);
        }
        speed->replaced_round = commit->round;
    }
}

/* Adds the time of the committed exchange. Returns whether it took so much longer than earlier ones
 * that the loss of members cost the others time. A member that is lost early, or whose connections
 * close, costs little, because the others take over its slices while they still send. */
static bool add_exchange_time(struct tracker *tracker, int64_t now_ms) {
    struct speed_history *times = &tracker->deadlines.exchanges;
    const uint64_t usual_ms = recent_value(times);
    const uint64_t passed_ms = (uint64_t)(now_ms - tracker->exchange.table_ms);
    const bool is_known = times->count >= JUDGED_ROUNDS;
    ASSERT(now_ms >= tracker->exchange.table_ms);
    add_value(times, passed_ms < UINT32_MAX ? (uint32_t)passed_ms : UINT32_MAX);
    return !is_known || 100 * passed_ms > LOSS_COST_PERCENT * usual_ms;
}

/* Marks a member as slow that was lost in two of LOSS_ROUNDS exchanges, and made both long: no
 * owner waits for it until it has delivered in time. After other losses it keeps its slices,
 * because the others hardly notice such losses. */
static void observe_losses(struct tracker *tracker, int64_t now_ms) {
    const struct entry *commit = &tracker->record.head;
    const bool was_long = add_exchange_time(tracker, now_ms);
    SEATS_EACH(seat, was_long ? tracker->exchange.lost_seats & roster_seats(commit) : 0) {
        const uint32_t row = tracker_find_row(tracker, &commit->seats[seat].id);
        if (row == ROW_NONE) {
            continue;
        }
        struct tracker_speed *speed = &tracker->speeds[row];
        if (is_recent(speed->lost_round, commit->round)) {
            mark_slow_with_share(tracker, speed, SHARE_FULL / LOSS_PART);
        }
        speed->lost_round = commit->round;
    }
}

void tracker_observe_exchange(struct tracker *tracker, int64_t now_ms) {
    ASSERT(tracker->record.head.kind == ENTRY_COMMIT);
    if (tracker_clear_timed_out_rounds(tracker)) {
        forget_exchange_times(tracker);
    }
    uint64_t seats = 0;
    for (uint32_t seat = 0; seat < tracker->record.head.seat_count; seat++) {
        bool is_current = tracker->seats.row_of_seat[seat] != NO_SEAT;
        seats |= is_current && tracker->exchange.deliveries[seat].planned > 0 ? seat_bit(seat) : 0;
    }
    SEATS_EACH(seat, seats) {
        add_exchange_of_seat(tracker, (uint32_t)seat, &tracker->exchange.deliveries[seat]);
    }
    SEATS_EACH(seat, seats) {
        update_share(tracker, (uint32_t)seat, &tracker->exchange.deliveries[seat]);
    }
    observe_failed_owners(tracker);
    observe_losses(tracker, now_ms);
}

/* ---- applying ---- */

void tracker_mark_applying_members(struct tracker *tracker) {
    ASSERT(tracker->record.head.kind == ENTRY_COMMIT);
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        struct tracker_speed *speed = &tracker->speeds[row];
        const struct tracker_member *member = &tracker->members[row];
        if (speed->is_applying && !member->is_silent) {
            /* the member did not apply the commit before the next one */
            add_value(&speed->times[SPEED_APPLY], UINT32_MAX);
        }
        speed->is_applying = tracker->seats.seat_of_row[row] != NO_SEAT &&
                             tracker_member_has_state(member) &&
                             !tracker_is_ready_for_round(tracker, row);
    }
}

void tracker_observe_apply_time(struct tracker *tracker, uint32_t row, int64_t now_ms) {
    struct tracker_speed *speed = &tracker->speeds[row];
    int64_t passed_ms = now_ms - tracker->stage.committed_ms;
    if (speed->is_applying) {
        ASSERT(passed_ms >= 0);
        add_value(&speed->times[SPEED_APPLY],
                  passed_ms < UINT32_MAX ? (uint32_t)passed_ms : UINT32_MAX);
        speed->is_applying = false;
    }
}

bool tracker_applies_in_time(const struct tracker *tracker, uint32_t row) {
    const struct speed_history *times = &tracker->speeds[row].times[SPEED_APPLY];
    return times->count < JUDGED_ROUNDS ||
           recent_value(times) <=
               tracker_longest_usual_ms(tracker, tracker->deadlines.times.apply_ms);
}
