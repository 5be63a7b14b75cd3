/* test_uplink_share: shares against values calculated by hand, and on an uplink that TCP
 * divides. */
#include "runtime/swarm/member/uplink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RATE = 1000000, PEERS = 4 };

static uint64_t of(const struct uplink_share *share, uint64_t own, uint64_t all) {
    return uplink_share_rate(share, RATE, (struct uplink_backlog){own, all, PEERS});
}

static void shares_are_in_proportion_to_the_backlogs(void **state) {
    (void)state;
    struct uplink_share share = {0};
    uplink_share_begin(&share);
    assert_in_range(of(&share, 50, 100), 510000, 510001);
    assert_in_range(of(&share, 25, 100), 255000, 255001);
    assert_in_range(of(&share, 100, 100), 1020000, 1020001);
}

static void every_peer_has_at_least_a_part_of_an_equal_share(void **state) {
    (void)state;
    struct uplink_share share = {0};
    uplink_share_begin(&share);
    uint64_t least = RATE / 100 * 102 / PEERS / UPLINK_SHARE_FLOOR_DIVISOR;
    assert_in_range(of(&share, 1, UINT64_MAX), least, least + 1);
}

static void shares_grow_while_the_uplink_is_idle_and_shrink_when_it_is_used(void **state) {
    (void)state;
    static const uint32_t PERCENTS[] = {102, 102, 127, 158, 197, 158};
    static const uint64_t RECENTS[] = {RATE / 4, RATE / 4, RATE / 4, 0, RATE, 2 * RATE};
    struct uplink_share share = {0}; /* used: 81, 67, 56, 42, 56, 92 */
    uplink_share_begin(&share);
    for (int look = 0; look < 6; look++) {
        uplink_share_update(&share, RATE, RECENTS[look]);
        assert_int_equal(share.total_percent, PERCENTS[look]);
    }
    for (int look = 0; look < 100; look++) {
        uplink_share_update(&share, RATE, 0);
    }
    assert_int_equal(share.total_percent, UPLINK_SHARE_MAX_PERCENT);
    assert_in_range(of(&share, 50, 100), 8 * RATE, 8 * RATE + 1);
}

/* An uplink that divides its rate as TCP may: of the peers with a backlog, each gets twice as much
 * as the one before it, but at most its share. */
struct line {
    double left[PEERS]; /* bytes */
    double done_s[PEERS];
};

static void let_pass(struct line *line, double now_s, double step_s) {
    static const double WEIGHTS[PEERS] = {1, 2, 4, 8};
    struct uplink_share share = {.total_percent = UPLINK_SHARE_MIN_PERCENT};
    struct uplink_backlog rest = {0};
    double room = RATE, weights = 0;
    for (int peer = 0; peer < PEERS; peer++) {
        if (line->left[peer] >= 1) {
            rest.total_bytes += (uint64_t)line->left[peer];
            rest.peer_count += 1;
            weights += WEIGHTS[peer];
        }
    }
    for (int peer = PEERS - 1; peer >= 0; peer--) { /* the peer that gets most comes first */
        if (line->left[peer] < 1) {
            continue;
        }
        rest.peer_bytes = (uint64_t)line->left[peer];
        double wanted = (double)uplink_share_rate(&share, RATE, rest);
        double given = room * WEIGHTS[peer] / weights;
        given = given < wanted ? given : wanted;
        room -= given;
        weights -= WEIGHTS[peer];
        line->left[peer] -= given * step_s;
        line->done_s[peer] = now_s;
    }
}

static void all_peers_are_done_at_about_the_same_time(void **state) {
    (void)state;
    const double step_s = 0.02;
    struct line line = {.left = {2.5 * RATE, 2.5 * RATE, 2.5 * RATE, 2.5 * RATE}};
    for (double now_s = 0; now_s < 11; now_s += step_s) {
        let_pass(&line, now_s, step_s);
    }
    for (int peer = 0; peer < PEERS; peer++) { /* 4.7 s and 10 s without shares */
        assert_true(line.left[peer] < 1);
        assert_true(line.done_s[peer] > 9.5 && line.done_s[peer] < 10.2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_in_proportion_to_the_backlogs),
        cmocka_unit_test(every_peer_has_at_least_a_part_of_an_equal_share),
        cmocka_unit_test(shares_grow_while_the_uplink_is_idle_and_shrink_when_it_is_used),
        cmocka_unit_test(all_peers_are_done_at_about_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
