/* uplink_send: messages and items of the outboxes as frames. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"

#include <string.h>

static const int64_t MS = 1000000;

enum {
    SOON_MS = 300,      /* of the own line's rate */
    SOON_LEAST = 65536, /* bytes, while the rate is not known */
    HELD_LOOK_MS = 10,  /* between two looks at what holds results */
};

enum send_result uplink_send(struct member_loop *loop, const uint8_t curve[static KEY_BYTES],
                             enum channel channel, const struct frame *frame, const void *payload) {
    return messenger_send(loop->messenger, curve, channel, frame, payload);
}

enum send_result uplink_send_message(struct member_loop *loop,
                                     const uint8_t curve[static KEY_BYTES], enum channel channel,
                                     const struct message *message, const uint8_t *bulk,
                                     uint64_t bulk_bytes) {
    struct frame frame;
    size_t count = wire_write(&loop->shape, message, bulk_bytes, &frame, loop->payload,
                              loop->payload_capacity);
    ASSERT(frame.length <= FRAME_PAYLOAD_MAX);
    if (bulk_bytes > 0) {
        memcpy(loop->payload + count, bulk, bulk_bytes);
    }
    return messenger_send(loop->messenger, curve, channel, &frame, loop->payload);
}

/* NULL: its bytes are not at hand any more. */
static const uint8_t *find_bytes(const struct member_loop *loop, const struct outbox_item *item,
                                 struct message *message) {
    const struct replica *replica = loop->options.replica;
    if (item->kind == MESSAGE_CONTRIBUTION) {
        return loop->own_round == item->round ? replica_own(replica, item->slice) : NULL;
    }
    const struct stored_result *held =
        result_index_find(&loop->rows, item->round, item->slice, &item->hash);
    if (held == NULL) {
        return NULL;
    }
    message->epoch = held->epoch;
    message->contributors = held->contributors;
    message->owner = held->owner;
    message->signature = held->signature;
    return replica_result(replica, item->round, item->slice);
}

/* Nothing is landing while things are sent. */
static bool is_kept(struct member_loop *loop, const struct outbox_item *item) {
    const struct member_loop_options *options = &loop->options;
    return item->kind == MESSAGE_RESULT && options->kept_result != NULL &&
           options->kept_result(options->kept_context, item->round, item->slice, &item->hash,
                                loop->landing);
}

static struct message message_of(const struct member_loop *loop, const struct outbox_item *item) {
    return (struct message){.kind = (enum message_kind)item->kind,
                            .from = loop->id,
                            .session = item->session,
                            .round = item->round,
                            .slice = item->slice,
                            .epoch = item->epoch,
                            .hash = item->hash};
}

static enum send_result say_slice(void *context, uint32_t peer, const struct outbox_item *item,
                                  uint64_t *bytes) {
    struct member_loop *loop = context;
    struct message message = message_of(loop, item);
    const uint8_t *bulk = find_bytes(loop, item, &message);
    bulk = bulk == NULL && is_kept(loop, item) ? loop->landing : bulk;
    if (bulk == NULL) {
        return SEND_NO_PEER;
    }
    *bytes = slices_range(&loop->options.replica->shape.slices, item->slice).bytes;
    return uplink_send_message(loop, loop->peers[peer].as.keys.curve, CHANNEL_BULK, &message, bulk,
                               *bytes);
}

static enum send_result say_contribution(void *context, uint32_t peer,
                                         const struct outbox_item *item, uint64_t *bytes) {
    struct member_loop *loop = context;
    enum send_result sent = say_slice(context, peer, item, bytes);
    if (sent == SEND_OK) {
        outbox_spend(&loop->results, *bytes);
    }
    return sent;
}

static int64_t back_at(const struct outbox *outbox, enum outbox_state state, int64_t now_ns) {
    if (state == OUTBOX_MORE) {
        return now_ns;
    }
    return state == OUTBOX_RATE_LIMITED ? outbox_ready_ns(outbox) : INT64_MAX;
}

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A line sends each way at once, and is full all the time if all contributions go before all
 * results: when the last ones come, most sums are made. A result that goes before a contribution is
 * missed at the end, when that one's sum goes out alone. So results wait until of the contributions
 * no more is left than the line sends soon; but not where contributions do not fill the line, for
 * their owners take them slowly or not at all. */
