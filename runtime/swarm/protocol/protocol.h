/* protocol: the rules of a swarm as two pure state machines, the tracker's and the member's.
 *
 * A state machine takes one event (a message, a tick, the end of an action) and returns the actions
 * that it causes (send, write, train, sum and so on). It has no socket, no clock, no thread and no
 * allocation, so that a test can run thousands of schedules of faults over it. The room owns the
 * state of rounds, sessions, votes and requests, and the deadlines. runtime/swarm/tracker and
 * runtime/swarm/member call it and carry out its actions; runtime/swarm/wire writes its messages.
 *
 * This header defines what both state machines share: messages, events and actions.
 *
 * public   member.h tracker.h */
#ifndef SKEP_SWARM_PROTOCOL_PROTOCOL_H
#define SKEP_SWARM_PROTOCOL_PROTOCOL_H

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger_file.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- the deadlines of a swarm, derived from the members' measurements by one table ---- */

/* Value of an upload rate that is not measured yet. The median of the known rates is used
 * instead. */
enum { TIMING_UNKNOWN = UINT32_MAX };

/* A member's own medians. 0: not measured yet. */
struct timing_measured {
    uint32_t step_ms;       /* Time of one inner step. */
    uint32_t transfer_ms;   /* Time that the member spent on transfers in the last exchange. */
    uint32_t round_trip_ms; /* Round-trip time to the tracker. */
    /* Upload rate, which determines the share of slices that the member owns. 0: it owns none
     * unless no other member can. May be TIMING_UNKNOWN. */
    uint32_t upload_kib_s;
};

/* The amount of training that the deadline of a round allows for. */
struct timing_training {
    uint32_t steps;  /* Number of inner steps in a round. */
    double patience; /* Factor by which the deadline exceeds the time of these steps. */
};

struct swarm_timing {
    /* Interval between two reports, and before a message is first repeated. */
    uint32_t heartbeat_ms;
    uint32_t silence_ms;  /* Time without a message after which a member is suspected. */
    uint32_t train_ms;    /* Maximum time from OPEN to the last declaration. */
    uint32_t exchange_ms; /* Maximum time without any progress in an exchange. */
    uint32_t round_ms;    /* Maximum age of a round, after which it is aborted. */
};

/* timing_derive: each deadline is the 0.9 quantile of the members' medians times a factor, within
 * a minimum and a maximum:
 *   heartbeat  1 x round trip            100 ms ..   2 s
 *   silence    4 x round trip + 4 x heartbeat    500 ms ..  10 s
 *   train      patience x step x steps   500 ms ..   6 h
 *   exchange   3 x transfer + 4 x round trip   1000 ms ..   1 h
 *   round      train + 10 x exchange
 * limits  0 < count <= SWARM_MEMBERS_MAX; 0 < patience <= 1e6 */
struct swarm_timing timing_derive(const struct timing_measured *members, uint32_t count,
                                  const struct timing_training *training);

/* timing_quantiles: the 0.9 quantiles of step, transfer and round trip, for reports; upload_kib_s
 * is 0. */
struct timing_measured timing_quantiles(const struct timing_measured *members, uint32_t count);

/* The owner of a slice, its epoch, and the seats whose contributions the owner still waits for. */
struct slice_plan {
    uint32_t owner; /* seat */
    uint32_t epoch;
    uint64_t expected_seats; /* seats */
};

/* The tracker's assignment for the exchange of a round. */
struct round_table {
    uint32_t round;
    uint32_t version;        /* Increases with every change; 0 if there is no table yet. */
    uint64_t declared_seats; /* Seats whose declarations count. */
    struct entry_member members[SWARM_MEMBERS_MAX];
    struct signature signatures[SWARM_MEMBERS_MAX]; /* Signatures of the declarations, by seat. */
    struct slice_plan *slices;                      /* [slice_count] */
    struct hash *hashes; /* [SWARM_MEMBERS_MAX * slice_count]: declared hashes, seat by seat. */
};

/* The progress of one member in one slice. */
struct slice_report {
    uint32_t epoch;
    uint32_t has_result;     /* 1 if the member has the complete result of this epoch. */
    uint64_t received_seats; /* Of an owner: seats whose contributions it has received. */
    /* Of an owner: received seats whose contributions are invalid and must not be added. */
    uint64_t rejected_seats;
    uint64_t contributors; /* Seats whose contributions are in the result. */
    struct hash hash;      /* Hash of the result. */
};

