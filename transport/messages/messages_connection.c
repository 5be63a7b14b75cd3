/* messages_connection: whether a peer is connected, and the events about it that the caller has not
 * received yet.
 *
 *                   open               OPENED event
 *     DISCONNECTED ───────► OPENED ───────────────────► OPEN
 *          ▲                │   ▲                        │
 *          ├──── close ─────┘   │ CLOSED event           │ close
 *          │                    │                        ▼
 *          │                REOPENED ◄───── open ────── LOST
 *          │                    └────────── close ───────▲
 *          └───────────────────── CLOSED event ──────────┘
 *
 * A connection that opens and closes before the caller polls causes no event. */
#include "transport/messages/messages_state.h"

#include <string.h>

bool peer_is_open(const struct peer *peer) {
    return peer->state == PEER_OPENED || peer->state == PEER_OPEN || peer->state == PEER_REOPENED;
}

bool peer_has_unreported_events(const struct peer *peer) {
    return (peer->state != PEER_DISCONNECTED && peer->state != PEER_OPEN) ||
           peer->failures_pending != 0;
}

void peer_on_open(struct messenger *messenger, struct peer *peer, uint32_t bulk_wanted) {
    const uint32_t bulk_max = messenger->options.bulk_connections;
    ASSERT(peer->state == PEER_DISCONNECTED || peer->state == PEER_LOST);
    peer->state = peer->state == PEER_LOST ? PEER_REOPENED : PEER_OPENED;
    peer->bulk_count = bulk_wanted < bulk_max ? bulk_wanted : bulk_max;
    peer->opened_ns = clock_monotonic_ns();
    peer_clear_pending_failures(peer);
    peer_clear_reported_failures(peer);
    messenger->has_events = true;
}

static enum peer_state state_after_close(enum peer_state state) {
    switch (state) {
    case PEER_OPEN:
    case PEER_REOPENED:
    case PEER_LOST:
        return PEER_LOST;
    case PEER_OPENED:
    case PEER_DISCONNECTED:
        break;
    }
    return PEER_DISCONNECTED;
}

void peer_on_close(struct messenger *messenger, struct peer *peer) {
    for (uint32_t i = 0; i <= messenger->options.bulk_connections; i++) {
        link_end(messenger, &peer->links[i], 0);
    }
    link_schedule_redial(messenger, peer, &peer->links[0]);
    peer->disconnect_count++;
    peer->state = state_after_close(peer->state);
    blocked_sends_on_close(peer);
    messenger->has_events = true;
}

void peer_on_dial_failure(struct messenger *messenger, struct peer *peer,
                          enum dial_failure failure) {
    if ((peer->failures_reported & failure) == 0) {
        peer->failures_reported |= (uint8_t)failure;
        peer->failures_pending |= (uint8_t)failure;
        messenger->has_events = true;
    }
}

void peer_clear_pending_failures(struct peer *peer) {
    peer->failures_pending = 0;
}

void peer_clear_reported_failures(struct peer *peer) {
    peer->failures_reported = 0;
}

void peer_set_seen_ip(struct peer *peer, zmq_msg_t *message) {
    static const char MAPPED[] = "::ffff:"; /* prefix of an IPv4 address in IPv6 form */
    const char *ip = zmq_msg_gets(message, "Peer-Address");
    if (ip == NULL) {
        ip = "";
    } else if (strncmp(ip, MAPPED, sizeof MAPPED - 1) == 0) {
        ip += sizeof MAPPED - 1;
    }
    const size_t letters = strnlen(ip, sizeof peer->seen_ip - 1);
    memset(peer->seen_ip, 0, sizeof peer->seen_ip);
    memcpy(peer->seen_ip, ip, letters);
}

void peer_set_host(struct peer *peer, const struct source *host) {
    peer->host = *host;
}

/* Remove the next pending event of a peer, in the order in which the events happened. */
static bool pop_event(struct peer *peer, enum messenger_event_kind *kind) {
    if (peer->state == PEER_LOST || peer->state == PEER_REOPENED) {
        peer->state = peer->state == PEER_LOST ? PEER_DISCONNECTED : PEER_OPENED;
        *kind = MESSENGER_CLOSED;
        return true;
    }
    if (peer->state == PEER_OPENED) {
        peer->state = PEER_OPEN;
        *kind = MESSENGER_OPENED;
        return true;
    }
    if (peer->failures_pending == 0) {
        return false;
    }
    const bool is_rejected = (peer->failures_pending & DIAL_REJECTED) != 0;
    *kind = is_rejected ? MESSENGER_REJECTED : MESSENGER_FULL;
    peer->failures_pending &= (uint8_t) ~(is_rejected ? DIAL_REJECTED : DIAL_FULL);
    return true;
}

bool peer_next_event(struct messenger *messenger, struct messenger_event *event) {
    for (uint32_t i = 0; messenger->has_events && i < messenger->options.peers_max; i++) {
        struct peer *peer = &messenger->peers[i];
        enum messenger_event_kind kind;
        if (pop_event(peer, &kind)) {
            *event = (struct messenger_event){.kind = kind, .is_guest = !peer->is_registered};
            memcpy(event->curve, messenger->curves[i], KEY_BYTES);
            if (kind == MESSENGER_OPENED) {
                memcpy(event->address, peer->seen_ip, sizeof event->address);
            }
            return true;
        }
    }
    messenger->has_events = false;
    return false;
}
