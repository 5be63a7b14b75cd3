#include "runtime/swarm/member/uplink_share.h"

#include "base/bytes.h"

#include <stdbool.h>

enum { PERCENT = 100, FULL_PERCENT = 60, USED_MAX_PERCENT = 200 };

static uint32_t clamp(uint32_t percent) {
    return (uint32_t)max_u64(UPLINK_SHARE_MIN_PERCENT, min_u64(percent, UPLINK_SHARE_MAX_PERCENT));
}

void uplink_share_begin(struct uplink_share *share) {
    share->percent = clamp(share->percent);
    share->used = PERCENT;
}

void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent) {
    ASSERT(rate > 0 && share->percent >= UPLINK_SHARE_MIN_PERCENT);
    uint32_t percent = share->percent;
    double used = (double)recent / (double)rate * PERCENT;
    uint32_t bounded = (uint32_t)(used < USED_MAX_PERCENT ? used : USED_MAX_PERCENT);
    share->used = (3 * share->used + bounded) / 4;
    bool is_full = share->used >= FULL_PERCENT;
    share->percent = clamp(is_full ? percent - percent / 5 : percent + percent / 4);
}

uint64_t uplink_share_of(const struct uplink_share *share, uint64_t rate,
                         struct uplink_backlog backlog) {
    ASSERT(backlog.own > 0 && backlog.own <= backlog.all && backlog.peers > 0);
    double part = (double)backlog.own / (double)backlog.all;
    double floor = 1.0 / (double)backlog.peers / UPLINK_SHARE_FLOOR_DIVISOR;
    double factor = (double)share->percent / PERCENT * (part < floor ? floor : part);
    return (uint64_t)((double)rate * factor) + 1;
}
