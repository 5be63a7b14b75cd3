/* tracker_state: the tracker's state, with the structs of each file. Private to the tracker's
 * files: a file assigns only the fields of its own structs and calls the functions of the
 * others. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_STATE_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_STATE_H

#include "runtime/swarm/protocol/seats.h"
#include "runtime/swarm/tracker_machine/tracker_guests.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"
#include "runtime/swarm/tracker_machine/tracker_recheck.h"
#include "runtime/swarm/tracker_machine/tracker_speed.h"

enum { ROW_NONE = SWARM_MEMBERS_MAX }; /* no row of tracker.members */

enum tracker_stage_kind {
    STAGE_READY,    /* between rounds */
    STAGE_TRAIN,    /* OPEN was sent, and declarations arrive */
    STAGE_EXCHANGE, /* TABLE was sent, and members exchange contributions and results */
    STAGE_VOTE,     /* PROPOSE was sent, and votes arrive */
};

struct tracker_stage { /* the stage of the round, and its times; assigned only by tracker_stage.c */
    enum tracker_stage_kind kind; /* current stage of the round */
    int64_t last_event_ms;        /* when the tracker's last event of any kind came */
    int64_t stage_began_ms;       /* Time at which the stage began. */
    int64_t round_began_ms;       /* when the round was opened */
    int64_t committed_ms;         /* when the newest commit was durable */
    int64_t last_quorum_ms;       /* when a quorum was last connected */
    int64_t last_current_ms;      /* when a member was last known to have the current state */
    int64_t budget_percent_ms;    /* ms that rounds may still wait for late members, times 100 */
    int64_t budget_counted_ms;    /* time up to which budget_percent_ms is counted */
    bool is_inherited;            /* the round was opened before the tracker started */
    bool is_concluded; /* the run is complete, and the members with its state were released */
};

struct seat_delivery { /* what other members, as owners, received of a seat's contributions */
    uint32_t planned; /* number of slices that other members own and that the seat contributes to */
    uint32_t delivered; /* number of planned slices whose result has the seat's contribution */
    bool is_late;       /* more than 1/3 of the owners miss a contribution of this seat */
    bool is_rejected;   /* more than 1/3 of the owners each rejected a contribution of this seat */
    bool is_repeated;   /* most rejecting owners rejected it as a copy of an earlier contribution */
};

/* The next record while it is written. Large arrays are not copied. `next` and the record share the
 * plans unless the plans change. next.head uses the array of slices of a proposal. Once next.head
 * is durable, the proposal uses the array of the previous commit. */
struct tracker_writer {             /* assigned only by tracker_record.c */
    struct tracker_record next;     /* the record that is being written */
    struct slice_plan *spare_plans; /* [slice_count]: slice plans before their last change */
    uint32_t parts;       /* bits of enum record_part that are being written; 0: no write */
    uint32_t pending_row; /* 1 + the row whose session is being written */
    struct entry_documents documents; /* operator's documents that await an entry; serial 0: none */
    bool is_fenced;      /* another process writes to the store, so no write is possible */
    bool is_backing_off; /* a write failed, so no write starts before the next tick */
};

struct tracker_proposal {  /* the newest proposal; assigned only by tracker_proposal.c */
    struct entry entry;    /* the proposed COMMIT */
    uint64_t id;           /* number of the proposal */
    struct hash next_seed; /* random bytes for the next proposal */
    struct hash seed;      /* random bytes of this proposal */
};

struct tracker_vote { /* a member's vote on the proposal; assigned only by tracker_proposal.c */
    bool has_arrived; /* the vote was received */
    struct hash root; /* root that the member computed */
    struct hash hash; /* hash of the proposed entry with the member's root */
    struct signature signature;     /* the member's signature of the hash */
    struct message_refusal refusal; /* why the member refuses, and the seats that it reports */
    struct entry_evidence evidence; /* the statement that an accusation calls false */
    uint32_t slice;                 /* of an accusation: the slice that the member audited */
};

