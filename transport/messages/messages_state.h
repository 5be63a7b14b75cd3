/* messages_state: what the parts of a messenger share.
 *
 *   messages        open, close, wait, next: the order in which things are looked at
 *   messages_peer   who may talk to us, who is open, what is to be told about it
 *   messages_dial   connections that we make, again and again
 *   messages_accept connections that are made to us, told apart by their hello
 *   messages_zap    which keys are let in
 *   messages_read   frames that come in: control first, strikes
 *   messages_send   frames that go out
 *   messages_ahead  how much of them waits below us
 *   messages_guard  what the kernel knows: bytes that make no frames, bytes confirmed
 *   messages_socket sockets, their options, their monitors
 *
 * A peer is open while its control connection stands; when that ends, its bulk connections are
 * ended too. The dialer's first frame on every connection is a hello, and its only one until the
 * welcome has come back. */
#ifndef SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H
#define SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H

#include "transport/messages/messages.h"

#include <zmq.h>

static const int64_t MESSENGER_MS = 1000000; /* nanoseconds */

enum {
    MESSENGER_KIND = 255,        /* frame kind of our own; epoch says which, round which link */
    MESSENGER_HELLO = 1,         /* slice: bulk connections that the dialer would make */
    MESSENGER_WELCOME = 2,       /* slice: bulk connections that are wanted */
    MESSENGER_HANDSHAKE = 3000,  /* ms for a connection, and again for CURVE on it */
    MESSENGER_GREETING = 6000,   /* ms from there to hello or welcome: a busy process reads late */
    MESSENGER_SPARE = 1000,      /* ms until a second control connection takes the first's place */
    MESSENGER_GRACE = 600,       /* ms for the lesser key to dial first: round trips of 150 ms */
    MESSENGER_AGAIN_LEAST = 100, /* ms between two dials, growing ... */
    MESSENGER_AGAIN_MOST = 1600, /* ... to this and a quarter of it, by chance */
    MESSENGER_BAN = 60000,       /* ms that a peer stays cut off for bad frames */
    MESSENGER_BANS_MAX = 256,    /* keys remembered as cut off; beyond it the oldest is forgotten */
    MESSENGER_TICK = 100,        /* ms between two looks at what no socket tells */
    MESSENGER_LATE = 1000,       /* ms: a tick so much too late is a gap in this process's life */
    MESSENGER_ROOM = 5,          /* ms: a full connection of the listener's is tried again */
    MESSENGER_AHEAD_MAX = 64,    /* bulk frames read ahead of control frames behind them */
    MESSENGER_ZAP_FULL = 500,  /* no place now. Not 300: ZeroMQ tells the other end nothing of it */
    MESSENGER_STRANGERS = 256, /* connections at once that have not said who they are */
};

enum link_state {
    LINK_NONE,
    LINK_DIALING,    /* not connected, or CURVE is not through */
    LINK_HANDSHAKEN, /* the hello is on its way, the welcome is awaited */
    LINK_DIALED,     /* stands */
    LINK_DRAINING,   /* broken; what came before is still read */
    LINK_ACCEPTED    /* stands, made by the peer */
};

/* One of a peer's connections; the first is for control. */
struct link {
    enum link_state state;
    bool full;         /* SEND_WOULD_BLOCK was said of it */
    bool asks;         /* DIALING, without CURVE: only to learn whether somebody is there */
    int fd;            /* of one that we made; -1 */
    int accepted;      /* LINK_ACCEPTED: which; -1 */
    void *socket;      /* of one that we made: a DEALER, and its monitor */
    void *monitor;     /* .. */
    uint32_t again_ms; /* the distance to the next dial */
    int64_t due_ns;    /* LINK_NONE: to be dialed; DIALING, SHAKEN: to be given up */
    uint64_t read_bytes, read_frames;
    uint64_t confirmed_bytes; /* of what was sent, as counted so far */
    uint64_t arrived_bytes;   /* bulk: that the kernel had of the peer when it was last asked */
    uint64_t given_bytes;     /* bulk: what ZeroMQ was given, as it goes out, ... */
    uint64_t given_from;      /* ... after so many bytes that the kernel had sent by then */
    int64_t given_ns;         /* the last time */
    uint64_t paced;           /* bulk: bytes a second that it may send */
};

