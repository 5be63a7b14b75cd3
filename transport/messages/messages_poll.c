/* messages_poll: polls all sockets of a messenger as one set: first the fixed items, then each
 * dialed link with its monitor. An item that zmq_poll reported as readable stays marked until a
 * read finds no message. */
#include "transport/messages/messages_state.h"

static zmq_pollitem_t *poll_item_of_link(const struct messenger *messenger, uint32_t index) {
    ASSERT(index < messenger->poll.link_count);
    return &messenger->poll.items[ITEMS_FIXED + 2 * index];
}

void poll_init(struct messenger *messenger, struct region *region) {
    const uint32_t links = messenger_links_max(&messenger->options);
    struct poll_set *poll = &messenger->poll;
    poll->links = region_alloc(region, links, sizeof *poll->links);
    poll->items = region_alloc(region, ITEMS_FIXED + 2 * (size_t)links, sizeof *poll->items);
    poll->is_outdated = true;
}

void poll_mark_outdated(struct messenger *messenger) {
    messenger->poll.is_outdated = true;
}

static void list_poll_items(struct messenger *messenger) {
    const uint32_t links_per_peer = 1 + messenger->options.bulk_connections;
    struct link *links = messenger->peers[0].links;
    struct poll_set *poll = &messenger->poll;
    zmq_pollitem_t *items = poll->items;
    items[ITEM_ZAP] = (zmq_pollitem_t){.socket = messenger->zap_socket, .events = ZMQ_POLLIN};
    items[ITEM_LISTENER].socket = messenger->listener.socket;
    items[ITEM_LISTENER].events = ZMQ_POLLIN;
    items[ITEM_LISTENER_MONITOR] =
        (zmq_pollitem_t){.socket = messenger->listener.monitor, .events = ZMQ_POLLIN};
    poll->link_count = 0;
    for (uint32_t i = 0; i < messenger_links_max(&messenger->options); i++) {
        struct link *link = &links[i];
        if (link->socket == NULL) {
            continue;
        }
        const uint32_t index = poll->link_count++;
        zmq_pollitem_t *pair = poll_item_of_link(messenger, index);
        pair[0] = (zmq_pollitem_t){.socket = link->socket, .events = ZMQ_POLLIN};
        pair[1] = (zmq_pollitem_t){.socket = link->monitor, .events = ZMQ_POLLIN};
        poll->links[index] =
            (struct polled){.peer = &messenger->peers[i / links_per_peer], .link = link};
    }
    poll->is_outdated = false;
}

/* zmq_poll skips an item without a socket whose descriptor is negative. */
static void set_poll_events(struct messenger *messenger, int wake_fd) {
    struct poll_set *poll = &messenger->poll;
    zmq_pollitem_t *items = poll->items;
    items[ITEM_WAKE] = (zmq_pollitem_t){.fd = wake_fd, .events = ZMQ_POLLIN};
    items[ITEM_LISTENER_WRITABLE] = (zmq_pollitem_t){
        .fd = messenger->blocked_sends.is_listener_full ? messenger->listener.fd : -1,
        .events = ZMQ_POLLIN};
    if (messenger->listener.socket == NULL) {
        items[ITEM_LISTENER].fd = -1;
        items[ITEM_LISTENER_MONITOR].fd = -1;
    }
    for (uint32_t i = 0; i < poll->link_count; i++) {
        poll_item_of_link(messenger, i)->events =
            poll->links[i].link->is_full ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
    }
}

static void report_writable(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->poll.link_count; i++) {
        if ((poll_item_of_link(messenger, i)->revents & ZMQ_POLLOUT) != 0) {
            blocked_sends_on_writable(messenger, messenger->poll.links[i].link);
        }
    }
    if (messenger->poll.items[ITEM_LISTENER_WRITABLE].revents != 0) {
        blocked_sends_on_listener_writable(messenger);
    }
}

/* A broken connection has to be read until no frame is left. ZeroMQ may not report it as readable,
 * so a read is forced. */
static void mark_draining_links_readable(struct messenger *messenger) {
    if (messenger->accept.draining_count > 0) {
        poll_set_listener_input(messenger, true);
    }
    for (uint32_t i = 0; i < messenger->poll.link_count; i++) {
        if (messenger->poll.links[i].link->state == LINK_DRAINING) {
            poll_item_of_link(messenger, i)->revents |= ZMQ_POLLIN;
        }
    }
}

void poll_sockets(struct messenger *messenger, int wake_fd, long wait_ms) {
    struct poll_set *poll = &messenger->poll;
    if (poll->is_outdated) {
        list_poll_items(messenger);
    }
    set_poll_events(messenger, wake_fd);
    (void)zmq_poll(poll->items, (int)(ITEMS_FIXED + 2 * poll->link_count), wait_ms);
    report_writable(messenger);
    if ((poll->items[ITEM_ZAP].revents & ZMQ_POLLIN) != 0) {
        zap_answer_requests(messenger);
    }
    if ((poll->items[ITEM_LISTENER_MONITOR].revents & ZMQ_POLLIN) != 0) {
        accept_handle_events(messenger);
    }
    for (uint32_t i = 0; i < poll->link_count; i++) {
        if ((poll_item_of_link(messenger, i)[1].revents & ZMQ_POLLIN) != 0) {
            dial_handle_events(messenger, poll->links[i].peer, poll->links[i].link);
        }
    }
    mark_draining_links_readable(messenger);
}

bool poll_listener_has_input(const struct messenger *messenger) {
    return (messenger->poll.items[ITEM_LISTENER].revents & ZMQ_POLLIN) != 0;
}

void poll_set_listener_input(struct messenger *messenger, bool has_input) {
    messenger->poll.items[ITEM_LISTENER].revents = has_input ? ZMQ_POLLIN : 0;
}

bool poll_link_has_input(const struct messenger *messenger, uint32_t index) {
    return (poll_item_of_link(messenger, index)->revents & ZMQ_POLLIN) != 0;
}

void poll_clear_link_input(struct messenger *messenger, uint32_t index) {
    poll_item_of_link(messenger, index)->revents = 0;
}

bool poll_link_is_current(const struct messenger *messenger, uint32_t index) {
    return poll_item_of_link(messenger, index)->socket == messenger->poll.links[index].link->socket;
}

bool poll_has_input(const struct messenger *messenger) {
    bool has_input = poll_listener_has_input(messenger);
    for (uint32_t i = 0; i < messenger->poll.link_count && !has_input; i++) {
        has_input = poll_link_has_input(messenger, i);
    }
    return has_input;
}

bool poll_is_woken(const struct messenger *messenger) {
    return (messenger->poll.items[ITEM_WAKE].revents & ZMQ_POLLIN) != 0;
}
