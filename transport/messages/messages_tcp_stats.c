/* messages_tcp_stats: reads what the kernel counts for each connection, at every tick. It serves
 * three purposes. (1) ZeroMQ 4.3 keeps all parts of a multipart message until the last one has
 * arrived, whatever the high-water mark and MAXMSGSIZE are. A connection is therefore closed when
 * its received bytes exceed the bytes of the frames read from it by more than its queue may hold.
 * (2) The acknowledged bytes of all connections show the capacity of the uplink. (3) Bytes received
 * on bulk connections show that a peer is alive while a long frame is still incomplete. */
#include "transport/messages/messages_state.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    UNFRAMED_BYTES_MAX = 64 * 1024, /* bytes of greeting, handshake and hello: about 700 */
    FRAME_OVERHEAD_BYTES = 64, /* upper bound of the 42 bytes that ZMTP and CURVE add to a frame */
    EXTRA_FRAMES = 2,          /* frames besides the queue: one being received, one decoded */
};

bool tcp_stats_read(int fd, struct tcp_info *info) {
    socklen_t bytes = sizeof *info;
    *info = (struct tcp_info){.tcpi_bytes_received = 0};
    return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0 &&
           bytes >=
               offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info->tcpi_bytes_received;
}

/* Returns the number of bytes that ZeroMQ has read from the kernel; 0: unknown. */
static uint64_t bytes_read_by_zmq(int fd, const struct tcp_info *info) {
    int unread = 0;
    if (ioctl(fd, FIONREAD, &unread) != 0) {
        return 0;
    }
    const uint64_t waiting = unread > 0 ? (uint64_t)unread : 0;
    return info->tcpi_bytes_received > waiting ? info->tcpi_bytes_received - waiting : 0;
}

static bool buffers_too_much(const struct messenger *messenger, uint64_t zmq_bytes,
                             bool has_sent_hello, const struct received *received) {
    const uint64_t frames = messenger->options.queued_frames + EXTRA_FRAMES;
    const uint64_t queue_bytes =
        has_sent_hello ? frames * (FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES) : 0;
    return zmq_bytes > UNFRAMED_BYTES_MAX + queue_bytes + received->bytes +
                           received->frames * FRAME_OVERHEAD_BYTES;
}

/* Counts selectively acknowledged bytes too. If they were counted only after the gap before them
 * was closed, the uplink would seem idle for a time and then faster than it is. */
static void count_acked_bytes(struct messenger *messenger, const struct tcp_info *info,
                              uint64_t *counted) {
    const uint64_t after_gap = (uint64_t)info->tcpi_sacked * info->tcpi_snd_mss;
    const uint64_t confirmed = info->tcpi_bytes_acked + after_gap;
    if (confirmed > *counted) {
        messenger->counts.acked_bytes += confirmed - *counted;
        *counted = confirmed;
    }
}

static void record_received(struct peer *peer, struct link *link, const struct tcp_info *info,
                            int64_t now_ns) {
    if (info->tcpi_bytes_received > link->received_tcp_bytes) {
        link->received_tcp_bytes = info->tcpi_bytes_received;
        peer->last_received_ns = now_ns;
    }
}

static void check_dialed_links(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->poll.link_count; i++) {
        struct link *link = messenger->poll.links[i].link;
        struct peer *peer = messenger->poll.links[i].peer;
        struct tcp_info info;
        if (link->socket == NULL || !tcp_stats_read(link->fd, &info)) {
            continue;
        }
        count_acked_bytes(messenger, &info, &link->acked_bytes);
        if (link != peer->links) {
            record_received(peer, link, &info, now_ns);
        }
        if (buffers_too_much(messenger, bytes_read_by_zmq(link->fd, &info), true,
                             &link->received)) {
            peer_disconnect_and_ban(messenger, peer);
        }
    }
}

static void check_accepted_connection(struct messenger *messenger, struct accepted *accepted,
                                      int64_t now_ns) {
    struct peer *peer = accepted->peer;
    struct tcp_info info;
    if (accepted->is_draining || !tcp_stats_read(accepted->fd, &info)) {
        return;
    }
    count_acked_bytes(messenger, &info, &accepted->acked_bytes);
    if (peer != NULL && accepted->link != 0 && accepted->link != ACCEPTED_STANDBY) {
        record_received(peer, &peer->links[accepted->link], &info, now_ns);
    }
    if (!buffers_too_much(messenger, bytes_read_by_zmq(accepted->fd, &info), peer != NULL,
                          &accepted->received)) {
        return;
    }
    if (peer != NULL) {
        peer_disconnect_and_ban(messenger, peer);
    } else {
        accepted_disconnect(accepted);
    }
}

void tcp_stats_check(struct messenger *messenger, int64_t now_ns) {
    check_dialed_links(messenger, now_ns);
    for (uint32_t i = 0; i < messenger->accept.count; i++) {
        check_accepted_connection(messenger, &messenger->accept.entries[i], now_ns);
    }
    messenger->counts.acked_ns = now_ns;
}

int64_t messenger_last_received_ns(const struct messenger *messenger,
                                   const uint8_t curve[static KEY_BYTES]) {
    const struct peer *peer = peer_find(messenger, curve);
    return peer == NULL ? 0 : peer->last_received_ns;
}
