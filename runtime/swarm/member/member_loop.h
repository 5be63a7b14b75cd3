/* member_loop: a member's thread that talks: between its machine, its sockets and the thread that
 * computes. It keeps the heartbeat while that one trains, receives straight into the replica,
 * serves what others ask for, and does no arithmetic on tensors.
 *
 *     sockets ◄──► talking thread: messenger, member machine, roster, leaves
 *                      │ work            ▲ answer
 *                      ▼                 │
 *                  computing thread: trains, sums, roots, stores, applies (runtime/train) */
#ifndef SKEP_SWARM_MEMBER_MEMBER_LOOP_H
#define SKEP_SWARM_MEMBER_MEMBER_LOOP_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/member.h"
#include "runtime/swarm/replica/replica.h"
#include "runtime/swarm/wire/wire.h"

struct member_loop; /* in the region */

struct member_loop_options {
    const struct key_pairs *keys;
    struct public_keys tracker;
    const char *tracker_address;
    const char *listen; /* "tcp://ADDRESS:PORT", port * for any; NULL: it only connects outward */
    const char *public_address; /* that others are told; NULL: what the tracker sees */
    const char *name;
    struct hash manifest;
    uint32_t members_max, bulk_connections, queued_frames;
    uint64_t limit_up, limit_down; /* bytes a second; 0: none */
    struct replica *replica;       /* filled before the start; whose bytes move as the work says */
    struct member_start start;     /* id, slice_count, number are filled in */
    void *kept_context; /* kept_result: bytes of a result of an earlier round, if it is on disk; on
                           the talking thread, at any time; NULL: none are */
    bool (*kept_result)(void *context, uint32_t round, uint32_t slice, const struct hash *hash,
                        uint8_t *bytes);
    uint32_t state_round; /* of the state in the replica; a ledger that ends before is not ours */
    void *ledger_context;
    /* ledger_past: the next entry of the ledger that this member was in before, into *entry, NULL
     * behind the last; *place names it. Called before the start comes back; NULL: there is none. */
    enum status (*ledger_past)(void *context, const struct entry **entry, const char **place,
                               struct fault *fault);
    /* ledger_entry: called for each entry behind those, verified and in order, on the talking
     * thread; and with NULL before each, and now and then: false while an entry that it was given
     * is not kept, so that no other is taken. NULL: not wanted. */
    bool (*ledger_entry)(void *context, const struct entry *entry);
};

/* member_loop_bytes: memory of tables, for the plan's line; member_loop_declared: ZeroMQ's. */
uint64_t member_loop_bytes(const struct member_loop_options *options);
uint64_t member_loop_declared(const struct member_loop_options *options);

/* member_loop_start: verify the ledger that is known, open the sockets and start the thread. Before
 * seal. Of the tracker only what follows that ledger is asked for; one that does not have its last
 * entry is told in the view's reason, and nothing of it is believed until it does.
 * memory  `tables` of member_loop_bytes (in the plan), the rest in `region`
 * errors  those of ledger_past; STATUS_INPUT at an entry that does not follow the one before; those
 *         of messenger_open; STATUS_FAILED when no thread can be started */
MUST_CHECK enum status member_loop_start(const struct member_loop_options *options, void *tables,
                                         struct region *region, struct member_loop **loop,
                                         struct fault *fault);

/* What the computing thread is to do. Its end is told by member_loop_answer, but for ACTION_LEFT.
 * TRAIN and ADOPT are given up without an answer once member_loop_is_stale says so. */
struct member_job {
    enum action_kind kind; /* TRAIN, SUM, ROOT, STORE, APPLY, ADOPT (its leaves are all in the
                              replica by now, checked; make it durable and follow it), LEFT */
    uint32_t job, round, slice, epoch;
    int seat;             /* own, in this round; -1: none */
    uint32_t commits;     /* TRAIN: committed rounds before this one, for the learning rate */
    uint32_t deadline_ms; /* TRAIN: from now to the declaration */
    uint32_t range_count;
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX];
    uint32_t addend_count; /* SUM: in roster order */
    struct addend addends[SWARM_MEMBERS_MAX];
    uint64_t own_weight;
    const struct entry *entry; /* ROOT, STORE, APPLY, ADOPT: lives until the answer */
};

/* member_loop_wait_job: sleep until there is work. False when `timeout_ms` (-1: never) have
 * passed. */
bool member_loop_wait_job(struct member_loop *loop, int timeout_ms, struct member_job *work);

/* member_loop_is_stale: newer work makes this TRAIN (or ADOPT) pointless. Cheap: ask between
 * microbatches. */
bool member_loop_is_stale(const struct member_loop *loop, const struct member_job *work);

/* member_loop_answer: the event that ends a piece of work: TRAINED (round, tokens, hashes
 * [slice_count]), SUMMED (job, hash), ROOTED (job, root; hash and signature of the entry are made
 * by the loop), STORED (job), APPLIED (job, root). */
void member_loop_answer(struct member_loop *loop, const struct event *event);

/* member_loop_request_leave: want no further round; LEFT comes when nobody needs this member any
 * more. */
void member_loop_request_leave(struct member_loop *loop);

/* member_loop_set_measured: the own medians, whenever they change. */
void member_loop_set_measured(struct member_loop *loop, const struct timing_measured *measured);

/* What a person or the metrics want to know; a copy of what is true now. */
struct member_loop_view {
    bool is_admitted; /* false: the tracker has not let it in (`reason`) */
    bool tracker_is_there;
    bool is_replaced; /* another process has joined with this identity since: end */
    char reason[WIRE_REASON_BYTES];
    uint32_t round, members;
    bool is_adopting;       /* the state comes from other members */
    uint32_t behind;        /* leaves of it that are not there yet */
    uint64_t adopted_bytes; /* that came of it */
    uint32_t contributors;  /* of the last commit */
    uint64_t sent_bytes, received_bytes;
    uint32_t exchange_ms; /* the last one, from TABLE to COMMIT */
    struct swarm_timing timing;
    struct messenger_counts counts;
};
void member_loop_read_view(struct member_loop *loop, struct member_loop_view *view);

/* member_loop_stop: end the thread and close the sockets, at once: from then on nobody else writes
 * to the replica. *last (NULL: of no use): how things stood then. */
void member_loop_stop(struct member_loop *loop, struct member_loop_view *last);

#endif
