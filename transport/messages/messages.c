/* messages: a messenger's life, and the order in which it looks at things. */
#include "transport/messages/messages_state.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

enum {
    SEND_BEYOND_QUEUE = 3,         /* frames: being sent, its plain copy and its encrypted one */
    READ_BEYOND_QUEUE = 1,         /* being received; decrypted in place */
    FRAME_HEAD = 256,              /* of a frame in ZeroMQ: its record, malloc's, CURVE's bytes */
    CONNECTION_BYTES = 128 * 1024, /* engine, session, two pipes, monitor with its two sockets */
    CONTEXT_BYTES = 1 << 20,       /* context, reaper, poller */
    STRANGER_BYTES = 96 * 1024,    /* a connection before its hello, with what guard allows */
    /* What one peer can push within a tick on 10 Gbit/s before messages_guard sees it. */
    WORST_PART_BYTES = 128 << 20
};

static uint32_t links_max(const struct messenger_options *options) {
    return options->peers_max * (1 + options->bulk_connections);
}

static uint32_t ahead_max(const struct messenger_options *options) {
    const uint32_t bulk = options->peers_max * options->bulk_connections;
    return bulk == 0 ? 1 : bulk < MESSENGER_AHEAD_MAX ? bulk : MESSENGER_AHEAD_MAX;
}

uint64_t messenger_memory_bytes(const struct messenger_options *options) {
    const uint64_t frame = FRAME_BYTES_MAX + FRAME_HEAD;
    const uint64_t frames =
        2 * (uint64_t)options->queued_frames + SEND_BEYOND_QUEUE + READ_BEYOND_QUEUE;
    const uint64_t held = 1 + (uint64_t)ahead_max(options); /* and the one that is looked at */
    return CONTEXT_BYTES + links_max(options) * (frames * frame + CONNECTION_BYTES) + held * frame +
           (uint64_t)MESSENGER_STRANGERS * STRANGER_BYTES + WORST_PART_BYTES;
}

static void check_options(const struct messenger_options *options) {
    ASSERT(options->peers_max >= 1 && options->peers_max <= MESSAGE_PEERS_MAX);
    ASSERT(options->bulk_connections <= MESSAGE_BULK_MAX);
    ASSERT(options->queued_frames >= 2 && options->queued_frames <= 64);
    for (uint32_t i = 0; i < MESSAGE_CLASSES; i++) {
        ASSERT(options->guests.places[i] <= options->peers_max);
    }
    ASSERT((options->known[MESSENGER_KIND / 64] >> MESSENGER_KIND % 64 & 1) == 0);
}

static struct messenger *make_tables(const struct messenger_options *options,
                                     struct region *region) {
    struct messenger *messenger = region_alloc(region, 1, sizeof *messenger);
    const uint32_t links = links_max(options);
    messenger->options = *options;
    messenger->accepted_max = links + MESSENGER_STRANGERS;
    messenger->ahead_max = ahead_max(options);
    messenger->curves = region_alloc(region, options->peers_max, sizeof *messenger->curves);
    messenger->peers = region_alloc(region, options->peers_max, sizeof *messenger->peers);
    messenger->accepted =
        region_alloc(region, messenger->accepted_max, sizeof *messenger->accepted);
    messenger->ahead = region_alloc(region, messenger->ahead_max, sizeof *messenger->ahead);
    messenger->watched = region_alloc(region, links, sizeof *messenger->watched);
    messenger->items =
        region_alloc(region, ITEMS_FIXED + 2 * (size_t)links, sizeof *messenger->items);
    struct link *all = region_alloc(region, links, sizeof *all);
    for (uint32_t i = 0; i < links; i++) {
        all[i] = (struct link){.fd = -1, .accepted = -1, .again_ms = MESSENGER_AGAIN_LEAST};
    }
    for (uint32_t i = 0; i < options->peers_max; i++) {
        messenger->peers[i].links = all + (size_t)i * (1 + options->bulk_connections);
    }
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        messenger->accepted[i].fd = -1;
    }
    memcpy(messenger->known, options->known, sizeof messenger->known);
    messenger->known[MESSENGER_KIND / 64] |= UINT64_C(1) << MESSENGER_KIND % 64;
    messenger->stale = true;
    messenger->tick_ns = clock_monotonic_ns();
    return messenger;
}