/* Every message repeats the sender's state, so that the next message replaces a lost one and a
 * repeated message changes nothing. Fields that a kind does not list are zero. */
enum message_kind {
    /* from a member without a session: root; number: its start id, which WELCOME repeats */
    MESSAGE_HELLO,
    /* from a member: session, number (rising), round, current root (zero during a state fetch),
     * hash: the root on its disk, version, poll, reports, unreachable, measured */
    MESSAGE_REPORT,
    MESSAGE_DECLARE, /* from a member: session, round, tokens, hashes, signature */
    MESSAGE_VOTE,    /* from a member: session, round, number, root, hash, signature */
    MESSAGE_LEAVE,   /* from a member: session; it takes part in no further round */
    MESSAGE_WELCOME, /* from the tracker: session, number: the start id that the session is for */
    MESSAGE_ENTRY,   /* from the tracker: entry; for a COMMIT also root: the root before it */
    MESSAGE_TABLE,   /* from the tracker: round, table */
    MESSAGE_POLL,    /* from the tracker: round, poll: a request to report and declare at once */
    /* from the tracker: the member may end. Sent to a leaving member that no other member needs,
     * and to all members at the end of the run */
    MESSAGE_GOODBYE,
    /* from the tracker: round, number, entry without root, hash and signatures; holders */
    MESSAGE_PROPOSE,
    /* from a member to an owner: round, slice, epoch, hash; bytes follow. is_rejected: the bytes
     * have the hash but are no valid encoding */
    MESSAGE_CONTRIBUTION,
    /* between members: as CONTRIBUTION, and contributors, owner, signature. The caller drops it
     * unless `owner` signed round, slice, epoch, contributors and hash, no matter which member
     * sent it. The state machine checks that `owner` is the owner of the slice. When a member
     * sends a result that it did not sum, the caller fills in epoch, contributors, owner and
     * signature as they arrived with the bytes */
    MESSAGE_RESULT,
    MESSAGE_FETCH_CONTRIBUTION, /* from an owner to a contributor: round, slice, epoch */
    /* between members: round, slice, epoch; hash, or zero for any. A member without the result
     * sends it as soon as it has it */
    MESSAGE_FETCH_RESULT,
    MESSAGE_KINDS
};

struct message {
    enum message_kind kind;
    struct identity from;
    uint32_t incarnation; /* Incarnation of the tracker that sent the message. */
    uint32_t session;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint32_t version;
    uint32_t poll;
    uint64_t number;
    uint64_t tokens;
    uint64_t contributors;
    uint64_t unreachable; /* Seats of the round that the sender cannot connect to. */
    bool is_rejected;
    struct hash root;
    /* Hash of the bytes that follow the message. The receiving process computes it from them. */
    struct hash hash;
    struct identity owner;
    struct signature signature;
    struct timing_measured measured;
    const struct entry *entry;
    const struct round_table *table;
    const struct slice_report *reports; /* [slice_count] */
    const struct hash *hashes;          /* [slice_count] */
    const uint64_t *holders;            /* [slice_count]: seats that probably have the result. */
};

/* All promises of the tracker. A promise is durable before a message that depends on it is sent. */
struct tracker_record {
    uint32_t incarnation;
    uint32_t next_session;
    uint32_t member_count;
    struct {
        struct identity id;
        uint32_t session;
    } members[SWARM_MEMBERS_MAX];
    struct entry head;     /* Newest entry of any kind. */
    struct entry commit;   /* Newest GENESIS, COMMIT or ROLLBACK, whose root is current. */
    struct hash base_root; /* Root that was current before `commit`. */
    struct round_table table;
};

