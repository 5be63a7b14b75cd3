#include "runtime/swarm/member/uplink.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <string.h>

enum {
    /* results wait while contributions that take longer than this to send are queued */
    RESULTS_DEFERRAL_MS = 300,
    /* with fewer bytes of contributions queued, results are not deferred */
    RESULTS_DEFERRAL_MIN_BYTES = 65536,
    DEFERRED_POLL_MS = 10,    /* time until deferred results are checked again */
    LEAVES_LIMIT_DIVISOR = 4, /* leaves use at most 1/4 of the upload limit */
    /* rate limit of leaves in bytes a second if the upload is unlimited */
    LEAVES_DEFAULT_RATE = 128 << 20,
};

size_t uplink_payload_bytes(const struct wire_shape *shape) {
    return max_u64(wire_payload_bytes_max(shape), FRAME_PAYLOAD_MAX);
}

size_t uplink_memory_bytes(const struct wire_shape *shape) {
    return carve_padded_bytes(uplink_payload_bytes(shape)) +
           5 * carve_padded_bytes(outbox_memory_bytes(SWARM_MEMBERS_MAX));
}

static uint64_t leaf_rate_limit(uint64_t limit_up) {
    return limit_up == 0 ? LEAVES_DEFAULT_RATE : max_u64(limit_up / LEAVES_LIMIT_DIVISOR, 1);
}

void uplink_init(struct uplink *uplink, const struct uplink_args *args, void *memory) {
    const struct member_loop_options *options = args->options;
    size_t bytes = outbox_memory_bytes(SWARM_MEMBERS_MAX);
    char *rest = memory;
    *uplink = (struct uplink){.args = *args};
    uplink->payload_capacity = uplink_payload_bytes(args->shape);
    uplink->payload = carve(&rest, uplink->payload_capacity);
    outbox_init(&uplink->contributions, carve(&rest, bytes), SWARM_MEMBERS_MAX, options->limit_up);
    outbox_init(&uplink->results, carve(&rest, bytes), SWARM_MEMBERS_MAX, options->limit_up);
    outbox_init(&uplink->slow_member_results, carve(&rest, bytes), SWARM_MEMBERS_MAX,
                options->limit_up);
    outbox_init(&uplink->requests, carve(&rest, bytes), SWARM_MEMBERS_MAX, options->limit_down);
    outbox_init(&uplink->leaves, carve(&rest, bytes), SWARM_MEMBERS_MAX,
                leaf_rate_limit(options->limit_up));
    const struct slices *slices = &options->replica->shape.slices;
    serving_budget_init(&uplink->budget,
                        &(struct serving_sizes){.round_bytes = slices_results_bytes(slices),
                                                .slice_bytes = slices->bytes_max,
                                                .state_bytes = replica_state_bytes(slices)});
}

/* ---- budgets ---- */

static struct served_peer served_peer(const struct uplink *uplink, uint32_t peer) {
    return (struct served_peer){.row = peer, .id = peers_identity(uplink->args.peers, peer)};
}

bool uplink_may_send(struct uplink *uplink, uint32_t peer, enum served_kind kind) {
    const struct served_peer served = served_peer(uplink, peer);
    return serving_budget_has_bytes_left(&uplink->budget, &served, kind, clock_monotonic_ms());
}

void uplink_charge(struct uplink *uplink, uint32_t peer, enum served_kind kind, uint64_t bytes) {
    const struct served_peer served = served_peer(uplink, peer);
    serving_budget_charge(&uplink->budget, &served, kind, bytes, clock_monotonic_ms());
}

/* ---- messages ---- */

static enum send_result send_message_with_slice(struct uplink *uplink,
                                                const uint8_t curve[static KEY_BYTES],
                                                enum channel channel, const struct message *message,
                                                struct slice_data bulk) {
    struct frame frame;
    const uint64_t rest = bulk.gap_begin + bulk.gap_bytes;
    size_t count = wire_write_message(uplink->args.shape, message, bulk.byte_count - bulk.gap_bytes,
                                      &frame, uplink->payload, uplink->payload_capacity);
    ASSERT(frame.length <= FRAME_PAYLOAD_MAX);
    if (bulk.byte_count > 0) {
        memcpy(uplink->payload + count, bulk.bytes, bulk.gap_begin);
        memcpy(uplink->payload + count + bulk.gap_begin, bulk.bytes + rest, bulk.byte_count - rest);
    }
    return messenger_send(uplink->args.messenger, curve, channel, &frame, uplink->payload);
}

enum send_result uplink_send_message(struct uplink *uplink, const uint8_t curve[static KEY_BYTES],
                                     const struct message *message) {
    return send_message_with_slice(uplink, curve, CHANNEL_CONTROL, message,
                                   (struct slice_data){.byte_count = 0});
}

