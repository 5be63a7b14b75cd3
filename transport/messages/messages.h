/* messages: framed messages between processes that join and leave, over ZeroMQ with CURVE.
 *
 * A messenger is the object through which one process exchanges frames with its peers. It owns all
 * sockets, identifies each peer by its CURVE public key, connects and reconnects by itself, and
 * rejects or bans keys. The network threads of a tracker and of a member each call one messenger,
 * and so do clients such as `skep status`. The callers interpret the frames.
 *
 * public   accept_policy.h connect_probe.h frame.h listener_filter.h source.h
 *
 * Two processes share one control connection and several bulk connections. The process that has the
 * address of the other opens them, and both use them in both directions. A process that does not
 * accept connections can therefore still exchange frames with every peer that it can reach.
 *
 *     process                                   peer
 *     DEALER control ------------------------\
 *     DEALER bulk 0  ------------------------- > ROUTER (listens)
 *     DEALER bulk n  ------------------------/
 *
 * Each frame is one message of one part. Frames keep their order within a connection, but not
 * across connections. A frame can be lost with its connection even after a successful send, and the
 * messenger never sends it a second time. */
#ifndef SKEP_TRANSPORT_MESSAGES_MESSAGES_H
#define SKEP_TRANSPORT_MESSAGES_MESSAGES_H

#include "base/fault.h"
#include "base/region.h"
#include "transport/identity/address.h"
#include "transport/identity/keys.h"
#include "transport/messages/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MESSAGE_PEERS_MAX = 1024,  /* maximum number of peers of a messenger */
    MESSAGE_BULK_MAX = 8,      /* bulk connections between two processes */
    MESSAGE_STRIKES_MAX = 3,   /* invalid frames before a peer is banned */
    MESSAGE_GUEST_CLASSES = 3, /* number of classes of guests; see struct messenger_guests */
};

/* Admission of guests: peers whose key was not passed to messenger_register_peer. The caller
 * assigns each key a class. A guest of class k is admitted while fewer than slots[k] guests of the
 * classes up to k are connected. The difference slots[k] - slots[k - 1] is therefore reserved for
 * class k. */
struct messenger_guests {
    /* [class]: maximum number of connected guests of the classes 0 .. class, at most peers_max */
    uint32_t slots[MESSAGE_GUEST_CLASSES];
    /* If all slots are taken, a new guest evicts a class 0 guest. It is chosen from the network (an
     * IPv4 /24 or IPv6 /64) that has the most class 0 guests, there from the host that has the
     * most, and there it is the guest connected longest. The evicted guest must have been connected
     * for this many ms, unless its network or host has more guests than those of the new guest, the
     * new guest included. 0: never evict. */
    uint32_t evict_after_ms;
    /* Returns the class of a guest with this key. Called in messenger_wait and
     * messenger_next_event. NULL: all guests have class 0. */
    uint32_t (*class_of)(const void *context, const uint8_t curve[static KEY_BYTES]);
    const void *context;
};

enum channel { CHANNEL_CONTROL, CHANNEL_BULK };

struct messenger; /* allocated in the caller's region */

struct messenger_options {
    const struct key_pairs *keys; /* keys of this process; not copied */
    const char *listen; /* address to listen on, "tcp://ADDRESS:PORT"; PORT * for any; NULL: none */
    uint32_t peers_max; /* maximum number of peers, including guests: 1 .. MESSAGE_PEERS_MAX */
    /* bulk connections to each peer: 0 .. MESSAGE_BULK_MAX; 0: send bulk frames on the control
     * connection */
    uint32_t bulk_connections;
    uint32_t probes_max;            /* maximum number of connect_probes at the same time */
    uint32_t queued_frames;         /* high-water mark of a connection in each direction: 2 .. 64 */
    struct messenger_guests guests; /* all zero: reject every guest */
    /* bits of the frame kinds to accept, as for frame_read; never kind 255 */
    uint64_t accepted_kinds[4];
};

/* messenger_memory_bytes: an upper bound for the memory that ZeroMQ uses with these options, to
 * be listed as declared use: full queues of frames of FRAME_BYTES_MAX in both directions on
 * every connection, and one multipart message of the largest size that can arrive before it is
 * detected. */
uint64_t messenger_memory_bytes(const struct messenger_options *options);

/* messenger_open: open the sockets and start ZeroMQ's I/O thread. Call it before the arena is
 * sealed. All later calls must come from one thread.
 * memory  tables in `region`; ZeroMQ allocates at any time, within messenger_memory_bytes
 * errors  STATUS_INPUT: `listen` is invalid; STATUS_FAILED: its port is in use */
MUST_CHECK enum status messenger_open(const struct messenger_options *options,
                                      struct region *region, struct messenger **messenger,
                                      struct fault *fault);

/* messenger_port: the TCP port number that the messenger listens on, or 0 if it does not listen. */
uint16_t messenger_port(const struct messenger *messenger);

