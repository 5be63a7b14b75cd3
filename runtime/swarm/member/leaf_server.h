/* leaf_server: sends leaf hashes and leaves of this member's outer state, and of the states that it
 * stores, to other members.
 *
 *     LEAF_HASHES_REQUEST  root 32       LEAF_HASHES  root 32, then hashes from the offset on
 *     LEAF_REQUEST         root 32       LEAF         the bytes of the leaf at the offset
 *
 * An answer without hashes or bytes means that this member does not have the state with that root.
 * A LEAF repeats the round field of its request, so that a late LEAF is not mistaken for a leaf of
 * a different root. */
#ifndef SKEP_SWARM_MEMBER_LEAF_SERVER_H
#define SKEP_SWARM_MEMBER_LEAF_SERVER_H

#include "runtime/swarm/member/state_fetcher.h"

struct leaf_server {                     /* sends parts of the state to other members */
    const struct replica *replica;       /* has the current outer state */
    const struct state_fetcher *fetcher; /* shows whether this member is itself fetching a state */
    const struct mailbox *mailbox;       /* shows which job the compute thread has */
    const struct peers *peers;           /* links to the members that request leaves */
    struct messenger *messenger;         /* sends the frames */
    struct uplink *uplink;               /* queues the answers, and has the budgets of peers */
    const struct state_store *states;    /* states on this member's disk; NULL: none */
    uint64_t leaf_count;                 /* number of leaves of the outer state */
    uint8_t *payload; /* [FRAME_PAYLOAD_MAX] of the frame that is being written */
};

/* leaf_server_on_request: queue the answer to a peer's request, or reject the request. */
void leaf_server_on_request(const struct leaf_server *server, uint32_t peer,
                            const struct frame *request, const uint8_t *payload);

/* leaf_server_send: send a queued answer, for outbox_callbacks; `context` is the leaf_server. The
 * answer stays queued while a commit that leads to the requested root is being applied. */
enum send_result leaf_server_send(void *context, uint32_t peer, const struct outbox_item *item,
                                  uint64_t *bytes);

#endif