static struct message message_from_item(const struct uplink *uplink,
                                        const struct outbox_item *item) {
    bool has_seed = item->kind == MESSAGE_SKETCHES || item->kind == MESSAGE_FETCH_SKETCHES;
    struct message message = {.kind = (enum message_kind)item->kind,
                              .from = uplink->args.slices->id,
                              .session = item->member_session,
                              .round = item->round,
                              .slice = item->slice,
                              .epoch = item->epoch,
                              .values.left_out = item->left_out};
    *(has_seed ? &message.ballot.seed : &message.hash) = item->hash;
    return message;
}

/* Returns how many bytes an item requests. */
static uint64_t requested_bytes(const struct uplink *uplink, const struct outbox_item *item) {
    const struct slices *slices = &uplink->args.options->replica->shape.slices;
    const struct slice_range range = slices_range(slices, item->slice);
    if (item->kind == MESSAGE_FETCH_SKETCHES) {
        return sketch_store_page_bytes(uplink->args.shape, item->slice);
    }
    return item->kind != MESSAGE_FETCH_RESULT || item->index == 0 ? range.result_bytes
                                                                  : item->index * range.bytes;
}

static struct slice_data find_slice_bytes(struct uplink *uplink, const struct outbox_item *item,
                                          struct message *message) {
    if (item->kind != MESSAGE_SKETCHES) {
        return slice_store_find_bytes(uplink->args.slices, item, message);
    }
    return (struct slice_data){
        .bytes = sketch_store_find_page(&uplink->args.slices->sketches, item, message),
        .byte_count = sketch_store_page_bytes(uplink->args.shape, item->slice)};
}

/* Sends the slice of an item. The item is dropped if the peer has used up its budget. */
static enum send_result send_slice(struct uplink *uplink, uint32_t peer,
                                   const struct outbox_item *item, uint64_t *bytes) {
    const enum served_kind kind =
        item->kind == MESSAGE_RESULT ? SERVED_RESULTS : SERVED_CONTRIBUTIONS;
    struct message message = message_from_item(uplink, item);
    const struct slice_data slice = uplink_may_send(uplink, peer, kind)
                                        ? find_slice_bytes(uplink, item, &message)
                                        : (struct slice_data){.bytes = NULL};
    if (slice.bytes == NULL) {
        return SEND_NO_PEER;
    }
    *bytes = slice.byte_count - slice.gap_bytes;
    const enum send_result sent = send_message_with_slice(
        uplink, peers_curve_key(uplink->args.peers, peer), CHANNEL_BULK, &message, slice);
    if (sent == SEND_OK) {
        uplink_charge(uplink, peer, kind, *bytes);
    }
    return sent;
}

/* ---- the outboxes ---- */

static struct outbox *outbox_for_kind(struct uplink *uplink, uint32_t kind) {
    switch (kind) {
    case MESSAGE_CONTRIBUTION:
    case MESSAGE_SKETCHES:
        return &uplink->contributions;
    case MESSAGE_RESULT:
        return &uplink->results;
    case MESSAGE_FETCH_CONTRIBUTION:
    case MESSAGE_FETCH_RESULT:
    case MESSAGE_FETCH_SKETCHES:
    case WIRE_LEAF_REQUEST:
        return &uplink->requests;
    default:
        ASSERT(kind == WIRE_LEAF_HASHES || kind == WIRE_LEAF);
        return &uplink->leaves;
    }
}

bool uplink_push_item(struct uplink *uplink, uint32_t peer, const struct outbox_item *item) {
    return outbox_push(outbox_for_kind(uplink, item->kind), peer, item);
}

bool uplink_push_slow_member_result(struct uplink *uplink, uint32_t peer,
                                    const struct outbox_item *item) {
    ASSERT(item->kind == MESSAGE_RESULT);
    return outbox_push(&uplink->slow_member_results, peer, item);
}

void uplink_drop_items_for_peer(struct uplink *uplink, uint32_t peer) {
    outbox_clear_queue(&uplink->contributions, peer);
    outbox_clear_queue(&uplink->results, peer);
    outbox_clear_queue(&uplink->slow_member_results, peer);
    outbox_clear_queue(&uplink->requests, peer);
    outbox_clear_queue(&uplink->leaves, peer);
}

void uplink_on_round_open(struct uplink *uplink, uint32_t round) {
    serving_budget_on_round_open(&uplink->budget, round);
}

void uplink_on_table(struct uplink *uplink, uint32_t round) {
    if (uplink_measurements_on_table(uplink->args.measures, round)) {
        uplink_pacing_begin(&uplink->pacing);
    }
}

