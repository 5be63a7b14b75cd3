/* uplink: what a member sends to other members, in order of urgency and within the rate limits:
 * contributions, results, requests for bytes, and leaves. Sending never waits for room. */
#ifndef SKEP_SWARM_MEMBER_UPLINK_H
#define SKEP_SWARM_MEMBER_UPLINK_H

#include "runtime/swarm/member/slice_store.h"
#include "runtime/swarm/member/uplink_pacing.h"

struct uplink_args {
    const struct member_loop_options *options;
    const struct wire_shape *shape;
    struct messenger *messenger;
    const struct peers *peers;
    struct slice_store *slices;
    struct uplink_measures *measures;
    struct outbox_callbacks leaf_requests; /* sends an item of kind LEAF_REQUEST */
    struct outbox_callbacks leaves;        /* sends an item of kind LEAF_HASHES or LEAF */
};

struct uplink {
    struct uplink_args args;
    uint8_t *payload; /* [payload_capacity] of the frame that is being written */
    size_t payload_capacity;
    struct outbox contributions; /* first, as the owners' sums wait for them */
    struct outbox results;
    struct outbox requests; /* under the limit of incoming bytes */
    struct outbox leaves;   /* when nothing else is sent */
    bool are_results_deferred;
    uint64_t queued_result_bytes[SWARM_MEMBERS_MAX]; /* in the messenger's queues */
    int64_t leaves_ns;                               /* when leaves could be sent last */
    struct uplink_pacing pacing;
};

/* uplink_payload_bytes: the longest payload. uplink_bytes: memory of an uplink.
 * uplink_init: everything is empty.
 * memory  all that `args` points to is kept */
size_t uplink_payload_bytes(const struct wire_shape *shape);
size_t uplink_bytes(const struct wire_shape *shape);
void uplink_init(struct uplink *uplink, const struct uplink_args *args, void *memory);

/* uplink_send_message: send a message of the state machine without a slice's bytes, now. It is lost
 * when there is no room; the next message of its kind makes up for it. */
enum send_result uplink_send_message(struct uplink *uplink, const uint8_t curve[static KEY_BYTES],
                                     const struct message *message);

/* uplink_push: queue an item for a peer in the outbox of its kind. False when the queue is full. */
bool uplink_push(struct uplink *uplink, uint32_t peer, const struct outbox_item *item);

/* uplink_drop_peer: drop the items that are queued for a peer. */
void uplink_drop_peer(struct uplink *uplink, uint32_t peer);

/* uplink_on_table: the TABLE of a round was received.
 * uplink_is_paced: whether the rates of peers are limited now. */
void uplink_on_table(struct uplink *uplink, uint32_t round);
bool uplink_is_paced(const struct uplink *uplink);

/* uplink_flush: send what can be sent. Returns when to call it again: now_ns, later, or INT64_MAX
 * when only an event of the messenger or a new item can help. */
int64_t uplink_flush(struct uplink *uplink, int64_t heartbeat_ns, int64_t now_ns);

#endif