struct tracker_exchange {    /* the exchange of the round; assigned only by tracker_exchange.c */
    uint64_t *holders;       /* [slice_count]: seats that have a result of the current epoch */
    uint64_t *planned;       /* [slice_count]: seats that the first table lets contribute */
    uint64_t *awaited;       /* [slice_count]: seats of `planned` that the owner waits for */
    uint64_t expected_seats; /* seats that owners wait for, by the first table */
    int64_t table_ms;        /* when the first table was durable */
    /* by owner: when a plan of its slices last changed; waits for the owner count from then */
    int64_t assigned_ms[SWARM_MEMBERS_MAX];
    /* by owner: from tracker_owner_began_ms to the results of all slices it owns; 0: not yet */
    uint32_t result_ms[SWARM_MEMBERS_MAX];
    uint64_t missed_by[SWARM_MEMBERS_MAX]; /* by seat: owners that stopped waiting for this seat */
    uint64_t undeclared_seats; /* seats that had time for training, and did not declare */
    uint64_t late_seats;       /* seats that more than a third of the owners stopped waiting for */
    uint64_t failed_owners;    /* owners that were replaced because their results did not come */
    uint64_t lost_seats;       /* seats that were silent while owners waited for them */
    uint64_t lying_owners;     /* owners that are replaced because a result or sketch is false */
    /* By seat: the reason for which the table gives no weight to a seat that trained. */
    enum suspension_reason exclusions[SWARM_MEMBERS_MAX];
    struct seat_delivery deliveries[SWARM_MEMBERS_MAX]; /* by seat: delivered to newest commit */
    uint32_t poll;      /* number of the newest poll, a request that all voters report */
    bool is_poll_open;  /* recovery waits for the answers of all live voters to `poll` */
    bool ends_training; /* `poll` requests that members end training and declare what they have */
};

struct tracker_rollback { /* possible and ordered rollbacks; assigned only by tracker_rollback.c */
    struct state_history history;                    /* states that a rollback can return to */
    struct data_cursor cursors[ROLLBACK_STATES_MAX]; /* by state: position in the training data */
    bool is_ordered;                                 /* the operator has ordered a rollback */
    struct hash ordered_root;                        /* root of the state to return to */
    struct rollback_order order;                     /* the operator's signature of the order */
};

struct tracker_seats { /* seats of the newest entry's roster; assigned only by tracker_members.c */
    int row_of_seat[SWARM_MEMBERS_MAX]; /* by seat: row of the member; NO_SEAT: none */
    int seat_of_row[SWARM_MEMBERS_MAX]; /* by row: seat of the member; NO_SEAT: none */
};

/* The declared roots of commits since the tracker started, and the declared norms of earlier
 * ones. */
struct tracker_repeats { /* assigned only by tracker_repeats.c */
    uint32_t next;       /* index of the oldest round, which the next commit replaces */
    struct hash roots[REPEAT_ROUNDS][SWARM_MEMBERS_MAX]; /* by round and seat: root; zero: none */
    double norms[REPEAT_ROUNDS][SWARM_MEMBERS_MAX];      /* by round and seat: norm; 0: none */
};

/* The last message to a member. */
struct tracker_last_sent {  /* assigned only by tracker_handle.c */
    enum message_kind kind; /* kind of the message */
    uint64_t number; /* by kind: part of an entry's hash, table version, poll or proposal number */
    int64_t sent_ms; /* time at which the message was sent last */
    uint32_t resend_after_ms; /* wait before a repetition, doubled each time; 0: nothing was sent */
};

/* The newest report of a member. */
struct tracker_report {   /* assigned only by tracker_members.c */
    uint64_t number;      /* number of the report, which increases */
    uint32_t poll;        /* number of the newest poll that the member answered */
    uint32_t round;       /* round that `slices` describes */
    uint32_t version;     /* version of the table that the member has */
    uint64_t unreachable; /* mask of rows that the member could not connect to in its last round */
    struct hash root;     /* current root of the member; zero during a state fetch */
    struct hash durable_root;        /* root of the state on the member's disk */
    struct timing_measured measured; /* medians of the times that the member measured, in ms */
    struct hash stored[STORED_STATES_MAX]; /* roots of the member's stored states; zero: none */
    struct slice_report *slices;           /* [slice_count]: progress of the member in each slice */
    uint32_t awaited_ms[SWARM_MEMBERS_MAX]; /* by seat: ms waited for the seat's contributions */
};

