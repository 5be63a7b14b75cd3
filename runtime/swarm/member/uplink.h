/* uplink: what a member sends to other members, in order of urgency and within the rate limits:
 * contributions, results, results for slow members, requests for bytes, and leaves. Sending never
 * waits for room. */
#ifndef SKEP_SWARM_MEMBER_UPLINK_H
#define SKEP_SWARM_MEMBER_UPLINK_H

#include "base/hash.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/member/peers.h"
#include "runtime/swarm/member/serving_budget.h"
#include "runtime/swarm/member/slice_store.h"
#include "transport/messages/messages.h"

#include <stdint.h>

/* outbox: frames of slices and leaves that wait for room in the messenger's queues or for the rate
 * limit, in one queue per peer.
 *
 *     peer 0   | contribution 3 | contribution 9 | result 4 |    an item names the bytes, which are
 *     peer 1   | result 4 |                                      read when the item is sent
 *     peer 2   |
 *                the first item of each queue in rotation ──► send, until all queues are blocked */

enum {
    OUTBOX_QUEUE_ITEMS = 64, /* capacity of a queue: twice the unanswered requests of a peer */
    /* maximum number of frames that one flush sends, which limits the delay of heartbeats */
    OUTBOX_BATCH_FRAMES = 64,
};

/* Two items with equal fields are the same item. */
struct outbox_item {         /* one frame to send, described without its bytes */
    uint32_t kind;           /* kind of the frame: enum message_kind or wire_kind */
    uint32_t member_session; /* session of this member at the tracker */
    uint32_t round;          /* round of the contribution, result or sketches */
    uint32_t slice;          /* index of the slice, or of the first one of a page */
    uint32_t epoch;          /* epoch of the slice's plan */
    /* index of the leaf or the first leaf hash; of a request for a sparse result: the number of
     * contributions that the answer will have, or 0 if it is not known; else 0 */
    uint64_t index;
    uint64_t left_out; /* RESULT, FETCH_RESULT: mask of the seat whose contribution is left out */
    struct hash hash;  /* hash of the bytes to send or to request; of sketches: their seed */
};

struct outbox_queue {
    struct outbox_item items[OUTBOX_QUEUE_ITEMS]; /* ring buffer */
    uint32_t first, count;                        /* index of the first item, and number of items */
};

struct outbox {                  /* one queue of items for each peer, with a common rate limit */
    struct outbox_queue *queues; /* [peer_count] */
    uint32_t peer_count;         /* number of queues */
    uint32_t next_peer;          /* the peer whose item is sent next */
    uint32_t waiting;            /* number of items that wait in all queues */
    uint64_t rate;               /* bytes a second; 0: unlimited */
    int64_t credit;              /* bytes that may be sent now; negative after a longer frame */
    int64_t credit_added_ns;     /* when credit was added last */
};

/* outbox_memory_bytes: size of the queues. outbox_init: initialize an empty outbox with its queues
 * in `memory`. */
size_t outbox_memory_bytes(uint32_t peer_count);
void outbox_init(struct outbox *outbox, void *memory, uint32_t peer_count, uint64_t rate);

/* outbox_push: append an item to the peer's queue, unless the queue has it already. Returns
 * false if the queue is full; the peer repeats its request later. */
bool outbox_push(struct outbox *outbox, uint32_t peer, const struct outbox_item *item);

/* outbox_clear_queue: drop all items for a peer. outbox_waiting_count: the number of items for a
 * peer. */
void outbox_clear_queue(struct outbox *outbox, uint32_t peer);
uint32_t outbox_waiting_count(const struct outbox *outbox, uint32_t peer);

/* outbox_charge_bytes: charge bytes that were sent through a different outbox against this outbox's
 * rate limit. */
void outbox_charge_bytes(struct outbox *outbox, uint64_t bytes);

/* outbox_add_credit: add the bytes that the rate limit has allowed since the last call.
 * outbox_flush calls it too. For an outbox that is charged for other outboxes, it must also be
 * called while the outbox is not flushed. */
void outbox_add_credit(struct outbox *outbox, int64_t now_ns);

/* `send` sends one item and sets *bytes to its length. If it returns SEND_OK or SEND_NO_PEER,
 * the item is removed from its queue. SEND_NO_PEER may also mean that the bytes are no longer
 * available. */
