/* messages_state: the state of a messenger. Each part is changed by one file only:
 *
 *   messages             options, the tick, and the order of work in wait and next
 *   messages_poll        the set of sockets that are polled
 *   messages_socket      ZeroMQ sockets, their options, their monitors; the listener
 *   messages_zap         authentication: which keys the listener admits
 *   messages_peer        the public calls that register, disconnect and ban a peer
 *   messages_table       the peer table: lookup, slots, guests
 *   messages_connection  whether a peer is connected, and the events about it
 *   messages_ban         strikes, and keys that are rejected for a time
 *   messages_link        one connection of a peer, dialed or accepted
 *   messages_dial        which links are dialed, and when
 *   messages_accept      connections to the listener
 *   accept_policy        limits of connections without a finished handshake
 *   listener_filter      hosts whose connection attempts the kernel drops
 *   messages_read        received frames
 *   messages_send        sent frames, and which queues are full
 *   messages_backlog     bytes that were queued but not sent by the kernel yet
 *   messages_tcp_stats   what the kernel counts for each connection
 *
 * A peer is connected while its control link is up. When that link ends, its bulk links are closed
 * too. The process that dials sends a hello as the first frame of every connection, and nothing
 * else until it has received the welcome. */
#ifndef SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H
#define SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H

#include "base/clock.h"
#include "transport/messages/accept_policy.h"
#include "transport/messages/messages.h"

#include <linux/tcp.h>
#include <zmq.h>

enum {
    /* internal frames: the field `epoch` holds the type, `round` the link index */
    MESSENGER_KIND = 255,
    MESSENGER_HELLO = 1,      /* type of a hello; `slice`: bulk connections that the sender wants */
    MESSENGER_WELCOME = 2,    /* type of a welcome; `slice`: bulk connections to open */
    MESSENGER_ZAP_FULL = 500, /* ZAP status: no free slot (the peer would not see 300) */
    MESSENGER_BANS_MAX = 256, /* maximum number of banned keys; a new ban replaces the oldest */
    MESSENGER_READ_AHEAD_MAX = 64, /* bulk frames read ahead to get later control frames */
};

/* Times in ms. */
enum {
    MESSENGER_HANDSHAKE_MS = 3000, /* timeout of the TCP handshake; also of the CURVE handshake */
    MESSENGER_GREETING_MS = 6000,  /* timeout of hello and welcome; a peer may be busy */
    MESSENGER_STANDBY_MS = 1000,   /* delay until a second control connection replaces the first */
    MESSENGER_GRACE_MS = 600, /* wait for the peer to dial first: a few round trips of 150 ms */
    MESSENGER_REDIAL_MIN_MS = 100, /* delay between two dials, which doubles each time */
    /* upper limit of the redial delay, to which up to a quarter of jitter is added */
    MESSENGER_REDIAL_MAX_MS = 1600,
    MESSENGER_BAN_MS = 60000, /* duration of a ban for invalid frames */
    MESSENGER_TICK_MS = 100,  /* interval of checks that no socket event triggers */
    /* a tick that is later than this shows that the process was stopped */
    MESSENGER_LATE_MS = 1000,
    MESSENGER_SEND_RETRY_MS = 5, /* delay until sending to a full queue is retried */
};

enum link_state {
    LINK_NONE,       /* no connection, and no attempt in progress */
    LINK_DIALING,    /* not connected yet, or the CURVE handshake is incomplete */
    LINK_HANDSHAKEN, /* hello sent, waiting for the welcome */
    LINK_DIALED,     /* up, dialed by this process */
    LINK_DRAINING,   /* broken, but received frames are still being read */
    LINK_ACCEPTED    /* up, dialed by the peer */
};

/* Totals of what was read from a connection. */
struct received {
    uint64_t bytes, frames; /* number of bytes and of frames read */
};

/* Unsent bytes of a bulk link; see messages_backlog. */
struct backlog {
    uint64_t queued_bytes;  /* size on the wire of the frames queued */
    uint64_t sent_at_start; /* bytes that the kernel had sent when counting began */
    int64_t queued_ns;      /* when a frame was last queued */
    uint64_t rate_limit;    /* pacing rate in bytes a second; 0: never set */
};

