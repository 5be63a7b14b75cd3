/* member_state: the member's state, one struct for each file that owns it. Private to the member's
 * files: a file assigns only the fields of its own struct and calls the functions of the others. */
#ifndef SKEP_SWARM_MEMBER_MACHINE_MEMBER_STATE_H
#define SKEP_SWARM_MEMBER_MACHINE_MEMBER_STATE_H

#include "runtime/swarm/member_machine/member_held.h"
#include "runtime/swarm/member_machine/member_machine.h"
#include "runtime/swarm/member_machine/member_repeats.h"
#include "runtime/swarm/protocol/audit.h"
#include "runtime/swarm/protocol/seats.h"

enum { NO_SLOT = CONTRIBUTION_SLOTS_PER_MEMBER }; /* no slot is assigned */

/* Kinds of jobs of the compute thread, which has at most one. Training is not a job and can be in
 * progress at the same time. */
enum job_kind {
    JOB_NONE,    /* no job is in progress */
    JOB_SUM,     /* add the contributions to a slice */
    JOB_ROOT,    /* compute the root after a proposal */
    JOB_STORE,   /* make results durable */
    JOB_APPLY,   /* apply a commit to the outer state */
    JOB_ADOPT,   /* fetch a state from other members and use it */
    JOB_SKETCH,  /* sketch this member's contribution */
    JOB_CHECK,   /* check the sums of a proposal by sketches */
    JOB_RECHECK, /* audit one slice */
    JOB_RESIGN,  /* make a resignation durable */
};

struct member_job {                   /* member_job.c */
    enum job_kind kind;               /* kind of the current job */
    uint32_t id;                      /* number of the newest job, which may have ended */
    bool is_abandoned;                /* the outcome of the job is no longer needed */
    bool is_backing_off;              /* A write failed, so no job starts before the next tick. */
    uint32_t slice;                   /* Slice of a SUM. */
    uint64_t contributors;            /* seats whose contributions a SUM adds */
    uint8_t slots[SWARM_MEMBERS_MAX]; /* by seat: slot of its contribution that a SUM reads */
};

struct member_session {                    /* member_session.c */
    uint64_t start_id;                     /* random number of this start of the process */
    uint32_t id;                           /* number of the session; 0: none yet */
    uint32_t incarnation;                  /* Highest incarnation of the tracker received so far. */
    uint32_t poll;                         /* Number of the newest poll received. */
    bool is_leaving;                       /* the operator has requested to leave the swarm */
    struct timing_measured measured;       /* medians of measured times, for the next report */
    struct hash stored[STORED_STATES_MAX]; /* roots of the states that this member stores */
    uint32_t unreachable_count;            /* number of unreachable members */
    struct identity unreachable[SWARM_MEMBERS_MAX]; /* members that cannot be connected to */
};

/* The reports to the tracker. A part is sent again until the tracker has confirmed a report with
 * it. */
struct member_report {         /* member_report.c */
    uint64_t confirmed;        /* number of the newest report that the tracker confirmed; 0: none */
    struct message last;       /* last report that was sent; its number is 0 if there is none */
    uint64_t position_changed; /* first report with the current values of REPORT_POSITION */
    uint64_t state_changed;    /* first report with the current values of REPORT_STATE */
    uint64_t awaited_changed;  /* first report with the current `awaited_ms` */
    uint32_t awaited_ms[SWARM_MEMBERS_MAX]; /* by seat: ms of waiting that were reported last */
    uint32_t sums_left; /* own slices without a result when the last report was sent */
};

/* The newest contribution that the compute thread encoded, and its declaration. */
struct member_training {
    uint32_t round;                 /* round of the contribution; 0: none */
    int seat;                       /* seat of this member in the round of the contribution */
    struct training_amount trained; /* amount of training that the contribution comes from */
    uint32_t ticks_since_declared;  /* heartbeats since the last declaration */
    uint32_t redeclare_ticks;       /* wait before the declaration is repeated; doubles each time */
    struct hash root;               /* root of the encoded contribution */
};

