/* protocol: what the two state machines of a swarm share: messages, events and actions.
 *
 * The rules of a swarm are two pure state machines, runtime/swarm/tracker_machine and
 * runtime/swarm/member_machine. A state machine takes one event (a message, a tick, the end of an
 * action) and returns the actions that it causes (send, write, train, sum and so on). It has no
 * socket, no clock, no thread and no allocation, so that a test can run thousands of schedules of
 * faults over it. runtime/swarm/tracker and runtime/swarm/member call them and carry out their
 * actions; runtime/swarm/wire writes their messages.
 *
 * public   audit.h seats.h timing.h */
#ifndef SKEP_SWARM_PROTOCOL_PROTOCOL_H
#define SKEP_SWARM_PROTOCOL_PROTOCOL_H

#include "runtime/swarm/ledger/contribution.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/ledger/rollback.h"
#include "runtime/swarm/protocol/timing.h"

#include <stdbool.h>
#include <stdint.h>

/* The owner of a slice, its epoch, and the seats that contribute to it. */
struct slice_plan {
    uint32_t owner;          /* Seat of the owner. */
    uint32_t epoch;          /* times that the owner has changed in the round */
    uint64_t expected_seats; /* Seats whose contributions the owner waits for. */
    uint64_t optional_seats; /* Seats whose contributions the owner adds if they arrive in time. */
    /* In a table read from a message, the version is 0 if the message does not have the slice,
     * because its plan has not changed since the base. */
    uint32_t version; /* Version of the table in which the plan changed last. */
};

/* The tracker's assignment for the exchange of a round. */
struct round_table {
    uint32_t round;   /* Number of the round. */
    uint32_t version; /* Version of the table, which rises with every change; 0: no table yet. */
    uint64_t declared_seats; /* Seats whose declarations count. */
    /* By seat: declared tokens and norm, and the weight that follows from them. */
    struct entry_member members[SWARM_MEMBERS_MAX];
    double reference_norm; /* Reference norm of `members` (norms.h). It is not sent. */
    struct signature signatures[SWARM_MEMBERS_MAX]; /* Signatures of the declarations, by seat. */
    struct hash roots[SWARM_MEMBERS_MAX]; /* Roots of the declared contributions, by seat. */
    struct slice_plan *slices;            /* [slice_count]: plan of each slice */
};

/* The progress of one member in one slice. */
struct slice_report {
    uint32_t epoch;          /* Epoch of the slice plan that the report is about. */
    uint32_t has_result;     /* 1 if the member has the complete result of this epoch. */
    uint64_t received_seats; /* Of an owner: seats whose contributions it has received. */
    /* Of an owner: seats whose received contributions it does not add, because they are invalid or
     * repeat those of an earlier round. */
    uint64_t rejected_seats;
    uint64_t repeated_seats; /* Of an owner: rejected seats that repeat an earlier contribution. */
    uint64_t contributors;   /* Seats whose contributions are in the result. */
    struct hash hash;        /* Hash of the result. */
    /* Number of the member's first report with the present values of this row; 0: the values have
     * always been 0. */
    uint64_t changed;
};

/* The parts of a report, as bits. A part is left out if the tracker has it from an earlier
 * report. */
enum report_part {
    REPORT_POSITION = 1, /* message fields version, poll, links.unreachable */
    REPORT_STATE = 2,    /* message fields root, hash, measured, stored */
    REPORT_AWAITED = 4,  /* message field links.awaited_ms */
    REPORT_ROWS = 8,     /* rows of the slices that changed since the report `base` */
    /* field repeated_seats of the rows in REPORT_ROWS; left out if it is 0 in all of them */
    REPORT_REPEATED = 16,
    REPORT_ALL = 31 /* all parts */
};

/* Maximum number of rows with a result in one report, so that it fits a frame. */
enum { REPORT_RESULTS_MAX = 8192 };

