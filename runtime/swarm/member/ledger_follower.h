/* ledger_follower: a member's verified copy of the tracker's ledger. Every entry is checked against
 * those before it, and the state machine gets only entries of this chain, so a tracker cannot show
 * two histories to a member.
 *
 * After connecting, the tracker must first send the newest entry that this member knows. Until then
 * the member exchanges no state machine messages with the tracker: session and incarnation numbers
 * from a tracker with a different ledger would make the state machine ignore the swarm's own
 * tracker later.
 *
 * A member without a copy begins at the tracker's newest checkpoint. If that is invalid, or the
 * tracker has none, it reads the whole ledger. */
#ifndef SKEP_SWARM_MEMBER_LEDGER_FOLLOWER_H
#define SKEP_SWARM_MEMBER_LEDGER_FOLLOWER_H

#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/member/admission.h"
#include "runtime/swarm/member/catch_up.h"
#include "runtime/swarm/member/member.h"

struct ledger_follower {                       /* checks the tracker's ledger entries in order */
    const struct member_loop_options *options; /* settings of the member loop */
    const struct member *member;               /* the state machine that gets the entries */
    struct catch_up *catch_up;                 /* records commits that the member misses */
    struct idle_reason *reason; /* why the member is idle; set while it rejects the ledger */
    uint32_t slice_count;       /* number of slices of the parameters */

    struct ledger_chain chain; /* the verified chain: its head, and the state after it */
    struct ledger_chain
        checkpoint; /* checkpoint that the chain began with, if it did not begin with the genesis */
    /* the chain is empty, and no checkpoint was requested from the tracker yet */
    bool wants_checkpoint;
    struct hash commit;          /* hash of the newest genesis, commit or rollback */
    struct hash base;            /* root of the state to which the entry `commit` is applied */
    uint32_t round;              /* newest round in the chain */
    bool tracker_has_head;       /* the tracker sent the chain's head, or the chain is empty */
    bool needs_entries;          /* more entries must be requested from the tracker */
    int64_t requested_ns;        /* when the unanswered request was sent; 0: none */
    bool has_gap;                /* the tracker sent an entry that does not follow the chain */
    struct hash gap_entry_hash;  /* hash of the entry that set has_gap */
    bool is_rejected;            /* the tracker's ledger was rejected */
    bool has_deferred;           /* an ENTRY message waits for earlier entries */
    bool is_deferred_in_chain;   /* the chain contains the entry of the deferred message */
    struct message deferred;     /* the ENTRY message that waits for earlier entries */
    struct entry deferred_entry; /* the entry of `deferred` */
    struct entry entry;          /* entry that is being read */
};

struct ledger_follower_args {
    const struct member_loop_options *options;
    const struct member *member;
    struct catch_up *catch_up;
    struct idle_reason *reason;
};

/* ledger_follower_memory_bytes: size of the tables for the slices of the entries.
 * ledger_follower_init: initialize with an empty chain.
 * memory  all pointers in `args` are kept */
size_t ledger_follower_memory_bytes(uint32_t slice_count);
void ledger_follower_init(struct ledger_follower *follower, const struct ledger_follower_args *args,
                          void *memory);

/* ledger_follower_restore: append all entries that options->read_ledger_entry returns.
 * errors  those of member_loop_start for the copy of the ledger */
MUST_CHECK enum status ledger_follower_restore(struct ledger_follower *follower,
                                               struct fault *fault);

/* ledger_follower_on_connect: to be called when a tracker connects. It must send the head of the
 * chain before other messages are accepted. */
void ledger_follower_on_connect(struct ledger_follower *follower);

/* ledger_follower_is_synced: whether the tracker has sent the chain's head, and the chain includes
 * the round of this member's state. */
bool ledger_follower_is_synced(const struct ledger_follower *follower);

/* ledger_follower_accept_entry: append the entry of an ENTRY if it follows the chain. Returns
 * whether the state machine may get the message now. If earlier entries are missing, the message is
 * copied, and ledger_follower_on_page returns the copy once they have been appended. For the newest
 * commit, message->root is set to the root of the state that the commit applies to. */
bool ledger_follower_accept_entry(struct ledger_follower *follower, struct message *message);

/* ledger_follower_on_page: append the entries of a LEDGER payload, given without its length field.
 * Returns the deferred ENTRY if the state machine may get it now, else NULL. */
struct message *ledger_follower_on_page(struct ledger_follower *follower, const uint8_t *payload,
                                        size_t count);

/* ledger_follower_on_checkpoint: begin at the checkpoint of a CHECKPOINT payload, given without its
 * length field. The checkpoint is not trusted before its commit has been appended. */
void ledger_follower_on_checkpoint(struct ledger_follower *follower, const uint8_t *payload,
                                   size_t count);

/* ledger_follower_fill_request: if a CHECKPOINT_REQUEST or LEDGER_REQUEST is due, fill in its
 * header and return true. ledger_follower_record_request: record that the request was sent. */
bool ledger_follower_fill_request(const struct ledger_follower *follower, int64_t now_ns,
                                  struct frame *frame);
void ledger_follower_record_request(struct ledger_follower *follower, int64_t now_ns);

/* ledger_follower_extends_chain: whether a proposed COMMIT follows the chain and has the hash of
 * the chain's state. Voting for any other would let a tracker show joiners a false state. */
bool ledger_follower_extends_chain(const struct ledger_follower *follower,
                                   const struct entry *entry);

/* ledger_follower_may_resign: whether the state machine may get this GOODBYE, which must name no
 * state entry or the newest one of the chain, because a member resigns only from the newest. */
bool ledger_follower_may_resign(const struct ledger_follower *follower,
                                const struct message *goodbye);

/* ledger_follower_base_root: the root of the state that `entry` applies to if it is the newest
 * commit, else NULL. */
const struct hash *ledger_follower_base_root(const struct ledger_follower *follower,
                                             const struct entry *entry);

#endif
