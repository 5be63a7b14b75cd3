/* messages_read: reads received frames, control before bulk. The listener has one queue for all its
 * connections, so bulk frames that precede control frames in it are kept in a ring. */
#include "transport/messages/messages_state.h"

#include <string.h>

enum { ROUTING_BYTES = 5 }; /* a routing id of a ROUTER: 0 and a number of four bytes */

uint32_t read_ahead_max(const struct messenger_options *options) {
    const uint32_t bulk = options->peers_max * options->bulk_connections;
    return bulk == 0 ? 1 : bulk < MESSENGER_READ_AHEAD_MAX ? bulk : MESSENGER_READ_AHEAD_MAX;
}

void read_init(struct messenger *messenger, struct region *region) {
    struct reader *reader = &messenger->reader;
    reader->capacity = read_ahead_max(&messenger->options);
    reader->ring = region_alloc(region, reader->capacity, sizeof *reader->ring);
}

void read_release_frame(struct messenger *messenger) {
    if (messenger->reader.has_current) {
        zmq_msg_close(&messenger->reader.current);
        messenger->reader.has_current = false;
    }
}

void read_close_messages(struct messenger *messenger) {
    struct reader *reader = &messenger->reader;
    read_release_frame(messenger);
    for (uint32_t i = 0; i < reader->count; i++) {
        zmq_msg_close(&reader->ring[(reader->first_index + i) % reader->capacity].message);
    }
}

