#include "runtime/swarm/member/line_share.h"

#include "base/check.h"

enum { PERCENT = 100, USED_PERCENT = 60, USED_MOST = 200 };

static uint32_t within(uint32_t percent) {
    if (percent < UPLINK_SHARE_MIN_PERCENT) {
        return UPLINK_SHARE_MIN_PERCENT;
    }
    return percent < UPLINK_SHARE_MAX_PERCENT ? percent : UPLINK_SHARE_MAX_PERCENT;
}

void uplink_share_begin(struct uplink_share *share) {
    share->percent = within(share->percent);
    share->used = PERCENT;
}

void uplink_share_update(struct uplink_share *share, uint64_t rate, uint64_t recent) {
    ASSERT(rate > 0);
    uint32_t percent = share->percent;
    double now = (double)recent / (double)rate * PERCENT;
    share->used = (3 * share->used + (uint32_t)(now < USED_MOST ? now : USED_MOST)) / 4;
    share->percent =
        within(share->used >= USED_PERCENT ? percent - percent / 5 : percent + percent / 4);
}

uint64_t uplink_share_of(const struct uplink_share *share, uint64_t rate,
                         struct uplink_backlog rest) {
    ASSERT(rest.own > 0 && rest.own <= rest.all && rest.peers > 0);
    double part = (double)rest.own / (double)rest.all;
    double least = 1.0 / (double)rest.peers / UPLINK_SHARE_FLOOR_DIVISOR;
    double factor = (double)share->percent / PERCENT * (part < least ? least : part);
    return (uint64_t)((double)rate * factor) + 1;
}
