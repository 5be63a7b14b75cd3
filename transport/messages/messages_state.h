/* messages_state: the state of a messenger. Each part is changed by one file only:
 *
 *   messages             options, the tick, and the order of work in wait and next
 *   messages_poll        the set of sockets that are polled
 *   messages_socket      ZeroMQ sockets, their options, their monitors; the listener
 *   messages_zap         authentication: which keys the listener admits
 *   messages_peer        the public calls that name, disconnect and ban a peer
 *   messages_table       the peer table: lookup, slots, guests
 *   messages_connection  whether a peer is connected, and the events about it
 *   messages_ban         strikes, and keys that are rejected for a time
 *   messages_link        one connection of a peer, dialed or accepted
 *   messages_dial        which links are dialed, and when
 *   messages_accept      connections to the listener
 *   messages_read        received frames
 *   messages_send        sent frames, and which queues are full
 *   messages_backlog     bytes that were queued and that the kernel has not sent yet
 *   messages_tcp_stats   what the kernel counts for each connection
 *
 * A peer is connected while its control link is up. When that link ends, its bulk links are closed
 * too. The process that dials sends a hello as the first frame of every connection, and nothing
 * else until it has received the welcome. */
#ifndef SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H
#define SKEP_TRANSPORT_MESSAGES_MESSAGES_STATE_H

#include "base/clock.h"
#include "transport/messages/messages.h"

#include <linux/tcp.h>
#include <zmq.h>

enum {
    MESSENGER_KIND = 255,  /* the messenger's own frames: epoch is the type, round the link index */
    MESSENGER_HELLO = 1,   /* slice: number of bulk connections that the sender would open */
    MESSENGER_WELCOME = 2, /* slice: number of bulk connections that the sender wants */
    MESSENGER_ZAP_FULL = 500, /* all slots taken. Not 300: ZeroMQ does not pass that to the peer */
    MESSENGER_BANS_MAX = 256, /* banned keys; a new ban then replaces the oldest */
    MESSENGER_READ_AHEAD_MAX = 64, /* bulk frames read while looking for control frames */
    MESSENGER_PENDING_MAX = 256,   /* accepted connections that have not sent a hello yet */
};

/* Times in ms. */
enum {
    MESSENGER_HANDSHAKE_MS = 3000,  /* for the TCP connection, and again for CURVE */
    MESSENGER_GREETING_MS = 6000,   /* for hello and welcome after that: a peer may be busy */
    MESSENGER_STANDBY_MS = 1000,    /* until a second control connection replaces the first */
    MESSENGER_GRACE_MS = 600,       /* for the peer to dial first: some round trips of 150 ms */
    MESSENGER_REDIAL_MIN_MS = 100,  /* between two dials, doubling ... */
    MESSENGER_REDIAL_MAX_MS = 1600, /* ... up to this, plus a jitter of up to a quarter */
    MESSENGER_BAN_MS = 60000,       /* duration of a ban for invalid frames */
    MESSENGER_TICK_MS = 100,        /* between two checks of state that no socket reports */
    MESSENGER_LATE_MS = 1000,       /* a tick later than this: the process was stopped */
    MESSENGER_ROOM_MS = 5,          /* until a full queue of the listener is retried */
};

enum link_state {
    LINK_NONE,
    LINK_DIALING,    /* not connected yet, or CURVE not completed */
    LINK_HANDSHAKEN, /* CURVE completed, hello sent, waiting for the welcome */
    LINK_DIALED,     /* up, dialed by us */
    LINK_DRAINING,   /* dialed by us, broken; received frames are still being read */
    LINK_ACCEPTED    /* up, dialed by the peer */
};

/* Totals of what was read from a connection. */
struct received {
    uint64_t bytes, frames;
};

/* Unsent bytes of a bulk link; see messages_backlog. */
struct backlog {
    uint64_t queued_bytes; /* as they go out, since ... */
    uint64_t sent_before;  /* ... the kernel had sent this many bytes */
    int64_t queued_ns;     /* when a frame was last queued */
    uint64_t rate;         /* limit in bytes a second; 0: never set */
};

/* One connection of a peer. Link 0 is the control link, the others are for bulk. */
struct link {
    enum link_state state;
    bool is_probe;      /* DIALING without CURVE, to find out whether a ZeroMQ socket is there */
    int fd;             /* of a link that we dialed; -1: none */
    int accepted;       /* ACCEPTED: index in the accept table; else -1 */
    void *socket;       /* of a link that we dialed: a DEALER ... */
    void *monitor;      /* ... and its monitor */
    uint32_t redial_ms; /* delay before the next dial */
    int64_t due_ns;     /* NONE: when to dial; DIALING, HANDSHAKEN: when to time out */
    bool is_full;       /* its queue was full; see messages_send */
    struct received received; /* see messages_read */
    struct backlog backlog;
    uint64_t confirmed_bytes, arrived_bytes; /* counted so far; see messages_tcp_stats */
};

