#include "runtime/swarm/member/outbox.h"

#include <string.h>

static const int64_t SECOND_NS = 1000000000;

enum { BURST_SHARE = 8 }; /* an eighth of a second's bytes may go at once */

size_t outbox_bytes(uint32_t peer_count) {
    return peer_count * sizeof(struct outbox_queue);
}

void outbox_bind(struct outbox *outbox, void *memory, uint32_t peer_count, uint64_t rate) {
    memset(memory, 0, outbox_bytes(peer_count));
    *outbox = (struct outbox){.lines = memory, .peer_count = peer_count, .rate = rate};
}

static bool is_same(const struct outbox_item *a, const struct outbox_item *b) {
    return a->kind == b->kind && a->session == b->session && a->round == b->round &&
           a->slice == b->slice && a->epoch == b->epoch && a->index == b->index &&
           hash_equal(&a->hash, &b->hash);
}

bool outbox_push(struct outbox *outbox, uint32_t peer, const struct outbox_item *item) {
    ASSERT(peer < outbox->peer_count);
    struct outbox_queue *line = &outbox->lines[peer];
    for (uint32_t i = 0; i < line->count; i++) {
        if (is_same(&line->items[(line->first + i) % OUTBOX_QUEUE_ITEMS], item)) {
            return true;
        }
    }
    if (line->count == OUTBOX_QUEUE_ITEMS) {
        return false;
    }
    line->items[(line->first + line->count) % OUTBOX_QUEUE_ITEMS] = *item;
    line->count++;
    outbox->waiting++;
    return true;
}

void outbox_clear(struct outbox *outbox, uint32_t peer) {
    ASSERT(peer < outbox->peer_count);
    outbox->waiting -= outbox->lines[peer].count;
    outbox->lines[peer].count = 0;
}

uint32_t outbox_waiting(const struct outbox *outbox, uint32_t peer) {
    ASSERT(peer < outbox->peer_count);
    return outbox->lines[peer].count;
}

void outbox_spend(struct outbox *outbox, uint64_t bytes) {
    if (outbox->rate > 0) {
        outbox->credit -= (int64_t)bytes;
    }
}

static void fill(struct outbox *outbox, int64_t now_ns) {
    int64_t passed_ns = now_ns - outbox->filled_ns;
    int64_t burst = (int64_t)(outbox->rate / BURST_SHARE) + 1;
    if (outbox->rate == 0 || passed_ns <= 0) {
        return;
    }
    passed_ns = passed_ns < SECOND_NS ? passed_ns : SECOND_NS;
    int64_t earned = (int64_t)((double)outbox->rate * (double)passed_ns / (double)SECOND_NS);
    if (earned == 0) {
        return; /* a slow limit: wait for a whole byte */
    }
    outbox->filled_ns = now_ns;
    outbox->credit = outbox->credit + earned < burst ? outbox->credit + earned : burst;
}

int64_t outbox_ready_ns(const struct outbox *outbox) {
    if (outbox->rate == 0 || outbox->credit > 0) {
        return outbox->filled_ns;
    }
    double lacking = (double)(1 - outbox->credit) / (double)outbox->rate;
    return outbox->filled_ns + (int64_t)(lacking * (double)SECOND_NS) + 1;
}

static void take_off(struct outbox *outbox, struct outbox_queue *line) {
    line->first = (line->first + 1) % OUTBOX_QUEUE_ITEMS;
    line->count--;
    outbox->waiting--;
}

enum outbox_state outbox_flush(struct outbox *outbox, int64_t now_ns, struct outbox_callbacks way) {
    fill(outbox, now_ns);
    uint32_t passed_by = 0; /* peers in a row that had nothing to send or no room */
    for (uint32_t sent = 0; outbox->waiting > 0 && passed_by < outbox->peer_count;) {
        if (outbox->rate > 0 && outbox->credit <= 0) {
            return OUTBOX_RATE_LIMITED;
        }
        if (sent == OUTBOX_BATCH) {
            return OUTBOX_MORE;
        }
        uint32_t peer = outbox->turn;
        struct outbox_queue *line = &outbox->lines[peer];
        outbox->turn = (peer + 1) % outbox->peer_count;
        uint64_t bytes = 0;
        if (line->count == 0 ||
            way.send(way.context, peer, &line->items[line->first], &bytes) == SEND_WOULD_BLOCK) {
            passed_by++;
            continue;
        }
        take_off(outbox, line);
        outbox_spend(outbox, bytes);
        passed_by = 0;
        sent++;
    }
    return outbox->waiting > 0 ? OUTBOX_BLOCKED : OUTBOX_DONE;
}
