/* messages_read: frames that come in, control before bulk, and what becomes of those that are not
 * right. */
#include "transport/messages/messages_state.h"

#include <string.h>

enum { ROUTING_BYTES = 5 }; /* as a ROUTER makes them: 0 and a number */

void read_release_frame(struct messenger *messenger) {
    if (messenger->has_current) {
        zmq_msg_close(&messenger->current);
        messenger->has_current = false;
    }
}

/* One message; *is_single is false when it has further parts, which are let go unseen. */
static bool receive(void *socket, zmq_msg_t *message, bool *is_single) {
    if (zmq_msg_recv(message, socket, ZMQ_DONTWAIT) < 0) {
        return false;
    }
    zmq_msg_t rest;
    zmq_msg_init(&rest);
    bool more = zmq_msg_more(message);
    *is_single = !more;
    while (more && zmq_msg_recv(&rest, socket, ZMQ_DONTWAIT) >= 0) {
        more = zmq_msg_more(&rest);
    }
    zmq_msg_close(&rest);
    return true;
}

static bool receive_routed(void *listener, uint32_t *routing, zmq_msg_t *message, bool *is_single,
                           bool *is_numbered) {
    zmq_msg_t name;
    zmq_msg_init(&name);
    bool got = zmq_msg_recv(&name, listener, ZMQ_DONTWAIT) >= 0;
    if (got) {
        uint8_t bytes[ROUTING_BYTES] = {1};
        if (zmq_msg_size(&name) == sizeof bytes) {
            memcpy(bytes, zmq_msg_data(&name), sizeof bytes);
        }
        *is_numbered = bytes[0] == 0;
        *routing = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 |
                   bytes[4];
        got = receive(listener, message, is_single);
    }
    zmq_msg_close(&name);
    return got;
}

/* Where a message came from. */
struct origin {
    struct peer *peer;
    struct link *link;         /* one that we dialed, or NULL */
    struct accepted *accepted; /* or NULL */
    uint32_t link_index;
};

static void count_read(const struct origin *origin, size_t bytes) {
    if (origin->link != NULL) {
        origin->link->read_bytes += bytes;
        origin->link->read_frames++;
    } else {
        origin->accepted->read_bytes += bytes;
        origin->accepted->read_frames++;
    }
}

static void strike(struct messenger *messenger, struct peer *peer, enum frame_verdict verdict) {
    messenger->counts.verdicts[verdict]++;
    if (++peer->strikes >= MESSAGE_STRIKES_MAX) {
        peer_disconnect_and_ban(messenger, peer);
    }
}

static void take_own(struct messenger *messenger, const struct origin *origin, zmq_msg_t *message,
                     const struct frame *frame) {
    struct link *link = origin->link;
    const bool awaits = link != NULL && !link->asks &&
                        (link->state == LINK_HANDSHAKEN || link->state == LINK_DIALING);
    if (frame->epoch == MESSENGER_WELCOME && awaits) {
        peer_set_seen_ip(origin->peer, message);
        dial_welcomed(messenger, origin->peer, link, frame->slice);
    } else {
        strike(messenger, origin->peer, FRAME_BAD_KIND);
    }
}

/* Whether it is a frame for the caller. */
static bool is_frame(struct messenger *messenger, const struct origin *origin, zmq_msg_t *message,
                     bool is_single, struct frame *frame) {
    count_read(origin, zmq_msg_size(message));
    if (!is_single) {
        peer_disconnect_and_ban(messenger, origin->peer);
        return false;
    }
    const size_t bytes = zmq_msg_size(message);
    const enum frame_verdict verdict =
        frame_read(zmq_msg_data(message), bytes, messenger->known, frame);
    if (verdict != FRAME_OK) {
        strike(messenger, origin->peer, verdict);
        return false;
    }
    if (frame->kind == MESSENGER_KIND) {
        take_own(messenger, origin, message, frame);
        return false;
    }
    if (!origin->peer->open) {
        return false;
    }
    messenger->counts.verdicts[FRAME_OK]++;
    messenger->counts.received_frames++;
    messenger->counts.received_bytes += bytes;
    return true;
}

static void give(struct messenger *messenger, const struct peer *peer, const struct frame *frame,
                 zmq_msg_t *message, struct messenger_event *event) {
    zmq_msg_init(&messenger->current);
    zmq_msg_move(&messenger->current, message);
    messenger->has_current = true;
    *event = (struct messenger_event){
        .kind = MESSENGER_FRAME,
        .is_guest = !peer->named,
        .frame = *frame,
        .payload = (const uint8_t *)zmq_msg_data(&messenger->current) + FRAME_HEADER_BYTES};
    memcpy(event->curve, peer_curve(messenger, peer), KEY_BYTES);
}

static void keep_ahead(struct messenger *messenger, struct peer *peer, const struct frame *frame,
                       zmq_msg_t *message) {
    struct ahead *ahead =
        &messenger
             ->ahead[(messenger->ahead_first + messenger->ahead_count++) % messenger->ahead_max];
    zmq_msg_init(&ahead->message);
    zmq_msg_move(&ahead->message, message);
    ahead->frame = *frame;
    ahead->peer = peer;
    ahead->epoch = peer->epoch;
}

/* The first frame of a connection that is not known yet. What says anything but hello is not
 * listened to, and hung up on when its time is over. */
