#include "tests/support/relay_core.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"

#include <string.h>

void relay_core_init(struct relay_core *core, uint32_t node_count, uint64_t seed) {
    ASSERT(node_count <= RELAY_NODES_MAX);
    core->node_count = node_count;
    for (uint32_t node = 0; node < node_count; node++) {
        for (int way = 0; way < RELAY_WAYS; way++) {
            core->ways[node][way].key = random_key(seed + node, way == RELAY_UP ? "up" : "down");
        }
    }
    for (uint32_t i = 0; i < RELAY_HELD_MAX; i++) {
        core->free_slots[i] = RELAY_HELD_MAX - 1 - i;
    }
}

static bool before(const struct relay_held *a, const struct relay_held *b) {
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void heap_push(struct relay_core *core, const struct relay_held *held) {
    uint32_t at = core->held_count++;
    while (at > 0 && before(held, &core->held[(at - 1) / 2])) {
        core->held[at] = core->held[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    core->held[at] = *held;
}

static struct relay_held heap_pop(struct relay_core *core) {
    struct relay_held top = core->held[0], last = core->held[--core->held_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < core->held_count; child = 2 * at + 1) {
        child += child + 1 < core->held_count && before(&core->held[child + 1], &core->held[child]);
        if (before(&last, &core->held[child])) {
            break;
        }
        core->held[at] = core->held[child];
        at = child;
    }
    core->held[at] = last;
    return top;
}

static double draw(struct relay_direction *way) {
    return random_uniform(way->key, way->drawn++);
}

/* The moment that the last bit has left the sender, which the rate alone decides. */
static bool leaves_queue(struct relay_direction *way, int64_t now_ns, uint64_t bytes,
                         int64_t *left_ns) {
    const struct relay_link *link = &way->link;
    if (link->bits_per_s == 0) {
        *left_ns = now_ns;
        return true;
    }
    int64_t start = way->free_ns > now_ns ? way->free_ns : now_ns;
    if (start - now_ns > link->queue_ns) {
        return false;
    }
    way->free_ns = start + (int64_t)(bytes * 8 * NS_PER_SECOND / link->bits_per_s);
    *left_ns = way->free_ns;
    return true;
}

/* When a packet that enters this direction now comes out of it; false: never. What is lost has
 * used the line all the same. */
static bool passes(struct relay_direction *way, int64_t now_ns, size_t packet_bytes,
                   int64_t *due_ns) {
    const struct relay_link *link = &way->link;
    uint64_t bytes = packet_bytes + RELAY_FRAME_EXTRA;
    way->counts.packets++;
    way->counts.bytes += bytes;
    int64_t left;
    if (!leaves_queue(way, now_ns, bytes, &left)) {
        way->counts.dropped++;
        return false;
    }
    if (link->loss > 0 && draw(way) < link->loss) {
        way->counts.lost++;
        return false;
    }
    if (link->overtake > 0 && draw(way) < link->overtake) {
        *due_ns = left;
        return true;
    }
    int64_t due = left + link->delay_ns;
    if (link->jitter_ns > 0) {
        due += (int64_t)(draw(way) * (double)link->jitter_ns);
    }
    way->last_ns = due > way->last_ns ? due : way->last_ns;
    *due_ns = way->last_ns;
    return true;
}

void relay_core_take(struct relay_core *core, int64_t now_ns, uint32_t from, uint32_t to,
                     const uint8_t *packet, size_t bytes) {
    ASSERT(from < core->node_count && to < core->node_count && bytes <= RELAY_PACKET_BYTES);
    struct relay_direction *up = &core->ways[from][RELAY_UP];
    struct relay_held held = {.number = core->number++,
                              .from = (uint16_t)from,
                              .to = (uint16_t)to,
                              .bytes = (uint16_t)bytes};
    if (!passes(up, now_ns, bytes, &held.due_ns)) {
        return;
    }
    if (core->held_count == RELAY_HELD_MAX) {
        up->counts.dropped++;
        return;
    }
    held.slot = core->free_slots[RELAY_HELD_MAX - 1 - core->held_count];
    memcpy(core->packets[held.slot], packet, bytes);
    heap_push(core, &held);
}

int64_t relay_core_due(const struct relay_core *core) {
    return core->held_count == 0 ? INT64_MAX : core->held[0].due_ns;
}

static void release(struct relay_core *core, uint32_t slot) {
    core->free_slots[RELAY_HELD_MAX - 1 - core->held_count] = slot;
}

/* At the core a packet enters the down direction at the moment it was due there, not at that when
 * somebody looked: so the emulation is not slower than asked when the machine is busy. */
bool relay_core_next(struct relay_core *core, int64_t now_ns, uint32_t *to, const uint8_t **packet,
                     size_t *bytes) {
    while (core->held_count > 0 && core->held[0].due_ns <= now_ns) {
        struct relay_held held = heap_pop(core);
        if (core->cut[held.from][held.to]) {
            release(core, held.slot);
            continue;
        }
        if (held.is_down) {
            release(core, held.slot);
            *to = held.to;
            *packet = core->packets[held.slot];
            *bytes = held.bytes;
            return true;
        }
        held.is_down = true;
        if (passes(&core->ways[held.to][RELAY_DOWN], held.due_ns, held.bytes, &held.due_ns)) {
            heap_push(core, &held);
        } else {
            release(core, held.slot);
        }
    }
    return false;
}