/* Receives one message. Sets *is_single if it has only one part; further parts are discarded. */
static bool receive_message(void *socket, zmq_msg_t *message, bool *is_single) {
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

/* Receives a message from the listener. Sets *has_routing if its first part is a routing id. */
static bool receive_routed_message(void *listener, uint32_t *routing, zmq_msg_t *message,
                                   bool *is_single, bool *has_routing) {
    zmq_msg_t id;
    zmq_msg_init(&id);
    bool got = zmq_msg_recv(&id, listener, ZMQ_DONTWAIT) >= 0;
    if (got) {
        uint8_t bytes[ROUTING_BYTES] = {1};
        if (zmq_msg_size(&id) == sizeof bytes) {
            memcpy(bytes, zmq_msg_data(&id), sizeof bytes);
        }
        *has_routing = bytes[0] == 0;
        *routing = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 |
                   bytes[4];
        got = receive_message(listener, message, is_single);
    }
    zmq_msg_close(&id);
    return got;
}

/* The connection on which a message was received. */
struct origin {
    struct peer *peer;
    struct link *link;         /* the link if this process dialed it, else NULL */
    struct received *received; /* totals of what was read from the connection */
};

static void count_invalid_frame(struct messenger *messenger, struct peer *peer,
                                enum frame_verdict verdict) {
    messenger->counts.verdicts[verdict]++;
    peer_add_strike(messenger, peer);
}

/* Handles a frame of the messenger itself. Only a welcome is valid here, because accept_hello
 * handles the hello, which is the first frame of an accepted connection. */
static void handle_internal_frame(struct messenger *messenger, const struct origin *origin,
                                  zmq_msg_t *message, const struct frame *frame) {
    struct link *link = origin->link;
    const bool is_awaited = link != NULL && link_is_dialing(link);
    if (frame->epoch == MESSENGER_WELCOME && is_awaited) {
        peer_set_seen_ip(origin->peer, message);
        dial_on_welcome(messenger, origin->peer, link, frame->slice);
    } else {
        count_invalid_frame(messenger, origin->peer, FRAME_BAD_KIND);
    }
}

/* Checks a message of a known connection. Returns true if it is a frame for the caller of the
 * messenger. */
static bool accept_frame(struct messenger *messenger, const struct origin *origin,
                         zmq_msg_t *message, bool is_single, struct frame *frame) {
    const size_t bytes = zmq_msg_size(message);
    origin->received->bytes += bytes;
    origin->received->frames++;
    if (!is_single) {
        peer_disconnect_and_ban(messenger, origin->peer);
        return false;
    }
    const enum frame_verdict verdict =
        frame_read(zmq_msg_data(message), bytes, messenger->accepted_kinds, frame);
    if (verdict != FRAME_OK) {
        count_invalid_frame(messenger, origin->peer, verdict);
        return false;
    }
    if (frame->kind == MESSENGER_KIND) {
        handle_internal_frame(messenger, origin, message, frame);
        return false;
    }
    if (!peer_is_open(origin->peer)) {
        return false;
    }
    messenger->counts.verdicts[FRAME_OK]++;
    messenger->counts.received_frames++;
    messenger->counts.received_bytes += bytes;
    return true;
}

/* Returns the frame to the caller as an event. It stays valid until read_release_frame. */
static void set_frame_event(struct messenger *messenger, const struct peer *peer,
                            const struct frame *frame, zmq_msg_t *message,
                            struct messenger_event *event) {
    struct reader *reader = &messenger->reader;
    ASSERT(!reader->has_current);
    zmq_msg_init(&reader->current);
    zmq_msg_move(&reader->current, message);
    reader->has_current = true;
    *event = (struct messenger_event){.kind = MESSENGER_FRAME,
                                      .is_guest = !peer->is_registered,
                                      .frame = *frame,
                                      .payload = (const uint8_t *)zmq_msg_data(&reader->current) +
                                                 FRAME_HEADER_BYTES};
    memcpy(event->curve, peer_curve(messenger, peer), KEY_BYTES);
}

static void store_in_ring(struct reader *reader, struct peer *peer, const struct frame *frame,
                          zmq_msg_t *message) {
    ASSERT(reader->count < reader->capacity);
    struct read_ahead *ahead =
        &reader->ring[(reader->first_index + reader->count++) % reader->capacity];
    zmq_msg_init(&ahead->message);
    zmq_msg_move(&ahead->message, message);
    ahead->frame = *frame;
    ahead->peer = peer;
    ahead->disconnect_count = peer->disconnect_count;
}

/* Handle the first frame of an accepted connection. Any other frame than a hello is ignored, and
 * the connection is closed at its deadline. */
static void handle_first_frame(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                               bool is_single) {
    struct frame frame;
    if (is_single &&
        frame_read(zmq_msg_data(message), zmq_msg_size(message), messenger->accepted_kinds,
                   &frame) == FRAME_OK &&
        frame.kind == MESSENGER_KIND && frame.epoch == MESSENGER_HELLO) {
        accept_hello(messenger, message, routing, &frame);
    }
}

static bool is_from_accepted_peer(struct messenger *messenger, const struct accepted *accepted,
                                  zmq_msg_t *message) {
    uint8_t curve[KEY_BYTES];
    return accepted->peer != NULL && zap_read_sender_key(message, curve) &&
           memcmp(curve, peer_curve(messenger, accepted->peer), KEY_BYTES) == 0;
}

/* Handles a message from the listener. Returns true if it is a control frame, which the caller
 * gets at once. */
static bool handle_routed_message(struct messenger *messenger, uint32_t routing, zmq_msg_t *message,
                                  bool is_single, struct messenger_event *event) {
    struct accepted *accepted = accept_find_by_routing(messenger, routing);
    struct frame frame;
    if (accepted == NULL) {
        handle_first_frame(messenger, message, routing, is_single);
        return false;
    }
    const struct origin origin = {.peer = accepted->peer, .received = &accepted->received};
    const uint32_t link_index = accepted->link;
    if (!is_from_accepted_peer(messenger, accepted, message) ||
        !accept_frame(messenger, &origin, message, is_single, &frame)) {
        return false;
    }
    if (link_index == 0 || link_index == ACCEPTED_STANDBY) {
        set_frame_event(messenger, origin.peer, &frame, message, event);
        return true;
    }
    store_in_ring(&messenger->reader, origin.peer, &frame, message);
    return false;
}

/* Read the next control frame from the listener. Reading stops at a pending event, because the
 * event precedes later frames, and when the ring is full. */
static bool read_listener(struct messenger *messenger, struct messenger_event *event) {
    const struct reader *reader = &messenger->reader;
    bool found = false;
    while (!found && !messenger->has_events && poll_listener_has_input(messenger) &&
           reader->count < reader->capacity) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        uint32_t routing = 0;
        bool is_single = false;
        bool has_routing = false;
        if (!receive_routed_message(messenger->listener.socket, &routing, &message, &is_single,
                                    &has_routing)) {
            poll_set_listener_input(messenger, false);
            accepted_end_drained(messenger);
        } else {
            found = has_routing &&
                    handle_routed_message(messenger, routing, &message, is_single, event);
        }
        zmq_msg_close(&message);
        accept_count_read(messenger);
    }
    return found;
}

