/* outbox: bulk sends that wait for room or for the limit's next bytes: one line for each peer.
 *
 *     peer 0   | contribution 3 | contribution 9 | result 4 |    descriptors: what is sent is read
 *     peer 1   | result 4 |                                      when its turn has come
 *     peer 2   |
 *                first of each line in turn ──► send, until it is told that the queue is full */
#ifndef SKEP_SWARM_MEMBER_OUTBOX_H
#define SKEP_SWARM_MEMBER_OUTBOX_H

#include "base/hash.h"
#include "transport/messages/messages.h"

enum {
    OUTBOX_QUEUE_ITEMS = 64, /* of a line: twice what a peer has asked for at a time */
    OUTBOX_BATCH = 64,       /* frames of one flush, so that a heartbeat is never late by more */
};

/* What is to be sent. Two with equal fields are the same one. */
struct outbox_item {
    uint32_t kind; /* enum message_kind or wire_kind */
    uint32_t session;
    uint32_t round;
    uint32_t slice;
    uint32_t epoch;
    uint64_t index; /* of a leaf or of the first name; else 0 */
    struct hash hash;
};

struct outbox_queue {
    struct outbox_item items[OUTBOX_QUEUE_ITEMS]; /* a ring */
    uint32_t first, count;
};

struct outbox {
    struct outbox_queue *lines; /* [peer_count] */
    uint32_t peer_count;
    uint32_t turn;    /* whose item is sent next */
    uint32_t waiting; /* items of all lines */
    uint64_t rate;    /* bytes a second; 0: no limit */
    int64_t credit;   /* bytes that may go now; below 0 after a frame that was longer */
    int64_t filled_ns;
};

/* outbox_bytes: memory of the lines. outbox_bind: an empty outbox in it. */
size_t outbox_bytes(uint32_t peer_count);
void outbox_bind(struct outbox *outbox, void *memory, uint32_t peer_count, uint64_t rate);

/* outbox_push: behind what the peer is to get, unless it is there already. false: the line is full,
 * and the peer will ask again. */
bool outbox_push(struct outbox *outbox, uint32_t peer, const struct outbox_item *item);

/* outbox_clear: drop what a peer was to get. */
void outbox_clear(struct outbox *outbox, uint32_t peer);

/* outbox_waiting: items that wait for a peer. */
uint32_t outbox_waiting(const struct outbox *outbox, uint32_t peer);

/* outbox_spend: bytes that went another way, under the same limit. */
void outbox_spend(struct outbox *outbox, uint64_t bytes);

/* Sends one item and says how many bytes it had. SEND_OK and SEND_NO_PEER (or not at hand any
 * more) take it off its line. */
struct outbox_callbacks {
    void *context;
    enum send_result (*send)(void *context, uint32_t peer, const struct outbox_item *item,
                             uint64_t *bytes);
};

enum outbox_state {
    OUTBOX_DONE,         /* nothing waits */
    OUTBOX_BLOCKED,      /* for room in a queue */
    OUTBOX_RATE_LIMITED, /* for the limit: outbox_ready_ns says until when */
    OUTBOX_MORE,         /* the batch is over: flush again soon */
};

/* outbox_flush: send what can be sent, one frame of each peer in turn. */
enum outbox_state outbox_flush(struct outbox *outbox, int64_t now_ns, struct outbox_callbacks way);

/* outbox_ready_ns: when the limit lets the next frame go. */
int64_t outbox_ready_ns(const struct outbox *outbox);

#endif