/* Every message repeats the sender's state, so that the next message replaces a lost one and a
 * repeated message changes nothing. The comment of each kind lists its sender and its fields; all
 * other fields are zero. */
enum message_kind {
    /* From a member without a session: root; number (the member's start id, which WELCOME
     * repeats). */
    MESSAGE_HELLO, /* Request for a session. */
    /* From a member: session, number (increasing), base (newest report that the tracker has
     * confirmed; 0: none), round, parts, and of these parts: root (current root; zero during a
     * state fetch), hash (root of the state on disk), version, poll, reports, links, measured,
     * stored. */
    MESSAGE_REPORT, /* State and progress of a member. */
    /* From a member: session, round, trained, root (of the contribution, see contribution.h), hash
     * (of the round's OPEN), signature. */
    MESSAGE_DECLARE, /* Declaration of a contribution. */
    /* From a member: session, round, number and start of the proposal, refusal.silent_seats,
     * refusal.opposed_seats. An approving vote also has the root that the voter computed, and hash
     * and signature of the proposal with that root. A vote without a root refuses the proposal. An
     * accusation also has refusal, slice (the audited one), seed, and epoch, contributors, hash,
     * owner and signature of the false statement about that slice. */
    MESSAGE_VOTE,    /* Vote on a proposal. */
    MESSAGE_LEAVE,   /* From a member that joins no further round: session. */
    MESSAGE_WELCOME, /* From the tracker: session, number (start id from the HELLO). */
    MESSAGE_ENTRY,   /* From the tracker: entry; for a COMMIT also root (root before the commit). */
    /* From the tracker: round, version (of a table that the receiver has, the base; 0: none),
     * table. With a base, only the plans that are newer than the base are sent, and no
     * declarations. */
    MESSAGE_TABLE, /* Assignment for the exchange. */
    /* From the tracker, to request a report and a declaration at once: round, poll, ends_training
     * (1: a member that still trains declares what it has after its current step). */
    MESSAGE_POLL, /* Request for a report. */
    /* From the tracker: round, hash. With both zero, the member may exit: sent to a leaving member
     * that no other member needs, and to all members at the end of the run. Otherwise round and
     * hash identify a state entry, and the leaving member must send RESIGN for it before it may
     * exit. */
    MESSAGE_GOODBYE, /* Permission to exit, or request to resign. */
    /* From the tracker: round, number, seed (random bytes that were drawn after all results were
     * reported), start, recheck, entry (without root, hash and signatures), holders. */
    MESSAGE_PROPOSE, /* Proposed commit that members vote on. */
    /* From a member to the owner of a slice: round, slice, epoch, proof; the encoded bytes follow.
     * The receiver sets hash and values.norm. */
    MESSAGE_CONTRIBUTION, /* Encoded contribution to a slice. */
    /* Between members: round, slice, epoch, hash, contributors, owner, signature; the encoded bytes
     * follow, and the receiver sets the fields of `values` that it computes. The caller drops
     * the message unless `owner` signed round, slice, epoch, contributors and hash, no matter which
     * member sent it. The state machine checks that `owner` is the owner of the slice. When a
     * member sends a result that it did not sum, the caller fills in epoch, contributors, owner and
     * signature as they arrived with the bytes. With a sparse codec, the sender may leave out the
     * receiver's own encoding, if the receiver asked for that (values.left_out); the receiver puts
     * it back before anything is checked. */
    MESSAGE_RESULT,             /* Encoded result of a slice. */
    MESSAGE_FETCH_CONTRIBUTION, /* From an owner to a contributor: round, slice, epoch. */
    /* Between members: round, slice, epoch, hash (zero for any result), and with a sparse codec
     * values.left_out. A member that does not have the result yet sends it later, as soon as it is
     * available. */
    MESSAGE_FETCH_RESULT, /* Request for a result. */
    /* From a voter to a contributor: round, slice (the first one of a page), seed. A member that
     * has not computed the sketches yet sends them later. */
    MESSAGE_FETCH_SKETCHES, /* Request for a page of sketches. */
    /* Between members: round, slice, seed, signature; the encoded sketches of the sender's
     * contributions to the slices of the page follow. */
    MESSAGE_SKETCHES, /* Sketches of contributions. */
    /* From the tracker: number (of the newest report that the tracker has received from the member;
     * 0: none since the tracker's start). */
    MESSAGE_CONFIRM, /* Confirmation of a report. */
    /* From a member: session, hash (of a state entry), signature. The member takes no part in the
     * choice of what follows that entry (leases.h). It repeats the message until it knows a later
     * state entry. */
    MESSAGE_RESIGN, /* Resignation of an elector. */
    MESSAGE_KINDS   /* number of message kinds */
};

