/* messages_ahead: how much of what a bulk connection was given has not gone out. ZeroMQ and the
 * kernel would take frames for seconds on a slow line, and whatever is more urgent by then would
 * lie behind them; so a connection is given its next frame when what is left goes out soon.
 *
 *     given ──► ZeroMQ ──► kernel ──► line
 *        |---- left ----------|
 *
 * What the kernel has sent it says itself; what ZeroMQ makes of a frame is known to the byte. */
#include "transport/messages/messages_state.h"

#include "base/clock.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum {
    AHEAD_MS = 50,           /* at the connection's rate: a late turn of ours and of ZeroMQ's */
    AHEAD_LEAST = 32 * 1024, /* bytes, while it is slow or its rate is not known */
    PACE_STEP = 32,          /* a rate that changes by less of it stays */
    AHEAD_LOST_MS = 1000,    /* nothing is in the kernel for so long: nothing is left */
    SHORT_MAX = 255,         /* ZMTP has one byte for a length of up to so many */
    SHORT_BYTES = 2,
    LONG_BYTES = 9,
    CURVE_BYTES = 33,
};

static int fd_of(const struct messenger *messenger, const struct link *link) {
    return link->state == LINK_ACCEPTED ? messenger->accepted[link->accepted].fd : link->fd;
}

static void pace(const struct messenger *messenger, struct link *link, uint64_t rate) {
    link->paced = rate;
    (void)setsockopt(fd_of(messenger, link), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

/* Two windows that meet on one line, each other's confirmations behind the other's data, make both
 * senders send in bursts with gaps between, in which the line stands idle: up to a quarter of the
 * time. A socket with a limit of its rate spreads what it sends, however high the limit is. */
void backlog_distribute(const struct messenger *messenger, struct link *link) {
    pace(messenger, link, MESSENGER_UNPACED);
}

/* False on a kernel that does not say what it has sent. */
static bool ask_kernel(const struct messenger *messenger, const struct link *link,
                       struct tcp_info *info) {
    const int fd = fd_of(messenger, link);
    socklen_t bytes = sizeof *info;
    *info = (struct tcp_info){.tcpi_bytes_sent = 0};
    return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0 &&
           info->tcpi_bytes_sent > 0;
}

static uint64_t left_in(struct link *link, const struct tcp_info *info) {
    const uint64_t gone = info->tcpi_bytes_sent - info->tcpi_bytes_retrans;
    const bool is_idle = info->tcpi_notsent_bytes == 0 && info->tcpi_unacked == 0;
    const int64_t waited_ns = clock_monotonic_ns() - link->given_ns;
    if (link->given_ns == 0 || gone >= link->given_from + link->given_bytes ||
        (is_idle && waited_ns > AHEAD_LOST_MS * MESSENGER_MS)) {
        link->given_bytes = 0;
        link->given_from = gone;
    }
    return link->given_from + link->given_bytes - gone;
}

bool backlog_is_full(const struct messenger *messenger, struct link *link) {
    struct tcp_info info;
    if (!ask_kernel(messenger, link, &info)) {
        return false;
    }
    const uint64_t soon = info.tcpi_delivery_rate * AHEAD_MS / 1000;
    return left_in(link, &info) > (soon > AHEAD_LEAST ? soon : AHEAD_LEAST);
}

void backlog_note_sent(struct link *link, const struct frame *frame) {
    const uint64_t bytes = FRAME_HEADER_BYTES + (uint64_t)frame->length + CURVE_BYTES;
    link->given_bytes += bytes + (bytes > SHORT_MAX ? LONG_BYTES : SHORT_BYTES);
    link->given_ns = clock_monotonic_ns();
}

static uint64_t left_on(const struct messenger *messenger, struct link *link) {
    struct tcp_info info;
    return link_is_up(link) && link->given_bytes > 0 && ask_kernel(messenger, link, &info)
               ? left_in(link, &info)
               : 0;
}

uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    const struct peer *peer = peer_find(messenger, curve);
    uint64_t bytes = 0;
    for (uint32_t i = 1; peer != NULL && peer->open && i <= peer->bulk_count; i++) {
        bytes += left_on(messenger, &peer->links[i]);
    }
    return bytes;
}

static bool is_like(uint64_t a, uint64_t b) {
    return (a > b ? a - b : b - a) <= b / PACE_STEP;
}

void messenger_set_rate(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                        uint64_t rate) {
    ASSERT(rate > 0);
    const struct peer *peer = peer_find(messenger, curve);
    const uint32_t count = peer != NULL && peer->open ? peer->bulk_count : 0;
    uint32_t busy = 0;
    for (uint32_t i = 1; i <= count && rate != MESSENGER_UNPACED; i++) {
        busy += left_on(messenger, &peer->links[i]) > 0;
    }
    const uint64_t each = busy > 1 ? rate / busy + 1 : rate;
    for (uint32_t i = 1; i <= count; i++) {
        struct link *link = &peer->links[i];
        if (link_is_up(link) && !is_like(link->paced, each)) {
            pace(messenger, link, each);
        }
    }
}