/* One connection of a peer. Link 0 is the control link, the others are for bulk. */
struct link {
    enum link_state state;
    int fd;                   /* descriptor of a dialed link; -1: none */
    int accepted_index;       /* ACCEPTED: index in the accept table; else -1 */
    void *socket;             /* DEALER of a dialed link, else NULL */
    void *monitor;            /* monitor of `socket`, else NULL */
    uint32_t redial_ms;       /* delay before the next dial */
    int64_t due_ns;           /* NONE: when to dial; DIALING, HANDSHAKEN: when to time out */
    bool is_full;             /* the link's queue was full at the last send; see messages_send */
    struct received received; /* read from the connection so far */
    struct backlog backlog;   /* unsent bytes of a bulk link */
    uint64_t acked_bytes, received_tcp_bytes; /* bytes that messages_tcp_stats has counted so far */
};

/* Whether a peer is connected, and which events the caller has not received yet. The transitions
 * are in messages_connection.c. */
enum peer_state {
    PEER_DISCONNECTED, /* not connected */
    PEER_OPENED,       /* connected; MESSENGER_OPENED is pending */
    PEER_OPEN,         /* connected, and the caller has been notified */
    PEER_LOST,         /* disconnected; MESSENGER_CLOSED is pending */
    PEER_REOPENED,     /* connected again; MESSENGER_CLOSED and then MESSENGER_OPENED are pending */
};

/* Reasons why a peer cannot be dialed, as bits. Each is reported once until the peer connects or
 * gets a different address. */
enum dial_failure {
    DIAL_REJECTED = 1, /* the peer rejected the key */
    DIAL_FULL = 2,     /* the peer has no free slot */
};

struct peer {
    /* connection state; only messages_connection.c changes it and the fields below */
    enum peer_state state;
    uint8_t failures_pending, failures_reported; /* bit sets of dial_failure */
    uint32_t disconnect_count; /* disconnections so far; marks frames of earlier connections */
    int64_t opened_ns;         /* when the peer connected */
    uint32_t bulk_count;       /* bulk links of the current connection */
    char seen_ip[MESSAGE_ADDRESS_BYTES]; /* IP address that the peer connects from */
    struct source host;                  /* host of a peer that dialed this process */

    bool is_registered;                  /* registered by messenger_register_peer; false: a guest */
    char address[MESSAGE_ADDRESS_BYTES]; /* address to dial; "": none */

    struct link *links;     /* [1 + options.bulk_connections] */
    uint32_t process_class; /* class of a guest, when last classified */

    uint32_t strikes;         /* invalid frames so far; see messages_ban */
    uint32_t next_bulk_link;  /* the bulk link that messages_send tries first */
    bool is_bulk_awaited;     /* a send failed because no bulk link was up */
    int64_t last_received_ns; /* last time bytes arrived; see messages_tcp_stats */
};

/* A connection that the listener accepted. */
struct accepted {
    int fd;             /* descriptor of the connection; -1: the entry is free */
    struct source host; /* where the connection comes from */
    bool has_hello;     /* the hello has arrived */
    bool is_draining;   /* the connection is broken, but the listener may still have its frames */
    uint32_t routing;   /* number that the ROUTER assigned; valid with a hello */
    /* peer that opened the connection; NULL: no hello yet, or this process disconnected */
    struct peer *peer;
    uint32_t link;        /* index of the peer's link, or ACCEPTED_STANDBY */
    uint32_t bulk_wanted; /* for a control connection: number of bulk links to open */
    int64_t due_ns; /* without hello: when to disconnect; standby: when to use the connection */
    struct received received; /* read from the connection so far */
    uint64_t acked_bytes;     /* bytes that messages_tcp_stats has counted so far */
};
/* value of accepted.link for a second control connection, which waits on standby */
static const uint32_t ACCEPTED_STANDBY = UINT32_MAX;

struct accept_table {
    struct accepted *entries; /* [count] */
    uint32_t count;           /* number of entries, free ones included */
    uint32_t draining_count;  /* number of entries with is_draining */
    uint32_t reads_left;      /* reads of the listener before draining entries are dropped */
    struct accept_policy *policy;
    uint32_t filter_version; /* policy->blocked_version when the listener's filter was last set */
};