static enum status open_sockets(struct messenger *messenger, struct fault *fault) {
    /* a link has its socket and the two ends of its monitor, and one that ends has them still */
    const uint32_t sockets = 2 * 3 * links_max(&messenger->options) + 8;
    const int limit = zmq_ctx_get(messenger->context, ZMQ_SOCKET_LIMIT);
    (void)zmq_ctx_set(messenger->context, ZMQ_MAX_SOCKETS,
                      limit > 0 && sockets > (uint32_t)limit ? limit : (int)sockets);
    (void)zmq_ctx_set(messenger->context, ZMQ_IO_THREADS, 1);
    const enum status status = zap_open(messenger, fault);
    return status != OK || messenger->options.listen == NULL ? status
                                                             : socket_listener(messenger, fault);
}

enum status messenger_open(const struct messenger_options *options, struct region *region,
                           struct messenger **messenger, struct fault *fault) {
    check_options(options);
    if (options->listen != NULL && !address_is_one(options->listen, true)) {
        return fault_set(fault, STATUS_INPUT, options->listen, NULL, "is not tcp://ADDRESS:PORT");
    }
    struct messenger *made = make_tables(options, region);
    made->context = zmq_ctx_new();
    if (made->context == NULL) {
        return fault_set_errno(fault, STATUS_FAILED, "ZeroMQ", "cannot start", zmq_errno());
    }
    const enum status status = open_sockets(made, fault);
    if (status != OK) {
        messenger_close(made, 0);
        return status;
    }
    *messenger = made;
    return OK;
}

uint16_t messenger_port(const struct messenger *messenger) {
    return messenger->port;
}

struct messenger_counts messenger_counts(const struct messenger *messenger) {
    return messenger->counts;
}

void messenger_close(struct messenger *messenger, int linger_ms) {
    read_release_frame(messenger);
    for (uint32_t i = 0; i < messenger->ahead_count; i++) {
        zmq_msg_close(
            &messenger->ahead[(messenger->ahead_first + i) % messenger->ahead_max].message);
    }
    struct link *links = messenger->peers[0].links;
    for (uint32_t i = 0; i < links_max(&messenger->options); i++) {
        if (links[i].state != LINK_ACCEPTED) {
            link_end(messenger, &links[i], link_is_up(&links[i]) ? linger_ms : 0);
        }
    }
    socket_close(messenger->listener, messenger->listener_monitor, linger_ms);
    socket_close(messenger->zap, NULL, 0);
    while (zmq_ctx_term(messenger->context) != 0 && zmq_errno() == EINTR) {
    }
}

/* What is looked at: the fixed ones, then every connection that we made with its monitor. */
static void list_items(struct messenger *messenger) {
    const uint32_t per_peer = 1 + messenger->options.bulk_connections;
    struct link *links = messenger->peers[0].links;
    uint32_t count = 0;
    zmq_pollitem_t *items = messenger->items;
    items[ITEM_ZAP] = (zmq_pollitem_t){.socket = messenger->zap, .events = ZMQ_POLLIN};
    items[ITEM_LISTENER].socket = messenger->listener;
    items[ITEM_LISTENER].events = ZMQ_POLLIN;
    items[ITEM_LISTENER_MONITOR] =
        (zmq_pollitem_t){.socket = messenger->listener_monitor, .events = ZMQ_POLLIN};
    for (uint32_t i = 0; i < links_max(&messenger->options); i++) {
        struct link *link = &links[i];
        if (link->socket == NULL) {
            continue;
        }
        zmq_pollitem_t *pair = &items[ITEMS_FIXED + 2 * count];
        pair[0] = (zmq_pollitem_t){.socket = link->socket, .events = ZMQ_POLLIN};
        pair[1] = (zmq_pollitem_t){.socket = link->monitor, .events = ZMQ_POLLIN};
        messenger->watched[count++] =
            (struct watched){.peer = &messenger->peers[i / per_peer], .link = link};
    }
    messenger->watched_count = count;
    messenger->stale = false;
}

/* A socket that there is not is a descriptor below 0 to zmq_poll, which it passes over. */
static void mark_items(struct messenger *messenger, int wake_fd) {
    zmq_pollitem_t *items = messenger->items;
    items[ITEM_WAKE] = (zmq_pollitem_t){.fd = wake_fd, .events = ZMQ_POLLIN};
    items[ITEM_ROOM] = (zmq_pollitem_t){
        .fd = messenger->listener_full ? messenger->listener_fd : -1, .events = ZMQ_POLLIN};
    if (messenger->listener == NULL) {
        items[ITEM_LISTENER].fd = -1;
        items[ITEM_LISTENER_MONITOR].fd = -1;
    }
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        items[ITEMS_FIXED + 2 * i].events =
            messenger->watched[i].link->full ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
    }
}

/* Full connections that have room are full no more: told once. */
static void note_room(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        if ((messenger->items[ITEMS_FIXED + 2 * i].revents & ZMQ_POLLOUT) != 0) {
            messenger->watched[i].link->full = false;
            messenger->has_room = true;
        }
    }
    if (messenger->items[ITEM_ROOM].revents != 0) {
        messenger->listener_full = false;
        messenger->has_room = true;
    }
}

