/* messages_dial: dials links that are due, follows their monitors, and schedules redials.
 *
 * If the process at the peer's address closes the connection during the handshake, the reason is
 * unknown: it may be busy, have no free slot, forward to a destination that is down, or have
 * another key. A listener that cannot decrypt a CURVE hello gives no reason either. The link is
 * redialed in all these cases. */
#include "transport/messages/messages_state.h"

static void dial_link(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (!link_dial(messenger, peer, link)) {
        link_schedule_redial(messenger, peer, link);
        return;
    }
    /* The hello is the first frame in the queue and is sent once the connection is up. */
    const bool is_queued = send_hello(messenger, link->socket, (uint32_t)(link - peer->links));
    ASSERT(is_queued);
}

/* Handles a link that could not be established, or a broken one whose frames have all been read. */
static void handle_failed_link(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link == &peer->links[0] && peer_is_open(peer)) {
        peer_on_close(messenger, peer);
        return;
    }
    link_end(messenger, link, 0);
    link_schedule_redial(messenger, peer, link);
}

void dial_extend_deadlines(struct messenger *messenger, int64_t late_ns) {
    for (uint32_t i = 0; i < messenger->poll.link_count; i++) {
        struct link *link = messenger->poll.links[i].link;
        if (link_is_dialing(link)) {
            link_extend_deadline(link, late_ns);
        }
    }
}

static void dial_due_links(struct messenger *messenger, struct peer *peer, int64_t now_ns) {
    const bool is_ours = peer_is_open(peer) && peer->links[0].state == LINK_DIALED;
    const bool may_dial = peer->is_registered && peer->address[0] != '\0' &&
                          !is_banned(messenger, peer_curve(messenger, peer));
    const uint32_t links = is_ours ? 1 + peer->bulk_count : 1;
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        struct link *link = &peer->links[i];
        const bool is_due = link->due_ns <= now_ns;
        if (link->state == LINK_NONE && is_due && may_dial && i < links) {
            dial_link(messenger, peer, link);
        } else if (link_is_dialing(link) && is_due) {
            handle_failed_link(messenger, peer, link);
        }
        if (link->state != LINK_ACCEPTED && link->due_ns > now_ns) {
            messenger_schedule_tick(messenger, link->due_ns);
        }
    }
}

void dial_handle_deadlines(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        dial_due_links(messenger, &messenger->peers[i], now_ns);
    }
}

static void handle_disconnect(struct messenger *messenger, struct peer *peer, struct link *link) {
    link_on_disconnect(link);
    if (link->state != LINK_DRAINING) {
        handle_failed_link(messenger, peer, link);
    }
}

void dial_on_drained(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->state == LINK_DRAINING) {
        handle_failed_link(messenger, peer, link);
    }
}

static void handle_monitor_event(struct messenger *messenger, struct peer *peer, struct link *link,
                                 const struct socket_monitor_event *event) {
    switch (event->kind) {
    case ZMQ_EVENT_CONNECTED:
        link_on_connected(link, (int)event->value);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        link_on_handshake(link);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        peer_on_dial_failure(messenger, peer,
                             event->value == MESSENGER_ZAP_FULL ? DIAL_FULL : DIAL_REJECTED);
        break;
    case ZMQ_EVENT_DISCONNECTED:
    case ZMQ_EVENT_CLOSED:
    case ZMQ_EVENT_CONNECT_RETRIED:
        handle_disconnect(messenger, peer, link);
        break;
    default:
        break;
    }
}

void dial_handle_events(struct messenger *messenger, struct peer *peer, struct link *link) {
    struct socket_monitor_event event;
    while (link->monitor != NULL && socket_next_event(link->monitor, &event)) {
        handle_monitor_event(messenger, peer, link, &event);
    }
}

static void dial_bulk_links(struct messenger *messenger, struct peer *peer) {
    for (uint32_t i = 1; i <= peer->bulk_count; i++) {
        link_reset_redial(&peer->links[i]);
        dial_link(messenger, peer, &peer->links[i]);
    }
}

void dial_on_welcome(struct messenger *messenger, struct peer *peer, struct link *link,
                     uint32_t bulk_wanted) {
    link_on_welcome(link);
    if (link == &peer->links[0]) {
        peer_on_open(messenger, peer, bulk_wanted);
        dial_bulk_links(messenger, peer);
    } else {
        backlog_enable_pacing(messenger, link);
        blocked_sends_on_bulk_link_up(messenger, peer);
    }
}