/* The request of a tracker that members report at once. */
struct message_poll {
    uint32_t number;        /* Number of the poll, which increases. */
    uint32_t ends_training; /* POLL: 1 if the tracker no longer waits for training. */
};

/* The amount of training that a contribution comes from, and the contribution's norm. */
struct training_amount {
    uint64_t tokens;  /* Number of tokens trained on. */
    uint64_t samples; /* Number of samples trained on. */
    double norm;      /* L2 norm of the whole contribution. */
};

/* What a member observes of its connections to other members in a round. */
struct message_links {
    uint64_t unreachable;       /* Seats of the round that the sender cannot connect to. */
    const uint32_t *awaited_ms; /* by seat: ms waited for contributions of the seat */
};

/* A page consists of consecutive slices, whose sketches are sent and signed together. */
enum {
    SKETCH_PAGE_SLICES = 4096,                                /* number of slices in a page */
    SKETCH_PAGES_MAX = SWARM_SLICES_MAX / SKETCH_PAGE_SLICES, /* maximum pages of a round */
};

/* Why a voter refuses a proposal. */
enum refusal_reason {
    REFUSAL_NONE,     /* the voter does not refuse the proposal */
    REFUSAL_STATE,    /* the state after the proposal would not be finite */
    REFUSAL_UNPROVEN, /* a result seems false, but contributions to prove it did not arrive */
    REFUSAL_SUM,      /* a result is not the mean of the contributions that it lists */
    REFUSAL_SKETCH,   /* a contributor signed sketches that do not match its contribution */
    /* the owner of a slice does not send its own contribution, without which no other member
     * can compute the sum again */
    REFUSAL_WITHHELD,
    REFUSAL_PROMISED, /* another start of the tracker has the voter's lease */
    REFUSAL_REASONS   /* number of reasons */
};

/* refusal_is_accusation: whether a refusal accuses a member of a false statement that it signed. */
static inline bool refusal_is_accusation(uint32_t reason) {
    return reason == REFUSAL_SUM || reason == REFUSAL_SKETCH || reason == REFUSAL_WITHHELD;
}

/* The recheck of a proposal: what its voters audit. */
enum {
    RECHECK_NONE,  /* nothing */
    RECHECK_DRAWN, /* a slice that each voter draws for itself (audit.h) */
    RECHECK_SLICE, /* RECHECK_SLICE + s: the slice s */
};

/* The reason for which a voter refuses a proposal, and what it observed when it checked it. */
struct message_refusal {
    uint32_t reason;        /* why the voter refuses: enum refusal_reason */
    uint32_t suspect;       /* of an accusation: seat of the member whose statement is false */
    uint64_t silent_seats;  /* seats whose sketches did not arrive in time */
    uint64_t opposed_seats; /* seats whose contributions oppose the others (opposition.h) */
};

/* The fields that only proposals, votes and requests of sketches have. */
struct message_ballot {
    struct hash seed;               /* Random bytes of a proposal, or the seed of sketches. */
    uint64_t start;                 /* Number of the tracker's start; 0: members give no leases. */
    const uint64_t *holders;        /* [slice_count]: seats that probably have the result. */
    uint32_t recheck;               /* RECHECK_NONE, RECHECK_DRAWN, or RECHECK_SLICE + slice. */
    struct message_refusal refusal; /* Why a voter refuses the proposal. */
};