/* messenger_register_peer: admit this key, and connect to it at `address`, unless `address` is NULL
 * or the connections to it are already up. A changed address replaces the old connections. Failed
 * attempts are retried with growing delays of at most 2 s.
 * errors  STATUS_INPUT: `address` is invalid; STATUS_FIT: more than peers_max peers */
MUST_CHECK enum status messenger_register_peer(struct messenger *messenger,
                                               const uint8_t curve[static KEY_BYTES],
                                               const char *address, struct fault *fault);

/* messenger_ban_peer: disconnect a peer, discard its queued frames, and reject its key until
 * messenger_register_peer is called with it again. Does nothing for an unknown key except to reject
 * it. */
void messenger_ban_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);

/* messenger_disconnect_peer: close all connections with a peer and discard its queued frames. An
 * event MESSENGER_CLOSED follows. The peer may connect again. */
void messenger_disconnect_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);

/* messenger_reclassify_guests: call class_of again for every connected guest. */
void messenger_reclassify_guests(struct messenger *messenger);

enum send_result {
    SEND_OK, /* queued; it arrives unless the connection breaks */
    /* the queue is full, or a bulk connection has more than 50 ms of unsent bytes; messenger_wait
     * returns once there is room */
    SEND_WOULD_BLOCK,
    SEND_NO_PEER, /* the peer is not connected */
};

/* messenger_send: send a frame with a payload of frame->length bytes. The messenger fills in magic
 * and version, and copies the payload.
 * limits  frame->length <= FRAME_PAYLOAD_MAX; kind 255 is reserved for the messenger itself */
enum send_result messenger_send(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                enum channel channel, const struct frame *frame,
                                const void *payload);

/* messenger_backlog_bytes: bytes of bulk frames that messenger_send accepted for a peer and that
 * the kernel has not sent yet. */
uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]);

/* messenger_set_rate_limit: limit all bulk connections of a peer together to `rate` bytes of TCP
 * payload a second, until the next call. Connections with unsent bytes get equal shares. Changes of
 * less than about 3 % are ignored. MESSENGER_UNPACED removes the limit.
 * limits  rate > 0 */
static const uint64_t MESSENGER_UNPACED = INT64_MAX;
void messenger_set_rate_limit(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                              uint64_t rate);

/* messenger_last_received_ns: the time on the monotonic clock when the kernel last received bytes
 * on a bulk connection of the peer, updated ten times a second; 0: never. A long frame advances it
 * while the frame is still incomplete. */
int64_t messenger_last_received_ns(const struct messenger *messenger,
                                   const uint8_t curve[static KEY_BYTES]);

/* messenger_wait: block until there is an event or room in a full queue, `wake_fd` is readable (-1:
 * no such descriptor), or `timeout_ms` have passed (-1: no timeout). False on a timeout. It may
 * return true although messenger_next_event then finds no event. */
bool messenger_wait(struct messenger *messenger, int wake_fd, int timeout_ms);

enum messenger_event_kind {
    MESSENGER_FRAME,  /* a frame was received */
    MESSENGER_OPENED, /* the control connection with the peer is up */
    MESSENGER_CLOSED, /* the control connection was lost */
    /* MESSENGER_REJECTED and MESSENGER_FULL are returned once, until the peer connects or gets a
     * different address. Dialing continues. They are not authenticated: any process at the address
     * can send them. A process that closes the connection causes neither. */
    MESSENGER_REJECTED, /* the process at the address rejects our key */
    MESSENGER_FULL,     /* the process at the address has no free slot for our key now */
};

struct messenger_event {
    enum messenger_event_kind kind;
    uint8_t curve[KEY_BYTES]; /* the peer's key, authenticated by CURVE */
    bool is_guest;            /* the peer's key was not passed to messenger_register_peer */
    struct frame frame;       /* MESSENGER_FRAME: the decoded header */
    const uint8_t *payload;   /* frame.length bytes, valid until the next call */
    char address[MESSAGE_ADDRESS_BYTES]; /* MESSENGER_OPENED: the peer's IP address, or "" */
};

/* messenger_next_event: return the next event; control frames precede bulk frames. False if there
 * is none now. Invalid frames are counted and dropped, and the peer is banned after
 * MESSAGE_STRIKES_MAX of them. */
bool messenger_next_event(struct messenger *messenger, struct messenger_event *event);

/* Counts since messenger_open. Bytes of frames include their headers, but not the overhead of
 * ZeroMQ and TCP. */
struct messenger_counts {
    /* totals since messenger_open */
    uint64_t sent_bytes, received_bytes, sent_frames, received_frames;
    uint64_t verdicts[FRAME_VERDICT_COUNT]; /* received messages with each verdict */
    uint64_t rejected_keys;                 /* connections rejected because of their key */
    uint64_t banned_peers;                  /* number of bans after protocol violations */
    uint64_t acked_bytes;                   /* bytes of TCP payload that peers acknowledged */
    int64_t acked_ns;                       /* when acked_bytes was last updated */
};
struct messenger_counts messenger_counts(const struct messenger *messenger);

/* messenger_close: close all connections. Queued frames are still sent for up to `linger_ms`. */
void messenger_close(struct messenger *messenger, int linger_ms);

#endif
