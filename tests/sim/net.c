/* net: the links of the nodes: rates, queues of bulk data, delay, and nodes that cannot connect to
 * each other. */
#include "tests/sim/parts.h"

#include "runtime/swarm/wire/wire.h"

#include <stdlib.h>

enum {
    US_PER_MS = 1000,
    US_PER_S = 1000000,
    LONG_DELAY_MS = 400, /* one message in 20 is delayed by up to so much more */
};

void net_start(struct world *world, uint32_t node) {
    struct node_link *link = &world->nodes[node].link;
    size_t bytes = outbox_memory_bytes(NODES);
    if (world->slice_bytes == 0) {
        return;
    }
    ASSERT(link->queues == NULL);
    link->queues = malloc(3 * bytes);
    outbox_init(&link->contributions, link->queues, NODES, 0);
    outbox_init(&link->results, link->queues + NODES, NODES, 0);
    outbox_init(&link->last_results, link->queues + 2 * NODES, NODES, 0);
}

void net_stop(struct world *world, uint32_t node) {
    struct node_link *link = &world->nodes[node].link;
    free(link->queues);
    *link = (struct node_link){
        .up.rate = link->up.rate, .down.rate = link->down.rate, .is_dial_only = link->is_dial_only};
}

bool net_is_connected(const struct world *world, uint32_t from, uint32_t to) {
    const struct node *a = &world->nodes[from];
    const struct node *b = &world->nodes[to];
    bool can_dial = !a->link.is_dial_only || !b->link.is_dial_only;
    bool is_other_tracker = (from < TRACKERS || to < TRACKERS) && a->store != b->store;
    bool is_excluded = (from < TRACKERS && node_is_in(world->excluded, to)) ||
                       (to < TRACKERS && node_is_in(world->excluded, from));
    return can_dial && !is_other_tracker && !is_excluded &&
           world->cut_until[from][to] <= world->now;
}

/* The time at which the last of `bytes` that are ready at `ready_us` has passed. */
static int64_t pipe_pass(struct pipe *pipe, int64_t ready_us, uint64_t bytes, bool is_bulk) {
    int64_t *free_us = is_bulk ? &pipe->bulk_free_us : &pipe->control_free_us;
    int64_t begin_us = *free_us > ready_us ? *free_us : ready_us;
    int64_t takes_us = pipe->rate > 0 ? (int64_t)(bytes * US_PER_S / pipe->rate) : 0;
    *free_us = begin_us + takes_us;
    if (!is_bulk) {
        int64_t bulk_us = pipe->bulk_free_us > begin_us ? pipe->bulk_free_us : begin_us;
        pipe->bulk_free_us = bulk_us + takes_us;
    }
    return begin_us + takes_us;
}

static int64_t draw_delay_ms(struct world *world) {
    if (world->is_steady) {
        return world->delay;
    }
    int64_t delay = 1 + (int64_t)world_draw(world, (uint64_t)world->delay);
    return delay + (world_draw(world, 20) == 0 ? (int64_t)world_draw(world, LONG_DELAY_MS) : 0);
}

/* Sends the parcel: its first byte leaves when the uplink is free. */
static void transmit(struct world *world, uint32_t from, uint32_t to, struct parcel *parcel,
                     bool is_bulk) {
    struct node *sender = &world->nodes[from];
    int64_t delay_ms = draw_delay_ms(world);
    parcel->sender_start = sender->start;
    if (world->slice_bytes == 0) {
        int64_t wait_ms = is_bulk ? lie_wait_ms(world, from, parcel->message.kind) : 0;
        world_add(world, HAPPEN_PARCEL, to, wait_ms + delay_ms)->parcel = parcel;
        return;
    }
    struct pipe *up = &sender->link.up;
    int64_t now_us = world->now * US_PER_MS;
    uint64_t up_bytes = parcel->bytes * (is_bulk ? lie_slowness(world, from) : 1);
    int64_t sent_us = pipe_pass(up, now_us, up_bytes, is_bulk);
    int64_t takes_us = up->rate > 0 ? (int64_t)(up_bytes * US_PER_S / up->rate) : 0;
    parcel->last_byte_us = sent_us + delay_ms * US_PER_MS;
    measure_sent(sender, sent_us, parcel->bytes);
    int64_t begin_ms = (sent_us - takes_us - now_us) / US_PER_MS;
    world_add(world, HAPPEN_ARRIVAL, to, begin_ms + delay_ms)->parcel = parcel;
}

void net_post(struct world *world, uint32_t from, uint32_t to, struct parcel *parcel) {
    parcel->bytes = world->slice_bytes > 0 ? parcel_bytes(world, &parcel->message) : 0;
    transmit(world, from, to, parcel, false);
}

int64_t net_send_control(struct world *world, uint32_t from, uint64_t bytes) {
    int64_t now_us = world->now * US_PER_MS;
    int64_t sent_us = pipe_pass(&world->nodes[from].link.up, now_us, bytes, false);
    return (sent_us - now_us) / US_PER_MS + draw_delay_ms(world);
}

