/* messages_link: changes the state of one connection with a peer. */
#include "transport/messages/messages_state.h"

void link_init(struct link *link) {
    *link = (struct link){.fd = -1, .accepted_index = -1, .redial_ms = MESSENGER_REDIAL_MIN_MS};
}

bool link_is_up(const struct link *link) {
    return link->state == LINK_DIALED || link->state == LINK_ACCEPTED;
}

bool link_is_dialing(const struct link *link) {
    return link->state == LINK_DIALING || link->state == LINK_HANDSHAKEN;
}

bool link_dial(struct messenger *messenger, const struct peer *peer, struct link *link) {
    ASSERT(link->state == LINK_NONE);
    if (!socket_dial(messenger, peer_curve(messenger, peer), peer->address, &link->socket,
                     &link->monitor)) {
        return false;
    }
    link->state = LINK_DIALING;
    link->due_ns = clock_monotonic_ns() + 2 * MESSENGER_HANDSHAKE_MS * NS_PER_MS;
    poll_mark_outdated(messenger);
    return true;
}

void link_on_connected(struct link *link, int fd) {
    link->fd = fd;
}

void link_on_handshake(struct link *link) {
    link->state = LINK_HANDSHAKEN;
    link->due_ns = clock_monotonic_ns() + MESSENGER_GREETING_MS * NS_PER_MS;
}

void link_on_welcome(struct link *link) {
    ASSERT(link_is_dialing(link));
    link->state = LINK_DIALED;
    link->due_ns = INT64_MAX;
    link_reset_redial(link);
}

void link_on_disconnect(struct link *link) {
    link->fd = -1;
    if (link->state == LINK_DIALED) {
        link->state = LINK_DRAINING;
    }
}

void link_use_accepted(struct messenger *messenger, struct link *link,
                       const struct accepted *accepted) {
    link_end(messenger, link, 0);
    link_init(link);
    link->state = LINK_ACCEPTED;
    link->accepted_index = (int)(accepted - messenger->accept.entries);
    link->due_ns = INT64_MAX;
}

void link_end(struct messenger *messenger, struct link *link, int linger_ms) {
    const uint32_t redial_ms = link->redial_ms;
    if (link->state == LINK_ACCEPTED) {
        accepted_disconnect(&messenger->accept.entries[link->accepted_index]);
    } else if (link->state != LINK_NONE) {
        socket_close(link->socket, link->monitor, linger_ms);
        poll_mark_outdated(messenger);
    }
    link_init(link);
    link->redial_ms = redial_ms;
    link->due_ns = INT64_MAX;
}

void link_reset_redial(struct link *link) {
    link->redial_ms = MESSENGER_REDIAL_MIN_MS;
}

void link_schedule_dial(struct messenger *messenger, struct link *link, int64_t due_ns) {
    link->due_ns = due_ns;
    messenger_schedule_tick(messenger, due_ns);
}

void link_schedule_redial(struct messenger *messenger, const struct peer *peer, struct link *link) {
    const int64_t now_ns = clock_monotonic_ns();
    const uint32_t jitter_ms = (uint32_t)(now_ns / 1000) % (link->redial_ms / 4 + 1);
    const bool waits = messenger->listener.socket != NULL && peer_dials_first(messenger, peer);
    uint32_t wait_ms = link->redial_ms + jitter_ms;
    if (waits && wait_ms < MESSENGER_GRACE_MS) {
        wait_ms = MESSENGER_GRACE_MS;
    }
    link->redial_ms = link->redial_ms * 2 > MESSENGER_REDIAL_MAX_MS ? MESSENGER_REDIAL_MAX_MS
                                                                    : link->redial_ms * 2;
    link_schedule_dial(messenger, link, now_ns + wait_ms * NS_PER_MS);
}

void link_extend_deadline(struct link *link, int64_t ns) {
    link->due_ns += ns;
}
