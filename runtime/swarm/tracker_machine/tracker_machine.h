/* tracker_machine: the state machine of a swarm's tracker, which admits members, runs rounds and
 * keeps the record. The room also makes a copy of the tracker's state for status reports.
 *
 * The room owns the stages of rounds, their deadlines, the plan of owners, the votes, and what
 * the tracker has observed of each member: its speed, its strikes, its norms.
 * runtime/swarm/protocol describes state machines. In tracker_state.h, each struct names the file
 * that assigns it. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_MACHINE_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_MACHINE_H

#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/protocol/protocol.h"

#include <stddef.h>

struct tracker;

enum {
    /* Newest GENESIS, COMMIT and ROLLBACK entries from which a restart restores the states that a
     * rollback can return to: more entries than states, because a rollback undoes some. */
    TRACKER_REPLAY_ENTRIES = 4 * ROLLBACK_STATES_MAX,
};

/* What the state machine knows of its swarm and of the operator's choices. */
struct tracker_settings {
    uint32_t slice_count;     /* Number of slices, 1 .. SWARM_SLICES_MAX. */
    uint64_t slice_elements;  /* Number of elements in each slice except the last. */
    uint64_t parameter_count; /* Number of parameters of the model. */
    uint64_t seat_samples;    /* New samples for each seat in each round. */
    uint64_t sample_tokens;   /* Maximum tokens per sample, which limits declared tokens. */
    struct hash zero_root;    /* Root of a contribution of zeros. */
    bool has_sketches;        /* The codec of the swarm has sketches. */
    bool is_sparse;           /* Results are lists that every member checks: no audits. */
    /* Minimum number of voters with the current state to open a round, suspended ones included. */
    uint32_t members_min;
    uint32_t shrink_after_ms; /* time without a quorum after which a round is aborted; 0: never */
    /* time in which no connected member has the current state, after which the tracker rolls back
     * to a state that a member has; 0: never. If the member with the only copy of a round is away
     * for longer, the round is lost */
    uint32_t rollback_after_ms;
    uint32_t commits_max; /* Number of commits after which the run ends; 0: no limit. */
    /* Number of inner steps, and the factor on usual times, for deadlines. */
    struct timing_training training;
    struct timing_times times; /* Times of members, assumed until members' times are observed. */
};

/* tracker_memory_bytes: size of the memory of a tracker. The caller aligns it to 64 bytes. */
size_t tracker_memory_bytes(const struct tracker_settings *settings);

/* tracker_init: initialize a tracker in `memory` from its durable record.
 * limits  record->incarnation was increased, and the new value is durable. In a new swarm, head and
 *         commit are the GENESIS. If a ROLLBACK is newer than any COMMIT, commit is that ROLLBACK.
 *         The arrays of the record are copied
 * memory  tracker_memory_bytes(settings) bytes of the caller; nothing is allocated */
struct tracker *tracker_init(void *memory, const struct tracker_settings *settings,
                             const struct tracker_record *record, int64_t now_ms);

/* tracker_replay_entry: record one GENESIS, COMMIT, ROLLBACK or SUSPEND of the ledger, so that the
 * tracker can roll back to the state of that entry, and knows which members are suspended. After
 * tracker_init, the caller passes at least the last TRACKER_REPLAY_ENTRIES entries of the first
 * three kinds in order, and the last SUSPEND of each member. */
void tracker_replay_entry(struct tracker *tracker, const struct entry *entry);

/* tracker_order_rollback: return to the state with this root, as the operator has ordered. This is
 * done by a later event, once a connected member has the state on disk; an open round is aborted
 * first. Returns false if the order does not apply to the ledger (rollback_order_find_target), for
 * example because it was followed before.
 * limits  the operator's signature of the order is verified */
bool tracker_order_rollback(struct tracker *tracker, const struct hash *root,
                            const struct rollback_order *order);

/* tracker_queue_delegation: write this delegation into the next entry that the tracker signs.
 * tracker_queue_roster_epoch: write this roster epoch into the next OPEN. Members that an open
 * epoch does not name are guests from then on. The caller has closed the connections of members
 * that a closed epoch does not name.
 * limits  the operator's signature is verified; the serial is above those of the ledger
 * tracker_restore_roster_epoch: the last roster epoch of the ledger, passed after tracker_init. */
void tracker_queue_delegation(struct tracker *tracker, const struct delegation *delegation);
void tracker_queue_roster_epoch(struct tracker *tracker, const struct roster_epoch *roster);
void tracker_restore_roster_epoch(struct tracker *tracker, const struct roster_epoch *roster);

/* tracker_use_leases: continue only with enough electors of the newest state entry (struct
 * needed_votes), as the genesis of this chain requires.
 * start   a random number, 1 .. 2^63 - 1, which no other start of a tracker has
 * limits  after tracker_init, before any event; chain->needs_leases is 1 */
void tracker_use_leases(struct tracker *tracker, uint64_t start, const struct ledger_chain *chain);

