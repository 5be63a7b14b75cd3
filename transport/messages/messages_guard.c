/* messages_guard: a message of many parts shows up only when its last part has come; until then
 * ZeroMQ 4.3 keeps all that arrives, past every high-water mark and MAXMSGSIZE. The kernel knows
 * how many bytes a connection brought; those that ZeroMQ took and that became no frame are what it
 * holds. A connection on which that is more than its queue may hold is cut. The kernel knows too
 * how much of what we sent has arrived, which tells how fast a line is. */
#include "transport/messages/messages_state.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    UNKNOWN_BYTES = 64 * 1024, /* greeting, handshake and hello take some 700 */
    FRAME_COST = 64,           /* what ZMTP and CURVE add to a frame: 42 bytes */
    FRAMES_BEYOND_QUEUE = 2,   /* one in the making, one decoded */
};

static bool ask_kernel(int fd, struct tcp_info *info) {
    socklen_t bytes = sizeof *info;
    *info = (struct tcp_info){.tcpi_bytes_received = 0};
    return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0 &&
           bytes >=
               offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info->tcpi_bytes_received;
}

/* Bytes that ZeroMQ took from the kernel; 0 when that is not known. */
static uint64_t taken_from(int fd, const struct tcp_info *info) {
    int unread = 0;
    if (ioctl(fd, FIONREAD, &unread) != 0) {
        return 0;
    }
    const uint64_t waiting = unread > 0 ? (uint64_t)unread : 0;
    return info->tcpi_bytes_received > waiting ? info->tcpi_bytes_received - waiting : 0;
}

static bool holds_too_much(const struct messenger *messenger, uint64_t taken_bytes, bool is_known,
                           uint64_t read_bytes, uint64_t read_frames) {
    const uint64_t frames = messenger->options.queued_frames + FRAMES_BEYOND_QUEUE;
    const uint64_t allowed = is_known ? frames * (FRAME_BYTES_MAX + FRAME_COST) : 0;
    return taken_bytes > UNKNOWN_BYTES + allowed + read_bytes + read_frames * FRAME_COST;
}

/* What the other end has beyond a gap is there too; counted when the gap is closed, a line would
 * seem to have stood still and then to have carried more than it can. */
static void count_confirmed(struct messenger *messenger, const struct tcp_info *info,
                            uint64_t *counted) {
    const uint64_t beyond = (uint64_t)info->tcpi_sacked * info->tcpi_snd_mss;
    const uint64_t confirmed = info->tcpi_bytes_acked + beyond;
    if (confirmed > *counted) {
        messenger->counts.confirmed_bytes += confirmed - *counted;
        *counted = confirmed;
    }
}

/* Of a bulk connection: who sends is there, however long a frame of it takes. */
static void note_arrived(struct peer *peer, struct link *link, const struct tcp_info *info,
                         int64_t now_ns) {
    if (info->tcpi_bytes_received > link->arrived_bytes) {
        link->arrived_bytes = info->tcpi_bytes_received;
        peer->arrived_ns = now_ns;
    }
}

static void check_dialed(struct messenger *messenger, int64_t now_ns) {
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        struct link *link = messenger->watched[i].link;
        struct peer *peer = messenger->watched[i].peer;
        struct tcp_info info;
        if (link->socket == NULL || !ask_kernel(link->fd, &info)) {
            continue;
        }
        count_confirmed(messenger, &info, &link->confirmed_bytes);
        if (link != peer->links) {
            note_arrived(peer, link, &info, now_ns);
        }
        if (holds_too_much(messenger, taken_from(link->fd, &info), true, link->read_bytes,
                           link->read_frames)) {
            peer_disconnect_and_ban(messenger, peer);
        }
    }
}

static void check_accepted(struct messenger *messenger, struct accepted *accepted, int64_t now_ns) {
    const bool is_known = accepted->peer != NULL;
    struct tcp_info info;
    if (accepted->ending || !ask_kernel(accepted->fd, &info)) {
        return;
    }
    count_confirmed(messenger, &info, &accepted->confirmed_bytes);
    if (is_known && accepted->link != 0 && accepted->link != ACCEPTED_SPARE) {
        note_arrived(accepted->peer, &accepted->peer->links[accepted->link], &info, now_ns);
    }
    if (!holds_too_much(messenger, taken_from(accepted->fd, &info), is_known, accepted->read_bytes,
                        accepted->read_frames)) {
        return;
    }
    if (is_known) {
        peer_disconnect_and_ban(messenger, accepted->peer);
    } else {
        accepted_disconnect(accepted);
    }
}

void guard_check(struct messenger *messenger, int64_t now_ns) {
    check_dialed(messenger, now_ns);
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        check_accepted(messenger, &messenger->accepted[i], now_ns);
    }
    messenger->counts.confirmed_ns = now_ns;
}

int64_t messenger_arrived_ns(const struct messenger *messenger,
                             const uint8_t curve[static KEY_BYTES]) {
    const struct peer *peer = peer_find(messenger, curve);
    return peer == NULL ? 0 : peer->arrived_ns;
}
