/* message: what the machines of tracker and member hear and say: messages, events and actions. */
#ifndef SKEP_SWARM_PROTOCOL_MESSAGE_H
#define SKEP_SWARM_PROTOCOL_MESSAGE_H

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger_store.h"
#include "runtime/swarm/protocol/timing.h"

/* Who owns a slice, in which epoch, and whose contributions its owner still waits for. */
struct slice_plan {
    uint32_t owner; /* seat */
    uint32_t epoch;
    uint64_t expected; /* seats */
};

/* What the tracker fixed for a round's exchange. */
struct round_table {
    uint32_t round;
    uint32_t version;  /* rises with every change; 0: none yet */
    uint64_t declared; /* seats whose declaration counts */
    struct entry_member members[SWARM_MEMBERS_MAX];
    struct signature signatures[SWARM_MEMBERS_MAX]; /* of the declarations */
    struct slice_plan *slices;                      /* [slice_count] */
    struct hash *hashes; /* [SWARM_MEMBERS_MAX * slice_count]: declared, seat by seat */
};

/* A member's standing in one slice. */
struct slice_report {
    uint32_t epoch;
    uint32_t held;         /* 1: holds a complete result of this epoch */
    uint64_t received;     /* as the owner: contributions at hand */
    uint64_t refused;      /* as the owner: contributions at hand that must not be added */
    uint64_t contributors; /* of the result held */
    struct hash hash;      /* of the result held */
};

/* Every message repeats what its sender stands for, so a lost one is made good by the next, and a
 * repeated one changes nothing. Fields that a kind does not name are zero. */
enum message_kind {
    MESSAGE_HELLO,   /* member: no session yet; root; number: the start's own, to match WELCOME */
    MESSAGE_REPORT,  /* member: session, number (rising), round, root that stands (zero while it
                        adopts one), hash: the root on its disk, version, ask, reports, cut,
                        measured */
    MESSAGE_DECLARE, /* member: session, round, tokens, hashes, signature */
    MESSAGE_VOTE,    /* member: session, round, number, root, hash, signature */
    MESSAGE_LEAVE,   /* member: session; wants no further round */
    MESSAGE_WELCOME, /* tracker: session, number of the start that has it */
    MESSAGE_ENTRY,   /* tracker: entry; for a commit also root, which it starts from */
    MESSAGE_TABLE,   /* tracker: round, table */
    MESSAGE_POLL,    /* tracker: round, ask: say what you hold, or have trained, now */
    MESSAGE_GOODBYE, /* tracker: to a leaver that nobody needs any more; to all at the run's end */
    MESSAGE_PROPOSE, /* tracker: round, number, entry without root, hash and signatures; holders */
    MESSAGE_CONTRIBUTION, /* member to owner: round, slice, epoch, hash; bytes follow. is_refused:
                             they are what was said to come, but no sound encoding */
    MESSAGE_RESULT,       /* member to member: the same, contributors, owner, signature; bytes
                             follow. Dropped by the caller unless round, slice, epoch,
                             contributors and hash are signed by `owner`, whoever sends it; whether
                             that is the slice's owner is for the machine to see. Of a result that
                             was not summed here, epoch, contributors, owner and signature are
                             filled in by the caller as they came with the bytes */
    MESSAGE_FETCH_CONTRIBUTION, /* owner to contributor: round, slice, epoch */
    MESSAGE_FETCH_RESULT,       /* member to member: round, slice, epoch; hash or zero for any. Who
                                   has none yet sends it as soon as it has */
    MESSAGE_KINDS
};

struct message {
    enum message_kind kind;
    struct identity from;
    uint32_t incarnation; /* of the tracker, on what it says */
    uint32_t session;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint32_t version;
    uint32_t ask;
    uint64_t number;
    uint64_t tokens;
    uint64_t contributors;
    uint64_t cut; /* seats of the round that do not answer, whatever the tracker hears of them */
    int is_refused;
    struct hash root;
    struct hash hash; /* of bytes that follow, the transport computed it from them */
    struct identity owner;
    struct signature signature;
    struct timing_measured measured;
    const struct entry *entry;
    const struct round_table *table;
    const struct slice_report *reports; /* [slice_count] */
    const struct hash *hashes;          /* [slice_count] */
    const uint64_t *holders;            /* [slice_count]: seats that hold the result; advice */
};

