/* member: the network side of a swarm member. A network thread runs the member's state machine
 * between its sockets and the compute thread: it keeps the heartbeat while that one trains,
 * receives slices straight into the replica, and sends other members what they request. It does no
 * arithmetic on tensors. runtime/inner_training is the compute thread and the caller.
 *
 *     sockets ◄──► network thread: messenger, state machine, admission, peers, ledger follower,
 *                      │ job          uplink, state fetcher, leaf server
 *                      ▼         ▲ answer
 *                  compute thread: trains, sums, hashes, stores, applies
 *
 * The room also owns the member store, the durable files in a member's state folder.
 *
 * public   member.h mailbox.h member_store.h */
#ifndef SKEP_SWARM_MEMBER_MEMBER_H
#define SKEP_SWARM_MEMBER_MEMBER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/member.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm/wire/wire.h"

struct member_loop; /* in the caller's tables */

/* Kept by reference; only the struct itself is copied. */
struct member_loop_options {
    const struct key_pairs *keys;
    struct public_keys tracker;
    const char *tracker_address;
    const char *listen; /* "tcp://ADDRESS:PORT", port * for any; NULL: outgoing connections only */
    const char *public_address; /* advertised; NULL: the IP that the tracker sees */
    const char *name;           /* NULL: none */
    struct hash manifest;
    uint32_t members_max, bulk_connections, queued_frames;
    uint64_t limit_up, limit_down;     /* bytes a second; 0: unlimited */
    struct replica *replica;           /* filled before the start */
    struct member_initial_state start; /* id, slice_count and number are filled in */
    void *kept_context;
    /* kept_result: read a result of an earlier round from disk, if it is there. Called on the
     * network thread at any time. NULL: none are on disk. */
    bool (*kept_result)(void *context, uint32_t round, uint32_t slice, const struct hash *hash,
                        uint8_t *bytes);
    uint32_t state_round; /* of the state in the replica; a ledger that ends before is rejected */
    void *ledger_context;
    /* ledger_past: the next entry of this member's own copy of the ledger, NULL after the last one;
     * *location names its line. Called during the start only. NULL: there is no copy. */
    enum status (*ledger_past)(void *context, const struct entry **entry, const char **location,
                               struct fault *fault);
    /* ledger_entry: append a verified entry to that copy, on the network thread. It is also called
     * with NULL, before each entry and now and then, and returns false while an earlier entry could
     * not be written; no further entry is accepted meanwhile. NULL: no copy is kept. */
    bool (*ledger_entry)(void *context, const struct entry *entry);
};

/* member_loop_bytes: memory of `tables`, for the plan. member_loop_declared: what ZeroMQ allocates
 * in addition. */
uint64_t member_loop_bytes(const struct member_loop_options *options);
uint64_t member_loop_declared(const struct member_loop_options *options);

/* member_loop_start: verify this member's copy of the ledger, open the sockets and start the
 * thread. Before seal. From the tracker only later entries are requested. A tracker that does not
 * have the copy's last entry is reported in the view's reason, and nothing of it is accepted.
 * memory  `tables` of member_loop_bytes, 64-byte aligned; the messenger's tables in `region`
 * errors  those of ledger_past; STATUS_INPUT at an entry that does not follow the one before; those
 *         of messenger_open; STATUS_FAILED when no thread can be started */
MUST_CHECK enum status member_loop_start(const struct member_loop_options *options, void *tables,
                                         struct region *region, struct member_loop **loop,
                                         struct fault *fault);

/* member_loop_stop: end the thread and close the sockets at once; the replica is the caller's
 * again. last  the view at the end; NULL: not needed */
struct member_loop_view;
void member_loop_stop(struct member_loop *loop, struct member_loop_view *last);

/* ---- jobs ---- */

/* A piece of work for the compute thread. */
struct member_job {
    enum action_kind
        kind; /* TRAIN, SUM, ROOT, STORE, APPLY, LEFT, or ADOPT: the leaves of the state
                              are in the replica and verified; make it durable and use it */
    uint32_t job, round, slice, epoch;
    int seat;             /* of this member in the round; -1: none */
    uint32_t commits;     /* TRAIN: committed rounds before this one, for the learning rate */
    uint32_t deadline_ms; /* TRAIN: from now to the declaration */
    uint32_t range_count;
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX];
    uint32_t addend_count; /* SUM: in the order of seats */
    struct addend addends[SWARM_MEMBERS_MAX];
    uint64_t contributors; /* SUM: their seats */
    uint64_t own_weight;
    const struct entry *entry; /* ROOT, STORE, APPLY, ADOPT: valid until the answer */
};

/* member_loop_mailbox: where the compute thread finds its jobs and posts its answers (mailbox.h).
 * member_loop_vote: answer a ROOT: sign job->entry with the root that its results lead to. */
struct mailbox;
struct mailbox *member_loop_mailbox(struct member_loop *loop);
void member_loop_vote(struct member_loop *loop, const struct member_job *job,
                      const struct hash *root);

/* ---- the view ---- */

/* The state of the network thread, for logs and metrics (mailbox_read_view). */
struct member_loop_view {
    bool is_admitted; /* false: see `reason` */
    bool tracker_is_there;
    bool is_replaced; /* another process has joined with this identity since; this one must end */
    char reason[WIRE_REJECT_REASON_BYTES];
    uint32_t round, members;
    bool is_adopting;       /* the state is fetched from other members */
    uint32_t behind;        /* leaves of it that are missing or outdated */
    uint64_t adopted_bytes; /* of it that were received */
    uint32_t contributors;  /* to the last commit */
    uint64_t sent_bytes, received_bytes;
    uint32_t exchange_ms; /* of the last exchange, from its TABLE to its COMMIT */
    struct swarm_timing timing;
    struct messenger_counts counts;
};

#endif