/* The open round. Its number is stored only in `open`, the newest OPEN entry. */
struct member_round {  /* member_round.c */
    bool is_open;      /* a round is open */
    struct entry open; /* the newest OPEN entry */
    int seat;          /* Seat of this member; NO_SEAT: no round is open, or no seat in it. */
    struct member_training training; /* the newest encoded contribution */
};

struct member_results {           /* member_results.c */
    uint32_t round;               /* round that `reports` describes */
    uint64_t next_report;         /* number of the next report to the tracker */
    uint32_t slice_count;         /* number of slices of the state */
    uint32_t first_open;          /* first slice without a result; slice_count: none */
    struct slice_report *reports; /* [slice_count]: progress of this member in each slice */
    uint64_t *waiting_seats; /* [slice_count]: seats that receive the result once it is stored */
    uint64_t *left_out;      /* [slice_count]: waiting seats that have their own contribution */
};

struct member_outer {         /* member_entry.c */
    struct hash root;         /* Current root; zero during a state fetch. */
    struct hash durable_root; /* Root of the state on disk. */
    uint32_t round;           /* Round of the newest COMMIT applied or ROLLBACK accepted. */
};

struct member_vote { /* member_entry.c */
    bool is_stored;  /* The results of the proposal are durable. */
    /* The vote may be sent: the results are durable and checked, or the proposal is refused. */
    bool is_ready;
    struct message_refusal refusal; /* Why the proposal is refused. */
    struct hash root; /* computed root after the proposal; zero: the proposal is refused */
    struct hash hash; /* hash of the proposed entry with `root` */
    struct signature signature; /* this member's signature of the hash */
};

struct member_proposal {        /* member_entry.c */
    bool is_current;            /* the proposal was received and not withdrawn */
    uint64_t id;                /* Number of the newest proposal. */
    struct tracker_start start; /* start of the tracker that sent the proposal */
    struct entry entry;         /* the proposed entry */
    struct member_vote vote;    /* this member's vote on the proposal */
};

/* The leases that the member has given with its votes. */
struct member_lease {                      /* member_lease.c */
    struct lease held;                     /* the last lease, durable before the vote is sent */
    struct tracker_start newest;           /* the last start of the tracker; number 0: unknown */
    enum lease_conflict conflict;          /* conflict of two starts that was found last */
    enum lease_conflict returned_conflict; /* conflict that was last returned for the log */
    /* a resignation is durable, and is sent until a later state entry is known */
    bool has_durable_resignation;
};

/* Members whose sketches did not arrive in time for the newest proposal that needed them. */
struct member_late_sketches {
    uint32_t count;                         /* number of `ids` in use */
    struct identity ids[SWARM_MEMBERS_MAX]; /* public keys of members whose sketches were late */
};

/* The check of the sums of the current proposal by sketches. */
struct member_check {       /* member_check.c */
    bool has_sketches;      /* the codec has sketches; never changes */
    struct hash seed;       /* seed of the sketches of the current proposal */
    bool has_own_sketches;  /* this member's own sketches are computed */
    uint64_t waiting_seats; /* seats that receive this member's sketches once these are computed */
    uint64_t needed_seats;  /* other seats whose sketches are needed */
    uint8_t pages[SWARM_MEMBERS_MAX]; /* by seat: bits of the pages of sketches that arrived */
    uint32_t ticks;                   /* heartbeats since the proposal arrived, except in audits */
    uint32_t waited_ticks;            /* part of `ticks` in which the vote lacked only sketches */
    uint32_t next_slice;              /* slices below this index have passed the check */
    uint64_t silent_seats;            /* seats whose sketches did not arrive in time */
    uint64_t missing_seats; /* seats whose sketches are missing: silent or unreachable seats */
    uint64_t opposed_seats; /* seats whose contributions oppose the others; set when done */
    struct member_late_sketches late_sketches; /* members that were silent in earlier proposals */
};

