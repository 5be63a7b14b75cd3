/* tracker_speed: the speeds of members, the deadlines that follow from them, and how long the
 * tracker waits in an open round for members that have not finished a part of it. Private to the
 * tracker's files; part of tracker_state.h. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_SPEED_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_SPEED_H

#include "runtime/swarm/tracker_machine/tracker_machine.h"

enum {
    SPEED_ROUNDS = 5,        /* a recent time is the median of the times in this many rounds */
    SPEED_RATE_MS = 1 << 20, /* upload rates are in contributions per this time, in ms */
    SHARE_FULL = 1024,       /* share of a member that contributes to all slices */
};

enum speed_kind {
    SPEED_TRAIN,        /* time to train on a full share of samples */
    SPEED_CONTRIBUTION, /* time for which owners waited for contributions to all slices */
    SPEED_RESULT,       /* time until an owner had all its results */
    SPEED_OWNER,        /* SPEED_RESULT in thousandths of its median over all owners of the round */
    SPEED_APPLY,        /* time to apply a commit */
    SPEED_RATE,         /* upload rate seen by the receivers: contributions per SPEED_RATE_MS */
    SPEED_KINDS         /* number of kinds of times and rates */
};

/* values of one speed_kind that were observed of a member in the last rounds */
struct speed_history {
    uint32_t count;                /* number of values ever added */
    uint32_t values[SPEED_ROUNDS]; /* a ring of the newest values */
};

struct tracker_deadlines {      /* assigned only by tracker_deadlines.c */
    struct swarm_timing timing; /* current deadlines */
    struct timing_times times;  /* observed times from which `timing` was derived */
    /* by kind: no member's time is known, so `times` has the value of the settings */
    bool is_time_assumed[SPEED_KINDS];
    /* rounds since the newest commit that were aborted because they took longer than round_ms */
    uint32_t timed_out_rounds;
    /* durations of exchanges: ms from the first table to the commit; assigned by tracker_speed.c */
    struct speed_history exchanges;
};

/* The pace of the open exchange, by owner. */
struct tracker_pace {        /* assigned only by tracker_pace.c */
    uint64_t owners;         /* owners of slices in the first table */
    uint64_t blocked_owners; /* owners that wait for at most half of their contributors */
    /* by owner: time from the owner's last new plan to its newest report */
    int64_t reported_ms[SWARM_MEMBERS_MAX];
    /* by owner: part of reported_ms in which the owner was not blocked */
    int64_t busy_ms[SWARM_MEMBERS_MAX];
    /* by owner: time from the first table until enough other seats had the owner's results; 0: not
     * yet */
    int64_t spread_ms[SWARM_MEMBERS_MAX];
};

/* The observed speed of the member in a row. It is kept when the member restarts. */
struct tracker_speed {                       /* assigned only by tracker_speed.c */
    struct speed_history times[SPEED_KINDS]; /* by kind: the member's recent times */
    uint32_t share; /* share of the slices that a slow member contributes to, of SHARE_FULL */
    uint32_t rounds_without_slices; /* exchanges since the member last owned slices */
    /* exchanges for which the member owns no slices after it was a slow owner; 0: never slow */
    uint32_t owner_term;
    /* consecutive exchanges in which the member's own slices were in time */
    uint32_t owner_rounds_in_time;
    /* last round in which the loss of this member cost the others time; 0: none */
    uint32_t lost_round;
    uint32_t replaced_round; /* last round in which the member was replaced as an owner; 0: none */
    uint32_t slow_rounds;    /* exchanges since the member became slow */
    uint32_t retry_rounds;   /* value of slow_rounds at which owners wait for the member again */
    bool is_slow;            /* owners do not wait for the member's contributions */
    bool is_retried; /* owners wait for the member on trial, after rounds as a slow member */
    bool has_resumed_samples; /* the member's samples are those of an aborted round */
    bool is_applying;         /* the member was in the newest commit, and has not applied it yet */
};

/* Deadlines (tracker_deadlines.c).
 * tracker_derive_timing       Derive the deadlines from the usual times.
 * tracker_usual_time          The lower median of the recent times of all voters that have any;
 *                             UINT32_MAX: none has.
 * tracker_longest_usual_ms    The longest time with which a member counts as being as fast as the
 *                             others, which usually take usual_ms.
 * tracker_count_timed_out_round
 *                             The open round is aborted because it took too long: count it.
 * tracker_clear_timed_out_rounds
 *                             After a commit: forget the counted rounds. Returns whether there
 *                             were any. */
void tracker_derive_timing(struct tracker *tracker);
uint32_t tracker_usual_time(const struct tracker *tracker, enum speed_kind kind);
uint64_t tracker_longest_usual_ms(const struct tracker *tracker, uint32_t usual_ms);
void tracker_count_timed_out_round(struct tracker *tracker);
bool tracker_clear_timed_out_rounds(struct tracker *tracker);