/* tracker_set_next_seed: set the 32 random bytes that seed the sketches of a proposal that the next
 * event causes. The caller draws new ones before every event, after its message has arrived, so
 * that no member knows them before its results are fixed. */
void tracker_set_next_seed(struct tracker *tracker, const struct hash *seed);

/* tracker_step: handle one event and return the actions that it causes.
 * limits  pass EVENT_TICK every heartbeat; the tracker makes no new promise while an
 *         ACTION_WRITE is in progress
 * memory  actions point into the tracker */
void tracker_step(struct tracker *tracker, const struct event *event, int64_t now_ms,
                  struct actions *actions);

/* tracker_timing: the current deadlines. The tracker and all members tick at their heartbeat.
 * tracker_usual_times: the observed times from which they were derived. */
const struct swarm_timing *tracker_timing(const struct tracker *tracker);
const struct timing_times *tracker_usual_times(const struct tracker *tracker);

/* Electors of the newest state entry that have not resigned, and members whose votes another start
 * of the tracker has. */
struct elector_count {
    uint32_t all;   /* electors that have not resigned */
    uint32_t here;  /* electors counted in `all` that are connected and can vote for this tracker */
    bool has_first; /* `here` includes the first elector, with which half of all is enough */
    bool is_enough; /* the tracker can continue with the electors in `here` */
    uint32_t promised; /* connected voters that gave their lease to another start */
};

enum { VIEW_DERIVATION_BYTES = 512 }; /* size of tracker_view.derivation, in bytes */

/* What status reports show of one member. */
struct tracker_view_member {
    struct identity id;   /* public key of the member */
    uint32_t session;     /* Session number of the member. */
    bool is_silent;       /* no message arrived from the member for timing.silence_ms */
    bool is_leaving;      /* the member joins no further round */
    bool has_declared;    /* the member's declaration for the open round has arrived */
    bool has_voted;       /* the member's vote on the current proposal has arrived */
    bool is_current;      /* The outer state of the member has the current root. */
    int seat;             /* Seat in the open round, or -1. */
    bool is_guest;        /* the member has no vote and owns no slices */
    bool is_awaited;      /* the stage of the round cannot end before this member has answered */
    bool has_contributed; /* The member contributed to the newest commit. */
    uint32_t slices; /* Number of slices owned, in the open round or else in the newest commit. */
    uint32_t suspended_until; /* first round after the member's suspension; 0: not suspended */
    enum suspension_reason suspended_for; /* reason for the member's suspension */
};

/* A copy of the tracker's state for status reports. */
struct tracker_view {
    const struct tracker_record *record; /* the durable record; valid until the next tracker_step */
    const char *stage;                   /* name of the stage, from tracker_stage_name */
    int64_t stage_began_ms, round_began_ms; /* when the stage and the round began */
    int64_t last_progress_ms;               /* Time at which the stage last made progress. */
    const char *awaited; /* What the stage waits for, for example "votes"; NULL between rounds. */
    /* number of voters that can take part in the stage, and the minimum number */
    uint32_t present, needed;
    bool is_fork_possible;         /* half of the electors or more have been missing for seconds */
    struct elector_count electors; /* numbers of electors; valid if is_fork_possible */
    uint32_t missing_count;        /* electors that have not resigned and are not connected */
    /* [missing_count]: public keys of the electors that are missing */
    struct identity missing[SWARM_MEMBERS_MAX];
    uint32_t slice_count; /* number of slices of the model */
    /* probability that audits by the newest roster's voters find an owner that lies (audit.h),
     * within one round and within ten */
    double found_in_round, found_in_10_rounds;
    struct swarm_timing timing;             /* current deadlines */
    char derivation[VIEW_DERIVATION_BYTES]; /* Text: how the deadlines were derived. */
    uint32_t member_count;                  /* Number of rows of `members` in use. */
    struct tracker_view_member members[SWARM_MEMBERS_MAX]; /* One row per registered member. */
};

/* tracker_is_fork_possible: whether for several seconds at least half of the electors could not
 * vote for this tracker. If so, *count is set. */
bool tracker_is_fork_possible(const struct tracker *tracker, struct elector_count *count);

/* tracker_fill_continue_order: fill in the order that the operator can sign now: to continue after
 * the newest state entry with this start and the ready voters. The order has no members if no voter
 * is ready, or if the chain needs no leases.
 * tracker_set_continue_order: continue after the newest state entry with the members of this order.
 * An open round is aborted.
 * limits  the operator signed the order for the state and the start of tracker_fill_continue_order,
 *         and the signature is verified */
void tracker_fill_continue_order(const struct tracker *tracker, struct hash *state,
                                 struct tracker_start *start, struct continue_order *order);
void tracker_set_continue_order(struct tracker *tracker, const struct continue_order *order);

/* tracker_stage_name: "ready", "train", "exchange" or "vote". */
const char *tracker_stage_name(const struct tracker *tracker);

/* tracker_read_view: fill *view from the current state. */
void tracker_read_view(const struct tracker *tracker, struct tracker_view *view);

#endif