/* The parts of a report, and its rows. */
struct message_report {
    uint64_t base;                   /* Number of the newest confirmed report. */
    uint32_t parts;                  /* Bits of enum report_part. */
    const struct slice_report *rows; /* [slice_count]: progress of the sender */
};

/* A contribution in a received result of a sparse codec, and what the receiver computed from its
 * encoding. */
struct listed_contribution {
    struct contribution_part part; /* weight, clip factor and proof, as in the result */
    struct hash hash;              /* hash of the encoding */
    double norm;                   /* L2 norm of the decoded values */
};

/* Properties of the payload that follows a message, or that a message requests: its norm, and with
 * a sparse codec the contributions in it. */
struct message_values {
    /* L2 norm of the values, which the receiver computes; infinite if the bytes are not a valid
     * encoding. Of the result of a sparse codec 0, or infinite. */
    double norm;
    /* RESULT of a sparse codec: the value limit in the result, which bounds each value of the
     * mean. */
    double value_limit;
    /* RESULT of a sparse codec: a contribution for each seat of `contributors`; else NULL */
    const struct listed_contribution *listed;
    /* Mask of the seat whose contribution the bytes of a sparse codec leave out; 0: none.
     * FETCH_RESULT: the sender, if it has its own contribution. RESULT, as an action: the
     * receiver, if it requested that. */
    uint64_t left_out;
    /* FETCH_RESULT, as an action: the number of contributions that the answer will have, which
     * limits its bytes. The number is not sent. */
    uint32_t expected;
};

/* One message of any kind, decoded. */
struct message {
    enum message_kind kind;         /* Decides which fields are set. */
    struct identity from;           /* Sender of the message. */
    uint32_t incarnation;           /* Incarnation of the tracker that sent the message. */
    uint32_t session;               /* Session of the member at the tracker. */
    uint32_t round;                 /* Number of the round. */
    uint32_t slice;                 /* Index of the slice. */
    uint32_t epoch;                 /* Epoch of the slice's plan. */
    uint32_t version;               /* Version of the table, or of its base. */
    struct message_poll poll;       /* The poll, or the newest poll that the sender has answered. */
    uint64_t number;                /* Start id, report number or proposal number, by kind. */
    struct training_amount trained; /* Amount of training that a member declares. */
    uint64_t contributors;          /* Seats whose contributions are in the result. */
    struct message_links links;     /* The sender's connections to other members. */
    struct message_values values;   /* Properties of the payload, sent or requested. */
    struct message_ballot ballot;   /* The fields of proposals and votes. */
    struct hash root;               /* Root of an outer state, or of a contribution. */
    struct hash hash;               /* Hash of an entry, or of the bytes after the message. */
    struct identity owner;          /* Owner of the slice. */
    struct signature signature;     /* Signature of the sender or owner. */
    struct timing_measured measured; /* Medians of times that the sender measured. */
    struct hash
        stored[STORED_STATES_MAX];   /* Roots of the states that the sender stores, or zero. */
    const struct entry *entry;       /* Ledger entry or proposal. */
    const struct round_table *table; /* Assignment for the exchange. */
    struct message_report report;    /* The parts of a report. */
    const struct slice_proof *proof; /* Declared norm of the slice, with its path. */
};

/* The electors that have resigned from a state entry. */
struct record_resignations {
    struct hash state; /* hash of the state entry; zero: none */
    uint64_t electors; /* mask of indices in struct electors: the electors that have resigned */
    /* by elector: signature of the resignation; zero: the elector has not resigned */
    struct signature signatures[SWARM_MEMBERS_MAX];
};

enum {
    RECORD_TIMES = 6,        /* number of kinds of times that the tracker observes of a member */
    RECORD_TIMES_RECENT = 5, /* maximum number of values of each kind that the tracker stores */
};