static bool holds_results(struct member_loop *loop) {
    uint64_t left = 0;
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        struct member_peer_link *row = &loop->peers[peer];
        if (!row->is_open || row->is_cut) {
            continue;
        }
        uint64_t of_it = messenger_backlog_bytes(loop->messenger, row->as.keys.curve);
        row->results_given = of_it > 0 ? row->results_given : 0;
        left += of_it > row->results_given ? of_it - row->results_given : 0;
    }
    struct uplink_rate line = uplink_measured_rate(loop);
    uint64_t soon = line.rate * SOON_MS / 1000;
    bool are_more =
        loop->contributions.waiting > 0 || left > (soon > SOON_LEAST ? soon : SOON_LEAST);
    return are_more && line.recent >= line.rate / 2;
}

static enum send_result say_result(void *context, uint32_t peer, const struct outbox_item *item,
                                   uint64_t *bytes) {
    struct member_loop *loop = context;
    enum send_result sent = say_slice(context, peer, item, bytes);
    if (sent == SEND_OK) {
        outbox_spend(&loop->contributions, *bytes);
        loop->peers[peer].results_given += *bytes;
    }
    return sent;
}

/* When to come back for results. */
static int64_t flush_results(struct member_loop *loop, int64_t now_ns) {
    loop->are_results_held = loop->results.waiting > 0 && holds_results(loop);
    if (loop->are_results_held) {
        return now_ns + HELD_LOOK_MS * MS;
    }
    enum outbox_state state =
        outbox_flush(&loop->results, now_ns, (struct outbox_callbacks){loop, say_result});
    return back_at(&loop->results, state, now_ns);
}

/* What is asked for is charged as if it had come; an ask waits for the first connection. */
static enum send_result say_ask(void *context, uint32_t peer, const struct outbox_item *item,
                                uint64_t *bytes) {
    struct member_loop *loop = context;
    if (!loop->peers[peer].is_open) {
        return SEND_WOULD_BLOCK;
    }
    if (item->kind == WIRE_LEAF_REQUEST) {
        enum send_result sent = state_fetcher_request_leaf(loop, peer, item);
        *bytes = sent == SEND_OK ? LEAF_BYTES : 0;
        return sent;
    }
    struct message message = message_of(loop, item);
    *bytes = slices_range(&loop->options.replica->shape.slices, item->slice).bytes;
    return uplink_send_message(loop, loop->peers[peer].as.keys.curve, CHANNEL_CONTROL, &message,
                               NULL, 0);
}

static enum send_result say_leaves(void *context, uint32_t peer, const struct outbox_item *item,
                                   uint64_t *bytes) {
    struct member_loop *loop = context;
    enum send_result sent = leaf_server_send(loop, peer, item, bytes);
    if (sent == SEND_OK) {
        outbox_spend(&loop->contributions, *bytes);
        outbox_spend(&loop->results, *bytes);
    }
    return sent;
}

/* Leaves go when nothing else waits, and once in a heartbeat all the same: a window of some leaves
 * for each joiner, at most a share of the limit, is what the exchange has to bear. */
static int64_t flush_leaves(struct member_loop *loop, int64_t now_ns) {
    int64_t due_ns = loop->leaves_ns + loop->timing.heartbeat_ms * MS;
    if (loop->contributions.waiting + loop->results.waiting > 0 && now_ns < due_ns) {
        return loop->leaves.waiting > 0 ? due_ns : INT64_MAX;
    }
    loop->leaves_ns = now_ns;
    enum outbox_state state =
        outbox_flush(&loop->leaves, now_ns, (struct outbox_callbacks){loop, say_leaves});
    return back_at(&loop->leaves, state, now_ns);
}

int64_t uplink_flush(struct member_loop *loop, int64_t now_ns) {
    enum outbox_state state = outbox_flush(&loop->contributions, now_ns,
                                           (struct outbox_callbacks){loop, say_contribution});
    int64_t back_ns = back_at(&loop->contributions, state, now_ns);

    back_ns = sooner(back_ns, flush_results(loop, now_ns));
    uplink_sample(loop);
    uplink_set_rates(loop, now_ns);

    state = outbox_flush(&loop->asks, now_ns, (struct outbox_callbacks){loop, say_ask});
    back_ns = sooner(back_ns, back_at(&loop->asks, state, now_ns));
    return sooner(back_ns, flush_leaves(loop, now_ns));
}
