/* member_loop_leaves: leaves of the outer state: those that others ask for, and ACTION_ADOPT.
 *
 *     NAMES_ASK  root 32                 NAMES  root 32, names from offset on; none: not on it
 *     LEAF_ASK   root 32                 LEAF   the leaf's bytes; none: not on it */
#include "runtime/swarm/member_loop_state.h"

#include "base/log.h"

#include <string.h>

enum {
    NAMES_MOST = (FRAME_PAYLOAD_MAX - HASH_BYTES) / HASH_BYTES, /* in one frame */
    TOUCHING_STATE = 1 << ACTION_APPLY | 1 << ACTION_ADOPT,
    LEADING_TO_STATE = 1 << ACTION_ROOT | 1 << ACTION_APPLY,
};

/* Whether the outer state stands still on this root, so that it can be read here. */
static bool stands_on(const struct member_loop *loop, const struct hash *root) {
    bool is_moving = loop->job.is_out && (1 << loop->job.kind & TOUCHING_STATE) != 0;
    return !is_moving && !loop->adoption.is_begun && hash_equal(root, &loop->options.replica->root);
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
    bool is_names = ask->kind == WIRE_NAMES_ASK;
    struct frame frame =
        header(is_names ? WIRE_NAMES : WIRE_LEAF, ask->offset, is_names ? sizeof(*root) : 0);
    (void)member_loop_say(loop, curve_of(loop, peer), CHANNEL_BULK, &frame, root);
}

static void take_ask(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                     const uint8_t *payload) {
    struct hash root;
    uint64_t leaf_count = loop->adoption.fetch.leaf_count;
    if (frame->length != sizeof(root) || frame->offset >= leaf_count) {
        return;
    }
    memcpy(&root, payload, sizeof(root));
    struct outbox_item item = {.kind = frame->kind == WIRE_NAMES_ASK ? WIRE_NAMES : WIRE_LEAF,
                               .index = frame->offset,
                               .hash = root};
    bool has_it = stands_on(loop, &root) || will_stand_on(loop, &root);
    if (!has_it || !outbox_put(&loop->leaves, peer, &item)) {
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
    leaf_fetch_names(&loop->adoption.fetch, peer, &root, frame->offset, payload + sizeof(root),
                     frame->length - sizeof(root), now_ns);
}

void member_loop_hear_leaves(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                             const uint8_t *payload, int64_t now_ns) {
    switch (frame->kind) {
    case WIRE_NAMES_ASK:
    case WIRE_LEAF_ASK:
        take_ask(loop, peer, frame, payload);
        break;
    case WIRE_NAMES:
        take_names(loop, peer, frame, payload, now_ns);
        break;
    default:
        ASSERT(frame->kind == WIRE_LEAF);
        leaf_fetch_leaf(&loop->adoption.fetch, peer, frame->offset, payload, frame->length, now_ns);
        break;
    }
}

/* An ask waits until the commit is applied. The state may have moved on since it was asked for;
 * that is told too. */
enum sent member_loop_say_leaves(struct member_loop *loop, uint32_t peer,
                                 const struct outbox_item *item, uint64_t *bytes) {
    const struct replica *replica = loop->options.replica;
    bool is_names = item->kind == WIRE_NAMES;
    bool stands = stands_on(loop, &item->hash);
    size_t count = 0;
    if (!stands && will_stand_on(loop, &item->hash)) {
        return SENT_FULL;
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
    *bytes = count;
    return member_loop_say(loop, curve_of(loop, peer), CHANNEL_BULK, &frame, loop->payload);
}

static bool ask_names(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    struct member_loop *loop = context;
    struct frame frame = header(WIRE_NAMES_ASK, index, sizeof(*root));
    return member_loop_say(loop, curve_of(loop, source), CHANNEL_CONTROL, &frame, root) ==
           SENT_TAKEN;
}

static bool ask_leaf(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    struct member_loop *loop = context;
    struct outbox_item item = {.kind = WIRE_LEAF_ASK, .index = index, .hash = *root};
    return outbox_put(&loop->asks, source, &item);
}

enum sent member_loop_ask_leaf(struct member_loop *loop, uint32_t peer,
                               const struct outbox_item *item) {
    struct frame frame = header(WIRE_LEAF_ASK, item->index, sizeof(item->hash));
    return member_loop_say(loop, curve_of(loop, peer), CHANNEL_CONTROL, &frame, &item->hash);
}

void member_loop_leaves_init(struct member_loop *loop, struct entry_slice *slices) {
    loop->adoption.entry.slices = slices;
    leaf_fetch_init(&loop->adoption.fetch, loop->options.replica,
                    (struct leaf_way){loop, ask_names, ask_leaf});
}

void member_loop_adopt(struct member_loop *loop, const struct action *action) {
    struct loop_adoption *adoption = &loop->adoption;
    leaf_fetch_end(&adoption->fetch);
    entry_copy(&adoption->entry, action->entry);
    adoption->job = action->job;
    adoption->is_wanted = true;
    work_post_cancel(&loop->post);
}

static void hand_over(struct member_loop *loop) {
    struct loop_adoption *adoption = &loop->adoption;
    struct member_work work = {.kind = ACTION_ADOPT,
                               .job = adoption->job,
                               .round = adoption->entry.round,
                               .seat = -1,
                               .entry = &adoption->entry};
    leaf_fetch_end(&adoption->fetch);
    adoption->is_begun = false;
    work_post_give(&loop->post, &work);
}

void member_loop_adopt_step(struct member_loop *loop, int64_t now_ns) {
    struct loop_adoption *adoption = &loop->adoption;
    if (adoption->is_wanted && !work_post_is_busy(&loop->post)) {
        log_line(LOG_INFO, "swarm: fetching the state of round %u, %llu leaves",
                 adoption->entry.round, (unsigned long long)adoption->fetch.leaf_count);
        adoption->is_wanted = false;
        adoption->is_begun = true;
        leaf_fetch_begin(&adoption->fetch, &adoption->entry.root);
    }
    if (adoption->is_begun && !adoption->is_wanted &&
        leaf_fetch_step(&adoption->fetch, now_ns) == LEAF_DONE) {
        hand_over(loop);
    }
}