struct outbox_callbacks {
    void *context; /* first argument of `send` */
    enum send_result (*send)(void *context, uint32_t peer, const struct outbox_item *item,
                             uint64_t *bytes);
};

enum outbox_state {
    OUTBOX_DONE,         /* all queues are empty */
    OUTBOX_BLOCKED,      /* the messenger's queues are full */
    OUTBOX_RATE_LIMITED, /* the rate limit is used up until outbox_ready_ns */
    OUTBOX_MORE,         /* OUTBOX_BATCH_FRAMES were sent, and items remain; flush again soon */
};

/* outbox_flush: send what can be sent now, one frame for each peer in rotation. */
enum outbox_state outbox_flush(struct outbox *outbox, int64_t now_ns,
                               struct outbox_callbacks callbacks);

/* outbox_ready_ns: the time at which the rate limit permits the next frame. */
int64_t outbox_ready_ns(const struct outbox *outbox);

/* uplink_share: how much of the uplink each peer's connections may use, so that all peers have
 * received everything at about the same time. Without it, TCP may give one connection twice the
 * rate of another, and at the end of an exchange the slow ones continue alone on a half idle
 * uplink.
 *
 *     peer 0   |=========|           bytes that the peer still has to receive: its share of the
 *     peer 1   |===============|     rate is in proportion, so the one that lags most is fastest
 *     peer 2   |============|
 *
 * Together the shares are slightly more than the rate that the uplink is known to carry, so that
 * a higher rate can be detected. The shares grow while much of the uplink is idle, for example
 * because a peer is slower than its share. */

enum {
    UPLINK_SHARE_MIN_PERCENT = 102,  /* lower bound of total_percent */
    UPLINK_SHARE_MAX_PERCENT = 1600, /* upper bound of total_percent */
    UPLINK_SHARE_FLOOR_DIVISOR = 4,  /* each peer gets at least 1/4 of an equal share */
};

struct uplink_share {       /* part of the uplink's rate that is given to peers */
    uint32_t total_percent; /* sum of all shares, in percent of the uplink's rate */
    uint32_t used_percent;  /* percent of the rate that was used recently */
};

/* uplink_share_begin: start an exchange, with a recent use of 100 %. */
void uplink_share_begin(struct uplink_share *share);

/* uplink_share_update: `recent` bytes a second were sent since the last call, while more was
 * queued. The average use is three quarters of the last average and one quarter of the recent use.
 * If it is below three fifths of the rate, the shares grow by a quarter; else they shrink by a
 * fifth.
 * limits  uplink_share_begin was called; rate > 0 */
void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent);

/* Bytes that one peer and all peers still have to receive, and the number of peers that still
 * have to receive some. */
struct uplink_backlog {
    uint64_t peer_bytes, total_bytes; /* bytes queued for one peer, and for all peers */
    uint32_t peer_count;              /* number of peers with queued bytes */
};

/* uplink_share_rate: the share of one peer in bytes a second, where `rate` is the uplink's.
 * limits  uplink_share_begin was called; 0 < backlog.peer_bytes <= backlog.total_bytes;
 *         backlog.peer_count > 0 */
uint64_t uplink_share_rate(const struct uplink_share *share, uint64_t rate,
                           struct uplink_backlog backlog);

/* uplink_measure: the measurements from which the tracker derives deadlines and slice owners: round
 * trips to the tracker, the rate of this member's uplink, and how long its part of an exchange
 * takes. Each is the median of recent values, so that one broken connection or dead peer does
 * not distort it. */

enum { UPLINK_RECENT_VALUES = 16 /* number of newest measurements whose median is taken */ };

struct recent_values {
    int64_t values[UPLINK_RECENT_VALUES]; /* ring buffer of the newest values */
    uint32_t count;                       /* number of values ever added */
};

/* One window over which sent bytes are counted. */
struct rate_window {
    int64_t begin_ns;     /* when the window began; 0: not begun */
    uint64_t begin_bytes; /* number of bytes sent until begin_ns */
};

