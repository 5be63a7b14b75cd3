/* test_line_pace: measuring and sharing out the own line, against a line that is made up: exchange
 * after exchange, what one is measured to carry is what the next one is paced by. */
#include "base/clock.h"
#include "runtime/swarm/member/member_loop_state.h"
#include "runtime/swarm/replica/replica_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEP_MS = 20,
    TICK_MS = 100, /* between two looks of the messenger at what was confirmed */
    LINE = 3 << 20,
    CONTROL = 3 << 10, /* bytes a second that are no slices */
    PEERS = 4,
    LONGEST_S = 600,
};

static const int64_t MS = 1000000;

static struct {
    struct member_loop loop;
    struct replica replica;
    struct entry commit;
    struct messenger_counts counts;
    double line;         /* bytes a second */
    double takes[PEERS]; /* at most, of each peer */
    double left[PEERS];
    double paced[PEERS];
    int64_t now_ns;
    uint32_t round;
} scene;

int64_t clock_monotonic_ns(void) {
    return scene.now_ns;
}

/* What the loop asks of the messenger; curves are peers' numbers. */

struct messenger_counts messenger_counts(const struct messenger *messenger) {
    (void)messenger;
    return scene.counts;
}

uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    (void)messenger;
    return (uint64_t)scene.left[curve[0]];
}

void messenger_set_rate(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                        uint64_t rate) {
    (void)messenger;
    assert_true(rate > 0);
    scene.paced[curve[0]] = (double)rate;
}

enum send_result uplink_send(struct member_loop *loop, const uint8_t curve[static KEY_BYTES],
                             enum channel channel, const struct frame *frame, const void *payload) {
    (void)loop, (void)curve, (void)channel, (void)frame, (void)payload;
    return SEND_NO_PEER;
}

static int start(void **state) {
    (void)state;
    static struct outbox_queue lines[SWARM_MEMBERS_MAX];
    memset(&scene, 0, sizeof scene);
    scene.loop.options.replica = &scene.replica;
    outbox_bind(&scene.loop.contributions, lines, SWARM_MEMBERS_MAX, 0);
    outbox_bind(&scene.loop.results, lines, SWARM_MEMBERS_MAX, 0);
    scene.line = LINE;
    scene.now_ns = 1000 * MS;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        scene.loop.peers[peer].is_open = true;
        scene.loop.peers[peer].as.keys.curve[0] = (uint8_t)peer;
        scene.takes[peer] = LINE;
        scene.paced[peer] = (double)MESSENGER_UNPACED;
    }
    return 0;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

/* What a peer would send now if the line had room for all. */
static double wanted_by(int peer, double step_s) {
    return least(scene.left[peer], least(scene.takes[peer], scene.paced[peer]) * step_s);
}

/* All have the same part of what they would send. */
static void let_pass(double step_s) {
    double wanted = 0;
    for (int peer = 0; peer < PEERS; peer++) {
        wanted += wanted_by(peer, step_s);
    }
    const double room = scene.line * step_s;
    const double part = wanted > room ? room / wanted : 1;
    for (int peer = 0; peer < PEERS; peer++) {
        const double bytes = part * wanted_by(peer, step_s);
        scene.left[peer] -= bytes;
        scene.counts.confirmed_bytes += (uint64_t)bytes;
    }
    scene.counts.confirmed_bytes += (uint64_t)(CONTROL * step_s);
}

static double left_of_all(void) {
    double left = 0;
    for (int peer = 0; peer < PEERS; peer++) {
        left += scene.left[peer];
    }
    return left;
}

static void step(void) {
    const int64_t step_ns = STEP_MS * MS;
    scene.now_ns += step_ns;
    let_pass(STEP_MS / 1000.0);
    if (scene.now_ns - scene.counts.confirmed_ns >= TICK_MS * MS) {
        scene.counts.confirmed_ns = scene.now_ns;
    }
    uplink_sample(&scene.loop);
    uplink_set_rates(&scene.loop, scene.now_ns);
}

/* Seconds until all of it was sent; the commit comes `wait_s` later. */
static double exchange(double bytes_each, double wait_s) {
    uplink_on_table(&scene.loop, ++scene.round);
    for (int peer = 0; peer < PEERS; peer++) {
        scene.left[peer] = bytes_each;
    }
    const int64_t start_ns = scene.now_ns;
    while (left_of_all() >= 1 && scene.now_ns - start_ns < LONGEST_S * 1000 * MS) {
        step();
    }
    uplink_on_progress(&scene.loop);
    const double took_s = (double)(scene.now_ns - start_ns) / 1e9;
    const int64_t end_ns = scene.now_ns + (int64_t)(wait_s * 1e9);
    while (scene.now_ns < end_ns) {
        step();
    }
    scene.commit.round = scene.round;
    uplink_on_commit(&scene.loop, &scene.commit);
    uplink_set_rates(&scene.loop, scene.now_ns);
    return took_s;
}

/* All of it goes out in a tenth of a second, and the commit comes seconds later. */
static void little_goes_as_fast_as_it_can(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(0.1 * LINE / PEERS, 3);
        assert_true(took_s < 0.2);
    }
}

/* Others are slower, or the vote takes long: what goes out then is no measure of the line. */
static void a_line_that_waits_for_others_stays_fast(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(3.0 * LINE / PEERS, 12);
        assert_true(took_s < 4);
    }
}

static void a_peer_that_takes_slowly_slows_nobody_else(void **state) {
    (void)state;
    scene.takes[0] = LINE / 64.0;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(LINE, 0.1);
        assert_true(took_s < 80);
    }
}

/* Somebody else's download took most of it, for as long as all that is remembered. */
static void a_line_that_became_faster_is_used(void **state) {
    (void)state;
    scene.line = LINE / 4.0;
    for (int round = 0; round < 2 * LOOP_RECENT; round++) {
        (void)exchange(5.0 * LINE / 4 / PEERS, 0.1);
    }
    scene.line = LINE;
    double took_s = 0;
    for (int round = 0; round < LOOP_RECENT; round++) {
        took_s = exchange(5.0 * LINE / PEERS, 0.1);
    }
    assert_true(took_s < 7);
}

/* What goes out after it is leaves, which have the whole line. */
static void an_exchange_without_a_commit_leaves_nobody_paced(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        (void)exchange(5.0 * LINE / PEERS, 0.1);
    }
    uplink_on_table(&scene.loop, ++scene.round);
    for (int peer = 0; peer < PEERS; peer++) {
        scene.left[peer] = LINE;
    }
    step();
    assert_true(scene.paced[0] < LINE);
    uplink_on_open(&scene.loop, scene.round); /* the open round, told again */
    step();
    assert_true(scene.paced[0] < LINE);
    uplink_on_open(&scene.loop, scene.round + 1);
    step();
    for (int peer = 0; peer < PEERS; peer++) {
        assert_true(scene.paced[peer] == (double)MESSENGER_UNPACED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(little_goes_as_fast_as_it_can, start),
        cmocka_unit_test_setup(a_line_that_waits_for_others_stays_fast, start),
        cmocka_unit_test_setup(a_peer_that_takes_slowly_slows_nobody_else, start),
        cmocka_unit_test_setup(a_line_that_became_faster_is_used, start),
        cmocka_unit_test_setup(an_exchange_without_a_commit_leaves_nobody_paced, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
