/* test_uplink: the order in which a member sends slices: contributions, results, and last the
 * results for members that no owner waits for. The messenger is the test's own. */
#include "base/clock.h"
#include "runtime/swarm/member/uplink.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FAST, SLOW, PEERS, SLICE_BYTES = 100000, HEARTBEAT_MS = 100, SENT_MAX = 64 };

static struct {
    struct uplink uplink;
    struct peers peers;
    struct uplink_measurements measures;
    struct replica replica;
    struct member_loop_options options;
    struct slice_store slices;
    int room;         /* frames that the messenger accepts */
    uint64_t backlog; /* bytes in its queues to the fast peer */
    struct sent {
        uint8_t peer;
        uint8_t kind;
    } sent[SENT_MAX];
    uint32_t sent_count;
    int64_t now_ns;
} scene;

int64_t clock_monotonic_ns(void) {
    return scene.now_ns;
}

int64_t clock_monotonic_ms(void) {
    return scene.now_ns / NS_PER_MS;
}

double clock_unix_s(void) { /* the log begins lines with it */
    return 0;
}

/* The messenger. The first byte of a CURVE key is the peer's index. */

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
    (void)messenger, (void)channel, (void)payload;
    if (scene.room == 0) {
        return SEND_WOULD_BLOCK;
    }
    assert_in_range(scene.sent_count, 0, SENT_MAX - 1);
    scene.room--;
    scene.sent[scene.sent_count++] = (struct sent){curve[0], frame->kind};
    return SEND_OK;
}

uint64_t messenger_backlog_bytes(struct messenger *messenger,
                                 const uint8_t curve[static KEY_BYTES]) {
    (void)messenger;
    return curve[0] == FAST ? scene.backlog : 0;
}

void messenger_set_rate_limit(struct messenger *messenger, const uint8_t curve[static KEY_BYTES],
                              uint64_t rate) {
    (void)messenger, (void)curve, (void)rate;
}

struct messenger_counts messenger_counts(const struct messenger *messenger) {
    (void)messenger;
    return (struct messenger_counts){0};
}

/* What the uplink sends, without its bytes. */

uint64_t sketch_store_page_bytes(const struct wire_shape *shape, uint32_t slice) {
    (void)shape, (void)slice;
    return SKETCH_BYTES;
}

const uint8_t *sketch_store_find_page(const struct sketch_store *store,
                                      const struct outbox_item *item, struct message *message) {
    (void)store, (void)item, (void)message;
    return NULL;
}

struct slice_data slice_store_find_bytes(struct slice_store *store, const struct outbox_item *item,
                                         struct message *message) {
    static const uint8_t bytes[SLICE_BYTES];
    (void)store, (void)item, (void)message;
    return (struct slice_data){.bytes = bytes, .byte_count = SLICE_BYTES};
}

size_t wire_payload_bytes_max(const struct wire_shape *shape) {
    (void)shape;
    return 2 * SLICE_BYTES;
}

size_t wire_write_message(const struct wire_shape *shape, const struct message *message,
                          uint64_t bulk_bytes, struct frame *frame, uint8_t *payload,
                          size_t capacity) {
    (void)shape, (void)payload, (void)capacity;
    *frame = (struct frame){.kind = (uint8_t)message->kind, .length = (uint32_t)bulk_bytes};
    return 0;
}

struct slice_range slices_range(const struct slices *slices, uint32_t slice) {
    (void)slices, (void)slice;
    return (struct slice_range){.bytes = SLICE_BYTES, .result_bytes = SLICE_BYTES};
}

uint64_t slices_results_bytes(const struct slices *slices) {
    return slices->bytes;
}

uint64_t replica_state_bytes(const struct slices *slices) {
    return 8 * (uint64_t)slices->parameter_count;
}

static int start(void **state) {
    (void)state;
    static struct wire_shape shape;
    memset(&scene, 0, sizeof scene);
    scene.now_ns = 1000 * NS_PER_MS;
    scene.options.replica = &scene.replica;
    scene.replica.shape.slices.bytes = 100 * SLICE_BYTES;
    scene.replica.shape.slices.bytes_max = SLICE_BYTES;
    for (uint32_t peer = 0; peer < PEERS; peer++) {
        scene.peers.links[peer].is_open = true;
        scene.peers.links[peer].entry.keys.curve[0] = (uint8_t)peer;
    }
    const struct uplink_args args = {.options = &scene.options,
                                     .shape = &shape,
                                     .peers = &scene.peers,
                                     .slices = &scene.slices,
                                     .measures = &scene.measures};
    uplink_init(&scene.uplink, &args, aligned_alloc(64, uplink_memory_bytes(&shape)));
    return 0;
}