/* All that the tracker promises. It is durable before anything of it is sent. */
struct tracker_record {
    uint32_t incarnation;
    uint32_t session_next;
    uint32_t member_count;
    struct {
        struct identity id;
        uint32_t session;
    } members[SWARM_MEMBERS_MAX];
    struct entry head;   /* the newest entry of any kind */
    struct entry commit; /* the newest genesis, commit or rollback: whose root stands */
    struct hash base;    /* the root that stood before it */
    struct round_table table;
};

enum event_kind {
    EVENT_TICK,    /* a heartbeat's time has passed, and no message that had arrived is left */
    EVENT_MESSAGE, /* authenticated, bounded, its signatures valid: message */
    EVENT_WRITTEN, /* tracker, ends ACTION_WRITE: written; hash and signature of its entry */
    EVENT_TRAINED, /* member, ends ACTION_TRAIN: round, tokens, hashes [slice_count] */
    EVENT_SUMMED,  /* member, ends ACTION_SUM: job, hash of the encoded result */
    EVENT_ROOT_COMPUTED, /* member, ends ACTION_ROOT: job, root, hash and signature of the entry */
    EVENT_STORED,        /* member, ends ACTION_STORE: job, written */
    EVENT_APPLIED, /* member, ends ACTION_APPLY or ACTION_ADOPT: job, written, root that now stands.
                      Of one that failed nothing has happened, and it is tried again */
    EVENT_LEAVE,   /* member: the owner wants the machine back */
    EVENT_CLOSED,  /* the last channel to `peer` broke: what was on its way there is lost */
};

struct event {
    enum event_kind kind;
    enum write_outcome written;
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

/* What of a record differs from the one that was written before. */
enum record_part {
    RECORD_SESSIONS = 1, /* session_next, members */
    RECORD_HEAD = 2,     /* head; commit and base too when head is a commit or a rollback */
    RECORD_PLANS = 4,    /* table.round, version, slices */
    RECORD_DECLARED = 8, /* table.declared, members, signatures, hashes */
};

enum action_kind {
    ACTION_SEND, /* message to `to` (the tracker if `to_tracker`); bytes of its slice by hash follow
                     where the kind has them; dropped if they are not at hand */
    ACTION_WRITE, /* record, of which `parts` changed, and append `entry` to the ledger if not NULL,
                     in one transaction */
    ACTION_KEEP_BYTES, /* the bytes that came with the message being handled: a result, or the
                     contribution of `seat`, in its slot number `slot` */
    ACTION_TRAIN, /* on `ranges` from the outer state until `deadline_ms`, the learning rate that of
                     `commits`; encode the contribution to every slice. Ranges trained before and
                     still there count, others' work is dropped. A new TRAIN, an APPLY or an ADOPT
                     ends one under way, which then gives no event */
    ACTION_SUM,   /* slice, epoch: contributors' kept bytes in ascending seats, weights of table,
                     each in slot slots[seat], the own one as it was encoded; entry is the round's
                     OPEN */
    ACTION_ROOT,  /* entry: the root after its results, overwriting nothing; sign the entry */
    ACTION_STORE, /* entry: its results, kept, are made durable */
    ACTION_APPLY, /* entry: make its results the outer state, durably, stored before or not; inner
                     weights follow it. Feedback advances in the slices that name `seat` */
    ACTION_ADOPT, /* entry: the state with the entry's root, leaf by leaf from whoever stands on it,
                     durably; inner weights follow it, feedback is dropped. A later ADOPT ends one
                     under way, which then gives no event; every other job is waited for */
    ACTION_LEFT,  /* member: no further round names it */
};

struct action {
    enum action_kind kind;
    int to_tracker;
    struct identity to;
    uint32_t job;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint64_t contributors;
    int seat; /* KEEP: the contributor's; SUM, APPLY: the own one; -1: none */
    uint32_t slot;
    uint32_t parts; /* enum record_part */
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

/* The most actions that one event causes in either machine: asks, a line to every member, a few. */
enum { ACTIONS_MAX = SWARM_REQUESTS_MAX + 4 * SWARM_MEMBERS_MAX + 8 };

/* The caller's array for one call's actions. What an action points to lives until the next call. */
struct actions {
    struct action *rows;
    uint32_t count;
    uint32_t capacity; /* at least ACTIONS_MAX */
};

#endif
