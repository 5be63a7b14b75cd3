/* messages: contract B: framed messages between processes that come and go, by ZeroMQ over CURVE.
 *
 * A messenger is one process's end. Everybody is known by their CURVE key. Two processes share a
 * control connection and some bulk connections; whoever was given the other's address makes them,
 * and both directions use them, so a process that nobody can reach talks to all that it reaches.
 *
 *     process                                   peer
 *     DEALER control ------------------------\
 *     DEALER bulk 0  ------------------------- > ROUTER (listens)
 *     DEALER bulk n  ------------------------/
 *
 * One frame is one part is one message (transport/messages/frame.h). Order holds on one connection
 * only. A frame that was taken may still be lost with its connection; nothing is told twice by
 * itself. */
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
    MESSAGE_PEERS_MAX = 1024,
    MESSAGE_BULK_MAX = 8,    /* bulk connections between two processes */
    MESSAGE_STRIKES_MAX = 3, /* bad frames until a peer is cut off */
    MESSAGE_CLASSES = 3,     /* of keys that nobody named */
};

/* Guests: keys that messenger_peer never named, told apart by what the caller knows of them. One of
 * class k is let in while guests of the classes up to k have fewer than places[k]; so what is
 * places[k] above places[k - 1] is there for class k, however many come of those below. */
struct messenger_guests {
    uint32_t places[MESSAGE_CLASSES]; /* each at most peers_max; 0: nobody of this class */
    /* Where there is none for a key, it has that of the guest of class 0 who came first, if that
     * was so many ms ago; 0: nobody gives way. */
    uint32_t turn_ms;
    /* Asked within messenger_wait and messenger_next; NULL: all are of class 0. */
    uint32_t (*class_of)(const void *context, const uint8_t curve[static KEY_BYTES]);
    const void *context;
};

enum channel { CHANNEL_CONTROL, CHANNEL_BULK };

struct messenger; /* in the region */

struct messenger_options {
    const struct key_pairs *keys; /* kept by reference */
    const char *listen;           /* "tcp://ADDRESS:PORT", port * for any; NULL: outward only */
    uint32_t peers_max;           /* 1 .. MESSAGE_PEERS_MAX; beyond it nobody is let in */
    uint32_t bulk_connections;    /* 0 .. MESSAGE_BULK_MAX, to each peer; 0: bulk goes as control */
    uint32_t queued_frames;       /* high-water mark of a connection, each way: 2 .. 64 */
    struct messenger_guests guests; /* whom a tracker lets in; zero: nobody */
    uint64_t known[4]; /* frame kinds that may come in, as frame_read takes them; 255 not */
};

/* messenger_memory_bytes: what ZeroMQ may hold at most for so many peers, for the plan's declared
 * line: frames queued both ways on every connection, each of FRAME_BYTES_MAX, and a worst part. */
uint64_t messenger_memory_bytes(const struct messenger_options *options);

/* messenger_open: sockets and ZeroMQ's thread. Before seal. All later calls come from one thread.
 * memory  tables in `region`; ZeroMQ allocates at any time, bounded as above
 * errors  STATUS_INPUT for an address that is none, STATUS_FAILED for one that is taken */
MUST_CHECK enum status messenger_open(const struct messenger_options *options,
                                      struct region *region, struct messenger **messenger,
                                      struct fault *fault);

/* messenger_port: the TCP port that it listens on; 0 when it does not. */
uint16_t messenger_port(const struct messenger *messenger);

/* messenger_peer: let this key in, and reach it at `address` unless that is NULL or connections to
 * it stand. A changed address replaces the old connections. Tries again by itself, at growing
 * distances of at most 2 s.
 * errors  STATUS_INPUT for an address that is none, STATUS_FIT beyond peers_max */
MUST_CHECK enum status messenger_peer(struct messenger *messenger,
                                      const uint8_t curve[static KEY_BYTES], const char *address,
                                      struct fault *fault);

/* messenger_ban: cut a peer off, with what is queued; its key is not let in again until it is
 * named again. Harmless for one that is not there. */
