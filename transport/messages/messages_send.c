/* messages_send: sends frames, each copied once into a ZeroMQ message, and remembers which queues
 * were full, so that messenger_wait can wake the caller. */
#include "transport/messages/messages_state.h"

#include <errno.h>
#include <string.h>

/* Copies a frame into a message. Returns false if there is no memory. */
static bool make_message(zmq_msg_t *message, const struct frame *frame, const void *payload) {
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

static bool send_message(void *socket, const struct frame *frame, const void *payload) {
    zmq_msg_t message;
    if (!make_message(&message, frame, payload)) {
        return false;
    }
    const bool is_queued = zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0;
    if (!is_queued) {
        zmq_msg_close(&message);
    }
    return is_queued;
}

/* Check the queue first, so that no payload is copied for a full queue. */
static enum send_result send_on_dialed_link(struct link *link, const struct frame *frame,
                                            const void *payload) {
    int events = 0;
    size_t bytes = sizeof events;
    (void)zmq_getsockopt(link->socket, ZMQ_EVENTS, &events, &bytes);
    return (events & ZMQ_POLLOUT) != 0 && send_message(link->socket, frame, payload)
               ? SEND_OK
               : SEND_WOULD_BLOCK;
}

static enum send_result send_routed(struct messenger *messenger, uint32_t routing,
                                    const struct frame *frame, const void *payload) {
    const uint8_t id[] = {0, (uint8_t)(routing >> 24), (uint8_t)(routing >> 16),
                          (uint8_t)(routing >> 8), (uint8_t)routing};
    void *listener = messenger->listener.socket;
    zmq_msg_t message;
    if (zmq_send(listener, id, sizeof id, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
        return zmq_errno() == EAGAIN ? SEND_WOULD_BLOCK : SEND_NO_PEER;
    }
    /* The routing id was sent, so the listener now accepts only the second part. If there is no
     * memory for it, an empty message is sent, which the peer counts as an invalid frame. */
    const bool is_made = make_message(&message, frame, payload);
    if (!is_made) {
        zmq_msg_init(&message);
    }
    if (zmq_msg_send(&message, listener, ZMQ_DONTWAIT) < 0) {
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
    return send_message(socket, &hello, NULL);
}

bool send_welcome(struct messenger *messenger, uint32_t routing, uint32_t bulk_wanted) {
    const struct frame welcome = {
        .kind = MESSENGER_KIND, .epoch = MESSENGER_WELCOME, .slice = bulk_wanted};
    return send_routed(messenger, routing, &welcome, NULL) == SEND_OK;
}

void blocked_sends_on_writable(struct messenger *messenger, struct link *link) {
    link->is_full = false;
    messenger->blocked_sends.is_wakeup_due = true;
}

void blocked_sends_on_listener_writable(struct messenger *messenger) {
    messenger->blocked_sends.is_listener_full = false;
    messenger->blocked_sends.is_wakeup_due = true;
}

void blocked_sends_on_bulk_link_up(struct messenger *messenger, struct peer *peer) {
    messenger->blocked_sends.is_wakeup_due =
        messenger->blocked_sends.is_wakeup_due || peer->is_bulk_awaited;
    peer->is_bulk_awaited = false;
}

void blocked_sends_on_close(struct peer *peer) {
    peer->is_bulk_awaited = false;
}

bool blocked_sends_need_retry(const struct messenger *messenger) {
    return messenger->blocked_sends.is_listener_full || messenger->blocked_sends.is_backlogged;
}

void blocked_sends_allow_retry(struct messenger *messenger) {
    messenger->blocked_sends.is_listener_full = false;
    messenger->blocked_sends.is_backlogged = false;
}

void blocked_sends_clear_wakeup(struct messenger *messenger) {
    messenger->blocked_sends.is_wakeup_due = false;
}

static enum send_result send_on_link(struct messenger *messenger, struct link *link,
                                     const struct frame *frame, const void *payload) {
    if (link->state == LINK_DIALED) {
        return send_on_dialed_link(link, frame, payload);
    }
    struct accepted *accepted = &messenger->accept.entries[link->accepted_index];
    const enum send_result sent = send_routed(messenger, accepted->routing, frame, payload);
    if (sent == SEND_NO_PEER) {
        accepted_start_draining(messenger, accepted);
    }
    return sent;
}

static enum send_result send_and_count(struct messenger *messenger, struct link *link,
                                       const struct frame *frame, const void *payload) {
    const enum send_result sent = send_on_link(messenger, link, frame, payload);
    if (sent == SEND_OK) {
        messenger->counts.sent_frames++;
        messenger->counts.sent_bytes += FRAME_HEADER_BYTES + frame->length;
    } else if (sent == SEND_WOULD_BLOCK) {
        link->is_full = true;
        messenger->blocked_sends.is_listener_full =
            messenger->blocked_sends.is_listener_full || link->state == LINK_ACCEPTED;
    }
    return sent;
}

static enum send_result send_bulk(struct messenger *messenger, struct peer *peer,
                                  const struct frame *frame, const void *payload) {
    enum send_result sent = SEND_NO_PEER;
    bool is_full = false;
    for (uint32_t i = 0; i < peer->bulk_count && sent != SEND_OK; i++) {
        struct link *link = &peer->links[1 + peer->next_bulk_link++ % peer->bulk_count];
        if (!link_is_up(link)) {
            continue;
        }
        if (backlog_is_full(messenger, link)) {
            messenger->blocked_sends.is_backlogged = true;
            is_full = true;
            continue;
        }
        sent = send_and_count(messenger, link, frame, payload);
        is_full = is_full || sent == SEND_WOULD_BLOCK;
        if (sent == SEND_OK) {
            backlog_add_frame(link, frame);
        }
    }
    /* The control link is up, so missing bulk links will be dialed, and the caller waits for
     * one. */
    peer->is_bulk_awaited = sent != SEND_OK && !is_full;
    return sent == SEND_OK ? SEND_OK : SEND_WOULD_BLOCK;
}

enum send_result messenger_send(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                enum channel channel, const struct frame *frame,
                                const void *payload) {
    ASSERT(frame->length <= FRAME_PAYLOAD_MAX && frame->kind != MESSENGER_KIND);
    read_release_frame(messenger);
    struct peer *peer = peer_find(messenger, curve);
    if (peer == NULL || !peer_is_open(peer) || !link_is_up(&peer->links[0])) {
        return SEND_NO_PEER;
    }
    return channel == CHANNEL_CONTROL || peer->bulk_count == 0
               ? send_and_count(messenger, &peer->links[0], frame, payload)
               : send_bulk(messenger, peer, frame, payload);
}