struct uplink_measurements {
    struct recent_values round_trips, transfer_times; /* in ns */
    struct recent_values best_rates; /* KiB/s: rate of the best second of each exchange */
    /* KiB/s: upper quartile of the rates of the busy seconds of each exchange */
    struct recent_values typical_rates;
    struct recent_values busy_second_rates; /* KiB/s: rates of the busy seconds of this exchange */
    /* typical rate in KiB/s of the last exchange without pacing */
    int64_t unpaced_kib_s;
    int64_t pinged_ns;                         /* send time of the unanswered ping; 0: none */
    uint32_t round;                            /* round of the exchange that is measured; 0: none */
    int64_t table_received_ns, last_result_ns; /* when the TABLE and the last result arrived */
    struct rate_window second_window, short_window; /* windows of 1 s and of SHORT_WINDOW_MS */
    uint32_t best_kib_s;        /* highest rate in KiB/s of any second of this exchange */
    uint64_t short_window_rate; /* bytes/s, most recent short window; INT64_MAX: unknown */
    uint32_t exchange_ms;       /* duration of the last exchange in milliseconds */
};

/* uplink_measurements_send_ping: send a ping to the tracker, unless one is unanswered.
 * uplink_measurements_on_pong: record the round trip of an answered ping. */
void uplink_measurements_send_ping(struct uplink_measurements *measures,
                                   struct messenger *messenger,
                                   const uint8_t tracker_curve[static KEY_BYTES], int64_t now_ns);
void uplink_measurements_on_pong(struct uplink_measurements *measures, const uint8_t *payload,
                                 size_t count);

/* Record the events of an exchange: its TABLE, a result that was computed or received, and its
 * COMMIT. The OPEN of a later round ends the exchange without a COMMIT.
 * uplink_measurements_on_table returns whether the TABLE is the first of its round. */
bool uplink_measurements_on_table(struct uplink_measurements *measures, uint32_t round);
void uplink_measurements_on_result(struct uplink_measurements *measures);
void uplink_measurements_on_commit(struct uplink_measurements *measures, uint32_t round,
                                   bool was_paced);
void uplink_measurements_on_round_open(struct uplink_measurements *measures, uint32_t round);

/* uplink_measurements_read_counters: measure the upload rate from the messenger's counts of
 * acknowledged bytes.
 * limits  call it several times a second */
void uplink_measurements_read_counters(struct uplink_measurements *measures,
                                       const struct messenger_counts *counts);

/* The rate of the uplink in bytes a second, measured in past exchanges. */
struct uplink_rate {
    uint64_t rate; /* upload rate that past exchanges reached, in bytes a second */
    /* rate of the most recent short window; INT64_MAX: the exchange has just begun */
    uint64_t short_window_rate;
    bool is_known; /* `rate` is known: past exchanges took long enough and used the uplink fully */
};
struct uplink_rate uplink_measurements_rate(const struct uplink_measurements *measures);

/* Return the medians that are reported to the tracker; 0: not measured. */
uint32_t uplink_measurements_round_trip_ms(const struct uplink_measurements *measures);
uint32_t uplink_measurements_transfer_ms(const struct uplink_measurements *measures);
uint32_t uplink_measurements_best_kib_s(const struct uplink_measurements *measures);

/* uplink_pacing: limit the rate of each peer's bulk connections during an exchange, so that all
 * peers have received their slices at about the same time (uplink_share). */

struct uplink_pacing {
    struct uplink_share share;    /* part of the rate that is given to peers */
    bool is_paced;                /* the rates of this exchange are limited */
    int64_t updated_ns;           /* when the rates were last set */
    int64_t used_window_begin_ns; /* short_window.begin_ns at the last update of `share` */
};

/* Sources of the number of bytes queued for each peer. */
struct uplink_traffic {
    struct messenger *messenger;        /* messenger, which has queues of its own */
    const struct peers *peers;          /* the peers whose rates are set */
    const struct outbox *contributions; /* queued contributions */
    const struct outbox *results;       /* queued results; NULL while they are deferred */
    uint64_t slice_bytes;               /* encoded size of the longest slice */
};

/* uplink_pacing_begin: start the pacing of an exchange. */
void uplink_pacing_begin(struct uplink_pacing *pacing);

/* uplink_pacing_update: set new rates if it is time for it. Outside of exchanges, and in those that
 * are not paced, the rates are unlimited. */
