#include "runtime/swarm/member/uplink.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <string.h>

enum { BURSTS_PER_SECOND = 8 }; /* the credit is at most what the rate allows in 1/8 s */

size_t outbox_memory_bytes(uint32_t peer_count) {
    return peer_count * sizeof(struct outbox_queue);
}

void outbox_init(struct outbox *outbox, void *memory, uint32_t peer_count, uint64_t rate) {
    memset(memory, 0, outbox_memory_bytes(peer_count));
    *outbox = (struct outbox){.queues = memory, .peer_count = peer_count, .rate = rate};
}

static bool is_same_item(const struct outbox_item *a, const struct outbox_item *b) {
    return a->kind == b->kind && a->member_session == b->member_session && a->round == b->round &&
           a->slice == b->slice && a->epoch == b->epoch && a->index == b->index &&
           a->left_out == b->left_out && hash_equal(&a->hash, &b->hash);
}

bool outbox_push(struct outbox *outbox, uint32_t peer, const struct outbox_item *item) {
    ASSERT(peer < outbox->peer_count);
    struct outbox_queue *queue = &outbox->queues[peer];
    for (uint32_t i = 0; i < queue->count; i++) {
        if (is_same_item(&queue->items[(queue->first + i) % OUTBOX_QUEUE_ITEMS], item)) {
            return true;
        }
    }
    if (queue->count == OUTBOX_QUEUE_ITEMS) {
        return false;
    }
    queue->items[(queue->first + queue->count) % OUTBOX_QUEUE_ITEMS] = *item;
    queue->count++;
    outbox->waiting++;
    return true;
}

void outbox_clear_queue(struct outbox *outbox, uint32_t peer) {
    ASSERT(peer < outbox->peer_count);
    outbox->waiting -= outbox->queues[peer].count;
    outbox->queues[peer].count = 0;
}

uint32_t outbox_waiting_count(const struct outbox *outbox, uint32_t peer) {
    ASSERT(peer < outbox->peer_count);
    return outbox->queues[peer].count;
}

void outbox_charge_bytes(struct outbox *outbox, uint64_t bytes) {
    if (outbox->rate > 0) {
        outbox->credit -= (int64_t)bytes;
    }
}

void outbox_add_credit(struct outbox *outbox, int64_t now_ns) {
    int64_t passed_ns = now_ns - outbox->credit_added_ns;
    int64_t burst = (int64_t)(outbox->rate / BURSTS_PER_SECOND) + 1;
    if (outbox->rate == 0 || passed_ns <= 0) {
        return;
    }
    passed_ns = min_i64(passed_ns, NS_PER_SECOND);
    int64_t earned = (int64_t)((double)outbox->rate * (double)passed_ns / (double)NS_PER_SECOND);
    if (earned == 0) {
        /* at a low rate, the credit since the last call may be less than a byte: the credit is
         * added later */
        return;
    }
    outbox->credit_added_ns = now_ns;
    outbox->credit = min_i64(outbox->credit + earned, burst);
}

int64_t outbox_ready_ns(const struct outbox *outbox) {
    if (outbox->rate == 0 || outbox->credit > 0) {
        return outbox->credit_added_ns;
    }
    double lacking = (double)(1 - outbox->credit) / (double)outbox->rate;
    return outbox->credit_added_ns + (int64_t)(lacking * (double)NS_PER_SECOND) + 1;
}

static void remove_first_item(struct outbox *outbox, struct outbox_queue *queue) {
    ASSERT(queue->count > 0 && queue->count <= outbox->waiting);
    queue->first = (queue->first + 1) % OUTBOX_QUEUE_ITEMS;
    queue->count--;
    outbox->waiting--;
}

enum outbox_state outbox_flush(struct outbox *outbox, int64_t now_ns,
                               struct outbox_callbacks callbacks) {
    outbox_add_credit(outbox, now_ns);
    uint32_t skipped = 0; /* number of consecutive peers without an item or without room */
    for (uint32_t sent = 0; outbox->waiting > 0 && skipped < outbox->peer_count;) {
        if (outbox->rate > 0 && outbox->credit <= 0) {
            return OUTBOX_RATE_LIMITED;
        }
        if (sent == OUTBOX_BATCH_FRAMES) {
            return OUTBOX_MORE;
        }
        uint32_t peer = outbox->next_peer;
        struct outbox_queue *queue = &outbox->queues[peer];
        outbox->next_peer = (peer + 1) % outbox->peer_count;
        uint64_t bytes = 0;
        if (queue->count == 0 ||
            callbacks.send(callbacks.context, peer, &queue->items[queue->first], &bytes) ==
                SEND_WOULD_BLOCK) {
            skipped++;
            continue;
        }
        remove_first_item(outbox, queue);
        outbox_charge_bytes(outbox, bytes);
        skipped = 0;
        sent++;
    }
    return outbox->waiting > 0 ? OUTBOX_BLOCKED : OUTBOX_DONE;
}