struct ban {
    uint8_t curve[KEY_BYTES]; /* channel key of the banned peer */
    int64_t until_ns;         /* end of the ban; INT64_MAX: until the key is registered again */
};

struct ban_list {
    struct ban bans[MESSENGER_BANS_MAX]; /* a ring; the oldest ban is replaced */
    uint32_t next_index;                 /* entry that the next ban replaces */
};

/* A bulk frame that was read before the caller requested it. */
struct read_ahead {
    zmq_msg_t message;  /* the frame as received */
    struct frame frame; /* decoded header of `message` */
    struct peer *peer;
    uint32_t disconnect_count; /* peer->disconnect_count when the frame was read */
};

struct reader {
    struct read_ahead *ring;               /* [capacity] */
    uint32_t capacity, first_index, count; /* size, first frame and number of frames of `ring` */
    uint32_t next_control, next_bulk;      /* index of the polled link to read first */
    bool was_from_ring;                    /* whether the last bulk frame came from the ring */
    bool has_current;                      /* `current` contains a frame */
    zmq_msg_t current; /* frame of the last event, which the caller may still use */
};

/* Indices of the first poll items, which precede the pairs {socket, monitor} of dialed links. */
enum {
    ITEM_ZAP,               /* poll item of the ZAP socket */
    ITEM_LISTENER,          /* poll item of the listening socket */
    ITEM_LISTENER_MONITOR,  /* poll item of the monitor of the listening socket */
    ITEM_WAKE,              /* poll item of the caller's wake descriptor */
    ITEM_LISTENER_WRITABLE, /* poll item that reports space in the listener's queues */
    ITEMS_FIXED             /* number of poll items above, which precede those of the links */
};

struct polled { /* a link in the poll set, and its peer */
    struct peer *peer;
    struct link *link;
};

struct poll_set {
    zmq_pollitem_t *items; /* [ITEMS_FIXED + 2 * links] */
    struct polled *links;  /* [link_count] */
    uint32_t link_count;   /* number of polled links */
    bool is_outdated;      /* a socket was opened or closed since the items were listed */
};

/* The reasons for SEND_WOULD_BLOCK results for which the caller has not been woken yet. */
struct blocked_sends {
    bool is_wakeup_due;    /* wake the caller: a queue has space again */
    bool is_listener_full; /* the queue of an accepted connection was full */
    bool is_backlogged;    /* a bulk link had too many unsent bytes */
};

struct listener {
    void *socket, *monitor; /* NULL: the messenger does not listen */
    int fd;                 /* descriptor of `socket`, readable when the socket's state changed */
    int tcp_fd;             /* the listening TCP socket, which ZeroMQ owns */
    uint16_t port;          /* TCP port of the listener */
};

struct messenger {
    struct messenger_options options;
    uint64_t accepted_kinds[4];     /* bits of options.accepted_kinds and MESSENGER_KIND */
    struct messenger_counts counts; /* each field is updated in one source file */
    void *zmq_context;              /* ZeroMQ context of all sockets */
    void *zap_socket;               /* authenticates connections by their CURVE key */
    int64_t next_tick_ns;           /* when the next tick is due */
    struct listener listener;       /* accepts connections of peers */
    uint32_t monitor_serial;        /* number of monitors so far, for unique names */
    uint8_t (*curves)[KEY_BYTES];   /* [peers_max], separate from `peers` for fast lookups */
    struct peer *peers;             /* [peers_max] */
    bool has_events;                /* a peer may have a pending event */
    struct ban_list bans;
    struct accept_table accept;         /* connections that peers have dialed */
    struct reader reader;               /* reads frames, and buffers bulk frames */
    struct poll_set poll;               /* the polled sockets */
    struct blocked_sends blocked_sends; /* why sends returned SEND_WOULD_BLOCK */
};

/* messages */
/* Run the next tick no later than `due_ns`. */
void messenger_schedule_tick(struct messenger *messenger, int64_t due_ns);
uint32_t messenger_links_max(const struct messenger_options *options);