/* Whether a peer is connected, and which events the caller has not received yet. The transitions
 * are in messages_connection.c. */
enum peer_state {
    PEER_DISCONNECTED,
    PEER_OPENED,   /* connected; MESSENGER_OPENED is pending */
    PEER_OPEN,     /* connected, and the caller knows it */
    PEER_LOST,     /* disconnected; MESSENGER_CLOSED is pending */
    PEER_REOPENED, /* connected again; MESSENGER_CLOSED and then MESSENGER_OPENED are pending */
};

/* Reasons why a peer cannot be dialed, as bits. Each is reported once until the peer connects or
 * gets another address. */
enum dial_failure { DIAL_REJECTED = 1, DIAL_FULL = 2 };

/* Evidence that the process at a peer's address has another key; see messages_dial. */
struct dial_diagnosis {
    uint32_t failed_handshakes; /* in a row, closed by the peer during CURVE */
    bool is_answering;          /* a probe received bytes */
};

struct peer {
    enum peer_state state;                    /* these: messages_connection */
    uint8_t failures_pending, failures_noted; /* sets of dial_failure */
    uint32_t epoch; /* number of disconnections, which identifies frames of an earlier one */
    int64_t opened_ns;
    uint32_t bulk_count; /* bulk links of the current connection */
    char seen_ip[MESSAGE_ADDRESS_BYTES];

    bool is_named;                       /* false: a guest; these: messages_peer */
    char address[MESSAGE_ADDRESS_BYTES]; /* to dial; "": none */

    struct link *links;   /* [1 + options.bulk_connections]; these: messages_table */
    uint32_t guest_class; /* of a guest, when last classified */

    struct dial_diagnosis diagnosis; /* messages_dial */
    uint32_t strikes;                /* messages_ban */
    uint32_t bulk_next;              /* messages_send: the bulk link to try first */
    bool is_bulk_awaited;            /* messages_send: a send failed because no bulk link was up */
    int64_t arrived_ns;              /* messages_tcp_stats */
};

/* A connection to the listener, from its ACCEPTED event on. */
struct accepted {
    int fd; /* -1: the entry is free */
    bool has_hello;
    bool is_draining;         /* broken; the listener may still have frames of it */
    uint32_t routing;         /* with a hello: the number that the ROUTER gave it */
    struct peer *peer;        /* with a hello; NULL: disconnected by us */
    uint32_t link;            /* index of the peer's link, or ACCEPTED_STANDBY */
    uint32_t bulk_wanted;     /* of a control connection */
    int64_t due_ns;           /* no hello: when to disconnect; standby: when to become the link */
    struct received received; /* see messages_read */
    uint64_t confirmed_bytes; /* see messages_tcp_stats */
};
static const uint32_t ACCEPTED_STANDBY = UINT32_MAX; /* a second control connection of a peer */

struct accept_table {
    struct accepted *entries; /* [count] */
    uint32_t count;
    uint32_t draining;   /* entries that are draining */
    uint32_t reads_left; /* reads from the listener until draining entries are given up */
};

struct ban {
    uint8_t curve[KEY_BYTES];
    int64_t until_ns; /* INT64_MAX: until the key is named again */
};

struct ban_list {
    struct ban bans[MESSENGER_BANS_MAX];
    uint32_t next_index;
};

/* A bulk frame that was read before it was asked for. */
struct read_ahead {
    zmq_msg_t message;
    struct frame frame;
    struct peer *peer;
    uint32_t epoch;
};

struct reader {
    struct read_ahead *ring; /* [capacity] */
    uint32_t capacity, first, count;
    uint32_t next_control, next_bulk; /* the polled link to read first */
    bool was_ahead;                   /* the last bulk frame came from the ring */
    bool has_current;
    zmq_msg_t current; /* the frame of the last event, which the caller may still use */
};

/* Poll items before the pairs {socket, monitor} of the links that we dialed. */
enum { ITEM_ZAP, ITEM_LISTENER, ITEM_LISTENER_MONITOR, ITEM_WAKE, ITEM_ROOM, ITEMS_FIXED };

struct polled {
    struct peer *peer;
    struct link *link;
};

struct poll_set {
    zmq_pollitem_t *items; /* [ITEMS_FIXED + 2 * links] */
    struct polled *links;  /* [link_count] */
    uint32_t link_count;
    bool is_outdated; /* a socket was opened or closed since the items were listed */
};