static void meet(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                 bool is_single) {
    struct frame frame;
    if (is_single &&
        frame_read(zmq_msg_data(message), zmq_msg_size(message), messenger->known, &frame) ==
            FRAME_OK &&
        frame.kind == MESSENGER_KIND && frame.epoch == MESSENGER_HELLO) {
        accept_hello(messenger, message, routing, &frame);
    }
}

static bool is_of(struct messenger *messenger, const struct accepted *accepted,
                  zmq_msg_t *message) {
    uint8_t curve[KEY_BYTES];
    return accepted->peer != NULL && zap_user(message, curve) &&
           memcmp(curve, peer_curve(messenger, accepted->peer), KEY_BYTES) == 0;
}

/* A message of the listener's: true when it is a control frame, which is given at once. */
static bool take_routed(struct messenger *messenger, uint32_t routing, zmq_msg_t *message,
                        bool is_single, struct messenger_event *event) {
    struct accepted *accepted = accept_find(messenger, routing);
    struct frame frame;
    if (accepted == NULL) {
        meet(messenger, message, routing, is_single);
        return false;
    }
    const struct origin origin = {
        .peer = accepted->peer, .accepted = accepted, .link_index = accepted->link};
    if (!is_of(messenger, accepted, message) ||
        !is_frame(messenger, &origin, message, is_single, &frame)) {
        return false;
    }
    if (origin.link_index == 0 || origin.link_index == ACCEPTED_SPARE) {
        give(messenger, origin.peer, &frame, message, event);
        return true;
    }
    keep_ahead(messenger, origin.peer, &frame, message);
    return false;
}

static bool read_listener(struct messenger *messenger, struct messenger_event *event) {
    zmq_pollitem_t *item = &messenger->items[ITEM_LISTENER];
    bool found = false;
    while (!found && !messenger->has_news && (item->revents & ZMQ_POLLIN) != 0 &&
           messenger->ahead_count < messenger->ahead_max) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        uint32_t routing = 0;
        bool is_single = false;
        bool is_numbered = false;
        if (!receive_routed(messenger->listener, &routing, &message, &is_single, &is_numbered)) {
            item->revents = 0;
            accepted_drained(messenger);
        } else {
            found = is_numbered && take_routed(messenger, routing, &message, is_single, event);
        }
        zmq_msg_close(&message);
        if (messenger->ending > 0 && --messenger->ending_reads == 0) {
            accepted_drained(messenger);
        }
    }
    return found;
}

/* One frame from a connection that we made, if there is one. */
static bool read_dialed(struct messenger *messenger, uint32_t at, struct messenger_event *event) {
    zmq_pollitem_t *item = &messenger->items[ITEMS_FIXED + 2 * at];
    const struct watched watched = messenger->watched[at];
    bool found = false;
    while (!found && !messenger->has_news && (item->revents & ZMQ_POLLIN) != 0) {
        struct frame frame;
        bool is_single = false;
        zmq_msg_t message;
        zmq_msg_init(&message);
        dial_lookup_done(messenger, watched.peer, watched.link);
        if (item->socket != watched.link->socket || watched.link->asks) {
            item->revents = 0; /* ended since, or another one, or nobody has proven a key there */
        } else if (!receive(watched.link->socket, &message, &is_single)) {
            item->revents = 0;
            dial_read(messenger, watched.peer, watched.link);
        } else {
            const struct origin origin = {.peer = watched.peer,
                                          .link = watched.link,
                                          .link_index =
                                              (uint32_t)(watched.link - watched.peer->links)};
            found = is_frame(messenger, &origin, &message, is_single, &frame);
        }
        if (found) {
            give(messenger, watched.peer, &frame, &message, event);
        }
        zmq_msg_close(&message);
    }
    return found;
}

/* The next in turn, so that nobody who talks much keeps others from being heard. */
static bool read_in_turn(struct messenger *messenger, bool is_control, uint32_t *turn,
                         struct messenger_event *event) {
    const uint32_t count = messenger->watched_count;
    for (uint32_t i = 0; i < count && !messenger->has_news; i++) {
        const uint32_t at = (*turn + i) % count;
        const struct watched *watched = &messenger->watched[at];
        if ((watched->link == watched->peer->links) == is_control &&
            read_dialed(messenger, at, event)) {
            *turn = at + 1;
            return true;
        }
    }
    return false;
}

bool read_control(struct messenger *messenger, struct messenger_event *event) {
    return read_listener(messenger, event) ||
           read_in_turn(messenger, true, &messenger->control_turn, event);
}

static bool read_ahead(struct messenger *messenger, struct messenger_event *event) {
    while (messenger->ahead_count > 0) {
        struct ahead *ahead = &messenger->ahead[messenger->ahead_first];
        messenger->ahead_first = (messenger->ahead_first + 1) % messenger->ahead_max;
        messenger->ahead_count--;
        const bool stands = ahead->epoch == ahead->peer->epoch;
        if (stands) {
            give(messenger, ahead->peer, &ahead->frame, &ahead->message, event);
        }
        zmq_msg_close(&ahead->message);
        if (stands) {
            return true;
        }
    }
    return false;
}

bool read_bulk(struct messenger *messenger, struct messenger_event *event) {
    messenger->ahead_last = !messenger->ahead_last;
    if (messenger->ahead_last && read_ahead(messenger, event)) {
        return true;
    }
    return read_in_turn(messenger, false, &messenger->bulk_turn, event) ||
           read_ahead(messenger, event);
}