/* An *audit* checks one slice of the current proposal: it compares contributions with their
 * sketches, or computes the sum of all contributions again. */
struct member_audit {         /* member_audit.c */
    struct hash secret;       /* random bytes for draws (audit.h); they never change */
    bool is_planned;          /* an audit begins when the sketches have passed the check */
    bool is_active;           /* the vote waits for the audit */
    bool has_sketch_mismatch; /* audited because the sketches of the slice do not match */
    bool is_drawn;            /* audited because this member drew the slice */
    uint32_t slice;           /* the audited slice */
    uint64_t compared_seats;  /* seats whose contributions are compared with their sketches */
    uint64_t needed_seats;    /* other seats of compared_seats, whose contributions are fetched */
    uint64_t received_seats;  /* needed seats whose contributions have arrived */
    uint32_t ticks;           /* heartbeats since the audit was planned or, if active, began */
};

/* The COMMIT or ROLLBACK whose state the member is to apply or fetch. */
struct member_commit { /* member_entry.c */
    bool is_pending;   /* The commit has not been applied yet. */
    bool has_diverged; /* Applying results cannot produce the root, so the state must be fetched. */
    struct entry entry; /* the COMMIT or ROLLBACK */
};

/* Requests to the member in one seat. Times are in heartbeats. */
struct member_peer {
    /* 1 + the slice whose contribution is requested or stored in a slot; 0 if the slot is free. */
    uint32_t slots[CONTRIBUTION_SLOTS_PER_MEMBER];
    uint32_t open_results; /* Number of results requested and not yet received. */
    /* Time without anything received from the peer, counted while a request to the peer is open. */
    uint32_t quiet_ticks;
    uint32_t retry_ticks;   /* Value of quiet_ticks at which requests to the peer are sent again. */
    uint32_t slowest_ticks; /* longest time that an answer of the peer took */
    uint32_t away_ticks; /* Remaining time without requests after the peer's connection closed. */
};

/* Requests to all peers. Seats are those of the target entry, or of the open round if there is no
 * target entry. */
struct member_requests {                         /* member_request.c */
    struct member_peer peers[SWARM_MEMBERS_MAX]; /* by seat: requests to the member in the seat */
    /* Longest answer time of all peers in the last round that had requests. */
    uint32_t slowest_ticks;
    /* By seat: ms for which a contribution requested from the seat was outstanding in this
     * round. */
    uint32_t awaited_ms[SWARM_MEMBERS_MAX];
    uint64_t slot_seats;    /* seats for which a slot was used since all were freed */
    uint64_t awaited_seats; /* seats with an outstanding contribution after the last event */
    int64_t measured_ms;    /* time up to which awaited_ms is counted */
    uint32_t idle_ticks;    /* heartbeats since any requested data arrived */
    uint32_t ticks_without_message; /* heartbeats since any member's last message, at most 8 */
    /* Longest wait, in heartbeats, that may count as the time of an answer: the time since the
     * newest table arrived, or since this member's own network was last down if that is shorter. */
    uint32_t countable_ticks;
    uint8_t *requested_from; /* [slice_count]: 1 + seat asked for the result; 0: none */
    uint8_t *attempts;       /* [slice_count]: number of failed requests for the result. */
    uint64_t *holders; /* [slice_count]: seats that have the result, according to the tracker */
};

struct member {
    struct identity id;
    uint32_t slice_count;          /* number of slices of the parameters */
    uint64_t sample_tokens;        /* maximum tokens per sample */
    uint64_t sent_values;          /* values of a sparse contribution; other codecs: 0 */
    struct member_session session; /* this member's session at the tracker */
    struct member_report report;   /* reports to the tracker */
    struct member_outer outer;     /* state after the newest commit */
    struct member_round round;
    struct round_table table; /* table of the open round; version 0: none */
    uint64_t optional_seats;  /* seats that no owner of the table waits for */
    struct member_held held;  /* held requests of other members for this member's contribution */
    /* hashes of contributions that this member received in earlier rounds */
    struct member_repeats repeats;
    struct member_results results;   /* results and contributions of the round */
    struct member_proposal proposal; /* newest proposal of the tracker */
    struct member_lease lease;       /* leases that the member gave with its votes */
    struct member_check check;       /* check of the proposal's sums */
    struct member_audit audit;       /* audit of one slice of the proposal */
    struct member_commit commit;     /* entry whose state this member must reach */
    struct member_requests requests; /* requests to other members */
    struct member_job job;           /* job of the compute thread */
};

