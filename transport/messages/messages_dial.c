/* messages_dial: connections that we make: dialed when due, watched by their monitors, and dialed
 * again at growing distances when they end. */
#include "transport/messages/messages_state.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

enum { TURNED_AWAY_MAX = 2 }; /* once may be a peer that is just ending */

bool link_is_up(const struct link *link) {
    return link->state == LINK_DIALED || link->state == LINK_ACCEPTED;
}

void bulk_link_up(struct messenger *messenger, struct peer *peer) {
    messenger->has_room = messenger->has_room || peer->wants_bulk;
    peer->wants_bulk = false;
}

void wake_by(struct messenger *messenger, int64_t due_ns) {
    if (due_ns < messenger->tick_ns) {
        messenger->tick_ns = due_ns;
    }
}

void link_end(struct messenger *messenger, struct link *link, int linger_ms) {
    if (link->state == LINK_ACCEPTED) {
        accepted_disconnect(&messenger->accepted[link->accepted]);
    } else if (link->state != LINK_NONE) {
        socket_close(link->socket, link->monitor, linger_ms);
        messenger->stale = true;
    }
    *link =
        (struct link){.fd = -1, .accepted = -1, .again_ms = link->again_ms, .due_ns = INT64_MAX};
}

void link_schedule_redial(struct messenger *messenger, const struct peer *peer, struct link *link) {
    const int64_t now_ns = clock_monotonic_ns();
    const uint32_t jitter_ms = (uint32_t)(now_ns / 1000) % (link->again_ms / 4 + 1);
    const bool waits = messenger->listener != NULL && peer_dials_first(messenger, peer);
    uint32_t wait_ms = link->again_ms + jitter_ms;
    if (waits && wait_ms < MESSENGER_GRACE) {
        wait_ms = MESSENGER_GRACE;
    }
    link->again_ms =
        link->again_ms * 2 > MESSENGER_AGAIN_MOST ? MESSENGER_AGAIN_MOST : link->again_ms * 2;
    link->due_ns = now_ns + wait_ms * MESSENGER_MS;
    wake_by(messenger, link->due_ns);
}

/* Who has another key than was said cannot open our hello, and hangs up without a word: just as
 * whoever forwards connections to one that is not there. So where that happens again and again, the
 * next connection only waits for a first word, which whoever speaks as we do says unasked. It may
 * have come back just now: so it is another only if it then hangs up on hellos again. */
static void dial(struct messenger *messenger, struct peer *peer, struct link *link) {
    const uint32_t link_index = (uint32_t)(link - peer->links);
    const bool asks = link_index == 0 && peer->turned_away >= TURNED_AWAY_MAX && !peer->speaks;
    if (!socket_dial(messenger, asks ? NULL : peer_curve(messenger, peer), peer->address,
                     &link->socket, &link->monitor)) {
        link_schedule_redial(messenger, peer, link);
        return;
    }
    link->state = LINK_DIALING;
    link->asks = asks;
    link->due_ns = clock_monotonic_ns() + 2 * MESSENGER_HANDSHAKE * MESSENGER_MS;
    messenger->stale = true;
    if (asks) {
        peer->turned_away = 0;
        return;
    }
    /* it waits in the queue, in front of all others, until there is a connection */
    const bool is_queued = send_hello(messenger, link->socket, link_index);
    ASSERT(is_queued);
}

/* It never stood, or has been read to its end. */
static void link_failed(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link == &peer->links[0] && peer->open) {
        peer_closed(messenger, peer);
        return;
    }
    link_end(messenger, link, 0);
    link_schedule_redial(messenger, peer, link);
}

void dial_extend_deadlines(struct messenger *messenger, int64_t late_ns) {
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        struct link *link = messenger->watched[i].link;
        if (link->state == LINK_DIALING || link->state == LINK_HANDSHAKEN) {
            link->due_ns += late_ns;
        }
    }
}

