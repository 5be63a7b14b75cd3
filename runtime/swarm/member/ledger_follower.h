/* ledger_follower: a member's verified copy of the tracker's ledger. Every entry is checked against
 * those before it, and the state machine gets only entries of this chain, so a tracker cannot show
 * two histories to a member.
 *
 * A tracker must first show that it has the newest entry that this member knows. Until then the
 * member neither sends it messages of the state machine nor handles such messages: session and
 * incarnation numbers of a tracker with another ledger would make the state machine ignore the
 * right tracker later. */
#ifndef SKEP_SWARM_MEMBER_LEDGER_FOLLOWER_H
#define SKEP_SWARM_MEMBER_LEDGER_FOLLOWER_H

#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/member/admission.h"
#include "runtime/swarm/member/catch_up.h"
#include "runtime/swarm/member/member.h"

struct ledger_follower {
    const struct member_loop_options *options;
    const struct member *member;
    struct catch_up *catch_up;
    struct idle_reason *reason;
    uint32_t slice_count;

    struct ledger_chain chain;
    struct hash commit;    /* hash of the newest genesis, commit or rollback, ... */
    struct hash base;      /* ... and the root that it starts from */
    uint32_t round;        /* the highest in the chain */
    bool tracker_has_head; /* it has the chain's head; true while the chain is empty */
    bool needs_entries;    /* the tracker is to be asked for more */
    int64_t requested_ns;  /* 0: no request is unanswered */
    bool has_gap;          /* the tracker sent an entry that does not follow the chain: */
    struct hash gap_entry;
    bool is_rejected;  /* the tracker's ledger does not continue the chain */
    bool has_deferred; /* an ENTRY waits for the entries before it */
    bool is_deferred_in_chain;
    struct message deferred;
    struct entry deferred_entry;
    struct entry entry; /* being read */
};

struct ledger_follower_args {
    const struct member_loop_options *options;
    const struct member *member;
    struct catch_up *catch_up;
    struct idle_reason *reason;
};

/* ledger_follower_bytes: memory of the entries' slices. ledger_follower_init: an empty chain.
 * memory  everything in `args` is kept */
size_t ledger_follower_bytes(uint32_t slice_count);
void ledger_follower_init(struct ledger_follower *follower, const struct ledger_follower_args *args,
                          void *memory);

/* ledger_follower_restore: append the entries of options->ledger_past.
 * errors  as member_loop_start */
MUST_CHECK enum status ledger_follower_restore(struct ledger_follower *follower,
                                               struct fault *fault);

/* ledger_follower_on_connect: a tracker is connected; it has to show the chain's head. */
void ledger_follower_on_connect(struct ledger_follower *follower);

/* ledger_follower_is_synced: the tracker has the chain's head, and the chain reaches the round of
 * this member's state. */
bool ledger_follower_is_synced(const struct ledger_follower *follower);

/* ledger_follower_may_deliver: whether the state machine may get this ENTRY now. One that follows
 * the chain is appended. One that comes too early is copied, and returned by
 * ledger_follower_on_records once the entries before it are in. Of the newest commit, message->root
 * is set to the root that it starts from. */
bool ledger_follower_may_deliver(struct ledger_follower *follower, struct message *message);

/* ledger_follower_on_records: append the records of a LEDGER frame. Returns the deferred ENTRY if
 * the state machine may get it now, else NULL. */
struct message *ledger_follower_on_records(struct ledger_follower *follower,
                                           const struct frame *frame, const uint8_t *payload);

/* ledger_follower_request: the header of a LEDGER_REQUEST, if one is due.
 * ledger_follower_on_requested: it was sent. */
bool ledger_follower_request(const struct ledger_follower *follower, int64_t now_ns,
                             struct frame *frame);
void ledger_follower_on_requested(struct ledger_follower *follower, int64_t now_ns);

/* ledger_follower_base_of: the root that `entry` starts from if it is the newest commit, else
 * NULL. */
const struct hash *ledger_follower_base_of(const struct ledger_follower *follower,
                                           const struct entry *entry);

#endif