/* Which SEND_WOULD_BLOCK results the caller got and has not been woken for. */
struct send_room {
    bool has_room;         /* wake the caller */
    bool is_listener_full; /* an accepted connection was full */
    bool is_backlogged;    /* a bulk link had too many unsent bytes */
};

struct listener {
    void *socket, *monitor; /* NULL: the messenger does not listen */
    int fd;                 /* readable when the state of the listener changed */
    uint16_t port;
};

struct messenger {
    struct messenger_options options;
    uint64_t known[4];              /* options.known and MESSENGER_KIND */
    struct messenger_counts counts; /* each field by the file that counts it */
    void *context;
    void *zap;
    int64_t tick_ns; /* when the next tick is due */
    struct listener listener;
    uint32_t monitor_serial;
    uint8_t (*curves)[KEY_BYTES]; /* [peers_max], apart from the peers to make lookups fast */
    struct peer *peers;           /* [peers_max] */
    bool has_events;              /* some peer may have a pending event */
    struct ban_list bans;
    struct accept_table accept;
    struct reader reader;
    struct poll_set poll;
    struct send_room room;
};

/* messages */
void messenger_wake_by(struct messenger *messenger, int64_t due_ns); /* tick no later than this */
uint32_t messenger_links_max(const struct messenger_options *options);

/* messages_poll */
void poll_init(struct messenger *messenger, struct region *region);
void poll_set_outdated(struct messenger *messenger);
/* Poll all sockets for up to `wait_ms`, and handle everything except received frames. */
void poll_sockets(struct messenger *messenger, int wake_fd, long wait_ms);
bool poll_has_input(const struct messenger *messenger); /* some socket may have a frame */
bool poll_is_woken(const struct messenger *messenger);  /* wake_fd is readable */
bool poll_listener_has_input(const struct messenger *messenger);
void poll_set_listener_input(struct messenger *messenger, bool has_input);
bool poll_link_has_input(const struct messenger *messenger, uint32_t index);
void poll_clear_link_input(struct messenger *messenger, uint32_t index);
/* Whether the socket that was polled is still the link's. */
bool poll_link_is_current(const struct messenger *messenger, uint32_t index);

/* messages_socket */
struct socket_monitor_event {
    uint16_t kind;
    uint32_t value;
};
MUST_CHECK enum status socket_listener(struct messenger *messenger, struct fault *fault);
void socket_close_listener(struct messenger *messenger, int linger_ms);
/* A DEALER that connects to the process with this key, or, if `curve` is NULL, a STREAM that shows
 * whether a ZeroMQ socket listens there. False when no socket is available. */
MUST_CHECK bool socket_dial(struct messenger *messenger, const uint8_t *curve, const char *address,
                            void **socket, void **monitor);
bool socket_has_input(void *stream); /* whether a STREAM has received any byte */
void socket_close(void *socket, void *monitor, int linger_ms); /* either may be NULL */
/* The next event of a monitor; false when there is none now. */
bool socket_event(void *monitor, struct socket_monitor_event *event);
/* Whether it is "tcp://HOST:PORT"; host * and ports * and 0 only if `may_be_any`. */
MUST_CHECK bool is_socket_address(const char *address, bool may_be_any);

/* messages_zap */
MUST_CHECK enum status zap_open(struct messenger *messenger, struct fault *fault);
void zap_answer(struct messenger *messenger); /* all pending requests */
/* The key of a message's sender, from the user id that zap_answer assigned; false: none. */
bool zap_user(zmq_msg_t *message, uint8_t curve[static KEY_BYTES]);