/* What the tracker has observed of a member's speed, so that its next start can continue with it.
 * All fields are numbers of four bytes, because they are stored as one column. */
struct record_speed {
    uint32_t times[RECORD_TIMES][RECORD_TIMES_RECENT]; /* rings of the newest values of each kind */
    /* By kind, 4 bits each: number n of values observed so far; from 5 on, 5 + n % 5. */
    uint32_t counts;
    uint32_t round_trip_ms; /* round trip to the tracker that the member reported last */
    uint32_t owner_term;    /* exchanges until a slow owner may own slices again */
    /* consecutive exchanges in which the member's own slices were in time */
    uint32_t owner_rounds_in_time;
    uint32_t rounds_without_slices; /* exchanges since the member last owned slices */
    uint32_t slow_rounds;           /* exchanges since the member became slow */
    uint32_t retry_rounds;          /* value of slow_rounds at which owners wait for it again */
    uint32_t lost_round; /* last round in which the member's loss cost the others time; 0: none */
    uint32_t replaced_round; /* last round in which the member was replaced as owner; 0: none */
};

/* All promises of the tracker. A promise is durable before a message that depends on it is sent. */
struct tracker_record {
    uint32_t incarnation;  /* Incarnation of the tracker. */
    uint32_t next_session; /* Number of the next session. */
    uint32_t member_count; /* Number of rows of `members` in use. */
    struct {
        struct identity id; /* Public key of the registered member. */
        uint32_t session;   /* Number of the member's newest session. */
        /* A bit for each of the newest rounds that waited for the member; set: a part was
         * missed. */
        uint32_t misses;
        /* A bit for each of the newest commits with the member's contribution; set: opposed. */
        uint32_t opposed;
        uint32_t share; /* Of a slow member: 1/1024ths of the slices it contributes to; else 0. */
    } members[SWARM_MEMBERS_MAX];
    struct record_speed speeds[SWARM_MEMBERS_MAX]; /* By row: speed; zero: not known. */
    struct entry head;                             /* Newest entry of any kind. */
    struct entry commit;   /* Newest GENESIS, COMMIT or ROLLBACK, whose root is current. */
    struct hash base_root; /* Root that was current before `commit`. */
    struct hash chain;     /* Hash of the chain's state after `head` (ledger.h). */
    struct record_resignations resignations; /* resignations from a state entry, maybe an old one */
    struct round_table table;                /* Assignment of the open round. */
};

/* Number of commits whose contributions are remembered, to find contributions that repeat them. */
enum { REPEAT_ROUNDS = 8 };

enum event_kind {
    EVENT_TICK, /* One heartbeat has passed, and all messages received so far are handled. */
    /* `message` has arrived. It is authenticated, within bounds, and has valid signatures. */
    EVENT_MESSAGE, /* A message has arrived. */
    /* Tracker: ACTION_WRITE has ended. Fields: write_outcome; hash and signature of the written
     * entry, and the hash of the chain's state after it. */
    EVENT_WRITTEN, /* Tracker: a write of the record has ended. */
    EVENT_TRAINED, /* Member: ACTION_TRAIN has ended. Fields: round, trained, root. */
    EVENT_SUMMED,  /* Member: ACTION_SUM has ended. Fields: job, hash (of the encoded result). */
    /* Member: ACTION_ROOT has ended. Fields: job, root, hash and signature of the entry; only job
     * if the state after the entry would not be finite. */
    EVENT_ROOT_COMPUTED, /* Member: a root was computed. */
    EVENT_STORED,        /* Member: ACTION_STORE has ended. Fields: job, write_outcome. */
    EVENT_SKETCHED,      /* Member: ACTION_SKETCH has ended. Field: job. */
    EVENT_CHECKED,       /* Member: ACTION_CHECK has ended. Fields: job, slice, opposed. */
    EVENT_RECHECKED,     /* Member: ACTION_RECHECK has ended. Fields: job, refusal. */
    EVENT_RESIGNED,      /* Member: ACTION_RESIGN has ended. Fields: job, write_outcome. */
    /* Member: ACTION_APPLY or ACTION_ADOPT has ended. Fields: job, write_outcome, root (the new
     * current root). An action that failed has changed nothing; the state machine retries it. */
    EVENT_APPLIED, /* Member: a commit was applied, or a state adopted. */
    EVENT_LEAVE,   /* Member: the operator has requested that this member leave the swarm. */
    EVENT_CLOSED,  /* The last connection to `peer` has closed; frames in transit to it are lost. */
};

