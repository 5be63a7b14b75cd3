/* outbox: frames of slices and leaves that wait for room in the messenger's queues or for the rate
 * limit, in one queue per peer.
 *
 *     peer 0   | contribution 3 | contribution 9 | result 4 |    an item names the bytes, which are
 *     peer 1   | result 4 |                                      read when the item is sent
 *     peer 2   |
 *                the first item of each queue in rotation ──► send, until all queues are blocked */
#ifndef SKEP_SWARM_MEMBER_OUTBOX_H
#define SKEP_SWARM_MEMBER_OUTBOX_H

#include "base/hash.h"
#include "transport/messages/messages.h"

enum {
    OUTBOX_QUEUE_ITEMS = 64, /* twice the requests that a peer has unanswered at a time */
    OUTBOX_BATCH = 64,       /* frames in one flush, so that heartbeats are not delayed by more */
};

/* Two items with equal fields are the same item. */
struct outbox_item {
    uint32_t kind; /* enum message_kind or wire_kind */
    uint32_t session;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint64_t index; /* of a leaf, or of the first leaf hash; else 0 */
    struct hash hash;
};

struct outbox_queue {
    struct outbox_item items[OUTBOX_QUEUE_ITEMS]; /* a ring */
    uint32_t first, count;
};

struct outbox {
    struct outbox_queue *queues; /* [peer_count] */
    uint32_t peer_count;
    uint32_t next_peer; /* whose item is sent next */
    uint32_t waiting;   /* items in all queues */
    uint64_t rate;      /* bytes a second; 0: unlimited */
    int64_t credit;     /* bytes that may be sent now; below 0 after a frame that was longer */
    int64_t filled_ns;  /* when credit was added last */
};

/* outbox_bytes: memory of the queues. outbox_bind: an empty outbox in that memory. */
size_t outbox_bytes(uint32_t peer_count);
void outbox_bind(struct outbox *outbox, void *memory, uint32_t peer_count, uint64_t rate);

/* outbox_push: append to the peer's queue, unless the item is in it already. False when the queue
 * is full; the peer repeats its request later. */
bool outbox_push(struct outbox *outbox, uint32_t peer, const struct outbox_item *item);

/* outbox_clear: drop the peer's queue. outbox_waiting: the number of items in it. */
void outbox_clear(struct outbox *outbox, uint32_t peer);
uint32_t outbox_waiting(const struct outbox *outbox, uint32_t peer);

/* outbox_spend: bytes that were sent through another outbox count against the same limit. */
void outbox_spend(struct outbox *outbox, uint64_t bytes);

/* Sends one item and sets *bytes to its length. SEND_OK and SEND_NO_PEER, which also means that the
 * bytes are no longer available, remove the item from its queue. */
struct outbox_callbacks {
    void *context;
    enum send_result (*send)(void *context, uint32_t peer, const struct outbox_item *item,
                             uint64_t *bytes);
};

enum outbox_state {
    OUTBOX_DONE,         /* all queues are empty */
    OUTBOX_BLOCKED,      /* the messenger's queues are full */
    OUTBOX_RATE_LIMITED, /* the limit is used up until outbox_ready_ns */
    OUTBOX_MORE,         /* the batch is complete; flush again soon */
};

/* outbox_flush: send what can be sent now, one frame for each peer in rotation. */
enum outbox_state outbox_flush(struct outbox *outbox, int64_t now_ns,
                               struct outbox_callbacks callbacks);

/* outbox_ready_ns: when the limit permits the next frame. */
int64_t outbox_ready_ns(const struct outbox *outbox);

#endif