/* member_is_self: whether an identity is that of this member. */
bool member_is_self(const struct member *member, const struct identity *id);

/* Leases (member_lease.c).
 * member_lease_record_start      Record a start of the tracker; number 0 is none.
 * member_give_lease              Give a lease with the vote for the proposal whose hash is
 *                                `vote`. Returns false if the member must not vote for it.
 * member_lease_begin_round, member_lease_end_round
 *                                Called when the round of this OPEN begins, or ended with this
 *                                ABORT.
 * member_lease_on_current_state  Drop a resignation that is older than this entry, whose state is
 *                                now current.
 * member_resign                  Resign, as the tracker asks a leaving member to.
 * member_handle_resigned         Called when the resignation is durable.
 * member_send_resignation        Send the resignation, if the tracker may still need it. */
void member_lease_init(struct member_lease *lease, const struct lease *held);
void member_lease_record_start(struct member_lease *lease, uint32_t incarnation, uint64_t number);
bool member_give_lease(struct member *member, const struct hash *vote);
void member_lease_begin_round(struct member_lease *lease, const struct entry *open);
void member_lease_end_round(struct member_lease *lease, const struct entry *entry);
void member_lease_on_current_state(struct member_lease *lease, const struct entry *entry);
void member_resign(struct member *member, const struct message *goodbye, struct actions *actions);
void member_handle_resigned(struct member *member, struct actions *actions);
void member_send_resignation(const struct member *member, struct actions *actions);

/* The compute thread's job (member_job.c).
 * job_start        Start the next job; no job may be in progress.
 * job_start_sum    Start a SUM, which reads `slots` until it ends; no job may be in progress.
 * job_abandon      Ignore the outcome of the job. The job still reads its inputs until it ends;
 *                  only an ADOPT ends at once.
 * job_end          Record that the job has ended; `has_failed`: a write failed.
 * job_reads_slice  Whether a SUM of this slice is in progress. */
struct action *job_start(struct member_job *job, enum job_kind kind, struct actions *actions);
struct action *job_start_sum(struct member_job *job, const struct member_job *sum,
                             struct actions *actions);
void job_abandon(struct member_job *job);
void job_end(struct member_job *job, enum event_kind event, bool has_failed);
void job_clear_backoff(struct member_job *job);
bool job_reads_slice(const struct member_job *job, uint32_t slice);

/* Reports to the tracker (member_report.c).
 * member_send_report     Send what the tracker has not confirmed yet, or that nothing has changed.
 * report_confirm         The tracker has confirmed this report. If the number is lower than before,
 *                        the tracker has lost the later reports. */
void member_send_report(struct member *member, struct actions *actions);
void report_confirm(struct member_report *report, uint64_t number);

/* Messages from and to the tracker (member_session.c).
 * member_send               Send a message to an identity, or to the tracker if NULL. Returns the
 *                           action.
 * member_unreachable_seats  The seats of a roster that this member cannot connect to. */
struct action *member_send(const struct member *member, const struct identity *to,
                           struct message message, struct actions *actions);
uint64_t member_unreachable_seats(const struct member_session *session, const struct entry *roster);
void member_session_init(struct member_session *session, uint64_t start_id);
void member_session_tick(struct member *member, struct actions *actions);
void member_session_begin_leave(struct member_session *session);
void member_handle_tracker_message(struct member *member, const struct message *message,
                                   struct actions *actions);

