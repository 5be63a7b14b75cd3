/* test_uplink_pacing: measuring and pacing a simulated uplink: the rate that is measured in one
 * exchange is the rate that the next one is paced by. */
#include "base/clock.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEP_MS = 20,
    TICK_MS = 100, /* between two readings of the acknowledged bytes */
    UPLINK = 3 << 20,
    CONTROL = 3 << 10, /* bytes a second besides slices */
    PEERS = 4,
    LONGEST_S = 600,
};

static struct {
    struct peers peers;
    struct outbox contributions, results;
    struct uplink_measurements measures;
    struct uplink_pacing pacing;
    struct messenger_counts counts;
    double uplink;         /* bytes a second */
    double accepts[PEERS]; /* bytes a second that each peer accepts at most */
    double left[PEERS];
    double paced[PEERS];
    int64_t now_ns;
    uint32_t round;
} scene;

int64_t clock_monotonic_ns(void) {
    return scene.now_ns;
}

double clock_unix_s(void) { /* the log begins lines with it */
    return 0;
}

/* The messenger. The first byte of a CURVE key is the peer's index. */

uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    (void)messenger;
    return (uint64_t)scene.left[curve[0]];
}

void messenger_set_rate_limit(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                              uint64_t rate) {
    (void)messenger;
    assert_true(rate > 0);
    scene.paced[curve[0]] = (double)rate;
}

/* Pings are the test's own, too. */
size_t wire_write_ping(uint64_t number, uint8_t payload[static WIRE_SMALL_BYTES_MAX]) {
    memcpy(payload, &number, sizeof number);
    return sizeof number;
}

const char *wire_read_ping(const uint8_t *payload, size_t count, uint64_t *number) {
    memcpy(number, payload, sizeof *number);
    return count == sizeof *number ? NULL : "has another length";
}

enum send_result messenger_send(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                                enum channel channel, const struct frame *frame,
                                const void *payload) {
    (void)messenger, (void)curve, (void)channel, (void)frame, (void)payload;
    return SEND_NO_PEER;
}

static int start(void **state) {
    (void)state;
    static struct outbox_queue queues[SWARM_MEMBERS_MAX];
    memset(&scene, 0, sizeof scene);
    outbox_init(&scene.contributions, queues, SWARM_MEMBERS_MAX, 0);
    outbox_init(&scene.results, queues, SWARM_MEMBERS_MAX, 0);
    scene.uplink = UPLINK;
    scene.now_ns = 1000 * NS_PER_MS;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        scene.peers.links[peer].is_open = true;
        scene.peers.links[peer].entry.keys.curve[0] = (uint8_t)peer;
        scene.accepts[peer] = UPLINK;
        scene.paced[peer] = (double)MESSENGER_UNPACED;
    }
    return 0;
}

static double min_f64(double a, double b) {
    return a < b ? a : b;
}

/* Bytes that would be sent to a peer now if the uplink had room for all. */
static double offered_to(int peer, double step_s) {
    return min_f64(scene.left[peer], min_f64(scene.accepts[peer], scene.paced[peer]) * step_s);
}

/* All peers get the same part of those. */
static void transfer(double step_s) {
    double offered = 0;
    for (int peer = 0; peer < PEERS; peer++) {
        offered += offered_to(peer, step_s);
    }
    const double room = scene.uplink * step_s;
    const double part = offered > room ? room / offered : 1;
    for (int peer = 0; peer < PEERS; peer++) {
        const double bytes = part * offered_to(peer, step_s);
        scene.left[peer] -= bytes;
        scene.counts.acked_bytes += (uint64_t)bytes;
    }
    scene.counts.acked_bytes += (uint64_t)(CONTROL * step_s);
}

static double left_in_all(void) {
    double left = 0;
    for (int peer = 0; peer < PEERS; peer++) {
        left += scene.left[peer];
    }
    return left;
}

static void update(void) {
    const struct uplink_traffic traffic = {
        .peers = &scene.peers, .contributions = &scene.contributions, .results = &scene.results};
    uplink_pacing_update(&scene.pacing, &traffic, &scene.measures, scene.now_ns);
}