/* A registered member; row r is record.members[r]. */
struct tracker_member {      /* assigned only by tracker_members.c */
    uint64_t start_id;       /* random number of the member's last start */
    int64_t last_message_ms; /* when the member's last message arrived */
    bool is_silent;    /* the member sent no message for timing.silence_ms, or is disconnected */
    bool is_leaving;   /* the member joins no further round */
    bool has_declared; /* the member has declared for the open round */
    struct training_amount trained;     /* amount of training that the member declared */
    uint32_t rounds_missed;             /* rounds opened since the member was last ready for one */
    struct hash root;                   /* root of the declared contribution */
    struct signature declaration;       /* signature of the declaration */
    struct tracker_report report;       /* newest report of the member */
    struct tracker_vote vote;           /* the member's vote for the proposal */
    struct tracker_last_sent last_sent; /* last message sent to the member */
};

/* The separation of an owner from a contributor whose contributions did not reach the owner. */
struct tracker_pair {
    uint32_t rounds;      /* length of the last separation in rounds, which doubles each time */
    uint32_t until_round; /* first round in which the owner waits for the contributor again */
};

/* The leases and votes with which this start of the tracker may continue after the newest state
 * entry. */
struct tracker_leases {          /* assigned only by tracker_leases.c */
    uint64_t start;              /* number of this start; 0: the chain needs no leases */
    struct electors electors;    /* electors of the newest state entry */
    struct needed_votes needed;  /* votes that a commit of the newest OPEN needs */
    struct continue_order order; /* operator's order for this start and state; count 0: none */
    uint64_t promised;           /* rows of members whose lease on the state another start has */
    uint64_t mute; /* rows of members that did not vote in a round that became too old */
    /* time at which the electors that can vote became half or too few to continue; 0: enough */
    int64_t no_majority_since_ms;
    bool is_fork_possible; /* electors that can vote were half or too few for FORK_POSSIBLE_MS */
};

/* Separations of owners from contributors, by the rows of the contributor and of the owner. */
struct tracker_pairs { /* assigned only by tracker_pairs.c */
    struct {
        struct tracker_pair owners[SWARM_MEMBERS_MAX]; /* by row of the owner: separation */
    } contributors[SWARM_MEMBERS_MAX];
};

/* The misses and suspensions of the member in a row, which are kept when the member restarts. */
struct tracker_strikes { /* assigned only by tracker_strikes.c */
    uint32_t misses;  /* bits of the newest rounds that awaited the member; set: a missed round */
    uint32_t opposed; /* newest commits with the member's contribution, as bits; set: opposed */
    uint32_t clean_rounds;      /* rounds since the member's last miss or opposed contribution */
    uint32_t term;              /* length of the member's last suspension in rounds, halved later */
    uint32_t until_round;       /* first round in which the member may have a seat again */
    enum suspension_reason due; /* reason for the member's next suspension; none: not due */
    enum suspension_reason reason;  /* reason for the member's last suspension */
    struct entry_evidence evidence; /* the member's false statement, if that is the reason `due` */
};

