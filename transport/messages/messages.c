/* messages: opens and closes a messenger, and schedules its work. */
#include "transport/messages/messages_state.h"

#include <errno.h>
#include <string.h>

enum {
    /* frames that a connection has besides its queue: the one being sent, in plain text and
     * encrypted */
    EXTRA_SEND_FRAMES = 3,
    EXTRA_READ_FRAMES = 1,         /* frames besides the queue: one being received */
    FRAME_OVERHEAD_BYTES = 256,    /* headers of ZeroMQ, malloc and CURVE for each frame */
    CONNECTION_BYTES = 128 * 1024, /* memory of a connection in ZeroMQ, with its monitor */
    CONTEXT_BYTES = 1 << 20,       /* memory of ZeroMQ's context, reaper and poller */
    PENDING_BYTES = 96 * 1024,     /* memory of a connection before its hello */
    UNDETECTED_BYTES = 128 << 20   /* bytes that arrive in one tick at 10 Gbit/s, before a check */
};

uint32_t messenger_links_max(const struct messenger_options *options) {
    return options->peers_max * (1 + options->bulk_connections);
}

uint64_t messenger_memory_bytes(const struct messenger_options *options) {
    const uint64_t frame = FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES;
    const uint64_t frames =
        2 * (uint64_t)options->queued_frames + EXTRA_SEND_FRAMES + EXTRA_READ_FRAMES;
    /* number of received frames: the current one and the ring */
    const uint64_t read = 1 + (uint64_t)read_ahead_max(options);
    return CONTEXT_BYTES + messenger_links_max(options) * (frames * frame + CONNECTION_BYTES) +
           options->probes_max * CONNECTION_BYTES + read * frame +
           (uint64_t)ACCEPT_PENDING_MAX * PENDING_BYTES + UNDETECTED_BYTES;
}

static void check_options(const struct messenger_options *options) {
    ASSERT(options->peers_max >= 1 && options->peers_max <= MESSAGE_PEERS_MAX);
    ASSERT(options->bulk_connections <= MESSAGE_BULK_MAX);
    ASSERT(options->queued_frames >= 2 && options->queued_frames <= 64);
    for (uint32_t i = 0; i < MESSAGE_GUEST_CLASSES; i++) {
        ASSERT(options->guests.slots[i] <= options->peers_max);
    }
    ASSERT((options->accepted_kinds[MESSENGER_KIND / 64] >> MESSENGER_KIND % 64 & 1) == 0);
}

static struct messenger *allocate_messenger(const struct messenger_options *options,
                                            struct region *region) {
    struct messenger *messenger = region_alloc(region, 1, sizeof *messenger);
    messenger->options = *options;
    memcpy(messenger->accepted_kinds, options->accepted_kinds, sizeof messenger->accepted_kinds);
    messenger->accepted_kinds[MESSENGER_KIND / 64] |= UINT64_C(1) << MESSENGER_KIND % 64;
    messenger->next_tick_ns = clock_monotonic_ns();
    table_init(messenger, region);
    accept_init(messenger, region);
    read_init(messenger, region);
    poll_init(messenger, region);
    return messenger;
}

static enum status open_sockets(struct messenger *messenger, struct fault *fault) {
    /* Each link has three sockets: its own and both ends of its monitor. A closed link keeps
     * them for a while. */
    const uint32_t dialed =
        messenger_links_max(&messenger->options) + messenger->options.probes_max;
    const uint32_t sockets = 2 * 3 * dialed + 8;
    const int limit = zmq_ctx_get(messenger->zmq_context, ZMQ_SOCKET_LIMIT);
    (void)zmq_ctx_set(messenger->zmq_context, ZMQ_MAX_SOCKETS,
                      limit > 0 && sockets > (uint32_t)limit ? limit : (int)sockets);
    (void)zmq_ctx_set(messenger->zmq_context, ZMQ_IO_THREADS, 1);
    TRY(zap_open(messenger, fault));
    return messenger->options.listen == NULL ? OK : socket_open_listener(messenger, fault);
}