void net_arrive(struct world *world, struct happening *happening) {
    struct parcel *parcel = happening->parcel;
    struct node_link *link = &world->nodes[happening->node].link;
    uint32_t from = parcel->message.from.bytes[0];
    enum message_kind kind = parcel->message.kind;
    bool is_bulk = kind == MESSAGE_CONTRIBUTION || kind == MESSAGE_RESULT;
    int64_t now_us = world->now * US_PER_MS;
    int64_t done_us = pipe_pass(&link->down, now_us, parcel->bytes, is_bulk);
    done_us = done_us > parcel->last_byte_us ? done_us : parcel->last_byte_us;
    link->arriving[from] += is_bulk;
    int64_t wait_ms = (done_us - now_us + US_PER_MS - 1) / US_PER_MS;
    world_add(world, HAPPEN_PARCEL, happening->node, wait_ms)->parcel = parcel;
    happening->parcel = NULL;
}

void net_mark_arriving(struct world *world, uint32_t node) {
    for (uint32_t from = TRACKERS; from < NODES; from++) {
        struct identity id = {{(uint8_t)from}};
        if (world->nodes[node].link.arriving[from] > 0) {
            member_mark_partial_arrival(world->nodes[node].machine, &id);
            world->answered[node][from] = world->now;
        }
    }
}

struct uplink_context {
    struct world *world;
    uint32_t node;
};

/* Sends the bytes that an item names, if the uplink is free. */
static enum send_result send_item(void *context, uint32_t peer, const struct outbox_item *item,
                                  uint64_t *bytes) {
    const struct uplink_context *uplink = context;
    struct world *world = uplink->world;
    struct message message = {.kind = (enum message_kind)item->kind,
                              .session = item->member_session,
                              .round = item->round,
                              .slice = item->slice,
                              .epoch = item->epoch,
                              .values.left_out = item->left_out,
                              .hash = item->hash};
    if (world->nodes[uplink->node].link.up.bulk_free_us > world->now * US_PER_MS ||
        lie_wait_ms(world, uplink->node, message.kind) > 0) {
        return SEND_WOULD_BLOCK;
    }
    if (!net_is_connected(world, uplink->node, peer)) {
        return SEND_NO_PEER;
    }
    struct parcel *parcel = parcel_copy(world, &message);
    if (!post_attach(world, uplink->node, peer, parcel)) {
        parcel_free(parcel);
        return SEND_NO_PEER;
    }
    parcel->bytes = parcel_bytes(world, &parcel->message);
    *bytes = parcel->bytes;
    lie_mark_sent(world, uplink->node, message.kind);
    transmit(world, uplink->node, peer, parcel, true);
    return SEND_OK;
}

/* Contributions go first, as in the real process: owners need them for their sums. */
void net_flush(struct world *world, uint32_t node) {
    struct node_link *link = &world->nodes[node].link;
    struct uplink_context context = {world, node};
    struct outbox_callbacks callbacks = {.context = &context, .send = send_item};
    struct outbox *const outboxes[] = {&link->contributions, &link->results, &link->last_results};
    enum outbox_state state = OUTBOX_DONE;
    for (size_t i = 0; i < ARRAY_COUNT(outboxes) && state == OUTBOX_DONE; i++) {
        state = outbox_flush(outboxes[i], 0, callbacks);
    }
    if (state != OUTBOX_DONE && !link->is_flush_planned) {
        int64_t wait_us = link->up.bulk_free_us - world->now * US_PER_MS;
        int64_t wait_ms = wait_us > 0 ? (wait_us + US_PER_MS - 1) / US_PER_MS : 0;
        int64_t lie_ms = lie_wait_ms(world, node, MESSAGE_CONTRIBUTION);
        wait_ms = wait_ms > lie_ms ? wait_ms : lie_ms;
        link->is_flush_planned = true;
        world_add(world, HAPPEN_UPLINK, node, wait_ms);
    }
}

void net_queue(struct world *world, uint32_t from, uint32_t to, const struct message *message,
               bool is_last) {
    struct node_link *link = &world->nodes[from].link;
    if (world->slice_bytes == 0) {
        struct parcel *parcel = parcel_copy(world, message);
        if (post_attach(world, from, to, parcel)) {
            transmit(world, from, to, parcel, true);
            lie_mark_sent(world, from, message->kind);
        } else {
            parcel_free(parcel);
        }
        return;
    }
    struct outbox_item item = {.kind = message->kind,
                               .member_session = message->session,
                               .round = message->round,
                               .slice = message->slice,
                               .epoch = message->epoch,
                               .left_out = message->values.left_out,
                               .hash = message->hash};
    struct outbox *outbox = message->kind == MESSAGE_CONTRIBUTION ? &link->contributions
                            : is_last                             ? &link->last_results
                                                                  : &link->results;
    (void)outbox_push(outbox, to, &item);
    net_flush(world, from);
}