struct tracker {                        /* the state machine */
    struct tracker_settings settings;   /* settings of the swarm */
    struct tracker_stage stage;         /* stage of the round, and its times */
    struct tracker_deadlines deadlines; /* deadlines and what they were derived from */
    struct tracker_record record;       /* the durable record, assigned only by tracker_record.c */
    struct tracker_writer writer;       /* the write in progress */
    struct tracker_roster roster;       /* the operator's newest roster epoch */
    struct tracker_proposal proposal;   /* proposal that members vote for */
    struct tracker_recheck recheck;     /* slices that the voters on the proposal audit */
    struct tracker_exchange exchange;   /* holders of results, and the poll */
    struct tracker_pace pace;           /* times of the open exchange */
    struct tracker_rollback rollback;   /* states that a rollback can return to */
    struct tracker_repeats repeats;     /* declared roots of the newest commits */
    struct tracker_seats seats;         /* seats of the newest entry's roster */
    struct tracker_member members[SWARM_MEMBERS_MAX];  /* by row: the registered members */
    struct tracker_speed speeds[SWARM_MEMBERS_MAX];    /* by row: observed speed of the member */
    struct tracker_strikes strikes[SWARM_MEMBERS_MAX]; /* by row: misses and suspensions */
    struct tracker_pairs pairs;   /* owners that do not get the contributions of some members */
    struct tracker_leases leases; /* leases and votes with which this start may continue */
};

/* The stage and its times (tracker_stage.c).
 * stage_skip_gap            After a gap without events, move all times by the gap. Returns the
 *                           gap in ms, or 0 if it is short.
 * stage_mark_quorum         Record that a quorum is connected.
 * stage_mark_current_state  Record that a member with the current state is connected.
 * stage_mark_concluded      Record that the members with the state of a complete run were released.
 * stage_update_wait_budget  Add a part of the time since the last call to the budget for waits, and
 *                           take the whole time off it if rounds were waiting.
 * stage_may_wait            Whether the budget for late members is above reserve_ms.
 * tracker_enter_stage       Begin a stage; TRAIN also begins a round. */
void stage_init(struct tracker_stage *stage, const struct tracker_record *record, int64_t now_ms);
int64_t stage_skip_gap(struct tracker_stage *stage, int64_t heartbeat_ms, int64_t now_ms);
void tracker_enter_stage(struct tracker *tracker, enum tracker_stage_kind kind, int64_t now_ms);
void stage_mark_quorum(struct tracker_stage *stage, int64_t now_ms);
void stage_mark_current_state(struct tracker_stage *stage, int64_t now_ms);
void stage_mark_concluded(struct tracker_stage *stage);
void stage_update_wait_budget(struct tracker_stage *stage, bool is_waiting, int64_t capacity_ms,
                              int64_t now_ms);
bool stage_may_wait(const struct tracker_stage *stage, int64_t reserve_ms);

/* The record and its writes (tracker_record.c).
 * tracker_load_record  Copy the durable record into arrays carved from *memory.
 * tracker_begin_draft  Copy the record to writer.next, to be changed and written.
 * tracker_begin_draft_with_plans  The same, with plans that may be changed too.
 * tracker_draft_entry  Begin a draft whose head is the next entry, with the fields that every
 *                      kind inherits from the head.
 * tracker_write_draft  Make writer.next durable, in which `parts` changed; append next.head if
 *                      it is one of them.
 * tracker_end_write    Handle the end of a write. Returns the parts that are durable now, 0 if
 *                      it failed.
 * writer_can_write     Whether no write is in progress, and no failed one waits for the next
 *                      tick. */
void tracker_load_record(struct tracker *tracker, char **memory, const struct tracker_record *from);
void tracker_begin_draft(struct tracker *tracker);
void tracker_begin_draft_with_plans(struct tracker *tracker);
void tracker_draft_session(struct tracker *tracker, uint32_t row, const struct identity *id);
struct entry *tracker_draft_entry(struct tracker *tracker, enum entry_kind kind);
void tracker_write_draft(struct tracker *tracker, uint32_t parts, struct actions *actions);
uint32_t tracker_end_write(struct tracker *tracker, const struct event *event);
void writer_clear_backoff(struct tracker_writer *writer);
bool writer_can_write(const struct tracker_writer *writer);