void uplink_pacing_update(struct uplink_pacing *pacing, const struct uplink_traffic *traffic,
                          const struct uplink_measurements *measures, int64_t now_ns);

struct uplink_args {
    /* settings of the member loop: rate limits, replica and start state */
    const struct member_loop_options *options;
    const struct wire_shape *shape; /* numbers of slices and members */
    struct messenger *messenger;
    const struct peers *peers;
    struct slice_store *slices;            /* encoded slices and sketches to send */
    struct uplink_measurements *measures;  /* measured times and upload rates */
    struct outbox_callbacks leaf_requests; /* sends an item of kind LEAF_REQUEST */
    struct outbox_callbacks leaves;        /* sends an item of kind LEAF_HASHES or LEAF */
};

struct uplink {
    struct uplink_args args; /* the objects that the uplink uses */
    uint8_t *payload;        /* [payload_capacity] of the frame that is being written */
    size_t payload_capacity; /* size of `payload` in bytes */
    /* contributions, which are sent first, because owners need them for their sums */
    struct outbox contributions;
    struct outbox results; /* queued results */
    /* results for slow members, for which no owner waits; sent after all others */
    struct outbox slow_member_results;
    struct outbox requests; /* requests, whose rate is limited by the bytes that they request */
    struct outbox leaves;   /* leaf hashes and leaves, which are sent when no slice is queued */
    struct serving_budget budget; /* bytes that peers may still request */
    bool are_results_deferred;    /* results wait until contributions are nearly sent */
    /* [peer]: bytes of results queued in the messenger */
    uint64_t queued_result_bytes[SWARM_MEMBERS_MAX];
    int64_t leaves_sent_ns;      /* when leaves were last sent */
    struct uplink_pacing pacing; /* rate limits of the current exchange */
};

/* uplink_payload_bytes: size of the longest payload. uplink_memory_bytes: size of the payload
 * buffer and queues. uplink_init: initialize with empty queues.
 * memory  refers to all that `args` points to from then on */
size_t uplink_payload_bytes(const struct wire_shape *shape);
size_t uplink_memory_bytes(const struct wire_shape *shape);
void uplink_init(struct uplink *uplink, const struct uplink_args *args, void *memory);

/* uplink_send_message: immediately send a message of the state machine that has no slice bytes.
 * It is dropped when there is no room; the next message of its kind replaces it. */
enum send_result uplink_send_message(struct uplink *uplink, const uint8_t curve[static KEY_BYTES],
                                     const struct message *message);

/* uplink_push_item: queue an item for a peer in the outbox of its kind. Returns false if the
 * queue is full. */
bool uplink_push_item(struct uplink *uplink, uint32_t peer, const struct outbox_item *item);

/* uplink_push_slow_member_result: as uplink_push_item, for a result that is sent when no other
 * slice waits. The result waits a limited time, because a round has a limited number of slices, and
 * budgets limit repeated requests. */
bool uplink_push_slow_member_result(struct uplink *uplink, uint32_t peer,
                                    const struct outbox_item *item);

/* uplink_drop_items_for_peer: drop the items that are queued for a peer. */
void uplink_drop_items_for_peer(struct uplink *uplink, uint32_t peer);

/* uplink_on_round_open: to be called when a round opens; renews the budgets of peers.
 * uplink_on_table: to be called when the TABLE of a round arrives; starts the pacing.
 * uplink_is_paced: whether the rates of peers are limited now. */
void uplink_on_round_open(struct uplink *uplink, uint32_t round);
void uplink_on_table(struct uplink *uplink, uint32_t round);
bool uplink_is_paced(const struct uplink *uplink);

/* uplink_may_send: whether a peer has not used up its budget for bytes of this kind.
 * uplink_charge: charge bytes that were sent to the peer. */
bool uplink_may_send(struct uplink *uplink, uint32_t peer, enum served_kind kind);
void uplink_charge(struct uplink *uplink, uint32_t peer, enum served_kind kind, uint64_t bytes);

/* uplink_flush: send what can be sent now. Returns when to call it again: now_ns, a later time,
 * or INT64_MAX if nothing can be sent before an event of the messenger or a new item. */
int64_t uplink_flush(struct uplink *uplink, int64_t heartbeat_ns, int64_t now_ns);

#endif