/* What broke is read to its end, which messages_read finds by reading. */
static void mark_ending(struct messenger *messenger) {
    if (messenger->ending > 0) {
        messenger->items[ITEM_LISTENER].revents |= ZMQ_POLLIN;
    }
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        if (messenger->watched[i].link->state == LINK_DRAINING) {
            messenger->items[ITEMS_FIXED + 2 * i].revents |= ZMQ_POLLIN;
        }
    }
}

/* Look at everything at once, for at most so long, and do what is for us to do. */
static void look(struct messenger *messenger, int wake_fd, long wait_ms) {
    if (messenger->stale) {
        list_items(messenger);
    }
    mark_items(messenger, wake_fd);
    (void)zmq_poll(messenger->items, (int)(ITEMS_FIXED + 2 * messenger->watched_count), wait_ms);
    note_room(messenger);
    if ((messenger->items[ITEM_ZAP].revents & ZMQ_POLLIN) != 0) {
        zap_answer(messenger);
    }
    if ((messenger->items[ITEM_LISTENER_MONITOR].revents & ZMQ_POLLIN) != 0) {
        accept_events(messenger);
    }
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        if ((messenger->items[ITEMS_FIXED + 2 * i + 1].revents & ZMQ_POLLIN) != 0) {
            dial_events(messenger, messenger->watched[i].peer, messenger->watched[i].link);
        }
    }
    mark_ending(messenger);
}

static void tick(struct messenger *messenger) {
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < messenger->tick_ns) {
        return;
    }
    const int64_t late_ns = now_ns - messenger->tick_ns;
    if (late_ns > MESSENGER_LATE * MESSENGER_MS) {
        dial_extend_deadlines(messenger, late_ns);
        accept_extend_deadlines(messenger, late_ns);
    }
    messenger->tick_ns = now_ns + MESSENGER_TICK * MESSENGER_MS;
    dial_due(messenger, now_ns);
    accept_due(messenger, now_ns);
    guard_check(messenger, now_ns);
}

static bool is_ready(const struct messenger *messenger) {
    bool ready = messenger->has_news || messenger->has_room || messenger->ahead_count > 0 ||
                 (messenger->items[ITEM_LISTENER].revents & ZMQ_POLLIN) != 0;
    for (uint32_t i = 0; i < messenger->watched_count && !ready; i++) {
        ready = (messenger->items[ITEMS_FIXED + 2 * i].revents & ZMQ_POLLIN) != 0;
    }
    return ready;
}

static long rounded_ms(int64_t ns) {
    return ns <= 0 ? 0 : (long)((ns + MESSENGER_MS - 1) / MESSENGER_MS);
}

bool messenger_wait(struct messenger *messenger, int wake_fd, int timeout_ms) {
    read_release_frame(messenger);
    const int64_t start_ns = clock_monotonic_ns();
    const int64_t until_ns = timeout_ms < 0 ? INT64_MAX : start_ns + timeout_ms * MESSENGER_MS;
    for (int64_t now_ns = start_ns;; now_ns = clock_monotonic_ns()) {
        tick(messenger);
        if (is_ready(messenger)) {
            messenger->has_room = false;
            return true;
        }
        int64_t wake_ns = until_ns < messenger->tick_ns ? until_ns : messenger->tick_ns;
        const int64_t room_ns = now_ns + MESSENGER_ROOM * MESSENGER_MS;
        const bool waits_room = messenger->listener_full || messenger->is_ahead;
        wake_ns = waits_room && room_ns < wake_ns ? room_ns : wake_ns;
        look(messenger, wake_fd, rounded_ms(wake_ns - now_ns));
        const bool tries_room = waits_room && wake_ns == room_ns;
        if (tries_room || (messenger->items[ITEM_WAKE].revents & ZMQ_POLLIN) != 0) {
            messenger->listener_full = messenger->listener_full && !tries_room;
            messenger->is_ahead = messenger->is_ahead && !tries_room;
            return true;
        }
        if (now_ns >= until_ns && !is_ready(messenger)) {
            return false;
        }
    }
}

bool messenger_next(struct messenger *messenger, struct messenger_event *event) {
    read_release_frame(messenger);
    bool looked = false;
    for (;;) {
        if (peer_next_event(messenger, event) || read_control(messenger, event)) {
            return true;
        }
        if (!looked) {
            tick(messenger);
            look(messenger, -1, 0);
            looked = true;
        } else if (!messenger->has_news) {
            return read_bulk(messenger, event) || peer_next_event(messenger, event);
        }
    }
}