/* Read the next frame from a link that this process dialed. */
static bool read_dialed_link(struct messenger *messenger, uint32_t index,
                             struct messenger_event *event) {
    const struct polled polled = messenger->poll.links[index];
    const struct origin origin = {
        .peer = polled.peer, .link = polled.link, .received = &polled.link->received};
    bool found = false;
    while (!found && !messenger->has_events && poll_link_has_input(messenger, index)) {
        struct frame frame;
        bool is_single = false;
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (!poll_link_is_current(messenger, index)) {
            poll_clear_link_input(messenger, index);
        } else if (!receive_message(polled.link->socket, &message, &is_single)) {
            poll_clear_link_input(messenger, index);
            dial_on_drained(messenger, polled.peer, polled.link);
        } else {
            found = accept_frame(messenger, &origin, &message, is_single, &frame);
        }
        if (found) {
            set_frame_event(messenger, polled.peer, &frame, &message, event);
        }
        zmq_msg_close(&message);
    }
    return found;
}

/* Read the links in round-robin order, so that a busy peer does not delay the others. */
static bool read_round_robin(struct messenger *messenger, bool is_control, uint32_t *next_index,
                             struct messenger_event *event) {
    const uint32_t count = messenger->poll.link_count;
    for (uint32_t i = 0; i < count && !messenger->has_events; i++) {
        const uint32_t index = (*next_index + i) % count;
        const struct polled *polled = &messenger->poll.links[index];
        if ((polled->link == polled->peer->links) == is_control &&
            read_dialed_link(messenger, index, event)) {
            *next_index = index + 1;
            return true;
        }
    }
    return false;
}

bool read_control(struct messenger *messenger, struct messenger_event *event) {
    return read_listener(messenger, event) ||
           read_round_robin(messenger, true, &messenger->reader.next_control, event);
}

/* Returns the next frame of the ring whose peer has stayed connected since the frame was read. */
static bool read_ring(struct messenger *messenger, struct messenger_event *event) {
    struct reader *reader = &messenger->reader;
    bool found = false;
    while (reader->count > 0 && !found) {
        struct read_ahead *ahead = &reader->ring[reader->first_index];
        reader->first_index = (reader->first_index + 1) % reader->capacity;
        reader->count--;
        found = ahead->disconnect_count == ahead->peer->disconnect_count;
        if (found) {
            set_frame_event(messenger, ahead->peer, &ahead->frame, &ahead->message, event);
        }
        zmq_msg_close(&ahead->message);
    }
    return found;
}

bool read_bulk(struct messenger *messenger, struct messenger_event *event) {
    struct reader *reader = &messenger->reader;
    reader->was_from_ring = !reader->was_from_ring;
    if (reader->was_from_ring && read_ring(messenger, event)) {
        return true;
    }
    return read_round_robin(messenger, false, &reader->next_bulk, event) ||
           read_ring(messenger, event);
}
