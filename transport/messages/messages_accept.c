/* messages_accept: connections to the listener.
 *
 *     ACCEPTED fd ── hello of routing id r on fd ── frames of r ── DISCONNECTED fd
 *
 * The monitor reports file descriptors, and frames carry routing ids. The hello carries both and
 * connects them. The kernel may reuse a descriptor while frames of the earlier connection are still
 * unread. Two rules keep the connections apart. All monitor events are handled before a hello, so
 * that a reused descriptor is known as a new connection. And of two hellos on one descriptor, the
 * one with the higher routing id is valid, because the ROUTER assigns ascending ids.
 *
 * accept_policy decides which connections without a hello stay open. */
#include "transport/messages/listener_filter.h"
#include "transport/messages/messages_state.h"

#include <sys/socket.h>

/* After this many reads from the listener, all frames of a broken connection have certainly been
 * read. */
enum { DRAIN_READS = 4096 };

void accept_init(struct messenger *messenger, struct region *region) {
    struct accept_table *table = &messenger->accept;
    /* one entry for each link, standby connection and pending connection */
    table->count = messenger_links_max(&messenger->options) + messenger->options.peers_max +
                   ACCEPT_PENDING_MAX;
    table->entries = region_alloc(region, table->count, sizeof *table->entries);
    table->policy = region_alloc(region, 1, sizeof *table->policy);
    for (uint32_t i = 0; i < table->count; i++) {
        table->entries[i].fd = -1;
    }
}

/* ZeroMQ owns the descriptor. It sees the shutdown and closes it. */
static void shut_down_socket(int fd) {
    (void)shutdown(fd, SHUT_RDWR);
}

/* Returns the entry of a connected descriptor, or a free entry if `fd` is -1, or NULL if there
 * is none. */
static struct accepted *accepted_by_fd(struct messenger *messenger, int fd) {
    for (uint32_t i = 0; i < messenger->accept.count; i++) {
        struct accepted *accepted = &messenger->accept.entries[i];
        if (accepted->fd == fd && !accepted->is_draining) {
            return accepted;
        }
    }
    return NULL;
}

struct accepted *accept_find_by_routing(struct messenger *messenger, uint32_t routing) {
    for (uint32_t i = 0; i < messenger->accept.count; i++) {
        struct accepted *accepted = &messenger->accept.entries[i];
        if (accepted->has_hello && accepted->routing == routing && accepted->fd >= 0) {
            return accepted;
        }
    }
    return NULL;
}

void accepted_disconnect(struct accepted *accepted) {
    accepted->peer = NULL;
    if (!accepted->is_draining) {
        shut_down_socket(accepted->fd);
    }
}

void accepted_start_draining(struct messenger *messenger, struct accepted *accepted) {
    if (!accepted->is_draining) {
        accepted->is_draining = true;
        messenger->accept.draining_count++;
        messenger->accept.reads_left = DRAIN_READS;
        poll_set_listener_input(messenger, true);
    }
}

/* End the link that uses this accepted connection. */
static void end_accepted_link(struct messenger *messenger, struct accepted *accepted) {
    struct peer *peer = accepted->peer;
    if (peer != NULL && accepted->link == 0) {
        peer_on_close(messenger, peer);
    } else if (peer != NULL && accepted->link != ACCEPTED_STANDBY) {
        link_end(messenger, &peer->links[accepted->link], 0);
    }
    accepted->peer = NULL;
}

void accepted_end_drained(struct messenger *messenger) {
    struct accept_table *table = &messenger->accept;
    for (uint32_t i = 0; i < table->count && table->draining_count > 0; i++) {
        struct accepted *accepted = &table->entries[i];
        if (accepted->fd >= 0 && accepted->is_draining) {
            end_accepted_link(messenger, accepted);
            *accepted = (struct accepted){.fd = -1};
            table->draining_count--;
        }
    }
}

void accept_count_read(struct messenger *messenger) {
    if (messenger->accept.draining_count > 0 && --messenger->accept.reads_left == 0) {
        accepted_end_drained(messenger);
    }
}

static uint32_t index_of_accepted(const struct accept_table *table,
                                  const struct accepted *accepted) {
    return (uint32_t)(accepted - table->entries);
}

static void forget_pending(struct accept_table *table, struct accepted *accepted) {
    accept_policy_remove_pending(table->policy, index_of_accepted(table, accepted));
    *accepted = (struct accepted){.fd = -1};
}