enum event_kind {
    EVENT_TICK,    /* one heartbeat has passed, and every message that had arrived was handled */
    EVENT_MESSAGE, /* message: authenticated, within bounds, its signatures valid */
    EVENT_WRITTEN, /* tracker, ends ACTION_WRITE: written; hash and signature of its entry */
    EVENT_TRAINED, /* member, ends ACTION_TRAIN: round, tokens, hashes [slice_count] */
    EVENT_SUMMED,  /* member, ends ACTION_SUM: job, hash of the encoded result */
    EVENT_ROOT_COMPUTED, /* member, ends ACTION_ROOT: job, root, hash and signature of the entry */
    EVENT_STORED,        /* member, ends ACTION_STORE: job, written */
    /* member, ends ACTION_APPLY or ACTION_ADOPT: job, written, the new current root. A failed
     * one has changed nothing and is retried */
    EVENT_APPLIED,
    EVENT_LEAVE,  /* member: the operator asked it to leave the swarm */
    EVENT_CLOSED, /* the last connection to `peer` closed; frames in transit to it are lost */
};

struct event {
    enum event_kind kind;
    enum write_outcome write_outcome;
    uint32_t round;
    uint32_t job;
    uint64_t tokens;
    struct hash root;
    struct hash hash;
    struct signature signature;
    struct identity peer;
    const struct message *message;
    const struct hash *hashes;
};

/* The parts of a record that differ from the one written before. */
enum record_part {
    RECORD_SESSIONS = 1, /* next_session, members */
    RECORD_HEAD = 2,     /* head; also commit and base when head is a COMMIT or a ROLLBACK */
    RECORD_PLANS = 4,    /* table.round, version, slices */
    RECORD_DECLARED = 8, /* table.declared_seats, members, signatures, hashes */
};

enum action_kind {
    /* send message to `to`, or to the tracker if `to_tracker`. For kinds with bytes the caller
     * appends those with the message's hash, or drops the message if it does not have them */
    ACTION_SEND,
    /* write `parts` of `record` and append `entry` to the ledger if not NULL, in one transaction */
    ACTION_WRITE,
    /* store the bytes that came with the current message: a result, or the contribution of
     * `seat` in its slot `slot` */
    ACTION_KEEP_BYTES,
    /* train on `ranges` from the outer state until `deadline_ms`, with the learning rate of
     * `commits`, then encode the contribution to every slice. Work already done on these ranges
     * counts; other work is dropped. A new TRAIN, APPLY or ADOPT ends a running one, which then
     * causes no event */
    ACTION_TRAIN,
    /* slice, epoch: add the stored bytes of the contributors in ascending order of seats, with
     * the weights of `table`; slots[seat] is the slot of each, and the member's own contribution
     * is the one it encoded. `entry` is the round's OPEN */
    ACTION_SUM,
    /* entry: compute the root after its results without changing the state, and sign the entry */
    ACTION_ROOT,
    ACTION_STORE, /* entry: make its stored results durable */
    /* entry: make its results the outer state, durably, and reset the inner weights to it. Error
     * feedback advances in the slices that name `seat` */
    ACTION_APPLY,
    /* entry: fetch the state with the entry's root leaf by leaf from members that have it,
     * durably; reset the inner weights to it and clear the error feedback. A later ADOPT ends a
     * running one, which then causes no event. Every other job runs to its end */
    ACTION_ADOPT,
    ACTION_LEFT, /* Member: it has left. No further round includes it in the roster. */
};

struct action {
    enum action_kind kind;
    bool to_tracker;
    struct identity to;
    uint32_t job;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint64_t contributors;
    /* KEEP_BYTES: seat of the contributor. SUM, APPLY: seat of this member. NO_SEAT (-1) if
     * none. */
    int seat;
    uint32_t slot;
    uint32_t parts; /* Bits of enum record_part: what ACTION_WRITE writes. */
    uint32_t commits;
    uint32_t deadline_ms;
    const uint8_t *slots; /* [SWARM_MEMBERS_MAX] */
    struct message message;
    const struct entry *entry;
    const struct round_table *table;
    const struct tracker_record *record;
    uint32_t range_count;
    const struct sample_range *ranges;
};

/* The maximum number of actions that one event causes: requests, a few messages to every member,
 * and a few others. */
enum { ACTIONS_MAX = SWARM_REQUESTS_MAX + 4 * SWARM_MEMBERS_MAX + 8 };

/* The caller's array for the actions of one call. The targets of an action's pointers stay valid
 * until the next call. */
struct actions {
    struct action *rows;
    uint32_t count;
    uint32_t capacity; /* at least ACTIONS_MAX */
};

#endif
