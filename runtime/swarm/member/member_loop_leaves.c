/* member_loop_leaves: leaves of the outer state for whoever asks; what comes is passed on.
 *
 *     NAMES_ASK  root 32                 NAMES  root 32, names from offset on; none: not on it
 *     LEAF_ASK   root 32                 LEAF   the leaf's bytes; none: not on it
 *
 * A LEAF has the round field of its LEAF_ASK, so that one that comes late is not taken for one of
 * another root. */
#include "runtime/swarm/member/member_loop_state.h"

#include <string.h>

enum {
    NAMES_MOST = (FRAME_PAYLOAD_MAX - HASH_BYTES) / HASH_BYTES, /* in one frame */
    TOUCHING_STATE = 1 << ACTION_APPLY | 1 << ACTION_ADOPT,
    LEADING_TO_STATE = 1 << ACTION_ROOT | 1 << ACTION_APPLY,
};

/* Whether the outer state stands still on this root, so that it can be read here. */
static bool stands_on(const struct member_loop *loop, const struct hash *root) {
    bool is_moving = loop->job.is_out && (1 << loop->job.kind & TOUCHING_STATE) != 0;
    return !is_moving && !loop->adoption.goes_on && hash_equal(root, &loop->options.replica->root);
}

/* Whether the state is on its way there: a commit is applied, that others know of too. */
static bool will_stand_on(const struct member_loop *loop, const struct hash *root) {
    return loop->job.is_out && (1 << loop->job.kind & LEADING_TO_STATE) != 0 &&
           hash_equal(root, &loop->job.root);
}

static struct frame header(uint8_t kind, uint64_t offset, size_t length) {
    return (struct frame){.kind = kind, .offset = offset, .length = (uint32_t)length};
}

static const uint8_t *curve_of(const struct member_loop *loop, uint32_t peer) {
    return loop->peers[peer].as.keys.curve;
}

static void refuse(struct member_loop *loop, uint32_t peer, const struct frame *ask,
                   const struct hash *root) {
    bool is_names = ask->kind == WIRE_LEAF_HASHES_REQUEST;
    struct frame frame =
        header(is_names ? WIRE_LEAF_HASHES : WIRE_LEAF, ask->offset, is_names ? sizeof(*root) : 0);
    frame.round = ask->round;
    (void)uplink_send(loop, curve_of(loop, peer), CHANNEL_BULK, &frame, root);
}

static void take_ask(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                     const uint8_t *payload) {
    struct hash root;
    uint64_t leaf_count = loop->adoption.fetch.leaf_count;
    if (frame->length != sizeof(root) || frame->offset >= leaf_count) {
        return;
    }
    memcpy(&root, payload, sizeof(root));
    struct outbox_item item = {.kind = frame->kind == WIRE_LEAF_HASHES_REQUEST ? WIRE_LEAF_HASHES
                                                                               : WIRE_LEAF,
                               .round = frame->round,
                               .index = frame->offset,
                               .hash = root};
    bool has_it = stands_on(loop, &root) || will_stand_on(loop, &root);
    if (!has_it || !outbox_push(&loop->leaves, peer, &item)) {
        refuse(loop, peer, frame, &root);
    }
}

static void take_names(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                       const uint8_t *payload, int64_t now_ns) {
    struct hash root;
    if (frame->length < sizeof(root)) {
        return;
    }
    memcpy(&root, payload, sizeof(root));
    if (loop->adoption.is_begun) {
        leaf_fetch_on_hashes(&loop->adoption.fetch, peer, &root, frame->offset,
                             payload + sizeof(root), frame->length - sizeof(root), now_ns);
    }
}

void leaf_server_receive(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                         const uint8_t *payload, int64_t now_ns) {
    switch (frame->kind) {
    case WIRE_LEAF_HASHES_REQUEST:
    case WIRE_LEAF_REQUEST:
        take_ask(loop, peer, frame, payload);
        break;
    case WIRE_LEAF_HASHES:
        take_names(loop, peer, frame, payload, now_ns);
        break;
    default:
        ASSERT(frame->kind == WIRE_LEAF);
        state_fetcher_on_leaf(loop, peer, frame, payload, now_ns);
        break;
    }
}

/* An ask waits until the commit is applied. The state may have moved on since it was asked for;
 * that is told too. */
enum send_result leaf_server_send(struct member_loop *loop, uint32_t peer,
                                  const struct outbox_item *item, uint64_t *bytes) {
    const struct replica *replica = loop->options.replica;
    bool is_names = item->kind == WIRE_LEAF_HASHES;
    bool stands = stands_on(loop, &item->hash);
    size_t count = 0;
    if (!stands && will_stand_on(loop, &item->hash)) {
        return SEND_WOULD_BLOCK;
    }
    if (is_names) {
        memcpy(loop->payload, &item->hash, sizeof(item->hash));
        count = sizeof(item->hash);
    }
    if (stands && is_names) {
        uint64_t left = loop->adoption.fetch.leaf_count - item->index;
        size_t name_count = left < NAMES_MOST ? (size_t)left : NAMES_MOST;
        memcpy(loop->payload + count, &replica->leaves[item->index], name_count * HASH_BYTES);
        count += name_count * HASH_BYTES;
    } else if (stands) {
        count = replica_leaf_read(replica, item->index, loop->payload);
    }
    struct frame frame = header((uint8_t)item->kind, item->index, count);
    frame.round = item->round;
    *bytes = count;
    return uplink_send(loop, curve_of(loop, peer), CHANNEL_BULK, &frame, loop->payload);
}