/* Close a connection that has sent no hello. ZeroMQ may have closed it already, and the kernel may
 * have given its descriptor to a connection from another host, whose ACCEPTED event is unread. */
static void close_pending(struct messenger *messenger, struct accepted *accepted) {
    struct source host;
    ASSERT(!accepted->has_hello && !accepted->is_draining);
    if (source_of_socket(accepted->fd, &host) && source_is_same_host(&host, &accepted->host)) {
        shut_down_socket(accepted->fd);
    }
    forget_pending(&messenger->accept, accepted);
}

static void update_listener_filter(struct messenger *messenger) {
    struct accept_table *table = &messenger->accept;
    struct source hosts[ACCEPT_BLOCKED_MAX];
    _Static_assert((int)ACCEPT_BLOCKED_MAX <= (int)LISTENER_FILTER_HOSTS_MAX,
                   "the filter has room for every blocked host");
    if (table->filter_version != table->policy->blocked_version) {
        table->filter_version = table->policy->blocked_version;
        listener_filter_set_hosts(messenger->listener.tcp_fd, hosts,
                                  accept_policy_list_blocked(table->policy, hosts));
    }
}

static void add_connection(struct messenger *messenger, int fd) {
    struct accept_table *table = &messenger->accept;
    struct source host;
    if (!source_of_socket(fd, &host)) {
        return; /* it has ended */
    }
    const int64_t now_ns = clock_monotonic_ns();
    const bool is_blocked =
        !accept_policy_count_connection(table->policy, &host, now_ns / NS_PER_MS);
    struct accepted *accepted = is_blocked ? NULL : accepted_by_fd(messenger, -1);
    if (accepted == NULL) {
        shut_down_socket(fd);
        return;
    }
    const int64_t timeout_ms = 2 * MESSENGER_HANDSHAKE_MS + MESSENGER_GREETING_MS;
    *accepted =
        (struct accepted){.fd = fd, .host = host, .due_ns = now_ns + timeout_ms * NS_PER_MS};
    const uint32_t evicted =
        accept_policy_add_pending(table->policy, &host, index_of_accepted(table, accepted));
    if (evicted != ACCEPT_NONE) {
        close_pending(messenger, &table->entries[evicted]);
    }
}

void accept_handle_events(struct messenger *messenger) {
    struct socket_monitor_event event;
    while (socket_next_event(messenger->listener.monitor, &event)) {
        const int fd = (int)event.value;
        struct accepted *accepted = accepted_by_fd(messenger, fd);
        if (event.kind == ZMQ_EVENT_LISTENING) {
            messenger->listener.tcp_fd = fd;
        } else if (event.kind == ZMQ_EVENT_ACCEPTED) {
            add_connection(messenger, fd);
        } else if (accepted != NULL && accepted->has_hello) {
            accepted_start_draining(messenger, accepted);
        } else if (accepted != NULL) {
            forget_pending(&messenger->accept, accepted);
        }
    }
    update_listener_filter(messenger);
}

/* Makes the connection a link of the peer, in place of the link's former connection. */
static void adopt_as_link(struct messenger *messenger, struct accepted *accepted, struct peer *peer,
                          uint32_t link_index) {
    link_use_accepted(messenger, &peer->links[link_index], accepted);
    accepted->peer = peer;
    accepted->link = link_index;
    accepted->due_ns = INT64_MAX;
}

static void send_welcome_to_peer(struct messenger *messenger, struct accepted *accepted) {
    if (!send_welcome(messenger, accepted->routing, accepted->peer->bulk_count)) {
        accepted_start_draining(messenger, accepted);
    }
}

static void adopt_as_control_link(struct messenger *messenger, struct accepted *accepted,
                                  struct peer *peer) {
    if (peer_is_open(peer)) {
        peer_on_close(messenger, peer); /* a peer that dials again has lost its old connection */
    }
    adopt_as_link(messenger, accepted, peer, 0);
    peer_on_open(messenger, peer, accepted->bulk_wanted);
    send_welcome_to_peer(messenger, accepted);
}