/* The open round and the training for it (member_round.c).
 * round_number               The number of the open round; 0 if none is open.
 * round_has_contribution     Whether the compute thread has this round's contribution.
 * member_end_round           End the open round; the compute thread keeps the contribution.
 * member_end_training        Stop the training of this round, because the tracker no longer waits
 *                            for it.
 * member_send_declaration    Send the declaration, if the tracker may still need it.
 * member_repeat_declaration  Repeat the declaration, each time after twice the wait. */
uint32_t round_number(const struct member_round *round);
bool round_has_contribution(const struct member_round *round);
void member_open_round(struct member *member, const struct entry *entry, struct actions *actions);
void member_end_round(struct member *member);
void member_handle_training(struct member *member, const struct event *event,
                            struct actions *actions);
void member_end_training(const struct member *member, uint32_t round, struct actions *actions);
void member_send_declaration(struct member *member, struct actions *actions);
void member_repeat_declaration(struct member *member, struct actions *actions);

/* Proposals, votes, commits and the outer state (member_entry.c).
 * member_target_entry   The entry whose results are needed: the commit, else the proposal, else
 *                       NULL.
 * member_roster         The entry that assigns the peers' seats: the target entry, else the OPEN.
 * member_end_check      The sums of the proposal are checked: vote for it, or refuse it.
 * proposal_withdraw     Invalidate the proposal and its vote.
 * commit_clear          Remove the pending commit.
 * commit_mark_diverged  Record that the results do not produce the root of the commit, so that
 *                       the state is fetched. */
const struct entry *member_target_entry(const struct member *member);
const struct entry *member_roster(const struct member *member);
void member_entry_init(struct member *member, const struct hash *root);
void member_handle_entry(struct member *member, const struct message *message,
                         struct actions *actions);
void member_handle_proposal(struct member *member, const struct message *message,
                            struct actions *actions);
void member_handle_root(struct member *member, const struct event *event, struct actions *actions);
void member_handle_stored(struct member *member, struct actions *actions);
void member_handle_applied(struct member *member, const struct hash *root, struct actions *actions);
void member_start_state_fetch(struct member *member, struct actions *actions);
void member_send_vote(const struct member *member, struct actions *actions);
void member_end_check(struct member *member, const struct message_refusal *refusal,
                      struct actions *actions);
void proposal_withdraw(struct member_proposal *proposal);
void commit_clear(struct member_commit *commit);
void commit_mark_diverged(struct member_commit *commit);

/* The check of a proposal's sums (member_check.c).
 * member_check_begin              Begin the check of a proposal that has become current.
 * member_check_start_job          Start the next job of the check, if the state allows one.
 *                                 Returns whether it started one.
 * member_check_on_results_stored  The results of the proposal are durable.
 * member_check_tick               Repeat requests, and stop waiting for late members.
 * member_check_pass_slice         Continue after a slice whose audit found no false statement.
 * member_check_end                Vote, or refuse the proposal for this reason.
 * member_is_checking              Whether the check of the current proposal is in progress.
 * member_is_contributor           Whether this member has contributed to the open round.
 * member_handle_sketched, member_handle_checked
 *                                 A SKETCH or CHECK job has ended. */
void member_check_init(struct member_check *check, bool has_sketches);
void member_check_begin(struct member *member, const struct message *proposal,
                        struct actions *actions);
bool member_check_start_job(struct member *member, struct actions *actions);
void member_check_on_results_stored(struct member *member, struct actions *actions);
void member_check_tick(struct member *member, struct actions *actions);
void member_check_pass_slice(struct member *member, uint32_t slice, struct actions *actions);
void member_check_end(struct member *member, enum refusal_reason reason, uint32_t suspect,
                      struct actions *actions);
bool member_is_checking(const struct member *member);
bool member_is_contributor(const struct member *member);
void member_handle_sketched(struct member *member, struct actions *actions);
void member_handle_checked(struct member *member, uint32_t slice, uint64_t opposed,
                           struct actions *actions);
void member_handle_sketches(struct member *member, const struct message *message,
                            struct actions *actions);