/* Speeds and shares (tracker_speed.c).
 * tracker_clear_speed        Forget the speed of a row, which gets another member.
 * tracker_slow_share         The share of a slow row, of SHARE_FULL; 0: it is not slow.
 * tracker_restore_share      At a start: set the share that the row had before.
 * tracker_save_speed         Copy a row's speed into the record.
 * tracker_restore_speed      At a start, after the share: copy a row's speed from the record.
 * tracker_mark_slow          Let owners wait for the row only after it has delivered in time.
 * tracker_mark_resumed_samples
 *                            Record whether the row's samples are those of an aborted round.
 * tracker_observe_training_time
 *                            A declaration has arrived: record the time for a full share.
 * tracker_observe_exchange   A commit is durable: record deliveries, decide on shares.
 * tracker_mark_applying_members
 *                            A commit is durable: mark the members that have to apply it.
 * tracker_observe_apply_time A member has the state of the newest commit: record its time.
 * tracker_applies_in_time    Whether the row usually applies commits as fast as the others.
 * tracker_samples_of_row     Number of samples that the row is given in the next round.
 * tracker_awaited_seats      Those of `seats` that can train on their samples in time.
 * tracker_is_fast_enough     Whether owners wait for the row's contributions.
 * tracker_is_known_fast      Whether the row's contributions arrived in time in several exchanges.
 * tracker_may_own_slices     Whether the row may own slices.
 * tracker_recent_time        The recent time of a row; 0: it has none.
 * tracker_upload_rate        The upload rate of a row that receivers observed; 0: not known.
 * tracker_contributes_to_slice
 *                            Whether a slow row contributes to this slice in the open round. */
void tracker_clear_speed(struct tracker *tracker, uint32_t row);
void tracker_mark_slow(struct tracker *tracker, uint32_t row);
uint32_t tracker_slow_share(const struct tracker *tracker, uint32_t row);
void tracker_restore_share(struct tracker *tracker, uint32_t row, uint32_t share);
void tracker_save_speed(const struct tracker *tracker, uint32_t row, struct record_speed *kept);
void tracker_restore_speed(struct tracker *tracker, uint32_t row, const struct record_speed *kept);
void tracker_mark_resumed_samples(struct tracker *tracker, uint32_t row, bool has_resumed_samples);
void tracker_observe_training_time(struct tracker *tracker, uint32_t row, int64_t now_ms);
void tracker_observe_exchange(struct tracker *tracker, int64_t now_ms);
void tracker_mark_applying_members(struct tracker *tracker);
void tracker_observe_apply_time(struct tracker *tracker, uint32_t row, int64_t now_ms);
bool tracker_applies_in_time(const struct tracker *tracker, uint32_t row);
uint64_t tracker_samples_of_row(const struct tracker *tracker, uint32_t row);
uint64_t tracker_awaited_seats(const struct tracker *tracker, uint64_t seats);
bool tracker_is_fast_enough(const struct tracker *tracker, uint32_t row);
bool tracker_is_known_fast(const struct tracker *tracker, uint32_t row);
bool tracker_may_own_slices(const struct tracker *tracker, uint32_t row);
uint32_t tracker_recent_time(const struct tracker_speed *speed, enum speed_kind kind);
uint32_t tracker_upload_rate(const struct tracker *tracker, uint32_t row);
bool tracker_contributes_to_slice(const struct tracker *tracker, uint32_t row, uint32_t slice);

/* Waits of the open round (tracker_pace.c), in ms: how long the tracker waits for members that have
 * not finished a part. A wait is the deadline of the part; if no earlier round has measured the
 * part, the wait follows from the seats that have finished it.
 * tracker_begin_pace             The first table of the round is durable: reset the pace.
 * tracker_observe_owner_report   A report has arrived: if the row owns slices, record the time in
 *                                which it was not blocked.
 * tracker_observe_result_spread  Enough other seats have all results of these owners: record when.
 * tracker_owner_began_ms         Returns the time from which this owner works on its results.
 * tracker_training_end_ms        From OPEN until members that still train have to declare.
 * tracker_declaration_wait_ms    From OPEN until no declaration is waited for.
 * tracker_contribution_wait_ms   From an owner's first table until the owner stops waiting for
 *                                contributions.
 * tracker_result_wait_ms         From an owner's first table until the owner is replaced if it has
 *                                no results.
 * tracker_vote_wait_ms           From PROPOSE until results that few seats have are recovered.
 * tracker_apply_wait_ms          From COMMIT until the next round no longer waits for members that
 *                                apply it. */
void tracker_begin_pace(struct tracker *tracker);
void tracker_observe_owner_report(struct tracker *tracker, uint32_t row, int64_t now_ms);
void tracker_observe_result_spread(struct tracker *tracker, uint64_t owners, int64_t now_ms);
int64_t tracker_owner_began_ms(const struct tracker *tracker, uint32_t owner);
int64_t tracker_training_end_ms(const struct tracker *tracker);
int64_t tracker_declaration_wait_ms(const struct tracker *tracker);
int64_t tracker_contribution_wait_ms(const struct tracker *tracker, uint32_t owner);
int64_t tracker_result_wait_ms(const struct tracker *tracker);
int64_t tracker_vote_wait_ms(const struct tracker *tracker);
int64_t tracker_apply_wait_ms(const struct tracker *tracker);

#endif