/* messages_poll */
void poll_init(struct messenger *messenger, struct region *region);
void poll_mark_outdated(struct messenger *messenger);
/* Poll all sockets for up to `wait_ms`, and handle everything except received frames. */
void poll_sockets(struct messenger *messenger, int wake_fd, long wait_ms);
bool poll_has_input(const struct messenger *messenger); /* some socket may have a frame */
bool poll_is_woken(const struct messenger *messenger);  /* wake_fd is readable */
bool poll_listener_has_input(const struct messenger *messenger);
void poll_set_listener_input(struct messenger *messenger, bool has_input);
bool poll_link_has_input(const struct messenger *messenger, uint32_t index);
void poll_clear_link_input(struct messenger *messenger, uint32_t index);
/* Whether the polled socket is still the socket of its link. */
bool poll_link_is_current(const struct messenger *messenger, uint32_t index);

/* messages_socket */
struct socket_monitor_event {
    uint16_t kind;  /* ZMQ_EVENT_* */
    uint32_t value; /* descriptor, error number or interval, by kind */
};
MUST_CHECK enum status socket_open_listener(struct messenger *messenger, struct fault *fault);
void socket_close_listener(struct messenger *messenger, int linger_ms);
/* Open a DEALER that connects to the process with this key. False when no socket is available. */
MUST_CHECK bool socket_dial(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                            const char *address, void **socket, void **monitor);
/* socket and monitor may each be NULL */
void socket_close(void *socket, void *monitor, int linger_ms);
/* Read the next event of a monitor; false when there is none now. */
bool socket_next_event(void *monitor, struct socket_monitor_event *event);
/* Whether `address` is "tcp://HOST:PORT". HOST *, PORT * and PORT 0 are valid only if
 * `may_be_any`. */
MUST_CHECK bool is_socket_address(const char *address, bool may_be_any);

/* messages_zap */
MUST_CHECK enum status zap_open(struct messenger *messenger, struct fault *fault);
void zap_answer_requests(struct messenger *messenger); /* answers all pending ZAP requests */
/* Read the key of a message's sender from the user id that zap_answer_requests assigned. Returns
 * false if there is none. */
bool zap_read_sender_key(zmq_msg_t *message, uint8_t curve[static KEY_BYTES]);