static int end(void **state) {
    (void)state;
    free(scene.uplink.payload);
    return 0;
}

static void push(uint32_t peer, uint32_t kind, uint32_t slice) {
    const struct outbox_item item = {.kind = kind, .round = 1, .slice = slice};
    assert_true(peer == SLOW && kind == MESSAGE_RESULT
                    ? uplink_push_slow_member_result(&scene.uplink, peer, &item)
                    : uplink_push_item(&scene.uplink, peer, &item));
}

/* Lets the messenger accept `room` more frames, until the uplink waits for it. */
static void flush(int room) {
    scene.room = room;
    for (int i = 0; i < 100; i++) {
        int64_t next_ns = uplink_flush(&scene.uplink, HEARTBEAT_MS * NS_PER_MS, scene.now_ns);
        if (next_ns == INT64_MAX) {
            return;
        }
        scene.now_ns = next_ns > scene.now_ns ? next_ns : scene.now_ns;
    }
}

static void assert_sent(const struct sent *expected, uint32_t count) {
    assert_int_equal(scene.sent_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(scene.sent[i].peer, expected[i].peer);
        assert_int_equal(scene.sent[i].kind, expected[i].kind);
    }
}

static void results_for_slow_members_are_sent_after_all_other_slices(void **state) {
    (void)state;
    push(SLOW, MESSAGE_RESULT, 0);
    push(FAST, MESSAGE_RESULT, 0);
    push(FAST, MESSAGE_RESULT, 1);
    push(SLOW, MESSAGE_CONTRIBUTION, 2);
    flush(2);
    flush(SENT_MAX);
    const struct sent expected[] = {{SLOW, MESSAGE_CONTRIBUTION},
                                    {FAST, MESSAGE_RESULT},
                                    {FAST, MESSAGE_RESULT},
                                    {SLOW, MESSAGE_RESULT}};
    assert_sent(expected, 4);
}

/* The messenger still has more than 64 KiB of other slices to send. */
static void results_for_slow_members_wait_for_the_queues_of_the_messenger(void **state) {
    (void)state;
    scene.backlog = 10 * SLICE_BYTES;
    push(SLOW, MESSAGE_RESULT, 0);
    flush(SENT_MAX);
    assert_int_equal(scene.sent_count, 0);
    scene.backlog = SLICE_BYTES / 2;
    flush(SENT_MAX);
    assert_sent((const struct sent[]){{SLOW, MESSAGE_RESULT}}, 1);
}

static void a_peer_that_is_dropped_gets_no_result_later(void **state) {
    (void)state;
    push(SLOW, MESSAGE_RESULT, 0);
    uplink_drop_items_for_peer(&scene.uplink, SLOW);
    flush(SENT_MAX);
    assert_int_equal(scene.sent_count, 0);
}

/* All outboxes share the upload limit of ten slices a second. The first slice and the last one are
 * sent from a credit, and take no time. */
static void results_for_slow_members_are_within_the_upload_limit(void **state) {
    (void)state;
    end(state);
    scene.options.limit_up = 10 * SLICE_BYTES;
    static struct wire_shape shape;
    const struct uplink_args args = scene.uplink.args;
    uplink_init(&scene.uplink, &args, aligned_alloc(64, uplink_memory_bytes(&shape)));
    for (uint32_t slice = 0; slice < 10; slice++) {
        push(slice % 2 == 0 ? FAST : SLOW, MESSAGE_RESULT, slice);
    }
    flush(0);
    int64_t before_ns = scene.now_ns;
    flush(SENT_MAX);
    assert_int_equal(scene.sent_count, 10);
    assert_in_range((scene.now_ns - before_ns) / NS_PER_MS, 750, 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results_for_slow_members_are_sent_after_all_other_slices,
                                        start, end),
        cmocka_unit_test_setup_teardown(
            results_for_slow_members_wait_for_the_queues_of_the_messenger, start, end),
        cmocka_unit_test_setup_teardown(a_peer_that_is_dropped_gets_no_result_later, start, end),
        cmocka_unit_test_setup_teardown(results_for_slow_members_are_within_the_upload_limit, start,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
