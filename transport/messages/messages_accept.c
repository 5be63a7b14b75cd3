/* messages_accept: connections that are made to us.
 *
 *     ACCEPTED fd ── hello of routing id r on fd ── frames of r ── DISCONNECTED fd
 *
 * The monitor tells of file descriptors, frames of routing ids; the hello brings both together.
 * A descriptor's number may come again as soon as it is closed, while frames of the connection
 * before are still unread. So the monitor is read to its end after the hello was read and before it
 * is believed, which makes sure that no connection is ever taken for ended because one before it
 * was; and of two hellos on one descriptor the later routing id is the one that lives, since the
 * ROUTER counts them up. */
#include "transport/messages/messages_state.h"

#include "base/clock.h"

#include <string.h>
#include <sys/socket.h>

enum { ENDING_READS = 4096 }; /* frames of others that a flood may put before an end is told */

/* The connection, not the descriptor, which is ZeroMQ's: its engine reads the end and closes it. */
static void hang_up(int fd) {
    (void)shutdown(fd, SHUT_RDWR);
}

static struct accepted *with_fd(struct messenger *messenger, int fd) {
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        if (accepted->fd == fd && !accepted->ending) {
            return accepted;
        }
    }
    return NULL;
}

struct accepted *accept_find(struct messenger *messenger, uint32_t routing) {
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        if (accepted->said && accepted->routing == routing && accepted->fd >= 0) {
            return accepted;
        }
    }
    return NULL;
}

void accepted_disconnect(struct accepted *accepted) {
    accepted->peer = NULL;
    if (!accepted->ending) {
        hang_up(accepted->fd);
    }
}

void accepted_drain(struct messenger *messenger, struct accepted *accepted) {
    if (!accepted->ending) {
        accepted->ending = true;
        messenger->ending++;
        messenger->ending_reads = ENDING_READS;
        messenger->items[ITEM_LISTENER].revents |= ZMQ_POLLIN; /* for messages_read to look */
    }
}

/* Of a connection that is gone. */
static void lose(struct messenger *messenger, struct accepted *accepted) {
    struct peer *peer = accepted->peer;
    if (peer != NULL && accepted->link == 0) {
        peer_closed(messenger, peer);
    } else if (peer != NULL && accepted->link != ACCEPTED_SPARE) {
        link_end(messenger, &peer->links[accepted->link], 0);
    }
    accepted->peer = NULL;
}

void accepted_drained(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->accepted_max && messenger->ending > 0; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        if (accepted->fd >= 0 && accepted->ending) {
            lose(messenger, accepted);
            *accepted = (struct accepted){.fd = -1};
            messenger->ending--;
        }
    }
}

static void arrived(struct messenger *messenger, int fd) {
    struct accepted *accepted = with_fd(messenger, -1);
    if (accepted == NULL) {
        hang_up(fd);
        return;
    }
    const int64_t wait_ms = 2 * MESSENGER_HANDSHAKE + MESSENGER_GREETING;
    *accepted =
        (struct accepted){.fd = fd, .due_ns = clock_monotonic_ns() + wait_ms * MESSENGER_MS};
}

void accept_events(struct messenger *messenger) {
    struct socket_monitor_event event;
    while (socket_event(messenger->listener_monitor, &event)) {
        const int fd = (int)event.value;
        struct accepted *accepted = with_fd(messenger, fd);
        if (event.kind == ZMQ_EVENT_ACCEPTED) {
            arrived(messenger, fd);
        } else if (event.kind == ZMQ_EVENT_DISCONNECTED && accepted != NULL) {
            accepted_drain(messenger, accepted);
        }
    }
}

/* The connection becomes the peer's `link`, in place of what there was. */
static void adopt(struct messenger *messenger, struct accepted *accepted, struct peer *peer,
                  uint32_t link_index) {
    struct link *link = &peer->links[link_index];
    link_end(messenger, link, 0);
    *link = (struct link){.state = LINK_ACCEPTED,
                          .fd = -1,
                          .accepted = (int)(accepted - messenger->accepted),
                          .again_ms = MESSENGER_AGAIN_LEAST,
                          .due_ns = INT64_MAX};
    accepted->peer = peer;
    accepted->link = link_index;
    accepted->due_ns = INT64_MAX;
}