/* Members and seats (tracker_members.c).
 * tracker_find_row             The row of an identity, or ROW_NONE.
 * tracker_live_seats           The seats of the open round whose session is current and not
 *                              silent.
 * tracker_map_seats            Match rows and seats again after a change of either.
 * tracker_find_free_row        A row for a new identity, or ROW_NONE.
 * tracker_register_start       Assign the row to a new start of a member, whose session is being
 *                              written.
 * tracker_admit_member         The session is durable: admit the member.
 * tracker_reject_start         The session could not be written: let the member retry.
 * tracker_count_missed_rounds  Count a missed round for members without a seat.
 * tracker_member_has_state     Whether the member has reported a state, and is not fetching one.
 * tracker_is_ready_for_round   Whether the member may have a seat in the next round. */
uint32_t tracker_find_row(const struct tracker *tracker, const struct identity *id);
uint64_t tracker_live_seats(const struct tracker *tracker);
struct tracker_member *tracker_member_in_seat(struct tracker *tracker, uint32_t seat);
void tracker_map_seats(struct tracker *tracker);
void tracker_init_members(struct tracker *tracker, char **memory, int64_t now_ms);
void tracker_restore_round_trip(struct tracker_member *member, uint32_t round_trip_ms);
uint32_t tracker_find_free_row(const struct tracker *tracker);
void tracker_register_start(struct tracker *tracker, uint32_t row, const struct message *hello,
                            int64_t now_ms);
void tracker_admit_member(struct tracker *tracker, uint32_t row);
void tracker_reject_start(struct tracker *tracker, uint32_t row);
void tracker_mark_timed_out_members(struct tracker *tracker, int64_t now_ms);
void tracker_shift_member_times(struct tracker *tracker, int64_t gap_ms);
void tracker_mark_silent(struct tracker_member *member);
void tracker_mark_message_received(struct tracker_member *member, int64_t now_ms);
void tracker_mark_leaving(struct tracker_member *member);
void tracker_store_declaration(struct tracker_member *member, const struct message *message);
void tracker_clear_declarations(struct tracker *tracker);
bool tracker_store_report(struct tracker *tracker, uint32_t row, const struct message *message);
void tracker_count_missed_rounds(struct tracker *tracker);
bool tracker_member_has_state(const struct tracker_member *member);
bool tracker_is_ready_for_round(const struct tracker *tracker, uint32_t row);
bool tracker_is_slow_joiner(const struct tracker *tracker, uint32_t row);

/* Messages (tracker_handle.c).
 * tracker_send             Send to a row, with incarnation and session filled in.
 * tracker_send_missing_message  Send the next message that the member lacks, if it is due.
 * tracker_send_goodbyes    Send GOODBYE to all members that may exit, when the run is complete.
 * tracker_clear_last_sent  Send the next message at once, even if it is a repetition. */
void tracker_handle_message(struct tracker *tracker, const struct message *message, int64_t now_ms,
                            struct actions *actions);
void tracker_send(struct tracker *tracker, uint32_t row, struct message message,
                  struct actions *actions);
void tracker_send_missing_message(struct tracker *tracker, uint32_t row, int64_t now_ms,
                                  struct actions *actions);
void tracker_send_goodbyes(struct tracker *tracker, int64_t now_ms, struct actions *actions);
void tracker_clear_last_sent(struct tracker_last_sent *last);

/* Rounds (tracker_round.c).
 * tracker_is_run_complete  Whether the run has all its commits, so that no round opens.
 * tracker_advance          Do all that the state allows now: open, send the table, recover,
 *                          propose, commit, abort.
 * tracker_return_ranges    Return the samples of seats not in `used` to the entry's cursor. */
bool tracker_is_run_complete(const struct tracker *tracker);
void tracker_advance(struct tracker *tracker, int64_t now_ms, struct actions *actions);
void tracker_return_ranges(struct entry *entry, uint64_t used);

/* Rollbacks (tracker_rollback.c).
 * tracker_roll_back_if_state_lost  If no member had the current state for too long, roll back to
 *                             the newest state that a member has.
 * tracker_is_rollback_order_due  Whether the operator has ordered a rollback, and a connected
 *                             member has that state on disk.
 * tracker_follow_rollback_order  Roll back as ordered; no round is open.
 * tracker_member_stores_state  Whether a member reported that it has this state on disk.
 * tracker_add_rollback_state  Add the state of a COMMIT or GENESIS, or the target of a ROLLBACK. */
