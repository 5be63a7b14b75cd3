#include "runtime/swarm/member/uplink.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <stdbool.h>

enum {
    UPDATE_INTERVAL_MS = 20, /* time between two changes of the peers' rates */
    /* if the queued bytes take less than this time to send, the uplink need not be full */
    BUSY_BACKLOG_MS = 300,
    /* one of this many rounds is not paced, to detect that the uplink has become faster */
    UNPACED_INTERVAL_ROUNDS = 8,
};

void uplink_pacing_begin(struct uplink_pacing *pacing) {
    uplink_share_begin(&pacing->share);
    pacing->used_window_begin_ns = 0;
}

/* Returns the bytes queued for a peer, which are the slices that it requested. A peer that
 * receives slowly has more of them. */
static uint64_t peer_backlog_bytes(const struct uplink_traffic *traffic, uint32_t peer) {
    if (!peers_is_usable(traffic->peers, peer)) {
        return 0;
    }
    uint64_t waiting = outbox_waiting_count(traffic->contributions, peer);
    waiting += traffic->results != NULL ? outbox_waiting_count(traffic->results, peer) : 0;
    return waiting * traffic->slice_bytes +
           messenger_backlog_bytes(traffic->messenger, peers_curve_key(traffic->peers, peer));
}

/* Adjusts the shares to the use of the uplink, once for each new measurement. */
static void update_share(struct uplink_pacing *pacing, const struct uplink_measurements *measures,
                         const struct uplink_rate *uplink, uint64_t backlog_bytes) {
    if (pacing->used_window_begin_ns != measures->short_window.begin_ns &&
        uplink->short_window_rate < INT64_MAX) {
        pacing->used_window_begin_ns = measures->short_window.begin_ns;
        if (backlog_bytes > uplink->rate * BUSY_BACKLOG_MS / 1000) {
            uplink_share_update(&pacing->share, uplink->rate, uplink->short_window_rate);
        }
    }
}

static void set_peer_rates(struct uplink_pacing *pacing, const struct uplink_traffic *traffic,
                           const struct uplink_measurements *measures,
                           const struct uplink_rate *uplink) {
    uint64_t backlogs[SWARM_MEMBERS_MAX];
    struct uplink_backlog backlog = {.total_bytes = 0};
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        backlogs[peer] = peer_backlog_bytes(traffic, peer);
        backlog.total_bytes += backlogs[peer];
        backlog.peer_count += backlogs[peer] > 0;
    }
    update_share(pacing, measures, uplink, backlog.total_bytes);
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        backlog.peer_bytes = backlogs[peer];
        if (backlog.peer_bytes > 0) {
            messenger_set_rate_limit(traffic->messenger, peers_curve_key(traffic->peers, peer),
                                     uplink_share_rate(&pacing->share, uplink->rate, backlog));
        }
    }
}

/* Removes the rate limits of all peers, because leaves, which are sent between exchanges, are
 * not paced. */
static void remove_rate_limits(const struct uplink_traffic *traffic) {
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        if (peers_is_open(traffic->peers, peer)) {
            messenger_set_rate_limit(traffic->messenger, peers_curve_key(traffic->peers, peer),
                                     MESSENGER_UNPACED);
        }
    }
}

/* Whether a round is paced depends on its number, so that all members leave the same rounds
 * unpaced. */
void uplink_pacing_update(struct uplink_pacing *pacing, const struct uplink_traffic *traffic,
                          const struct uplink_measurements *measures, int64_t now_ns) {
    struct uplink_rate uplink = uplink_measurements_rate(measures);
    bool is_exchange = measures->round != 0;
    bool is_paced =
        is_exchange && measures->round % UNPACED_INTERVAL_ROUNDS != 0 && uplink.is_known;
    if (is_paced && now_ns - pacing->updated_ns >= UPDATE_INTERVAL_MS * NS_PER_MS) {
        pacing->updated_ns = now_ns;
        set_peer_rates(pacing, traffic, measures, &uplink);
    } else if (!is_paced && pacing->is_paced) {
        remove_rate_limits(traffic);
    }
    pacing->is_paced = is_paced;
}

enum {
    PERCENT = 100, /* the whole rate, in percent */
    /* at this use and above, the uplink counts as full and the shares shrink */
    FULL_USE_PERCENT = 60,
    USED_MAX_PERCENT = 200, /* upper bound of the use that is averaged */
};

static uint32_t clamp_percent(uint32_t percent) {
    return (uint32_t)max_u64(UPLINK_SHARE_MIN_PERCENT, min_u64(percent, UPLINK_SHARE_MAX_PERCENT));
}

void uplink_share_begin(struct uplink_share *share) {
    share->total_percent = clamp_percent(share->total_percent);
    share->used_percent = PERCENT;
}

void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent) {
    ASSERT(rate > 0 && share->total_percent >= UPLINK_SHARE_MIN_PERCENT);
    uint32_t percent = share->total_percent;
    double used = (double)recent / (double)rate * PERCENT;
    uint32_t bounded = (uint32_t)(used < USED_MAX_PERCENT ? used : USED_MAX_PERCENT);
    share->used_percent = (3 * share->used_percent + bounded) / 4;
    bool is_full = share->used_percent >= FULL_USE_PERCENT;
    share->total_percent = clamp_percent(is_full ? percent - percent / 5 : percent + percent / 4);
}

uint64_t uplink_share_rate(const struct uplink_share *share, uint64_t rate,
                           struct uplink_backlog backlog) {
    ASSERT(backlog.peer_bytes > 0 && backlog.peer_bytes <= backlog.total_bytes &&
           backlog.peer_count > 0);
    double part = (double)backlog.peer_bytes / (double)backlog.total_bytes;
    double floor = 1.0 / (double)backlog.peer_count / UPLINK_SHARE_FLOOR_DIVISOR;
    double factor = (double)share->total_percent / PERCENT * (part < floor ? floor : part);
    return (uint64_t)((double)rate * factor) + 1;
}
