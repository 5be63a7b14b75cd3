/* messages_peer: the public calls that register, disconnect and ban a peer. */
#include "transport/messages/messages_state.h"

#include <string.h>

static enum status register_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                 struct peer **named, struct fault *fault) {
    struct peer *peer = peer_add(messenger, curve);
    if (peer == NULL) {
        return fault_set(fault, STATUS_FIT, "peers", NULL, "the peer table is full (limit %u)",
                         messenger->options.peers_max);
    }
    peer->is_registered = true;
    ban_lift(messenger, curve);
    *named = peer;
    return OK;
}

/* Close the connections to the old address. An accepted connection is independent of it. */
static void close_dialed_links(struct messenger *messenger, struct peer *peer) {
    const enum link_state state = peer->links[0].state;
    if (state == LINK_DIALED || state == LINK_DRAINING) {
        peer_on_close(messenger, peer);
    } else if (state != LINK_ACCEPTED) {
        link_end(messenger, &peer->links[0], 0);
    }
}

enum status messenger_register_peer(struct messenger *messenger,
                                    const uint8_t curve[static KEY_BYTES], const char *address,
                                    struct fault *fault) {
    struct peer *peer = NULL;
    read_release_frame(messenger);
    if (address != NULL && !is_socket_address(address, false)) {
        return fault_set(fault, STATUS_INPUT, address, NULL, "must have the form tcp://HOST:PORT");
    }
    TRY(register_peer(messenger, curve, &peer, fault));
    if (strcmp(peer->address, address == NULL ? "" : address) == 0) {
        return OK;
    }
    memset(peer->address, 0, sizeof peer->address);
    if (address == NULL) {
        return OK; /* keep the connections that are up */
    }
    close_dialed_links(messenger, peer);
    memcpy(peer->address, address, strlen(address));
    peer_clear_reported_failures(peer);
    link_reset_redial(&peer->links[0]);
    const bool waits = messenger->listener.socket != NULL && peer_dials_first(messenger, peer);
    link_schedule_dial(messenger, &peer->links[0],
                       clock_monotonic_ns() + (waits ? MESSENGER_GRACE_MS * NS_PER_MS : 0));
    return OK;
}

void messenger_disconnect_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    read_release_frame(messenger);
    struct peer *peer = peer_find(messenger, curve);
    if (peer != NULL) {
        peer_on_close(messenger, peer);
    }
}

void messenger_ban_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    read_release_frame(messenger);
    ban_add(messenger, curve, INT64_MAX);
    struct peer *peer = peer_find(messenger, curve);
    if (peer != NULL) {
        peer->is_registered = false;
        peer_clear_pending_failures(peer);
        memset(peer->address, 0, sizeof peer->address);
        peer_on_close(messenger, peer);
    }
}