void tracker_roll_back_if_state_lost(struct tracker *tracker, int64_t now_ms,
                                     struct actions *actions);
bool tracker_is_rollback_order_due(const struct tracker *tracker);
void tracker_follow_rollback_order(struct tracker *tracker, struct actions *actions);
bool tracker_member_stores_state(const struct tracker_member *member, const struct hash *root);
void tracker_add_rollback_state(struct tracker_rollback *rollback, const struct entry *entry);

/* Owners and contributors that are separated (tracker_pairs.c).
 * tracker_clear_pairs      Forget the pairs of a row, which gets another member.
 * tracker_separate_pairs   At the end of a round, separate owners from seats that they stopped
 *                          waiting for, except from seats that are late for more than a third.
 * tracker_separated_seats  The seats whose contributions an owner does not wait for.
 * tracker_has_many_pairs   Whether the row is separated from more than a third of the voters. */
void tracker_clear_pairs(struct tracker *tracker, uint32_t row);
void tracker_separate_pairs(struct tracker *tracker);
uint64_t tracker_separated_seats(const struct tracker *tracker, uint32_t owner);
bool tracker_has_many_pairs(const struct tracker *tracker, uint32_t row);

/* Leases (tracker_leases.c).
 * leases_fill_entry         Fill in the leases of a draft's entry.
 * leases_apply_entry        Update the electors and the needed votes from an entry that is durable.
 * tracker_can_seats_commit  Whether votes of these seats of the newest OPEN suffice by the leases.
 * tracker_count_electors    Count the electors, and those that are in `rows`; 0 without leases.
 * tracker_list_missing_electors  The electors that have not resigned and are not connected.
 * tracker_may_continue_with Whether the leases allow that these rows commit a round.
 * tracker_has_resigned      Whether the row is an elector that has resigned.
 * tracker_must_resign       Whether a row resigns before it leaves, because an elector is in
 *                           `stayers`, the rows that stay.
 * tracker_handle_resignation  Make the resignation of a row durable.
 * tracker_rows_allowed_by_leases  The rows that may have a seat: those of the operator's order;
 *                           without one, all whose votes no other start has.
 * tracker_may_vote          Whether a seat of this row has a vote: the row is neither a guest nor
 *                           an elector that has resigned.
 * leases_mark_vote          Record that a row voted, or gave another start its lease.
 * leases_clear_row          The row's member has restarted: it is neither promised nor mute.
 * leases_mark_mute_rows     The round is too old: mark the live voters that have not voted.
 * tracker_is_round_overruled  Whether an order to continue excludes the open round.
 * tracker_watch_electors    Record whether at least half of the electors are missing. */
void leases_fill_entry(const struct tracker *tracker, struct entry *entry);
void leases_apply_entry(struct tracker_leases *leases, const struct entry *head);
bool tracker_can_seats_commit(const struct tracker *tracker, uint64_t seats);
struct elector_count tracker_count_electors(const struct tracker *tracker, uint64_t rows);
uint32_t tracker_list_missing_electors(const struct tracker *tracker,
                                       struct identity ids[static SWARM_MEMBERS_MAX]);
bool tracker_may_continue_with(const struct tracker *tracker, uint64_t rows);
bool tracker_has_resigned(const struct tracker *tracker, uint32_t row);
bool tracker_must_resign(const struct tracker *tracker, uint32_t row, uint64_t stayers);
void tracker_handle_resignation(struct tracker *tracker, uint32_t row,
                                const struct message *message, struct actions *actions);
uint64_t tracker_rows_allowed_by_leases(const struct tracker *tracker);
bool tracker_may_vote(const struct tracker *tracker, uint32_t row);
void leases_mark_vote(struct tracker_leases *leases, uint32_t row, bool is_promised);
void leases_clear_row(struct tracker_leases *leases, uint32_t row);
void leases_mark_mute_rows(struct tracker *tracker);
bool tracker_is_round_overruled(const struct tracker *tracker);
void tracker_watch_electors(struct tracker *tracker, int64_t now_ms);

