/* delegation_expiry: decides when to warn that a delegation expires, and prints the time until
 * then. */
#include "base/text.h"
#include "runtime/swarm/delegation/delegation.h"

bool delegation_poll_warning(const struct delegation *delegation, uint64_t now_s,
                             uint64_t *warn_s) {
    const uint64_t expires_s = delegation->expires_s;
    if (expires_s == 0 || now_s >= expires_s || expires_s - now_s > DELEGATION_WARN_S ||
        now_s < *warn_s) {
        return false;
    }
    const uint64_t last_s = expires_s - DELEGATION_WARN_LAST_S,
                   next_s = now_s + DELEGATION_WARN_EVERY_S;
    *warn_s = now_s < last_s && next_s > last_s ? last_s : next_s;
    return true;
}

const char *delegation_time_left(const struct delegation *delegation, uint64_t now_s,
                                 char text[static 24]) {
    enum { MINUTE_S = 60, HOUR_S = 60 * MINUTE_S, DAY_S = 24 * HOUR_S };
    const uint64_t left_s = delegation->expires_s > now_s ? delegation->expires_s - now_s : 0;
    struct text out = text_over(text, 24);
    if (left_s >= 2 * DAY_S) {
        text_add(&out, "%llu days", (unsigned long long)(left_s / DAY_S));
    } else if (left_s >= 2 * HOUR_S) {
        text_add(&out, "%llu hours", (unsigned long long)(left_s / HOUR_S));
    } else if (left_s >= 2 * MINUTE_S) {
        text_add(&out, "%llu minutes", (unsigned long long)(left_s / MINUTE_S));
    } else {
        text_add(&out, "%llu s", (unsigned long long)left_s);
    }
    return text;
}