void member_handle_sketch_request(struct member *member, const struct message *message,
                                  struct actions *actions);

/* Audits of single slices (member_audit.c).
 * member_audit_plan                   Plan the audit that this recheck of the current proposal
 *                                     requests.
 * member_audit_start                  Audit a slice whose sketches do not match.
 * member_audit_start_planned          The sketches match: begin the planned audit. Returns false
 *                                     if there is none.
 * member_audit_has_all_contributions  Whether all contributions have arrived.
 * member_audit_fill_job               Complete the action of a RECHECK.
 * member_audit_tick                   Repeat requests, and stop waiting for late members.
 * member_audit_keep_contribution      Whether a contribution belongs to the audit, which keeps
 *                                     it.
 * member_handle_rechecked             A RECHECK has ended. */
void member_audit_init(struct member_audit *audit, const struct hash *secret);
void member_audit_plan(struct member *member, uint32_t recheck, struct actions *actions);
void member_audit_start(struct member *member, uint32_t slice, struct actions *actions);
bool member_audit_start_planned(struct member *member, struct actions *actions);
bool member_audit_has_all_contributions(const struct member_audit *audit);
void member_audit_fill_job(const struct member *member, struct action *action);
void member_audit_tick(struct member *member, struct actions *actions);
bool member_audit_keep_contribution(struct member *member, const struct message *message,
                                    struct actions *actions);
void member_handle_rechecked(struct member *member, const struct message_refusal *refusal,
                             struct actions *actions);

/* Results and contributions by slice (member_results.c).
 * results_load                 Load the results that were on disk at the start.
 * results_reset                Drop all results and begin the reports of `round`.
 * results_restart_slice        Drop the result of one slice, which begins a new epoch.
 * results_keep_listed          Drop all results except those that `entry` lists.
 * results_set_result           Record that the result of a slice is stored.
 * results_add_contributions    Record that contributions of these seats are stored.
 * results_reject_contribution  Record that the contribution of this seat is stored but must not
 *                              be added, because it is invalid or repeats an earlier one.
 * results_drop_contribution    Record that the contribution of this seat is no longer stored.
 * results_set_contributions    Record that only the contributions of `seats` are stored.
 * results_add_waiting_seat     Record that the seat waits for the result of a slice, and whether
 *                              without its own contribution.
 * results_begin_report         Postpone the rows that report `number` has no room for, and begin
 *                              the report after it. Returns whether a row has changed since the
 *                              report `confirmed`.
 * results_pop_waiting_seats    Return the seats that wait for a slice, and clear them. *left_out
 *                              receives those that have their own contribution.
 * member_is_possible_result    Whether a mean of the contributions can have the norm of this
 *                              result, or with a sparse codec whether all of it was declared. */
void results_bind(struct member_results *results, char **memory, size_t slice_count);
void results_load(struct member_results *results, const struct member_initial_state *start);
void results_reset(struct member_results *results, uint32_t round, uint32_t slice_count);
void results_clear_waiting(struct member_results *results, uint32_t slice_count);
void results_restart_slice(struct member_results *results, uint32_t slice, uint32_t epoch);
void results_keep_listed(struct member_results *results, const struct entry *entry);
void results_set_result(struct member_results *results, uint32_t slice,
                        const struct slice_report *result);
void results_add_contributions(struct member_results *results, uint32_t slice, uint64_t seats);
void results_reject_contribution(struct member_results *results, uint32_t slice, uint32_t seat,
                                 bool is_repeated);
void results_drop_contribution(struct member_results *results, uint32_t slice, uint32_t seat);
void results_set_contributions(struct member_results *results, uint32_t slice, uint64_t seats);
void results_add_waiting_seat(struct member_results *results, uint32_t slice, uint32_t seat,
                              bool is_left_out);
uint64_t results_pop_waiting_seats(struct member_results *results, uint32_t slice,
                                   uint64_t *left_out);