/* Strikes and suspensions (tracker_strikes.c).
 * tracker_is_suspended    Whether the row has no seat in the next round.
 * tracker_clear_strikes   Forget the strikes of a row, which gets another member.
 * tracker_judge_round     A round has ended: record the seats that missed a part of it.
 * tracker_suspend_liar    Suspend a row, which made a false statement, after this round.
 * tracker_suspend_next    Write the suspension of a member, if one is due.
 * tracker_apply_suspension  The SUSPEND entry is durable: the row has no seat until the term ends.
 * tracker_replay_suspension  The same at a start, for a suspension of the ledger.
 * tracker_restore_member  At a start: restore what the record has of the row. */
bool tracker_is_suspended(const struct tracker *tracker, uint32_t row);
void tracker_clear_strikes(struct tracker *tracker, uint32_t row);
void tracker_judge_round(struct tracker *tracker);
void tracker_suspend_liar(struct tracker *tracker, uint32_t row, enum suspension_reason reason,
                          const struct entry_evidence *evidence);
bool tracker_suspend_next(struct tracker *tracker, struct actions *actions);
void tracker_apply_suspension(struct tracker *tracker, const struct entry *entry);
void tracker_replay_suspension(struct tracker *tracker, const struct entry *entry);
void tracker_restore_member(struct tracker *tracker, uint32_t row);

/* The table (tracker_table.c).
 * tracker_find_links      Find for each of `seats` the others that it cannot connect to, by the
 *                         reports of both. Only voters are well connected or candidates.
 * tracker_fill_upload_rates
 *                         Fill in the upload rate of each of `seats`, for assigning slices. At
 *                         least one is not zero; those of other seats are zero.
 * tracker_owner_candidates  The seats that may own slices, of these voting seats; 0: of no seats.
 * tracker_plan_seats      Fill in the seats that contribute to a slice: those of `seats` that have
 *                         a weight.
 * plan_drop_seats         Let these seats contribute no longer.
 * table_mark_all_new      Treat all plans as changed, because the record has no versions of plans.
 * tracker_allows_result   Whether an honest seat can have this result. That is checked only of the
 *                         owner of the slice.
 * tracker_write_table     Write the weights, owners and roots of the declarations.
 * tracker_change_plan     Change one slice of the draft's table, which gets the next version.
 * tracker_clear_table     Clear the draft's table for the round that opens.
 * tracker_weighted_seats  Those of `seats` that have a weight in the table.
 * tracker_restore_exclusions  At a start, find why the table gives no weight to some seats. */
void tracker_restore_exclusions(struct tracker *tracker);
struct tracker_links {                       /* which seats can connect to each other */
    uint64_t unreachable[SWARM_MEMBERS_MAX]; /* by seat: seats that the seat cannot connect to */
    /* voters that can connect to more than half of the voters, so that their sums have most
     * contributions; all voters if there are no such voters */
    uint64_t well_connected;
    /* voters that may own slices: those that can connect to all voters, so that the contribution
     * of each voter is in their slices. If they are fewer than half of the voters: all well
     * connected ones */
    uint64_t owner_candidates;
};
void tracker_find_links(const struct tracker *tracker, uint64_t seats, struct tracker_links *links);
void tracker_fill_upload_rates(const struct tracker *tracker, uint64_t seats,
                               uint64_t rates[static SWARM_MEMBERS_MAX]);
uint64_t tracker_owner_candidates(const struct tracker *tracker, uint64_t seats);
void tracker_plan_seats(const struct tracker *tracker, const struct round_table *table,
                        uint32_t slice, uint64_t seats, struct slice_plan *plan);
void plan_drop_seats(struct slice_plan *plan, uint64_t seats);
bool tracker_allows_result(const struct tracker *tracker, uint32_t seat, uint32_t slice,
                           const struct slice_report *report);
