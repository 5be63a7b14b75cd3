/* messages_backlog: counts the bytes queued on a bulk link that the kernel has not sent yet. On a
 * slow uplink, ZeroMQ and the kernel would buffer frames for seconds, and a more urgent frame would
 * have to wait for all of them. A link therefore accepts its next frame only when its unsent bytes
 * will be sent soon.
 *
 *     queued ──► ZeroMQ ──► kernel ──► network
 *         |---- backlog ------|
 *
 * The kernel counts the bytes that it has sent, and the size of a frame on the wire is known. */
#include "transport/messages/messages_state.h"

#include <sys/socket.h>

enum {
    BACKLOG_MS = 50, /* limit of unsent bytes: what is sent in this time; covers thread delays */
    /* lower bound of the limit of unsent bytes, also used for unknown rates */
    BACKLOG_MIN_BYTES = 32 * 1024,
    BACKLOG_IDLE_MS = 1000,      /* idle time after which the backlog counts as 0 */
    RATE_CHANGE_FRACTION = 32,   /* a rate that differs by less than 1/32 is ignored */
    ZMTP_SHORT_LENGTH_MAX = 255, /* longest message whose length takes one byte */
    ZMTP_SHORT_HEADER_BYTES = 2, /* ZMTP header of a short message */
    ZMTP_LONG_HEADER_BYTES = 9,  /* ZMTP header of a long message */
    CURVE_OVERHEAD_BYTES = 33,   /* bytes that CURVE adds to a message */
};

static int link_fd(const struct messenger *messenger, const struct link *link) {
    return link->state == LINK_ACCEPTED ? messenger->accept.entries[link->accepted_index].fd
                                        : link->fd;
}

static void set_pacing_rate(const struct messenger *messenger, struct link *link, uint64_t rate) {
    link->backlog.rate_limit = rate;
    (void)setsockopt(link_fd(messenger, link), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

/* When two connections send in opposite directions over one link, the acknowledgements of each wait
 * for the data of the other. Both then send in bursts, and the network is idle for up to a quarter
 * of the time. Setting any pacing rate, however high, makes the kernel spread the packets. */
void backlog_enable_pacing(const struct messenger *messenger, struct link *link) {
    set_pacing_rate(messenger, link, MESSENGER_UNPACED);
}

/* Reads the TCP counters of a link. Returns false on failure, or if the kernel does not count
 * sent bytes. */
static bool read_sent_counters(const struct messenger *messenger, const struct link *link,
                               struct tcp_info *info) {
    return tcp_stats_read(link_fd(messenger, link), info) && info->tcpi_bytes_sent > 0;
}

static uint64_t update_backlog(struct backlog *backlog, const struct tcp_info *info) {
    const uint64_t sent = info->tcpi_bytes_sent - info->tcpi_bytes_retrans;
    const bool is_idle = info->tcpi_notsent_bytes == 0 && info->tcpi_unacked == 0;
    const int64_t waited_ns = clock_monotonic_ns() - backlog->queued_ns;
    if (backlog->queued_ns == 0 || sent >= backlog->sent_at_start + backlog->queued_bytes ||
        (is_idle && waited_ns > BACKLOG_IDLE_MS * NS_PER_MS)) {
        backlog->queued_bytes = 0;
        backlog->sent_at_start = sent;
    }
    return backlog->sent_at_start + backlog->queued_bytes - sent;
}

bool backlog_is_full(const struct messenger *messenger, struct link *link) {
    struct tcp_info info;
    if (!read_sent_counters(messenger, link, &info)) {
        return false;
    }
    const uint64_t limit = info.tcpi_delivery_rate * BACKLOG_MS / 1000;
    return update_backlog(&link->backlog, &info) >
           (limit > BACKLOG_MIN_BYTES ? limit : BACKLOG_MIN_BYTES);
}

void backlog_add_frame(struct link *link, const struct frame *frame) {
    const uint64_t bytes = FRAME_HEADER_BYTES + (uint64_t)frame->length + CURVE_OVERHEAD_BYTES;
    link->backlog.queued_bytes +=
        bytes + (bytes > ZMTP_SHORT_LENGTH_MAX ? ZMTP_LONG_HEADER_BYTES : ZMTP_SHORT_HEADER_BYTES);
    link->backlog.queued_ns = clock_monotonic_ns();
}

static uint64_t read_backlog(const struct messenger *messenger, struct link *link) {
    struct tcp_info info;
    return link_is_up(link) && link->backlog.queued_bytes > 0 &&
                   read_sent_counters(messenger, link, &info)
               ? update_backlog(&link->backlog, &info)
               : 0;
}

uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    const struct peer *peer = peer_find(messenger, curve);
    uint64_t bytes = 0;
    for (uint32_t i = 1; peer != NULL && peer_is_open(peer) && i <= peer->bulk_count; i++) {
        bytes += read_backlog(messenger, &peer->links[i]);
    }
    return bytes;
}

static bool are_rates_similar(uint64_t a, uint64_t b) {
    return (a > b ? a - b : b - a) <= b / RATE_CHANGE_FRACTION;
}

void messenger_set_rate_limit(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                              uint64_t rate) {
    ASSERT(rate > 0);
    const struct peer *peer = peer_find(messenger, curve);
    const uint32_t count = peer != NULL && peer_is_open(peer) ? peer->bulk_count : 0;
    uint32_t busy = 0;
    for (uint32_t i = 1; i <= count && rate != MESSENGER_UNPACED; i++) {
        busy += read_backlog(messenger, &peer->links[i]) > 0;
    }
    const uint64_t share = busy > 1 ? rate / busy + 1 : rate;
    for (uint32_t i = 1; i <= count; i++) {
        struct link *link = &peer->links[i];
        if (link_is_up(link) && !are_rates_similar(link->backlog.rate_limit, share)) {
            set_pacing_rate(messenger, link, share);
        }
    }
}