bool results_begin_report(struct member_results *results, uint32_t slice_count, uint64_t number,
                          uint64_t confirmed);
bool member_is_possible_result(const struct member *member, const struct message *message);
bool member_has_all_results(const struct member *member);

/* The exchange (member_exchange.c).
 * member_is_declared_contribution  Whether the bytes of a contribution are those that the seat
 *                                  declared. */
void member_clear_table(struct member *member);
void member_handle_table(struct member *member, const struct round_table *table, uint32_t base,
                         struct actions *actions);
bool member_is_declared_contribution(const struct member *member, uint32_t seat,
                                     const struct message *message);
void member_handle_contribution(struct member *member, const struct message *message,
                                struct actions *actions);
void member_handle_result(struct member *member, const struct message *message,
                          struct actions *actions);
void member_handle_data_request(struct member *member, const struct message *message,
                                struct actions *actions);
void member_start_next_sum(struct member *member, struct actions *actions);
void member_handle_sum(struct member *member, const struct hash *hash, struct actions *actions);
void member_handle_abandoned_sum(struct member *member);

/* Requests for this member's contribution (member_held.c).
 * member_handle_contribution_request  Answer a request, or hold it until the table arrives.
 * member_answer_held_requests         Answer the held requests, because there is a table. */
void member_handle_contribution_request(struct member *member, const struct message *request,
                                        struct actions *actions);
void member_answer_held_requests(struct member *member, struct actions *actions);

/* Requests to other members, repeated until they are answered (member_request.c).
 * member_send_requests                     Send all requests that the windows allow now.
 * member_withdraw_requests_to_peer         Treat all requests to this identity as lost.
 * member_withdraw_requests_to_unreachable  Treat all requests to unreachable members as lost.
 * member_requests_set_holders              Set the seats that have the proposal's results, and
 *                                          withdraw requests to other seats.
 * member_requests_reset_for_table          Forget earlier waits and holders, because the table
 *                                          changed.
 * member_requests_clear                    Withdraw all requests.
 * member_find_slot                         The slot for a seat's contribution to a slice, or
 *                                          NO_SLOT.
 * member_free_slot                         Free the slot for a seat's contribution to a slice.
 * member_clear_slice_requests              Withdraw all requests for this slice, and free its
 *                                          slots unless a SUM reads them.
 * member_requests_free_slots               Free all slots; no result is missing, and no SUM reads
 *                                          any.
 * member_requests_timeout_ticks            How long to wait for an answer, in heartbeats.
 * member_mark_seat_answered                Record that a seat sent data that was requested from
 *                                          it.
 * member_mark_message_received             Record that a message arrived, from any member.
 * member_requests_add_waited_time          Count the time since the last event for the seats with
 *                                          an outstanding contribution.
 * member_requests_update_awaited_seats     Find the seats with an outstanding contribution, after
 *                                          an event. */
void member_requests_bind(struct member_requests *requests, char **memory, size_t slice_count);
void member_send_requests(struct member *member, struct actions *actions);
void member_requests_tick(struct member *member);
void member_requests_add_waited_time(struct member *member, int64_t now_ms);
void member_requests_update_awaited_seats(struct member *member);
void member_withdraw_requests_to_peer(struct member *member, const struct identity *id);
void member_withdraw_requests_to_unreachable(struct member *member);
void member_requests_set_holders(struct member *member, const uint64_t *holders);
void member_requests_clear_holders(struct member *member);
void member_requests_reset_for_table(struct member *member);
void member_requests_clear(struct member *member);
uint32_t member_find_slot(const struct member_requests *requests, uint32_t seat, uint32_t slice);
void member_free_slot(struct member_requests *requests, uint32_t seat, uint32_t slice);
void member_clear_slice_requests(struct member *member, uint32_t slice);
void member_requests_free_slots(struct member *member);
uint32_t member_requests_timeout_ticks(const struct member *member);
void member_mark_seat_answered(struct member *member, uint32_t seat);
void member_mark_message_received(struct member *member);

#endif