void tracker_write_table(struct tracker *tracker, struct actions *actions);
void tracker_change_plan(struct tracker *tracker, uint32_t slice, const struct slice_plan *plan);
void table_mark_all_new(struct round_table *table, uint32_t slice_count);
void tracker_clear_table(struct tracker *tracker, uint32_t round);
uint64_t tracker_weighted_seats(const struct round_table *table, uint64_t seats);

/* The exchange (tracker_exchange.c).
 * tracker_begin_exchange       The first table of the round is durable: reset the exchange.
 * tracker_advance_exchange     Recover missing results; propose if none is missing.
 * tracker_count_deliveries     Count the contributions of each seat in the newest commit.
 * tracker_update_holders       Update the holders of results from the report of a row.
 * tracker_clear_stale_holders  Clear the holders of slices that have a new epoch.
 * tracker_find_slice_report    A seat's report of a slice in the open round, or NULL. */
void exchange_init(struct tracker_exchange *exchange, char **memory, uint32_t slice_count,
                   uint32_t incarnation, int64_t now_ms);
void exchange_shift_times(struct tracker_exchange *exchange, int64_t gap_ms);
void exchange_mark_lying_owner(struct tracker_exchange *exchange, uint32_t seat);
void exchange_set_undeclared_seats(struct tracker_exchange *exchange, uint64_t seats);
void tracker_begin_exchange(struct tracker *tracker, int64_t now_ms);
void tracker_count_deliveries(struct tracker *tracker);
void exchange_stop_poll(struct tracker_exchange *exchange);
void exchange_request_training_end(struct tracker_exchange *exchange);
void tracker_clear_holder(struct tracker *tracker, uint32_t seat);
void tracker_advance_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions);
void tracker_update_holders(struct tracker *tracker, uint32_t row, int64_t now_ms);
void tracker_clear_stale_holders(struct tracker *tracker);
const struct slice_report *tracker_find_slice_report(const struct tracker *tracker, uint32_t seat,
                                                     uint32_t slice);

/* Contributions of earlier rounds (tracker_repeats.c).
 * repeats_add_commit  Remember the declared roots of a round, except of contributions that had a
 *                     weight and are in no sum of the commit.
 * repeats_replay_entry  At a start: remember the norms of a COMMIT. Other kinds clear everything.
 * repeats_clear       Forget all rounds, because after a rollback a member may repeat its work.
 * repeats_contain     Whether any member declared a contribution with this root in a remembered
 *                     round, or with this norm in one before the start of the tracker. */
void repeats_add_commit(struct tracker_repeats *repeats, const struct round_table *table,
                        const struct entry *commit);
void repeats_replay_entry(struct tracker_repeats *repeats, const struct entry *entry);
void repeats_clear(struct tracker_repeats *repeats);
bool repeats_contain(const struct tracker_repeats *repeats, const struct hash *root, double norm);

/* Proposals and votes (tracker_proposal.c).
 * proposal_swap_slices         Make the proposal use the array `slices` in place of its present
 *                              one.
 * tracker_fill_proposal_slice  Fill in the proposal's row of a slice, whose result `holders`
 *                              have.
 * tracker_complete_proposal    Complete the proposal under a new id.
 * tracker_count_votes          Commit if a quorum of votes agree, and no more are waited for. */
void proposal_init(struct tracker_proposal *proposal, struct entry_slice *slices,
                   uint32_t incarnation);
void proposal_swap_slices(struct tracker_proposal *proposal, struct entry_slice *slices);
void tracker_fill_proposal_slice(struct tracker *tracker, uint32_t slice, uint64_t holders);
void tracker_complete_proposal(struct tracker *tracker);
void tracker_handle_vote(struct tracker *tracker, uint32_t row, const struct message *message);
void tracker_clear_votes(struct tracker *tracker);
void tracker_count_votes(struct tracker *tracker, int64_t now_ms, struct actions *actions);

#endif