struct peer {
    bool named;           /* by messenger_peer; else a guest */
    bool open;            /* the control connection stands */
    bool told_open;       /* the caller knows that it was */
    bool broke;           /* it was not, since then */
    bool refused;         /* to be told */
    bool said_refused;    /* has been told, for this address */
    bool full, said_full; /* the same */
    bool wants_bulk;      /* SEND_WOULD_BLOCK was said because no bulk connection stands yet */
    uint32_t turned_away; /* dials in a row that ended within CURVE's handshake */
    bool speaks;          /* when it was only asked, it had a word to say */
    uint32_t strikes;
    uint32_t
        guest_class; /* not named: as it was when it came, or at the last messenger_reclassify */
    int64_t opened_ns;
    int64_t arrived_ns;  /* when bytes of its bulk connections were last seen to have come */
    uint32_t epoch;      /* counts its closings, so that frames of before are known */
    uint32_t bulk_count; /* bulk connections that it will have, while it is open */
    uint32_t bulk_turn;
    struct link *links;                  /* [1 + options.bulk_connections] */
    char address[MESSAGE_ADDRESS_BYTES]; /* to dial; "" for none */
    char seen_ip[MESSAGE_ADDRESS_BYTES];
};

/* A connection to the listener, from its ACCEPTED event on. */
struct accepted {
    int fd;               /* -1: this place is free */
    bool said;            /* its hello has come */
    bool ending;          /* it broke; the listener may hold frames of it */
    uint32_t routing;     /* said: the number that the ROUTER gave it */
    struct peer *peer;    /* said: NULL when it was cut off */
    uint32_t link;        /* .. */
    uint32_t bulk_wanted; /* .. of a control connection */
    int64_t due_ns;       /* not said: cut off then; spare: takes the place of the link then */
    uint64_t read_bytes, read_frames;
    uint64_t confirmed_bytes; /* as of a link */
};
static const uint32_t ACCEPTED_SPARE = UINT32_MAX; /* accepted.link of a second control one */

struct ban {
    uint8_t curve[KEY_BYTES];
    int64_t until_ns;
};

/* A bulk frame that was read ahead. */
struct ahead {
    zmq_msg_t message;
    struct frame frame;
    struct peer *peer;
    uint32_t epoch;
};

/* What items are before the pairs {socket, monitor} of the links that we made. */
enum { ITEM_ZAP, ITEM_LISTENER, ITEM_LISTENER_MONITOR, ITEM_WAKE, ITEM_ROOM, ITEMS_FIXED };

struct watched {
    struct peer *peer;
    struct link *link;
};

struct messenger {
    struct messenger_options options;
    uint64_t known[4]; /* options.known and our own kind */
    struct messenger_counts counts;
    uint16_t port;
    void *context, *zap, *listener, *listener_monitor;
    int listener_fd; /* of its mailbox: readable when something happened to the listener */

    uint8_t (*curves)[KEY_BYTES]; /* [peers_max], close together because they are searched */
    struct peer *peers;           /* [peers_max] */
    struct accepted *accepted;    /* [accepted_max] */
    uint32_t accepted_max;
    struct ban bans[MESSENGER_BANS_MAX];
    uint32_t ban_next;

    struct ahead *ahead; /* ring [ahead_max] */
    uint32_t ahead_max, ahead_first, ahead_count;

    zmq_pollitem_t *items; /* [ITEMS_FIXED + 2 * links] */
    struct watched *watched;
    uint32_t watched_count;
    bool stale; /* items are to be listed anew */
    uint32_t control_turn, bulk_turn;

    bool ahead_last;       /* the last bulk frame came from `ahead` */
    bool has_news;         /* some peer has something to tell */
    bool has_room;         /* a full connection has room */
    bool listener_full;    /* SEND_WOULD_BLOCK was said of an accepted connection */
    bool is_ahead;         /* SEND_WOULD_BLOCK was said because enough is on its way */
    uint32_t ending;       /* accepted connections that broke and are still read */
    uint32_t ending_reads; /* from the listener, until they are taken for read */
    uint32_t dial_serial;
    int64_t tick_ns; /* the next look at what no socket tells */
    bool has_current;
    zmq_msg_t current; /* the frame that the caller looks at */
};

/* messages_socket */
struct socket_monitor_event {
    uint16_t kind;
    uint32_t value;
};
MUST_CHECK enum status socket_listener(struct messenger *messenger, struct fault *fault);
/* A DEALER that is connecting to one who has this key; NULL: a STREAM, to learn whether anybody is
 * there. False when there is none, by lack of descriptors. */
MUST_CHECK bool socket_dial(struct messenger *messenger, const uint8_t *curve, const char *address,
                            void **socket, void **monitor);
