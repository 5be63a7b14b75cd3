/* member: the network side of a swarm member. A network thread runs the member's state machine
 * between its sockets and the compute thread: it sends heartbeats while the compute thread trains,
 * receives slices straight into the replica, and sends other members what they request. It does no
 * arithmetic on tensors. runtime/inner_training runs the compute thread and calls this module.
 *
 *     sockets ◄──► network thread: messenger, state machine, admission, peers, ledger follower,
 *                      │ job          uplink, state fetcher, leaf server
 *                      ▼         ▲ answer
 *                  compute thread: trains, sums, hashes, stores, applies
 *
 * The module also contains the member store, which manages the durable files in a member's state
 * folder.
 *
 * public   member.h mailbox.h member_store.h state_store.h */
#ifndef SKEP_SWARM_MEMBER_MEMBER_H
#define SKEP_SWARM_MEMBER_MEMBER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation.h"
#include "runtime/swarm/member_machine/member_machine.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm/wire/attendance.h"
#include "runtime/swarm/wire/wire.h"

struct state_store; /* state_store.h */
struct member_loop; /* stored in the caller's `tables` */

/* The struct is copied. The objects that it points to must outlive the member loop. */
struct member_loop_options {
    const struct key_pairs *keys; /* key pairs of this member */
    struct public_keys tracker;   /* public keys of the tracker at the start */
    /* delegation that names the tracker's keys; NULL: the keys never change */
    const struct known_delegation *delegation;
    const char *delegation_path;     /* file in which a newer delegation is stored; NULL: none */
    uint8_t operator_key[KEY_BYTES]; /* public key that the operator signs orders with */
    const char *tracker_address;     /* "tcp://ADDRESS:PORT" of the tracker */
    const char *listen;         /* "tcp://ADDRESS:PORT" with PORT * for any; NULL: do not listen */
    const char *public_address; /* advertised address; NULL: the IP that the tracker sees */
    const char *name;           /* name of this member; NULL: none */
    struct hash manifest;       /* hash of the swarm's manifest */
    /* maximum number of members, bulk connections to each peer, and frames queued per connection */
    uint32_t members_max, bulk_connections, queued_frames;
    uint64_t limit_up, limit_down; /* bytes a second; 0: unlimited */
    /* replica that has the state after state_round */
    struct replica *replica;
    struct member_initial_state
        /* start of the state machine: the caller sets only sample_tokens, root, stored_round and
         * stored; member_loop_start sets the rest */
        start;
    void *stored_result_context; /* first argument of read_stored_result */
    /* read_stored_result: read the result with this hash from disk and return whether it was found.
     * The network thread may call it at any time. NULL: no results are on disk. */
    bool (*read_stored_result)(void *context, uint32_t round, uint32_t slice,
                               const struct hash *hash, uint8_t *bytes);
    const struct state_store *states; /* states on this member's disk; NULL: none */
    /* round of the replica's state; a tracker's ledger that ends before that round is rejected */
    uint32_t state_round;
    /* checkpoint that this member's copy of the ledger begins with; NULL: it begins with the
     * genesis */
    const struct ledger_chain *checkpoint;
    void *ledger_context; /* first argument of read_ledger_entry and append_ledger_entry */
    /* read_ledger_entry: return the next entry of this member's copy of the ledger, NULL after
     * the last one, and the location of its line for messages. Called by member_loop_start only.
     * NULL: this member has no copy. */
    enum status (*read_ledger_entry)(void *context, const struct entry **entry,
                                     const char **location, struct fault *fault);
    /* append_ledger_entry: append a verified entry to this member's copy of the ledger. Called
     * on the network thread, also with NULL for the entry, before each entry and at intervals.
     * Returns false while an earlier entry could not be written; until it is, no further entry
     * is accepted. `checkpoint` is the state before the first entry of a copy that begins there,
     * else NULL. NULL: there is no copy. */
    bool (*append_ledger_entry)(void *context, const struct ledger_chain *checkpoint,
                                const struct entry *entry);
};

/* member_loop_memory_bytes: size of `tables`, for the plan. member_loop_declared_bytes: bytes
 * that ZeroMQ allocates besides, which a plan counts as declared use. */
uint64_t member_loop_memory_bytes(const struct member_loop_options *options);
uint64_t member_loop_declared_bytes(const struct member_loop_options *options);

/* member_loop_start: verify this member's copy of the ledger, open the sockets and start the
 * thread. Call it before the arena is sealed. Only entries after the last one of the copy are
 * requested from the tracker. If the tracker does not have that entry, its ledger is rejected, and
 * the view's reason reports it.
 * memory  `tables` of member_loop_memory_bytes, 64-byte aligned; the messenger's tables in `region`
 * errors  those of read_ledger_entry; STATUS_INPUT when an entry does not follow the one before it;
 *         those of messenger_open; STATUS_FAILED when no thread can be started */