/* What a caller passes to a state machine. The kind decides which fields are set. */
struct event {
    enum event_kind kind;
    enum write_outcome write_outcome; /* Success or failure of a write. */
    uint32_t round;                   /* TRAINED: number of the round. */
    uint32_t job;                     /* Number of the job that has ended. */
    uint32_t slice;   /* CHECKED: the first slice that failed; the number of slices if none did. */
    uint64_t opposed; /* CHECKED: seats whose contributions oppose the others, if none failed. */
    /* RECHECKED: reason NONE if all statements about the slice are true. */
    struct message_refusal refusal;
    struct training_amount trained; /* TRAINED: amount of training of the contribution. */
    struct hash root;               /* Root of the outer state, or of a contribution. */
    struct hash hash;               /* Hash of the result or entry. */
    struct hash chain;              /* Hash of the chain's state after the entry. */
    struct signature signature;     /* Signature of the entry. */
    struct identity peer;           /* Member whose connection has closed. */
    const struct message *message;  /* The message that has arrived. */
};

/* The parts of a tracker record that have changed since the last write. */
enum record_part {
    RECORD_SESSIONS = 1, /* Fields next_session and members. */
    RECORD_HEAD = 2,  /* Field head; also commit and base_root if head is a COMMIT or a ROLLBACK. */
    RECORD_PLANS = 4, /* Fields round, version and slices of table. */
    RECORD_DECLARED = 8,      /* Fields declared_seats, members, signatures and roots of table. */
    RECORD_RESIGNATIONS = 16, /* Field resignations. */
};

enum action_kind {
    ACTION_SEND, /* Send `message` to `to`, or to the tracker if `to_tracker`. */
    /* In one transaction, write `parts` of `record`, and append `entry` to the ledger unless it is
     * NULL. */
    ACTION_WRITE, /* Tracker: make the record durable. */
    /* Store the bytes that followed the current message: a result, sketches of `seat`, or the
     * contribution of `seat` in its slot `slot`. */
    ACTION_KEEP_BYTES, /* Member: store received bytes. */
    /* Train on `ranges` from the outer state for `time_left_ms`, with the learning rate of
     * `commits`, then encode the contribution to every slice. Finished work on these ranges is
     * reused; other work is discarded. A new TRAIN, APPLY or ADOPT cancels a running TRAIN, which
     * then causes no event. */
    ACTION_TRAIN, /* Member: train, then encode the contribution. */
    /* End the running TRAIN of `round` after its current step, as if its deadline had passed:
     * encode what it has. */
    ACTION_END_TRAINING, /* Member: end training early. */
    /* For `slice` and `epoch`, add the stored bytes of the contributors in ascending order of
     * seats, with the weights and clip factors of `table`; slots[seat] is the slot of each
     * contribution. The member uses its own contribution as encoded. `entry` is the round's
     * OPEN. */
    ACTION_SUM, /* Member: add the contributions to a slice. */
    /* Compute the root that the results of `entry` would give, without changing the state, and sign
     * `entry`. */
    ACTION_ROOT, /* Member: compute the root after a proposal, and sign it. */
    /* Member: make the stored results of `entry` durable, and `lease` unless it is NULL. */
    ACTION_STORE,
    /* Compute the sketches of this member's contribution to the slices of `entry` that list
     * `seat`, with `seed`, and sign them, so that they can be sent. */
    ACTION_SKETCH, /* Member: sketch its own contribution. */
    /* Check the results of `entry` from `slice` on with `seed` and the stored sketches. The
     * sketches of the seats `silent` are missing. */
    ACTION_CHECK, /* Member: check the sums of a proposal. */
    /* Compare the contributions of `contributors` to `slice` of `entry`, which are stored in slot 0
     * of each seat, with their sketches. If these are all contributors, also compute the result
     * again. `seat` is this member's. */
    ACTION_RECHECK, /* Member: audit one slice. */
    ACTION_RESIGN,  /* Member: make `lease`, a resignation, durable. */
    /* Apply the results of `entry` to the outer state durably, and reset the inner weights to it.
     * The error feedback advances in the slices that list `seat`. */
    ACTION_APPLY, /* Member: apply the results of a commit. */
    /* Fetch the state with the root of `entry` leaf by leaf from members that have it, and store it
     * durably. Reset the inner weights to it and clear the error feedback. A later ADOPT cancels a
     * running ADOPT, which then causes no event. Jobs of other kinds are not cancelled. */
    ACTION_ADOPT, /* Member: fetch a state from other members and use it. */
    ACTION_LEFT,  /* The member has left the swarm. Rosters of further rounds do not include it. */
};