static void handle_control_hello(struct messenger *messenger, struct accepted *accepted,
                                 struct peer *peer, uint32_t bulk_wanted) {
    /* updates the link's state, which is tested below */
    dial_handle_events(messenger, peer, &peer->links[0]);
    const enum link_state state = peer->links[0].state;
    const bool ours_is_up =
        state == LINK_HANDSHAKEN || state == LINK_DIALED || state == LINK_DRAINING;
    accepted->peer = peer;
    accepted->link = ACCEPTED_STANDBY;
    accepted->bulk_wanted = bulk_wanted;
    if (ours_is_up && !peer_dials_first(messenger, peer)) {
        /* Both processes dialed at the same time. The peer will prefer the connection that this
         * process dialed and close its own. If it does not, that connection is broken unnoticed,
         * and after a time the peer's connection replaces it. */
        accepted->due_ns = clock_monotonic_ns() + MESSENGER_STANDBY_MS * NS_PER_MS;
        messenger_schedule_tick(messenger, accepted->due_ns);
        return;
    }
    adopt_as_control_link(messenger, accepted, peer);
}

/* Return the peer with this key, added as a guest if necessary; NULL: the key is rejected. */
static struct peer *admit_peer(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    struct peer *peer = peer_find(messenger, curve);
    if (is_banned(messenger, curve)) {
        return NULL;
    }
    return peer != NULL && peer->is_registered ? peer : peer_add_guest(messenger, curve);
}

/* Returns the connection on which a hello arrived, or NULL if it has ended. */
static struct accepted *find_connection_of_hello(struct messenger *messenger, int fd,
                                                 uint32_t routing) {
    accept_handle_events(messenger);
    struct accepted *accepted = fd < 0 ? NULL : accepted_by_fd(messenger, fd);
    if (accepted == NULL || (accepted->has_hello && (int32_t)(routing - accepted->routing) <= 0)) {
        return NULL;
    }
    if (accepted->has_hello) {
        /* The descriptor was reused, so the earlier connection has ended. Ending its link must not
         * shut down the descriptor. */
        accepted->is_draining = true;
        end_accepted_link(messenger, accepted);
        accepted->is_draining = false;
    }
    accept_policy_remove_pending(messenger->accept.policy,
                                 index_of_accepted(&messenger->accept, accepted));
    accepted->has_hello = true;
    accepted->routing = routing;
    accepted->peer = NULL;
    return accepted;
}

void accept_hello(struct messenger *messenger, zmq_msg_t *message, uint32_t routing,
                  const struct frame *hello) {
    uint8_t curve[KEY_BYTES];
    struct accepted *accepted =
        find_connection_of_hello(messenger, zmq_msg_get(message, ZMQ_SRCFD), routing);
    if (accepted == NULL) {
        return;
    }
    struct peer *peer = zap_read_sender_key(message, curve) ? admit_peer(messenger, curve) : NULL;
    if (peer == NULL) {
        shut_down_socket(accepted->fd);
        return;
    }
    peer_set_seen_ip(peer, message);
    peer_set_host(peer, &accepted->host);
    if (peer->is_registered || peer->process_class > 0) {
        accept_policy_add_expected_host(messenger->accept.policy, &accepted->host);
    }
    const uint32_t link_index = hello->round;
    if (link_index == 0) {
        handle_control_hello(messenger, accepted, peer, hello->slice);
    } else if (link_index <= peer->bulk_count && peer->links[0].state == LINK_ACCEPTED) {
        adopt_as_link(messenger, accepted, peer, link_index);
        backlog_enable_pacing(messenger, &peer->links[link_index]);
        blocked_sends_on_bulk_link_up(messenger, peer);
        send_welcome_to_peer(messenger, accepted);
    } else {
        shut_down_socket(accepted->fd);
    }
}

void accept_extend_deadlines(struct messenger *messenger, int64_t late_ns) {
    for (uint32_t i = 0; i < messenger->accept.count; i++) {
        struct accepted *accepted = &messenger->accept.entries[i];
        accepted->due_ns += accepted->due_ns == INT64_MAX ? 0 : late_ns;
    }
}

void accept_handle_deadlines(struct messenger *messenger, int64_t now_ns) {
    accept_policy_unblock_hosts(messenger->accept.policy, now_ns / NS_PER_MS);
    update_listener_filter(messenger);
    for (uint32_t i = 0; i < messenger->accept.count; i++) {
        struct accepted *accepted = &messenger->accept.entries[i];
        if (accepted->fd < 0 || accepted->is_draining || accepted->due_ns > now_ns) {
            continue;
        }
        if (!accepted->has_hello) {
            close_pending(messenger, accepted);
        } else if (accepted->link == ACCEPTED_STANDBY && accepted->peer != NULL) {
            adopt_as_control_link(messenger, accepted, accepted->peer);
        }
    }
}