MUST_CHECK enum status member_loop_start(const struct member_loop_options *options, void *tables,
                                         struct region *region, struct member_loop **loop,
                                         struct fault *fault);

/* member_loop_stop: end the thread and close the sockets at once. The replica may then be changed.
 * last  receives the final view; NULL: not needed */
struct member_loop_view;
void member_loop_stop(struct member_loop *loop, struct member_loop_view *last);

/* ---- jobs ---- */

/* A job for the compute thread. */
struct member_job {
    /* kind: TRAIN, SUM, ROOT, STORE, APPLY, SKETCH, CHECK, RECHECK, LEFT or ADOPT. For ADOPT, the
     * leaves of the state are in the replica and verified; the compute thread makes the state
     * durable and uses it. */
    enum action_kind kind;
    /* number of the job; round, slice and epoch as in struct action */
    uint32_t job, round, slice, epoch;
    int seat;              /* seat of this member in the round; -1: none */
    uint32_t commits;      /* TRAIN: number of committed rounds, for the learning rate */
    uint32_t members;      /* TRAIN: number of members with a seat in the round */
    uint32_t time_left_ms; /* TRAIN: time left until the declaration is due */
    uint32_t range_count;  /* TRAIN: number of sample ranges */
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX]; /* TRAIN: samples to train on */
    uint32_t addend_count; /* SUM, RECHECK: number of addends, which are ordered by seat */
    struct addend addends[SWARM_MEMBERS_MAX]; /* SUM, RECHECK: contributions to average */
    uint64_t contributors;                    /* SUM, RECHECK: seat mask of the addends */
    /* SUM with a sparse codec: proofs of the addends; NULL: of this member's own contribution */
    const struct slice_proof *proofs[SWARM_MEMBERS_MAX];
    double value_limit; /* SUM with a sparse codec: largest magnitude of a value in the mean */
    const struct entry *entry; /* all but TRAIN, SUM and LEFT: the entry; valid until the answer */
    struct hash seed;          /* SKETCH, CHECK, RECHECK: seed of the sketches */
    uint64_t silent;           /* CHECK, RECHECK: seats whose sketches are missing */
    struct lease lease;        /* STORE, RESIGN: lease to be made durable; all zero: none */
    uint8_t *own_sketches;     /* SKETCH: receives the sketches of all slices */
    /* CHECK, RECHECK: for each seat, the encoded sketches of all slices */
    const uint8_t *sketches[SWARM_MEMBERS_MAX];
};

/* member_loop_mailbox: the mailbox from which the compute thread takes its jobs (mailbox.h).
 * member_loop_vote: vote for a ROOT job: sign its entry with the root that the compute thread
 * computed from the results; a zero root refuses the entry. */
struct mailbox;
struct mailbox *member_loop_mailbox(struct member_loop *loop);
void member_loop_vote(struct member_loop *loop, const struct member_job *job,
                      const struct hash *root);

/* ---- the view ---- */

/* The state of the network thread for logs and metrics, which mailbox_read_view copies. */
struct member_loop_view {
    bool is_admitted;          /* the tracker has admitted this member; if not, see `reason` */
    bool is_tracker_connected; /* the connection to the tracker is open */
    bool is_replaced; /* another process has joined with this identity, so this process must end */
    char reason[WIRE_REJECT_REASON_BYTES]; /* why the member is idle; "" if it is not */
    /* number of the newest round, and of the members in the swarm */
    uint32_t round, members;
    struct attendance attendance; /* newest attendance that the tracker sent; zeros: none */
    int64_t attendance_ns;        /* when the attendance arrived */
    /* advertised address of this member, if the tracker found that it is not reachable; else "" */
    char unreachable[MESSAGE_ADDRESS_BYTES];
    bool is_fetching_state;   /* a state fetch is in progress */
    uint32_t outdated_leaves; /* state fetch: number of leaves that are missing or outdated */
    uint64_t fetched_bytes;   /* bytes received for the state fetch */
    uint32_t contributors;    /* number of contributors to the last commit */
    uint64_t sent_bytes, received_bytes; /* totals of the messenger since the start */
    uint32_t exchange_ms;                /* duration of the last exchange, from TABLE to COMMIT */
    struct swarm_timing timing;          /* the tracker's current deadlines */
    struct messenger_counts counts;      /* the messenger's counters */
};

#endif
