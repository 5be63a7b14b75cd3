/* state_fetcher_start: ACTION_ADOPT: the state that the swarm stands on comes leaf by leaf, follows
 * the rounds that are committed meanwhile, and goes to the computing thread when it is whole. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"

#include <string.h>

static const uint8_t *curve_of(const struct member_loop *loop, uint32_t peer) {
    return loop->peers[peer].as.keys.curve;
}

static bool ask_names(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    struct member_loop *loop = context;
    struct frame frame = {
        .kind = WIRE_LEAF_HASHES_REQUEST, .offset = index, .length = (uint32_t)sizeof(*root)};
    return uplink_send(loop, curve_of(loop, source), CHANNEL_CONTROL, &frame, root) == SEND_OK;
}

static bool ask_leaf(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    struct member_loop *loop = context;
    struct outbox_item item = {
        .kind = WIRE_LEAF_REQUEST, .round = loop->adoption.job, .index = index, .hash = *root};
    return outbox_push(&loop->asks, source, &item);
}

enum send_result state_fetcher_request_leaf(struct member_loop *loop, uint32_t peer,
                                            const struct outbox_item *item) {
    if (item->round != loop->adoption.job) {
        return SEND_NO_PEER; /* the root has moved on before its turn came */
    }
    struct frame frame = {.kind = WIRE_LEAF_REQUEST,
                          .round = item->round,
                          .offset = item->index,
                          .length = (uint32_t)sizeof(item->hash)};
    return uplink_send(loop, curve_of(loop, peer), CHANNEL_CONTROL, &frame, &item->hash);
}

static bool ask_result(void *context, uint32_t source, const struct replay_request *ask) {
    struct member_loop *loop = context;
    struct outbox_item item = {.kind = MESSAGE_FETCH_RESULT,
                               .round = ask->round,
                               .slice = ask->slice,
                               .epoch = ask->epoch,
                               .hash = ask->hash};
    return outbox_push(&loop->asks, source, &item);
}

size_t state_fetcher_bytes(const struct replica_shape *shape) {
    return shape->slices.count * sizeof(struct entry_slice) + leaf_fetch_bytes(shape);
}

void state_fetcher_init(struct member_loop *loop, void *memory) {
    struct replica *replica = loop->options.replica;
    uint32_t slice_count = replica->shape.slices.count;
    loop->adoption.entry.slices = memory;
    leaf_fetch_init(&loop->adoption.fetch, loop->adoption.entry.slices + slice_count, replica,
                    (struct leaf_fetch_callbacks){loop, ask_names, ask_leaf, ask_result});
}

/* Whether the entry's results lead to its root from the state that is on its way. */
static bool continues(const struct member_loop *loop, const struct entry *entry) {
    return loop->adoption.goes_on && entry->kind == ENTRY_COMMIT &&
           hash_equal(&entry->hash, &loop->ledger.commit) &&
           hash_equal(&loop->ledger.base, &loop->adoption.entry.root);
}

/* Who was in its round has its results. */
static uint64_t sources_of(const struct member_loop *loop, const struct entry *entry) {
    uint64_t sources = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        uint32_t peer = peers_find_id(loop, &entry->seats[seat].id);
        sources |= peer == PEER_NONE ? 0 : UINT64_C(1) << peer;
    }
    return sources;
}

void state_fetcher_start(struct member_loop *loop, const struct action *action) {
    struct state_fetcher *adoption = &loop->adoption;
    const struct entry *entry = action->entry;
    if (continues(loop, entry)) {
        leaf_fetch_follow(&adoption->fetch, entry, sources_of(loop, entry));
    } else {
        leaf_fetch_begin(&adoption->fetch, &entry->root);
    }
    entry_copy(&adoption->entry, entry);
    adoption->job = action->job;
    adoption->is_wanted = true;
    adoption->is_begun = false;
    adoption->goes_on = true;
    adoption->newer = catch_up_on_fetch(loop, entry);
    mailbox_cancel_job(&loop->post);
}

void state_fetcher_finish_job(struct member_loop *loop) {
    loop->adoption.goes_on = false;
}

bool state_fetcher_on_result(struct member_loop *loop, const struct message *message) {
    uint32_t peer = peers_find_id(loop, &message->from);
    struct replay_request result = {message->round, message->slice, message->epoch, message->hash};
    return loop->adoption.is_begun && peer != PEER_NONE &&
           leaf_fetch_result(&loop->adoption.fetch, peer, &result, clock_monotonic_ns());
}

void state_fetcher_on_leaf(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                           const uint8_t *payload, int64_t now_ns) {
    if (loop->adoption.is_begun && frame->round == loop->adoption.job) {
        leaf_fetch_on_leaf(&loop->adoption.fetch, peer, frame->offset, payload, frame->length,
                           now_ns);
    }
}

static void hand_over(struct member_loop *loop) {
    struct state_fetcher *adoption = &loop->adoption;
    struct member_job work = {.kind = ACTION_ADOPT,
                              .job = adoption->job,
                              .round = adoption->entry.round,
                              .seat = -1,
                              .entry = &adoption->entry};
    leaf_fetch_end(&adoption->fetch);
    adoption->is_begun = false;
    mailbox_post_job(&loop->post, &work);
}

bool state_fetcher_step(struct member_loop *loop, int64_t now_ns) {
    struct state_fetcher *adoption = &loop->adoption;
    const struct message *newer = adoption->newer;
    adoption->newer = NULL;
    if (newer != NULL) {
        member_loop_deliver(loop, newer);
    }
    if (adoption->is_wanted && !mailbox_is_busy(&loop->post)) {
        adoption->is_wanted = false;
        adoption->is_begun = true;
    }
    leaf_fetch_set_timeout(&adoption->fetch, peers_answer_timeout_ns(loop));
    if (adoption->is_begun && leaf_fetch_step(&adoption->fetch, now_ns) == LEAF_DONE) {
        hand_over(loop);
    }
    return adoption->is_begun && leaf_fetch_is_busy(&adoption->fetch);
}
