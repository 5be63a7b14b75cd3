/* messages_send: frames that go out, each copied once into a message of ZeroMQ's. */
#include "transport/messages/messages_state.h"

#include <errno.h>
#include <string.h>

static bool message_make(zmq_msg_t *message, const struct frame *frame, const void *payload) {
    if (zmq_msg_init_size(message, FRAME_HEADER_BYTES + (size_t)frame->length) != 0) {
        return false;
    }
    uint8_t *bytes = zmq_msg_data(message);
    frame_write(frame, bytes);
    if (frame->length > 0) {
        memcpy(bytes + FRAME_HEADER_BYTES, payload, frame->length);
    }
    return true;
}

static bool message_send(void *socket, const struct frame *frame, const void *payload) {
    zmq_msg_t message;
    if (!message_make(&message, frame, payload)) {
        return false;
    }
    const bool is_taken = zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0;
    if (!is_taken) {
        zmq_msg_close(&message);
    }
    return is_taken;
}

/* Whether it is full is asked before anything is copied. */
static enum send_result send_dialed(struct link *link, const struct frame *frame,
                                    const void *payload) {
    int events = 0;
    size_t bytes = sizeof events;
    (void)zmq_getsockopt(link->socket, ZMQ_EVENTS, &events, &bytes);
    return (events & ZMQ_POLLOUT) != 0 && message_send(link->socket, frame, payload)
               ? SEND_OK
               : SEND_WOULD_BLOCK;
}

static enum send_result send_routed(struct messenger *messenger, uint32_t routing,
                                    const struct frame *frame, const void *payload) {
    const uint8_t name[] = {0, (uint8_t)(routing >> 24), (uint8_t)(routing >> 16),
                            (uint8_t)(routing >> 8), (uint8_t)routing};
    zmq_msg_t message;
    if (zmq_send(messenger->listener, name, sizeof name, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
        return zmq_errno() == EAGAIN ? SEND_WOULD_BLOCK : SEND_NO_PEER;
    }
    /* from here on the listener waits for this part and takes no other: without memory an empty
     * message is sent, which costs us a strike at the other end and is no frame of anybody's */
    const bool is_made = message_make(&message, frame, payload);
    if (!is_made) {
        zmq_msg_init(&message);
    }
    if (zmq_msg_send(&message, messenger->listener, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return SEND_NO_PEER;
    }
    return is_made ? SEND_OK : SEND_WOULD_BLOCK;
}

bool send_hello(struct messenger *messenger, void *socket, uint32_t link_index) {
    const struct frame hello = {.kind = MESSENGER_KIND,
                                .epoch = MESSENGER_HELLO,
                                .round = link_index,
                                .slice = messenger->options.bulk_connections};
    return message_send(socket, &hello, NULL);
}

bool send_welcome(struct messenger *messenger, uint32_t routing, uint32_t bulk_count) {
    const struct frame welcome = {
        .kind = MESSENGER_KIND, .epoch = MESSENGER_WELCOME, .slice = bulk_count};
    return send_routed(messenger, routing, &welcome, NULL) == SEND_OK;
}

static enum send_result send_link(struct messenger *messenger, struct link *link,
                                  const struct frame *frame, const void *payload) {
    if (link->state == LINK_DIALED) {
        return send_dialed(link, frame, payload);
    }
    struct accepted *accepted = &messenger->accepted[link->accepted];
    const enum send_result sent = send_routed(messenger, accepted->routing, frame, payload);
    if (sent == SEND_NO_PEER) {
        accepted_drain(messenger, accepted);
    }
    return sent;
}

/* Counted, and remembered when it is full, for messages_wait. */
static enum send_result send_on(struct messenger *messenger, struct link *link,
                                const struct frame *frame, const void *payload) {
    const enum send_result sent = send_link(messenger, link, frame, payload);
    if (sent == SEND_OK) {
        messenger->counts.sent_frames++;
        messenger->counts.sent_bytes += FRAME_HEADER_BYTES + frame->length;
    } else if (sent == SEND_WOULD_BLOCK) {
        link->full = true;
        messenger->listener_full = messenger->listener_full || link->state == LINK_ACCEPTED;
    }
    return sent;
}

static enum send_result send_bulk(struct messenger *messenger, struct peer *peer,
                                  const struct frame *frame, const void *payload) {
    enum send_result sent = SEND_NO_PEER;
    bool is_full = false;
    for (uint32_t i = 0; i < peer->bulk_count && sent != SEND_OK; i++) {
        struct link *link = &peer->links[1 + peer->bulk_turn++ % peer->bulk_count];
        if (!link_is_up(link)) {
            continue;
        }
        if (backlog_is_full(messenger, link)) {
            messenger->is_ahead = true;
            is_full = true;
            continue;
        }
        sent = send_on(messenger, link, frame, payload);
        is_full = is_full || sent == SEND_WOULD_BLOCK;
        if (sent == SEND_OK) {
            backlog_note_sent(link, frame);
        }
    }
    /* the control connection stands, so the others are being made or made again */
    peer->wants_bulk = sent != SEND_OK && !is_full;
    return sent == SEND_OK ? SEND_OK : SEND_WOULD_BLOCK;
}

enum send_result messenger_send(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                enum channel channel, const struct frame *frame,
                                const void *payload) {
    ASSERT(frame->length <= FRAME_PAYLOAD_MAX && frame->kind != MESSENGER_KIND);
    read_release_frame(messenger);
    struct peer *peer = peer_find(messenger, curve);
    if (peer == NULL || !peer->open || !link_is_up(&peer->links[0])) {
        return SEND_NO_PEER;
    }
    return channel == CHANNEL_CONTROL || peer->bulk_count == 0
               ? send_on(messenger, &peer->links[0], frame, payload)
               : send_bulk(messenger, peer, frame, payload);
}