void dial_due(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        const bool is_ours = peer->open && peer->links[0].state == LINK_DIALED;
        const bool may_dial = peer->named && peer->address[0] != '\0' &&
                              !peer_is_banned(messenger, messenger->curves[i]);
        const uint32_t links = is_ours ? 1 + peer->bulk_count : 1;
        for (uint32_t k = 0; k <= messenger->options.bulk_connections; k++) {
            struct link *link = &peer->links[k];
            const bool is_due = link->due_ns <= now_ns;
            if (link->state == LINK_NONE && is_due && may_dial && k < links) {
                dial(messenger, peer, link);
            } else if ((link->state == LINK_DIALING || link->state == LINK_HANDSHAKEN) && is_due) {
                link_failed(messenger, peer, link);
            }
            if (link->state != LINK_ACCEPTED && link->due_ns > now_ns) {
                wake_by(messenger, link->due_ns);
            }
        }
    }
}

/* The peer lets our key in. */
static void shaken(struct peer *peer, struct link *link) {
    if (link->asks) {
        return; /* hands were not shaken */
    }
    peer->speaks = false;
    peer->turned_away = 0;
    link->state = LINK_HANDSHAKEN;
    link->due_ns = clock_monotonic_ns() + MESSENGER_GREETING * MESSENGER_MS;
}

static void not_let_in(struct messenger *messenger, struct peer *peer, uint32_t code) {
    if (code == MESSENGER_ZAP_FULL) {
        peer_on_full(messenger, peer);
    } else {
        peer_on_rejected(messenger, peer);
    }
}

/* One that is too busy to shake hands hangs up too, but only when the time for that is over. */
static void turned_away(struct messenger *messenger, struct peer *peer, const struct link *link,
                        uint32_t error) {
    const int64_t left_ns = link->due_ns - clock_monotonic_ns();
    if (!link->asks && (error == EPIPE || error == ECONNRESET) &&
        left_ns > MESSENGER_HANDSHAKE * MESSENGER_MS) {
        peer->turned_away++;
    }
    if (peer->speaks && peer->turned_away >= TURNED_AWAY_MAX) {
        peer_on_rejected(messenger, peer);
    }
}

static void ended(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->state == LINK_DIALED) {
        link->state = LINK_DRAINING; /* messages_read ends it when nothing is left in it */
    } else if (link->state != LINK_DRAINING) {
        link_failed(messenger, peer, link);
    }
}

void dial_read(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->state == LINK_DRAINING) {
        link_failed(messenger, peer, link);
    }
}

void dial_lookup_done(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->asks && socket_has_input(link->socket)) {
        peer->speaks = true;
        link->again_ms = MESSENGER_AGAIN_LEAST;
        link_failed(messenger, peer, link);
    }
}

void dial_events(struct messenger *messenger, struct peer *peer, struct link *link) {
    struct socket_monitor_event event;
    dial_lookup_done(messenger, peer, link);
    while (link->monitor != NULL && socket_event(link->monitor, &event)) {
        switch (event.kind) {
        case ZMQ_EVENT_CONNECTED:
            link->fd = (int)event.value;
            break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            shaken(peer, link);
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            turned_away(messenger, peer, link, event.value);
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            not_let_in(messenger, peer, event.value);
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            if (link->state == LINK_DIALING) {
                peer_on_rejected(messenger, peer);
            }
            break;
        case ZMQ_EVENT_DISCONNECTED:
        case ZMQ_EVENT_CLOSED:
        case ZMQ_EVENT_CONNECT_RETRIED:
            link->fd = -1;
            ended(messenger, peer, link);
            break;
        default:
            break;
        }
    }
}

/* The control connection is there: now those for bulk. */
static void dial_bulk(struct messenger *messenger, struct peer *peer, uint32_t bulk_count) {
    const uint32_t bulk_max = messenger->options.bulk_connections;
    peer->bulk_count = bulk_count < bulk_max ? bulk_count : bulk_max;
    for (uint32_t i = 1; i <= peer->bulk_count; i++) {
        peer->links[i].again_ms = MESSENGER_AGAIN_LEAST;
        dial(messenger, peer, &peer->links[i]);
    }
}

void dial_welcomed(struct messenger *messenger, struct peer *peer, struct link *link,
                   uint32_t bulk_count) {
    link->state = LINK_DIALED;
    link->due_ns = INT64_MAX;
    link->again_ms = MESSENGER_AGAIN_LEAST;
    if (link == &peer->links[0]) {
        dial_bulk(messenger, peer, bulk_count);
        peer_opened(messenger, peer);
    } else {
        backlog_distribute(messenger, link);
        bulk_link_up(messenger, peer);
    }
}