static void table(uint32_t round) {
    if (uplink_measurements_on_table(&scene.measures, round)) {
        uplink_pacing_begin(&scene.pacing);
    }
}

static void step(void) {
    const int64_t step_ns = STEP_MS * NS_PER_MS;
    scene.now_ns += step_ns;
    transfer(STEP_MS / 1000.0);
    if (scene.now_ns - scene.counts.acked_ns >= TICK_MS * NS_PER_MS) {
        scene.counts.acked_ns = scene.now_ns;
    }
    uplink_measurements_read_counters(&scene.measures, &scene.counts);
    update();
}

/* Seconds until everything is sent; the commit follows `wait_s` later. */
static double exchange(double bytes_each, double wait_s) {
    table(++scene.round);
    for (int peer = 0; peer < PEERS; peer++) {
        scene.left[peer] = bytes_each;
    }
    const int64_t start_ns = scene.now_ns;
    while (left_in_all() >= 1 && scene.now_ns - start_ns < LONGEST_S * 1000 * NS_PER_MS) {
        step();
    }
    uplink_measurements_on_result(&scene.measures);
    const double took_s = (double)(scene.now_ns - start_ns) / 1e9;
    const int64_t end_ns = scene.now_ns + (int64_t)(wait_s * 1e9);
    while (scene.now_ns < end_ns) {
        step();
    }
    uplink_measurements_on_commit(&scene.measures, scene.round, scene.pacing.is_paced);
    update();
    return took_s;
}

/* Everything is sent in a tenth of a second, and the commit follows seconds later. */
static void a_small_exchange_is_not_paced(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(0.1 * UPLINK / PEERS, 3);
        assert_true(took_s < 0.2);
    }
}

/* Other members are slower, or the vote takes long: the bytes sent then do not measure the
 * uplink. */
static void an_uplink_that_waits_for_others_stays_fast(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(3.0 * UPLINK / PEERS, 12);
        assert_true(took_s < 4);
    }
}

static void a_slow_peer_does_not_slow_the_others(void **state) {
    (void)state;
    scene.accepts[0] = UPLINK / 64.0;
    for (int round = 0; round < 4; round++) {
        double took_s = exchange(UPLINK, 0.1);
        assert_true(took_s < 80);
    }
}

/* Another program used most of the uplink, for more exchanges than are remembered. */
static void an_uplink_that_became_faster_is_used(void **state) {
    (void)state;
    scene.uplink = UPLINK / 4.0;
    for (int round = 0; round < 2 * UPLINK_RECENT_VALUES; round++) {
        (void)exchange(5.0 * UPLINK / 4 / PEERS, 0.1);
    }
    scene.uplink = UPLINK;
    double took_s = 0;
    for (int round = 0; round < UPLINK_RECENT_VALUES; round++) {
        took_s = exchange(5.0 * UPLINK / PEERS, 0.1);
    }
    assert_true(took_s < 7);
}

/* Leaves, which are sent after it, may use the whole uplink. */
static void an_exchange_without_a_commit_leaves_no_peer_paced(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        (void)exchange(5.0 * UPLINK / PEERS, 0.1);
    }
    table(++scene.round);
    for (int peer = 0; peer < PEERS; peer++) {
        scene.left[peer] = UPLINK;
    }
    step();
    assert_true(scene.paced[0] < UPLINK);
    uplink_measurements_on_round_open(&scene.measures,
                                      scene.round); /* the OPEN of the same round, repeated */
    step();
    assert_true(scene.paced[0] < UPLINK);
    uplink_measurements_on_round_open(&scene.measures, scene.round + 1);
    step();
    for (int peer = 0; peer < PEERS; peer++) {
        assert_true(scene.paced[peer] == (double)MESSENGER_UNPACED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_small_exchange_is_not_paced, start),
        cmocka_unit_test_setup(an_uplink_that_waits_for_others_stays_fast, start),
        cmocka_unit_test_setup(a_slow_peer_does_not_slow_the_others, start),
        cmocka_unit_test_setup(an_uplink_that_became_faster_is_used, start),
        cmocka_unit_test_setup(an_exchange_without_a_commit_leaves_no_peer_paced, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
