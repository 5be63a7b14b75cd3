/* test_outbox: the order of items, no duplicates, and the rate limit. */
#include "runtime/swarm/member/uplink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PEERS = 3, SENT_MAX = 512, FRAME = 100000 };

static const int64_t MS = 1000000;

/* A wire that records the items sent, with room for a number of frames to each peer. */
struct wire {
    int room[PEERS];
    uint64_t frame_bytes;
    uint32_t peers[SENT_MAX], slices[SENT_MAX];
    int sent;
};

static enum send_result send(void *context, uint32_t peer, const struct outbox_item *item,
                             uint64_t *bytes) {
    struct wire *wire = context;
    if (wire->room[peer] == 0) {
        return SEND_WOULD_BLOCK;
    }
    wire->room[peer]--;
    *bytes = wire->frame_bytes;
    assert_in_range(wire->sent, 0, SENT_MAX - 1);
    wire->peers[wire->sent] = peer;
    wire->slices[wire->sent++] = item->slice;
    return SEND_OK;
}

static struct outbox_callbacks way_of(struct wire *wire) {
    return (struct outbox_callbacks){wire, send};
}

static struct outbox make(uint64_t rate) {
    struct outbox outbox;
    outbox_init(&outbox, malloc(outbox_memory_bytes(PEERS)), PEERS, rate);
    return outbox;
}

static bool put(struct outbox *outbox, uint32_t peer, uint32_t slice) {
    return outbox_push(outbox, peer, &(struct outbox_item){.kind = 1, .slice = slice});
}

static void outbox_sends_one_item_for_each_peer_in_rotation(void **state) {
    (void)state;
    struct outbox outbox = make(0);
    struct wire wire = {.room = {9, 9, 9}, .frame_bytes = FRAME};
    for (uint32_t slice = 0; slice < 3; slice++) {
        assert_true(put(&outbox, 0, slice));
        assert_true(put(&outbox, 2, 10 + slice));
    }
    assert_int_equal(outbox_flush(&outbox, MS, way_of(&wire)), OUTBOX_DONE);
    const uint32_t peers[] = {0, 2, 0, 2, 0, 2};
    const uint32_t slices[] = {0, 10, 1, 11, 2, 12};
    assert_int_equal(wire.sent, 6);
    assert_memory_equal(wire.peers, peers, sizeof peers);
    assert_memory_equal(wire.slices, slices, sizeof slices);
    free(outbox.queues);
}

static void outbox_queues_an_item_once_until_it_is_sent(void **state) {
    (void)state;
    struct outbox outbox = make(0);
    struct wire wire = {.room = {9, 9, 9}};
    assert_true(put(&outbox, 1, 7));
    assert_true(put(&outbox, 1, 7));
    assert_int_equal(outbox.waiting, 1);
    assert_int_equal(outbox_flush(&outbox, MS, way_of(&wire)), OUTBOX_DONE);
    assert_true(put(&outbox, 1, 7));
    assert_int_equal(outbox_flush(&outbox, MS, way_of(&wire)), OUTBOX_DONE);
    assert_int_equal(wire.sent, 2);
    free(outbox.queues);
}

static void outbox_skips_a_peer_without_room(void **state) {
    (void)state;
    struct outbox outbox = make(0);
    struct wire wire = {.room = {0, 9, 1}};
    for (uint32_t slice = 0; slice < 2; slice++) {
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            assert_true(put(&outbox, peer, slice));
        }
    }
    assert_int_equal(outbox_flush(&outbox, MS, way_of(&wire)), OUTBOX_BLOCKED);
    assert_int_equal(wire.sent, 3);
    assert_int_equal(outbox.waiting, 3);
    wire.room[0] = 9;
    wire.room[2] = 9;
    wire.sent = 0;
    assert_int_equal(outbox_flush(&outbox, MS, way_of(&wire)), OUTBOX_DONE);
    uint32_t slice_of_peer_0 = UINT32_MAX;
    for (int i = wire.sent - 1; i >= 0; i--) {
        slice_of_peer_0 = wire.peers[i] == 0 ? wire.slices[i] : slice_of_peer_0;
    }
    assert_int_equal(slice_of_peer_0, 0); /* in order, although it waited */
    free(outbox.queues);
}

static void outbox_rejects_an_item_when_its_queue_is_full(void **state) {
    (void)state;
    struct outbox outbox = make(0);
    for (uint32_t slice = 0; slice < OUTBOX_QUEUE_ITEMS; slice++) {
        assert_true(put(&outbox, 0, slice));
    }
    assert_false(put(&outbox, 0, OUTBOX_QUEUE_ITEMS));
    assert_true(put(&outbox, 0, 5)); /* it is queued already */
    outbox_clear_queue(&outbox, 0);
    assert_int_equal(outbox.waiting, 0);
    assert_true(put(&outbox, 0, OUTBOX_QUEUE_ITEMS));
    free(outbox.queues);
}

/* Frames that take a tenth of a second each, for ten seconds of a clock that jumps to the time that
 * the outbox waits for. */
static void outbox_sends_at_most_at_its_rate_and_little_slower(void **state) {
    (void)state;
    const uint64_t rate = 10 * FRAME;
    struct outbox outbox = make(rate);
    struct wire wire = {.room = {SENT_MAX, SENT_MAX, SENT_MAX}, .frame_bytes = FRAME};
    int64_t begin_ns = 1000 * MS;
    int64_t now_ns = begin_ns;
    uint32_t slice = 0;
    while (now_ns < begin_ns + 10000 * MS) {
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            assert_true(put(&outbox, peer, slice++));
        }
        while (outbox_flush(&outbox, now_ns, way_of(&wire)) == OUTBOX_RATE_LIMITED) {
            int64_t ready_ns = outbox_ready_ns(&outbox);
            assert_true(ready_ns > now_ns);
            now_ns = ready_ns;
        }
    }
    double seconds = (double)(now_ns - begin_ns) / 1e9;
    double got = (double)wire.sent * FRAME / seconds / (double)rate;
    assert_true(got > 0.98 && got < 1.04);
    free(outbox.queues);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outbox_sends_one_item_for_each_peer_in_rotation),
        cmocka_unit_test(outbox_queues_an_item_once_until_it_is_sent),
        cmocka_unit_test(outbox_skips_a_peer_without_room),
        cmocka_unit_test(outbox_rejects_an_item_when_its_queue_is_full),
        cmocka_unit_test(outbox_sends_at_most_at_its_rate_and_little_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