static void welcome(struct messenger *messenger, struct accepted *accepted) {
    if (!send_welcome(messenger, accepted->routing, accepted->peer->bulk_count)) {
        accepted_drain(messenger, accepted);
    }
}

static void adopt_control(struct messenger *messenger, struct accepted *accepted,
                          struct peer *peer) {
    if (peer->open) {
        peer_closed(messenger, peer); /* the peer began anew, whatever we still thought to stand */
    }
    adopt(messenger, accepted, peer, 0);
    peer->bulk_count = accepted->bulk_wanted;
    peer_opened(messenger, peer);
    welcome(messenger, accepted);
}

static void hello_control(struct messenger *messenger, struct accepted *accepted, struct peer *peer,
                          uint32_t bulk_wanted) {
    const uint32_t bulk_max = messenger->options.bulk_connections;
    dial_events(messenger, peer, &peer->links[0]); /* to judge by what is */
    const enum link_state state = peer->links[0].state;
    const bool ours_stands =
        state == LINK_HANDSHAKEN || state == LINK_DIALED || state == LINK_DRAINING;
    accepted->peer = peer;
    accepted->link = ACCEPTED_SPARE;
    accepted->bulk_wanted = bulk_wanted < bulk_max ? bulk_wanted : bulk_max;
    if (ours_stands && !peer_dials_first(messenger, peer)) {
        /* Both dialed at once: the other will find our hello and let go of its own connection. If
         * it does not, ours is one that only we believe in. */
        accepted->due_ns = clock_monotonic_ns() + MESSENGER_SPARE * MESSENGER_MS;
        wake_by(messenger, accepted->due_ns);
        return;
    }
    adopt_control(messenger, accepted, peer);
}

/* Whose key it is, when it may talk. */
static struct peer *let_in(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = peer_find(messenger, curve);
    if (peer_is_banned(messenger, curve)) {
        return NULL;
    }
    return peer != NULL && peer->named ? peer : peer_add_guest(messenger, curve);
}

/* The connection that a hello was said on, by what the monitor says now; NULL: one that is gone. */
static struct accepted *speaker(struct messenger *messenger, int fd, uint32_t routing) {
    accept_events(messenger);
    struct accepted *accepted = fd < 0 ? NULL : with_fd(messenger, fd);
    if (accepted == NULL || (accepted->said && (int32_t)(routing - accepted->routing) <= 0)) {
        return NULL;
    }
    if (accepted->said) { /* what said hello before on this descriptor was gone already */
        accepted->ending = true;
        lose(messenger, accepted);
        accepted->ending = false;
    }
    accepted->said = true;
    accepted->routing = routing;
    accepted->peer = NULL;
    return accepted;
}

void accept_hello(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                  const struct frame *hello) {
    uint8_t curve[KEY_BYTES];
    struct accepted *accepted = speaker(messenger, zmq_msg_get(message, ZMQ_SRCFD), routing);
    if (accepted == NULL) {
        return;
    }
    struct peer *peer = zap_user(message, curve) ? let_in(messenger, curve) : NULL;
    if (peer == NULL) {
        hang_up(accepted->fd);
        return;
    }
    peer_set_seen_ip(peer, message);
    if (hello->round == 0) {
        hello_control(messenger, accepted, peer, hello->slice);
    } else if (hello->round <= peer->bulk_count && peer->links[0].state == LINK_ACCEPTED) {
        adopt(messenger, accepted, peer, hello->round);
        backlog_distribute(messenger, &peer->links[hello->round]);
        bulk_link_up(messenger, peer);
        welcome(messenger, accepted);
    } else {
        hang_up(accepted->fd);
    }
}

static void spare_due(struct messenger *messenger, struct accepted *accepted) {
    struct peer *peer = accepted->peer;
    if (peer != NULL) {
        adopt_control(messenger, accepted, peer);
    }
}

void accept_extend_deadlines(struct messenger *messenger, int64_t late_ns) {
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        accepted->due_ns += accepted->due_ns == INT64_MAX ? 0 : late_ns;
    }
}

void accept_due(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        if (accepted->fd < 0 || accepted->ending || accepted->due_ns > now_ns) {
            continue;
        }
        if (accepted->said && accepted->link == ACCEPTED_SPARE) {
            spare_due(messenger, accepted);
        } else if (!accepted->said) {
            accepted->due_ns = INT64_MAX;
            hang_up(accepted->fd);
        }
    }
}
