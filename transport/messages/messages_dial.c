/* messages_dial: dials links that are due, follows their monitors, and schedules redials. */
#include "transport/messages/messages_state.h"

#include <errno.h>

enum { FAILED_HANDSHAKES_MAX = 2 }; /* one failed handshake may be a peer that is ending */

void dial_reset_diagnosis(struct peer *peer) {
    peer->diagnosis = (struct dial_diagnosis){.failed_handshakes = 0};
}

/* A listener with a different key than expected cannot decrypt our CURVE hello and closes the
 * connection without a reason. So does a port forwarder whose destination is down. To distinguish
 * the two, the next dial after repeated failures is a probe: a ZeroMQ listener sends its greeting
 * without a request, a forwarder sends nothing. The expected peer may have started just before the
 * probe, so the key is reported as wrong only if handshakes fail again after it. */
static bool needs_probe(const struct peer *peer) {
    return peer->diagnosis.failed_handshakes >= FAILED_HANDSHAKES_MAX &&
           !peer->diagnosis.is_answering;
}

static void dial_link(struct messenger *messenger, struct peer *peer, struct link *link) {
    const uint32_t link_index = (uint32_t)(link - peer->links);
    const bool is_probe = link_index == 0 && needs_probe(peer);
    if (!link_dial(messenger, peer, link, is_probe)) {
        link_schedule_redial(messenger, peer, link);
        return;
    }
    if (is_probe) {
        peer->diagnosis.failed_handshakes = 0;
        return;
    }
    /* The hello is the first frame in the queue and is sent once the connection is up. */
    const bool is_queued = send_hello(messenger, link->socket, link_index);
    ASSERT(is_queued);
}

/* Handle a link that was never up, or a broken one whose frames have all been read. */
static void on_link_failed(struct messenger *messenger, struct peer *peer, struct link *link) {
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

static void dial_due_peer(struct messenger *messenger, struct peer *peer, int64_t now_ns) {
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
            on_link_failed(messenger, peer, link);
        }
        if (link->state != LINK_ACCEPTED && link->due_ns > now_ns) {
            messenger_wake_by(messenger, link->due_ns);
        }
    }
}

void dial_handle_deadlines(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->options.peers_max; i++) {
        dial_due_peer(messenger, &messenger->peers[i], now_ns);
    }
}

static void on_handshake(struct peer *peer, struct link *link) {
    if (!link->is_probe) {
        dial_reset_diagnosis(peer);
        link_on_handshake(link);
    }
}

/* A peer that is too busy to complete CURVE also closes the connection, but only after its own
 * handshake timeout. Only an earlier close counts. */
static void on_handshake_failed(struct messenger *messenger, struct peer *peer,
                                const struct link *link, uint32_t error) {
    const int64_t left_ns = link->due_ns - clock_monotonic_ns();
    if (!link->is_probe && (error == EPIPE || error == ECONNRESET) &&
        left_ns > MESSENGER_HANDSHAKE_MS * NS_PER_MS) {
        peer->diagnosis.failed_handshakes++;
    }
    if (peer->diagnosis.is_answering &&
        peer->diagnosis.failed_handshakes >= FAILED_HANDSHAKES_MAX) {
        peer_on_dial_failure(messenger, peer, DIAL_REJECTED);
    }
}

static void on_disconnect(struct messenger *messenger, struct peer *peer, struct link *link) {
    link_on_disconnect(link);
    if (link->state != LINK_DRAINING) {
        on_link_failed(messenger, peer, link);
    }
}

void dial_on_drained(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->state == LINK_DRAINING) {
        on_link_failed(messenger, peer, link);
    }
}

void dial_on_probe_result(struct messenger *messenger, struct peer *peer, struct link *link) {
    if (link->is_probe && socket_has_input(link->socket)) {
        peer->diagnosis.is_answering = true;
        link_reset_redial(link);
        on_link_failed(messenger, peer, link);
    }
}

static void handle_event(struct messenger *messenger, struct peer *peer, struct link *link,
                         const struct socket_monitor_event *event) {
    switch (event->kind) {
    case ZMQ_EVENT_CONNECTED:
        link_on_connected(link, (int)event->value);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        on_handshake(peer, link);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        on_handshake_failed(messenger, peer, link, event->value);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        peer_on_dial_failure(messenger, peer,
                             event->value == MESSENGER_ZAP_FULL ? DIAL_FULL : DIAL_REJECTED);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        if (link->state == LINK_DIALING) {
            peer_on_dial_failure(messenger, peer, DIAL_REJECTED);
        }
        break;
    case ZMQ_EVENT_DISCONNECTED:
    case ZMQ_EVENT_CLOSED:
    case ZMQ_EVENT_CONNECT_RETRIED:
        on_disconnect(messenger, peer, link);
        break;
    default:
        break;
    }
}

void dial_handle_events(struct messenger *messenger, struct peer *peer, struct link *link) {
    struct socket_monitor_event event;
    dial_on_probe_result(messenger, peer, link);
    while (link->monitor != NULL && socket_next_event(link->monitor, &event)) {
        handle_event(messenger, peer, link, &event);
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
        send_on_bulk_link_up(messenger, peer);
    }
}