bool uplink_is_paced(const struct uplink *uplink) {
    return uplink->pacing.is_paced;
}

/* Returns when to flush this outbox again. */
static int64_t next_flush_ns(const struct outbox *outbox, enum outbox_state state, int64_t now_ns) {
    if (state == OUTBOX_MORE) {
        return now_ns;
    }
    return state == OUTBOX_RATE_LIMITED ? outbox_ready_ns(outbox) : INT64_MAX;
}

static int64_t flush_outbox(struct uplink *uplink, struct outbox *outbox,
                            enum send_result (*send_item)(void *, uint32_t,
                                                          const struct outbox_item *, uint64_t *),
                            int64_t now_ns) {
    enum outbox_state state =
        outbox_flush(outbox, now_ns, (struct outbox_callbacks){uplink, send_item});
    return next_flush_ns(outbox, state, now_ns);
}

/* ---- contributions and results ---- */

/* Charges bytes that one outbox sent to the other outboxes, which share its rate limit. */
static void charge_others(struct uplink *uplink, const struct outbox *sender, uint64_t bytes) {
    struct outbox *const outboxes[] = {&uplink->contributions, &uplink->results,
                                       &uplink->slow_member_results};
    for (size_t i = 0; i < ARRAY_COUNT(outboxes); i++) {
        if (outboxes[i] != sender) {
            outbox_charge_bytes(outboxes[i], bytes);
        }
    }
}

static enum send_result send_slice_contribution(void *context, uint32_t peer,
                                                const struct outbox_item *item, uint64_t *bytes) {
    struct uplink *uplink = context;
    enum send_result sent = send_slice(uplink, peer, item, bytes);
    if (sent == SEND_OK) {
        charge_others(uplink, &uplink->contributions, *bytes);
    }
    return sent;
}

static enum send_result send_result_from(struct uplink *uplink, const struct outbox *sender,
                                         uint32_t peer, const struct outbox_item *item,
                                         uint64_t *bytes) {
    enum send_result sent = send_slice(uplink, peer, item, bytes);
    if (sent == SEND_OK) {
        charge_others(uplink, sender, *bytes);
        uplink->queued_result_bytes[peer] += *bytes;
    }
    return sent;
}

static enum send_result send_slice_result(void *context, uint32_t peer,
                                          const struct outbox_item *item, uint64_t *bytes) {
    struct uplink *uplink = context;
    return send_result_from(uplink, &uplink->results, peer, item, bytes);
}

static enum send_result send_slow_member_result(void *context, uint32_t peer,
                                                const struct outbox_item *item, uint64_t *bytes) {
    struct uplink *uplink = context;
    return send_result_from(uplink, &uplink->slow_member_results, peer, item, bytes);
}

/* Returns the bytes of contributions in the messenger's queues of all peers. */
static uint64_t queued_contribution_bytes(struct uplink *uplink) {
    const struct uplink_args *args = &uplink->args;
    uint64_t total = 0;
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        if (!peers_is_usable(args->peers, peer)) {
            continue;
        }
        uint64_t queued =
            messenger_backlog_bytes(args->messenger, peers_curve_key(args->peers, peer));
        uint64_t *results = &uplink->queued_result_bytes[peer];
        *results = queued > 0 ? *results : 0;
        total += queued > *results ? queued - *results : 0;
    }
    return total;
}

/* Returns how many bytes the messenger may still have queued when less urgent bytes are added to
 * its queues. */
static uint64_t nearly_sent_bytes(const struct uplink_rate *rate) {
    return max_u64(rate->rate * RESULTS_DEFERRAL_MS / 1000, RESULTS_DEFERRAL_MIN_BYTES);
}

/* Whether results wait until the queued contributions are nearly sent. Sending all contributions
 * first keeps the uplink busy: when the last ones arrive, most sums are complete. A result sent
 * before a contribution delays that contribution's sum, which is then sent alone at the end.
 * Results do not wait while contributions leave the uplink half idle because their owners are
 * slow. */
static bool must_defer_results(struct uplink *uplink) {
    uint64_t queued = queued_contribution_bytes(uplink);
    struct uplink_rate rate = uplink_measurements_rate(uplink->args.measures);
    bool has_contributions = uplink->contributions.waiting > 0 || queued > nearly_sent_bytes(&rate);
    return has_contributions && rate.short_window_rate >= rate.rate / 2;
}

static int64_t flush_results(struct uplink *uplink, int64_t now_ns) {
    uplink->are_results_deferred = uplink->results.waiting > 0 && must_defer_results(uplink);
    return uplink->are_results_deferred
               ? now_ns + DEFERRED_POLL_MS * NS_PER_MS
               : flush_outbox(uplink, &uplink->results, send_slice_result, now_ns);
}