/* messages_table */
void table_init(struct messenger *messenger, struct region *region);
struct peer *peer_find(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Return the peer with this key, added in a free slot if it is new; NULL: no slot is free. */
struct peer *peer_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Return the guest with this key, added if it is new; NULL: its class has no free slot. */
struct peer *peer_add_guest(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
bool peer_has_slot(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Whether there are any slots for guests with the class of this key. */
bool peer_may_be_guest(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Disconnect a class 0 guest, as struct messenger_guests describes. Its slot is free once the
 * caller has received the event. False: no guest may be evicted. */
bool evict_stranger(struct messenger *messenger, const struct source *newcomer);
const uint8_t *peer_curve(const struct messenger *messenger, const struct peer *peer);
/* Whether the peer is the one to dial if both processes could: the process with the lower key
 * dials. */
bool peer_dials_first(const struct messenger *messenger, const struct peer *peer);

/* messages_connection */
bool peer_is_open(const struct peer *peer);
bool peer_has_unreported_events(const struct peer *peer);
void peer_on_open(struct messenger *messenger, struct peer *peer, uint32_t bulk_wanted);
/* Close all links of the peer, and schedule a redial. */
void peer_on_close(struct messenger *messenger, struct peer *peer);
void peer_on_dial_failure(struct messenger *messenger, struct peer *peer,
                          enum dial_failure failure);
void peer_clear_pending_failures(struct peer *peer);
void peer_clear_reported_failures(struct peer *peer);
void peer_set_seen_ip(struct peer *peer, zmq_msg_t *message);
void peer_set_host(struct peer *peer, const struct source *host);
bool peer_next_event(struct messenger *messenger, struct messenger_event *event);

/* messages_ban */
bool is_banned(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
void ban_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES], int64_t until_ns);
/* Lift a ban by messenger_ban_peer. A ban for invalid frames ends only when its time is over. */
void ban_lift(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
void peer_add_strike(struct messenger *messenger, struct peer *peer);
void peer_disconnect_and_ban(struct messenger *messenger, struct peer *peer);

/* messages_link */
void link_init(struct link *link);
bool link_is_up(const struct link *link);
/* whether the link's state is DIALING or HANDSHAKEN */
bool link_is_dialing(const struct link *link);
/* Start to connect a link. False when no socket is available. */
MUST_CHECK bool link_dial(struct messenger *messenger, const struct peer *peer, struct link *link);
void link_on_connected(struct link *link, int fd);
void link_on_handshake(struct link *link);
void link_on_welcome(struct link *link);
void link_on_disconnect(struct link *link); /* changes the state from DIALED to DRAINING */
void link_use_accepted(struct messenger *messenger, struct link *link,
                       const struct accepted *accepted);
/* Close the socket of a dialed link, or disconnect an accepted connection. */
void link_end(struct messenger *messenger, struct link *link, int linger_ms);
void link_reset_redial(struct link *link);
void link_schedule_dial(struct messenger *messenger, struct link *link, int64_t due_ns);
void link_schedule_redial(struct messenger *messenger, const struct peer *peer, struct link *link);
void link_extend_deadline(struct link *link, int64_t ns);

/* messages_dial */
/* Start the dials that are due, and time out links. */
void dial_handle_deadlines(struct messenger *messenger, int64_t now_ns);
/* Extend deadlines by `late_ns`, because this process did not run for that time, so answers may
 * have arrived unread. */
void dial_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void dial_handle_events(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_on_drained(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_on_welcome(struct messenger *messenger, struct peer *peer, struct link *link,
                     uint32_t bulk_wanted);

/* messages_accept */
void accept_init(struct messenger *messenger, struct region *region);
void accept_handle_events(struct messenger *messenger);
void accept_handle_deadlines(struct messenger *messenger, int64_t now_ns);
void accept_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void accept_hello(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                  const struct frame *hello);
struct accepted *accept_find_by_routing(struct messenger *messenger, uint32_t routing);
/* Count a read from the listener. After enough reads, draining connections are ended. */
void accept_count_read(struct messenger *messenger);
void accepted_start_draining(struct messenger *messenger, struct accepted *accepted);
/* End all draining connections, because the listener has no frames left. */
void accepted_end_drained(struct messenger *messenger);
/* closes the connection and ignores its frames from then on */
void accepted_disconnect(struct accepted *accepted);

/* messages_read */
void read_init(struct messenger *messenger, struct region *region);
uint32_t read_ahead_max(const struct messenger_options *options);
void read_close_messages(struct messenger *messenger);
bool read_control(struct messenger *messenger, struct messenger_event *event);
bool read_bulk(struct messenger *messenger, struct messenger_event *event);
void read_release_frame(struct messenger *messenger); /* releases the frame of the last event */

/* messages_send */
bool send_hello(struct messenger *messenger, void *socket, uint32_t link_index);
bool send_welcome(struct messenger *messenger, uint32_t routing, uint32_t bulk_wanted);
void blocked_sends_on_writable(struct messenger *messenger, struct link *link);
void blocked_sends_on_listener_writable(struct messenger *messenger);
/* Wake the caller if it waits for a bulk link of this peer. */
void blocked_sends_on_bulk_link_up(struct messenger *messenger, struct peer *peer);
void blocked_sends_on_close(struct peer *peer);
/* Whether a send is blocked for a reason that no socket reports. */
bool blocked_sends_need_retry(const struct messenger *messenger);
/* Let the caller retry all blocked sends. */
void blocked_sends_allow_retry(struct messenger *messenger);
void blocked_sends_clear_wakeup(struct messenger *messenger);

/* messages_backlog */
bool backlog_is_full(const struct messenger *messenger, struct link *link);
void backlog_add_frame(struct link *link, const struct frame *frame);
void backlog_enable_pacing(const struct messenger *messenger, struct link *link);

/* messages_tcp_stats */
MUST_CHECK bool tcp_stats_read(int fd, struct tcp_info *info);
void tcp_stats_check(struct messenger *messenger, int64_t now_ns);

#endif
