/* messages_guard: a message of many parts shows up only when its last part has come; until then
 * ZeroMQ 4.3 keeps all that arrives, past every high-water mark and MAXMSGSIZE. The kernel knows
 * how many bytes a connection brought; those that ZeroMQ took and that became no frame are what it
 * holds. A connection on which that is more than its queue may hold is cut. */
#include "transport/messages_state.h"

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

/* Bytes that ZeroMQ took from the kernel; 0 when that is not known. */
static uint64_t taken_from(int fd) {
    struct tcp_info info = {.tcpi_bytes_received = 0};
    socklen_t bytes = sizeof info;
    int unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
        ioctl(fd, FIONREAD, &unread) != 0) {
        return 0;
    }
    const uint64_t waiting = unread > 0 ? (uint64_t)unread : 0;
    return info.tcpi_bytes_received > waiting ? info.tcpi_bytes_received - waiting : 0;
}

static bool holds_too_much(const struct messenger *messenger, int fd, bool is_known,
                           uint64_t read_bytes, uint64_t read_frames) {
    const uint64_t frames = messenger->options.queued_frames + FRAMES_BEYOND_QUEUE;
    const uint64_t allowed = is_known ? frames * (FRAME_BYTES_MAX + FRAME_COST) : 0;
    return fd >= 0 &&
           taken_from(fd) > UNKNOWN_BYTES + allowed + read_bytes + read_frames * FRAME_COST;
}

static void check_dialed(struct messenger *messenger) {
    for (uint32_t i = 0; i < messenger->watched_count; i++) {
        struct peer *peer = messenger->watched[i].peer;
        const struct link *link = messenger->watched[i].link;
        if (link->socket != NULL &&
            holds_too_much(messenger, link->fd, true, link->read_bytes, link->read_frames)) {
            peer_cut_off(messenger, peer);
        }
    }
}

void guard_check(struct messenger *messenger) {
    check_dialed(messenger);
    for (uint32_t i = 0; i < messenger->accepted_max; i++) {
        struct accepted *accepted = &messenger->accepted[i];
        const bool is_known = accepted->peer != NULL;
        if (accepted->fd < 0 || accepted->ending ||
            !holds_too_much(messenger, accepted->fd, is_known, accepted->read_bytes,
                            accepted->read_frames)) {
            continue;
        }
        if (is_known) {
            peer_cut_off(messenger, accepted->peer);
        } else {
            accept_cut(accepted);
        }
    }
}