/* messages_table */
void table_init(struct messenger *messenger, struct region *region);
struct peer *peer_find(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* The peer with this key, in a free slot if it has none yet; NULL: all slots are taken. */
struct peer *peer_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* The same for a guest; NULL also when its class has no free slot. */
struct peer *peer_add_guest(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
bool peer_has_slot(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Whether guests of this key's class have any slots. */
bool peer_is_wanted(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
/* Disconnect the class 0 guest that has been connected longest, if that is long enough. Its slot is
 * free after the caller received the event. False: there is no such guest. */
bool evict_oldest_guest(struct messenger *messenger);
const uint8_t *peer_curve(const struct messenger *messenger, const struct peer *peer);
/* When each could dial the other, the one with the lesser key does. Whether that is the peer. */
bool peer_dials_first(const struct messenger *messenger, const struct peer *peer);

/* messages_connection */
bool peer_is_open(const struct peer *peer);
bool peer_has_events(const struct peer *peer);
void peer_on_open(struct messenger *messenger, struct peer *peer, uint32_t bulk_wanted);
/* Close all links of the peer, and schedule a redial. */
void peer_on_close(struct messenger *messenger, struct peer *peer);
void peer_on_dial_failure(struct messenger *messenger, struct peer *peer,
                          enum dial_failure failure);
void peer_clear_pending_failures(struct peer *peer);
void peer_clear_noted_failures(struct peer *peer);
void peer_set_seen_ip(struct peer *peer, zmq_msg_t *message);
bool peer_next_event(struct messenger *messenger, struct messenger_event *event);

/* messages_ban */
bool ban_applies(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
void ban_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES], int64_t until_ns);
/* Lift a ban by messenger_ban. A ban for invalid frames lasts for its time. */
void ban_lift(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]);
void peer_strike(struct messenger *messenger, struct peer *peer);
void peer_disconnect_and_ban(struct messenger *messenger, struct peer *peer);

/* messages_link */
void link_init(struct link *link);
bool link_is_up(const struct link *link);
bool link_is_dialing(const struct link *link); /* DIALING or HANDSHAKEN */
/* Start to connect. False when no socket is available. */
MUST_CHECK bool link_dial(struct messenger *messenger, const struct peer *peer, struct link *link,
                          bool is_probe);
void link_on_connected(struct link *link, int fd);
void link_on_handshake(struct link *link);
void link_on_welcome(struct link *link);
void link_on_disconnect(struct link *link); /* DIALED becomes DRAINING */
void link_accept(struct messenger *messenger, struct link *link, const struct accepted *accepted);
/* Close the socket, or disconnect the accepted connection. */
void link_end(struct messenger *messenger, struct link *link, int linger_ms);
void link_reset_redial(struct link *link);
void link_schedule_dial(struct messenger *messenger, struct link *link, int64_t due_ns);
void link_schedule_redial(struct messenger *messenger, const struct peer *peer, struct link *link);
void link_extend_deadline(struct link *link, int64_t ns);

/* messages_dial */
void dial_due(struct messenger *messenger, int64_t now_ns); /* dial links, and time out others */
/* This process did not run for `late_ns`. Answers may have arrived that it has not read yet. */
void dial_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void dial_events(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_probe_done(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_drained(struct messenger *messenger, struct peer *peer, struct link *link);
void dial_welcomed(struct messenger *messenger, struct peer *peer, struct link *link,
                   uint32_t bulk_wanted);
void dial_reset_diagnosis(struct peer *peer);

/* messages_accept */
void accept_init(struct messenger *messenger, struct region *region);
void accept_events(struct messenger *messenger);
void accept_due(struct messenger *messenger, int64_t now_ns);
void accept_extend_deadlines(struct messenger *messenger, int64_t late_ns);
void accept_hello(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                  const struct frame *hello);
struct accepted *accept_find(struct messenger *messenger, uint32_t routing);
void accept_note_read(struct messenger *messenger); /* after each read from the listener */
void accepted_drain(struct messenger *messenger, struct accepted *accepted);
void accepted_drained(struct messenger *messenger);  /* the listener has no frames left */
void accepted_disconnect(struct accepted *accepted); /* its frames are ignored from now on */

/* messages_read */
void read_init(struct messenger *messenger, struct region *region);
uint32_t read_ahead_max(const struct messenger_options *options);
void read_finish(struct messenger *messenger);
bool read_control(struct messenger *messenger, struct messenger_event *event);
bool read_bulk(struct messenger *messenger, struct messenger_event *event);
void read_release_frame(struct messenger *messenger); /* the frame of the last event */

/* messages_send */
bool send_hello(struct messenger *messenger, void *socket, uint32_t link_index);
bool send_welcome(struct messenger *messenger, uint32_t routing, uint32_t bulk_wanted);
void send_on_writable(struct messenger *messenger, struct link *link);
void send_on_listener_writable(struct messenger *messenger);
void send_on_bulk_link(struct messenger *messenger, struct peer *peer); /* a bulk link is up */
void send_on_close(struct peer *peer);
bool send_is_blocked(const struct messenger *messenger); /* by state that no socket reports */
void send_retry(struct messenger *messenger);            /* assume that what blocked has room now */
void send_clear_room(struct messenger *messenger);

/* messages_backlog */
bool backlog_is_full(const struct messenger *messenger, struct link *link);
void backlog_note_sent(struct link *link, const struct frame *frame);
void backlog_enable_pacing(const struct messenger *messenger, struct link *link);

/* messages_tcp_stats */
MUST_CHECK bool tcp_stats_read(int fd, struct tcp_info *info);
void tcp_stats_check(struct messenger *messenger, int64_t now_ns);

#endif