enum status messenger_open(const struct messenger_options *options, struct region *region,
                           struct messenger **messenger, struct fault *fault) {
    check_options(options);
    if (options->listen != NULL && !is_socket_address(options->listen, true)) {
        return fault_set(fault, STATUS_INPUT, options->listen, NULL,
                         "must have the form tcp://ADDRESS:PORT");
    }
    struct messenger *made = allocate_messenger(options, region);
    made->zmq_context = zmq_ctx_new();
    if (made->zmq_context == NULL) {
        return fault_set_errno(fault, STATUS_FAILED, "ZeroMQ", "cannot create a context",
                               zmq_errno());
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
    return messenger->listener.port;
}

struct messenger_counts messenger_counts(const struct messenger *messenger) {
    return messenger->counts;
}

void messenger_close(struct messenger *messenger, int linger_ms) {
    read_close_messages(messenger);
    struct link *links = messenger->peers[0].links;
    for (uint32_t i = 0; i < messenger_links_max(&messenger->options); i++) {
        if (links[i].state != LINK_ACCEPTED) {
            link_end(messenger, &links[i], link_is_up(&links[i]) ? linger_ms : 0);
        }
    }
    socket_close_listener(messenger, linger_ms);
    socket_close(messenger->zap_socket, NULL, 0);
    while (zmq_ctx_term(messenger->zmq_context) != 0 && zmq_errno() == EINTR) {
    }
}

void messenger_schedule_tick(struct messenger *messenger, int64_t due_ns) {
    if (due_ns < messenger->next_tick_ns) {
        messenger->next_tick_ns = due_ns;
    }
}

static void run_due_tick(struct messenger *messenger) {
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < messenger->next_tick_ns) {
        return;
    }
    const int64_t late_ns = now_ns - messenger->next_tick_ns;
    if (late_ns > MESSENGER_LATE_MS * NS_PER_MS) {
        dial_extend_deadlines(messenger, late_ns);
        accept_extend_deadlines(messenger, late_ns);
    }
    messenger->next_tick_ns = now_ns + MESSENGER_TICK_MS * NS_PER_MS;
    dial_handle_deadlines(messenger, now_ns);
    accept_handle_deadlines(messenger, now_ns);
    tcp_stats_check(messenger, now_ns);
}

static bool has_work(const struct messenger *messenger) {
    return messenger->has_events || messenger->blocked_sends.is_wakeup_due ||
           messenger->reader.count > 0 || poll_has_input(messenger);
}

static long ms_rounded_up(int64_t ns) {
    return ns <= 0 ? 0 : (long)((ns + NS_PER_MS - 1) / NS_PER_MS);
}

bool messenger_wait(struct messenger *messenger, int wake_fd, int timeout_ms) {
    read_release_frame(messenger);
    const int64_t start_ns = clock_monotonic_ns();
    const int64_t until_ns = timeout_ms < 0 ? INT64_MAX : start_ns + timeout_ms * NS_PER_MS;
    for (int64_t now_ns = start_ns;; now_ns = clock_monotonic_ns()) {
        run_due_tick(messenger);
        if (has_work(messenger)) {
            blocked_sends_clear_wakeup(messenger);
            return true;
        }
        int64_t wake_ns = until_ns < messenger->next_tick_ns ? until_ns : messenger->next_tick_ns;
        const int64_t retry_ns = now_ns + MESSENGER_SEND_RETRY_MS * NS_PER_MS;
        const bool is_blocked = blocked_sends_need_retry(messenger);
        wake_ns = is_blocked && retry_ns < wake_ns ? retry_ns : wake_ns;
        poll_sockets(messenger, wake_fd, ms_rounded_up(wake_ns - now_ns));
        if (is_blocked && wake_ns == retry_ns) {
            blocked_sends_allow_retry(messenger);
            return true;
        }
        if (poll_is_woken(messenger)) {
            return true;
        }
        if (now_ns >= until_ns && !has_work(messenger)) {
            return false;
        }
    }
}

bool messenger_next_event(struct messenger *messenger, struct messenger_event *event) {
    read_release_frame(messenger);
    bool has_polled = false;
    for (;;) {
        if (peer_next_event(messenger, event) || read_control(messenger, event)) {
            return true;
        }
        if (!has_polled) {
            run_due_tick(messenger);
            poll_sockets(messenger, -1, 0);
            has_polled = true;
        } else if (!messenger->has_events) {
            return read_bulk(messenger, event) || peer_next_event(messenger, event);
        }
    }
}