/* Whether any byte has come to a STREAM. */
bool socket_has_input(void *stream);
/* Both, if they are there. */
void socket_close(void *socket, void *monitor, int linger_ms);
/* The next event of a monitor; false when there is none now. */
bool socket_event(void *monitor, struct socket_monitor_event *event);
/* Whether it is "tcp://HOST:PORT"; port * and 0 only where any port will do. */
MUST_CHECK bool address_is_one(const char *address, bool any_port);

/* messages_peer */
struct peer *peer_find(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* The same, else a free place for it; NULL when there is none. */
struct peer *peer_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* The same for a guest: NULL also when there is none for those of its class. */
struct peer *peer_add_guest(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
bool peer_has_slot(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* A guest whose turn is over goes: its place is free once the caller knows. False: none. */
bool evict_oldest_guest(struct messenger *messenger);
/* Whether guests of its class are wanted at all. */
bool peer_is_wanted(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
bool peer_is_banned(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
void peer_ban(struct messenger *messenger, const uint8_t curve[static KEY_BYTES], int64_t until_ns);
const uint8_t *peer_curve(const struct messenger *messenger, const struct peer *peer);
/* Whether the peer, not we, is the one who should dial when both can. */
bool peer_dials_first(const struct messenger *messenger, const struct peer *peer);
void peer_opened(struct messenger *messenger, struct peer *peer);
void peer_closed(struct messenger *messenger, struct peer *peer);
void peer_disconnect_and_ban(struct messenger *messenger, struct peer *peer);
void peer_on_rejected(struct messenger *messenger, struct peer *peer);
void peer_on_full(struct messenger *messenger, struct peer *peer);
void peer_set_seen_ip(struct peer *peer, zmq_msg_t *message); /* keep the IP that it came from */
bool peer_next_event(struct messenger *messenger, struct messenger_event *event);

/* messages_dial */
/* This process slept so long, or was busy: what is awaited from others may have come meanwhile. */
void dial_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void accept_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void dial_due(struct messenger *messenger, int64_t now_ns); /* whatever is to be dialed by now */
void dial_events(struct messenger *messenger, struct peer *peer, struct link *link);
/* One that only asks: ends it when it has its answer. */
void dial_lookup_done(struct messenger *messenger, struct peer *peer, struct link *link);
/* Nothing is left in it to be read: ends one that broke. */
void dial_read(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_welcomed(struct messenger *messenger, struct peer *peer, struct link *link,
                   uint32_t bulk_count);
/* The connection is no more: its socket is closed, or what was accepted is cut off. */
void link_end(struct messenger *messenger, struct link *link, int linger_ms);
/* When a connection that ended or never was is to be dialed. */
void link_schedule_redial(struct messenger *messenger, const struct peer *peer, struct link *link);
/* A bulk connection stands: whoever waited for one may send. */
void bulk_link_up(struct messenger *messenger, struct peer *peer);
bool link_is_up(const struct link *link);
void wake_by(struct messenger *messenger, int64_t due_ns);

/* messages_accept */
void accept_events(struct messenger *messenger);
void accept_due(struct messenger *messenger, int64_t now_ns);
void accept_hello(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                  const struct frame *hello);
struct accepted *accept_find(struct messenger *messenger, uint32_t routing);
void accepted_drain(struct messenger *messenger, struct accepted *accepted);
void accepted_drained(struct messenger *messenger);  /* of those that broke */
void accepted_disconnect(struct accepted *accepted); /* frames of it are nobody's from now on */

/* messages_zap */
MUST_CHECK enum status zap_open(struct messenger *messenger, struct fault *fault);
void zap_answer(struct messenger *messenger);
/* User-Id, as zap_answer gave it, to the key; false when it is none. */
bool zap_user(zmq_msg_t *message, uint8_t curve[static KEY_BYTES]);

/* messages_read */
bool read_control(struct messenger *messenger, struct messenger_event *event);
bool read_bulk(struct messenger *messenger, struct messenger_event *event);
void read_release_frame(struct messenger *messenger); /* the frame that the caller has looked at */

/* messages_send: of our own kind; lost when the queue is full. */
bool send_hello(struct messenger *messenger, void *socket, uint32_t link_index);
bool send_welcome(struct messenger *messenger, uint32_t routing, uint32_t bulk_count);

/* messages_ahead: whether a bulk connection has enough that has not gone out; what it was given;
 * a new one spreads what it sends. */
bool backlog_is_full(const struct messenger *messenger, struct link *link);
void backlog_note_sent(struct link *link, const struct frame *frame);
void backlog_distribute(const struct messenger *messenger, struct link *link);

/* messages_guard: cut connections whose bytes pile up without becoming frames, and count what was
 * confirmed on all others. */
void guard_check(struct messenger *messenger, int64_t now_ns);

#endif
