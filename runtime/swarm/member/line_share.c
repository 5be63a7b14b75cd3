#include "runtime/swarm/member/line_share.h"

#include "base/check.h"

enum { PERCENT = 100, USED_PERCENT = 60, USED_MOST = 200 };

static uint32_t within(uint32_t percent) {
    if (percent < LINE_SHARE_LEAST) {
        return LINE_SHARE_LEAST;
    }
    return percent < LINE_SHARE_MOST ? percent : LINE_SHARE_MOST;
}

void line_share_begin(struct line_share *share) {
    share->percent = within(share->percent);
    share->used = PERCENT;
}

void line_share_look(struct line_share *share, uint64_t rate, uint64_t recent) {
    ASSERT(rate > 0);
    uint32_t percent = share->percent;
    double now = (double)recent / (double)rate * PERCENT;
    share->used = (3 * share->used + (uint32_t)(now < USED_MOST ? now : USED_MOST)) / 4;
    share->percent =
        within(share->used >= USED_PERCENT ? percent - percent / 5 : percent + percent / 4);
}

uint64_t line_share_of(const struct line_share *share, uint64_t rate, struct line_rest rest) {
    ASSERT(rest.own > 0 && rest.own <= rest.all && rest.peers > 0);
    double part = (double)rest.own / (double)rest.all;
    double least = 1.0 / (double)rest.peers / LINE_SHARE_FLOOR;
    double factor = (double)share->percent / PERCENT * (part < least ? least : part);
    return (uint64_t)((double)rate * factor) + 1;
}