/* Returns the bytes in the messenger's queues of all peers. */
static uint64_t queued_bytes(const struct uplink *uplink) {
    const struct uplink_args *args = &uplink->args;
    uint64_t total = 0;
    for (uint32_t peer = 0; peer < SWARM_MEMBERS_MAX; peer++) {
        total += peers_is_usable(args->peers, peer)
                     ? messenger_backlog_bytes(args->messenger, peers_curve_key(args->peers, peer))
                     : 0;
    }
    return total;
}

/* Sends results for slow members once all other slices are nearly sent. During the exchange,
 * their bytes would delay all members; between two exchanges, the uplink is idle. */
static int64_t flush_slow_member_results(struct uplink *uplink, int64_t now_ns) {
    const struct uplink_rate rate = uplink_measurements_rate(uplink->args.measures);
    if (uplink->slow_member_results.waiting == 0) {
        return INT64_MAX;
    }
    bool must_wait = uplink->contributions.waiting + uplink->results.waiting > 0 ||
                     queued_bytes(uplink) > nearly_sent_bytes(&rate);
    return must_wait ? now_ns + DEFERRED_POLL_MS * NS_PER_MS
                     : flush_outbox(uplink, &uplink->slow_member_results, send_slow_member_result,
                                    now_ns);
}

/* ---- requests and leaves ---- */

/* Sends a request for bytes, and charges these bytes to the download limit. */
static enum send_result send_request(void *context, uint32_t peer, const struct outbox_item *item,
                                     uint64_t *bytes) {
    struct uplink *uplink = context;
    const struct outbox_callbacks *leaf_requests = &uplink->args.leaf_requests;
    if (!peers_is_open(uplink->args.peers, peer)) {
        return SEND_WOULD_BLOCK; /* the peer is not connected yet */
    }
    if (item->kind == WIRE_LEAF_REQUEST) {
        return leaf_requests->send(leaf_requests->context, peer, item, bytes);
    }
    struct message message = message_from_item(uplink, item);
    *bytes = requested_bytes(uplink, item);
    return uplink_send_message(uplink, peers_curve_key(uplink->args.peers, peer), &message);
}

static enum send_result send_leaf(void *context, uint32_t peer, const struct outbox_item *item,
                                  uint64_t *bytes) {
    struct uplink *uplink = context;
    const struct outbox_callbacks *leaves = &uplink->args.leaves;
    enum send_result sent = leaves->send(leaves->context, peer, item, bytes);
    if (sent == SEND_OK) {
        charge_others(uplink, &uplink->leaves, *bytes);
    }
    return sent;
}

/* Sends leaves when no slice waits, and also once in each heartbeat, so that a joiner always
 * makes progress. This delays the exchange by at most a few leaves for each joiner. */
static int64_t flush_leaves(struct uplink *uplink, int64_t heartbeat_ns, int64_t now_ns) {
    int64_t due_ns = uplink->leaves_sent_ns + heartbeat_ns;
    uint32_t waiting = uplink->contributions.waiting + uplink->results.waiting +
                       uplink->slow_member_results.waiting;
    if (waiting > 0 && now_ns < due_ns) {
        return uplink->leaves.waiting > 0 ? due_ns : INT64_MAX;
    }
    uplink->leaves_sent_ns = now_ns;
    return flush_outbox(uplink, &uplink->leaves, send_leaf, now_ns);
}

int64_t uplink_flush(struct uplink *uplink, int64_t heartbeat_ns, int64_t now_ns) {
    const struct uplink_args *args = &uplink->args;
    outbox_add_credit(&uplink->results, now_ns);
    outbox_add_credit(&uplink->slow_member_results, now_ns);
    int64_t contributions_ns =
        flush_outbox(uplink, &uplink->contributions, send_slice_contribution, now_ns);
    int64_t results_ns =
        min_i64(flush_results(uplink, now_ns), flush_slow_member_results(uplink, now_ns));

    const struct messenger_counts counts = messenger_counts(args->messenger);
    uplink_measurements_read_counters(args->measures, &counts);
    const struct uplink_traffic traffic = {
        .messenger = args->messenger,
        .peers = args->peers,
        .contributions = &uplink->contributions,
        .results = uplink->are_results_deferred ? NULL : &uplink->results,
        .slice_bytes = args->options->replica->shape.slices.bytes_max};
    uplink_pacing_update(&uplink->pacing, &traffic, args->measures, now_ns);

    int64_t requests_ns = flush_outbox(uplink, &uplink->requests, send_request, now_ns);
    int64_t leaves_sent_ns = flush_leaves(uplink, heartbeat_ns, now_ns);
    return min_i64(min_i64(contributions_ns, results_ns), min_i64(requests_ns, leaves_sent_ns));
}