void messenger_ban(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);

/* messenger_disconnect: end the connections with a peer, with what is queued; MESSENGER_CLOSED
 * follows, and it may come again. */
void messenger_disconnect(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);

/* messenger_reclassify: class_of may say something else than before of some key. */
void messenger_reclassify(struct messenger *messenger);

enum send_result {
    SEND_OK,          /* copied; on its way unless the connection breaks */
    SEND_WOULD_BLOCK, /* the queue is at its mark, or what is left in it for bulk goes on for longer
                     than 50 ms: messenger_wait comes back when there is room */
    SEND_NO_PEER,     /* no connection stands */
};

/* messenger_send: a frame with its payload of frame->length bytes; magic and version are filled in.
 * limits  frame->length <= FRAME_PAYLOAD_MAX; kind 255 is the messengers' own */
enum send_result messenger_send(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                enum channel channel, const struct frame *frame,
                                const void *payload);

/* messenger_backlog_bytes: bytes of bulk frames that were taken for a peer and have not gone
 * out. */
uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]);

/* messenger_set_rate: all bulk connections of a peer together send at most `rate` bytes a second,
 * TCP's payload, in steps of a few percent, until it is told again; each that has something left
 * has an equal part.
 * limits  rate > 0 */
static const uint64_t MESSENGER_UNPACED = INT64_MAX;
void messenger_set_rate(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                        uint64_t rate);

/* messenger_arrived_ns: when bytes were last seen to come on a bulk connection of the peer, looked
 * up ten times a second, on the monotonic clock; 0: never. A long frame is read at its end only. */
int64_t messenger_arrived_ns(const struct messenger *messenger,
                             const uint8_t curve[static KEY_BYTES]);

/* messenger_wait: sleep until something can be received, a full queue has room, `wake_fd` (-1:
 * none) is readable, or `timeout_ms` (-1: for ever) have passed. True unless the time passed; now
 * and then also when there is nothing. */
bool messenger_wait(struct messenger *messenger, int wake_fd, int timeout_ms);

enum messenger_event_kind {
    MESSENGER_FRAME,
    MESSENGER_OPENED, /* the first connection with the peer stands */
    MESSENGER_CLOSED, /* the control connection broke, seen at once by a socket monitor */
    /* Each told once until it opens or gets another address; it is dialed on. Not told: nobody is
     * there, or who is hangs up before it says that it speaks as we do. */
    MESSENGER_REJECTED, /* it does not let our key in, or has another key than was said */
    MESSENGER_FULL,     /* it would let our key in, but has no place now */
};

struct messenger_event {
    enum messenger_event_kind kind;
    uint8_t curve[KEY_BYTES];            /* of the peer, proven by CURVE */
    bool is_guest;                       /* nobody named it */
    struct frame frame;                  /* MESSENGER_FRAME; frame.length bytes follow */
    const uint8_t *payload;              /* valid until the next call of any function */
    char address[MESSAGE_ADDRESS_BYTES]; /* MESSENGER_OPENED: its IP as seen here; may be "" */
};

/* messenger_next: the next event, control before bulk; false when there is none now. Frames that
 * are not right are counted, dropped, and after MESSAGE_STRIKES_MAX of them the peer is cut off. */
bool messenger_next(struct messenger *messenger, struct messenger_event *event);

/* What went through, frames with their headers; ZeroMQ's and TCP's own bytes are not in it. */
struct messenger_counts {
    uint64_t sent_bytes, received_bytes, sent_frames, received_frames;
    uint64_t verdicts[FRAME_VERDICTS];
    uint64_t refused_keys, cut_off;
    uint64_t confirmed_bytes; /* that the other ends' kernels have had of us, TCP's payload, ... */
    int64_t confirmed_ns;     /* ... by this moment: it is looked up ten times a second */
};
struct messenger_counts messenger_counts(const struct messenger *messenger);

/* messenger_close: what is queued is sent for at most `linger_ms`. */
void messenger_close(struct messenger *messenger, int linger_ms);

#endif