/* What a state machine asks its caller to do. The kind decides which fields are set. */
struct action {
    enum action_kind kind;
    bool to_tracker; /* The message goes to the tracker, not to `to`. */
    /* SEND of a RESULT: no owner waits for the receiver, so other bytes are sent first. */
    bool is_for_slow_member;
    struct identity to;    /* Receiver of the message. */
    uint32_t job;          /* Number of the job to start. */
    uint32_t round;        /* Number of the round. */
    uint32_t slice;        /* Index of the slice. CHECK: first slice that is checked. */
    uint32_t epoch;        /* Epoch of the slice's plan. */
    uint64_t contributors; /* SUM, RECHECK: seats whose contributions are added or compared. */
    /* KEEP_BYTES: seat of the contributor. SUM, APPLY: seat of this member. NO_SEAT (-1) if
     * none. */
    int seat;
    uint32_t slot;                   /* KEEP_BYTES: slot in which to store the contribution. */
    uint64_t silent;                 /* CHECK, RECHECK: seats whose sketches are missing. */
    struct hash seed;                /* SKETCH, CHECK, RECHECK: seed of the sketches. */
    uint32_t parts;                  /* Bits of enum record_part: what ACTION_WRITE writes. */
    uint32_t commits;                /* TRAIN: number of commits so far, for the learning rate. */
    uint32_t members;                /* TRAIN: number of members with a seat in the round. */
    uint32_t time_left_ms;           /* TRAIN: time left until the declaration is due. */
    const uint8_t *slots;            /* [SWARM_MEMBERS_MAX]: by seat, slot of the contribution */
    struct message message;          /* SEND: the message. */
    const struct entry *entry;       /* Entry or proposal that the action is about. */
    const struct round_table *table; /* SUM: weights and clip factors of the contributions. */
    const struct tracker_record *record; /* WRITE: the record to make durable. */
    const struct lease *lease;           /* STORE, RESIGN: lease or resignation to make durable */
    uint32_t range_count;                /* TRAIN: number of `ranges`. */
    const struct sample_range *ranges;   /* TRAIN: samples to train on. */
};

/* The maximum number of actions that one event causes: requests, a few messages to every member,
 * and some others. */
enum { ACTIONS_MAX = SWARM_REQUESTS_MAX + (4 + SKETCH_PAGES_MAX) * SWARM_MEMBERS_MAX + 8 };

/* The caller's array for the actions of one call. The targets of an action's pointers stay valid
 * until the next call. */
struct actions {
    struct action *rows; /* [capacity] */
    uint32_t count;      /* number of rows in use */
    uint32_t capacity;   /* number of rows in memory, >= ACTIONS_MAX */
};

#endif
