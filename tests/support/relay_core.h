/* relay_core: packets between the nodes of an emulated network, each held for what its two links
 * cost it. No I/O and no clock in here: whoever calls says what time it is.
 *
 *     node i ── up: queue at its rate, delay, loss ──► core ── down: the same, of node j ──► node j
 *
 * Order within a direction is kept, jitter or not, except for packets drawn to overtake. A seed
 * draws the same for the same packets in the same order. */
#ifndef SKEP_TESTS_SUPPORT_RELAY_CORE_H
#define SKEP_TESTS_SUPPORT_RELAY_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RELAY_NODES_MAX = 32,
    RELAY_PACKET_BYTES = 2048, /* more than an MTU of 1500 */
    RELAY_HELD_MAX = 1 << 16,
    RELAY_FRAME_EXTRA = 14, /* an Ethernet header, which the rate and the counts include */
};

enum relay_way { RELAY_UP, RELAY_DOWN, RELAY_WAYS };

/* What one direction of a node's link does to a packet. */
struct relay_link {
    uint64_t bits_per_s; /* 0: no limit */
    int64_t queue_ns;    /* waiting for the rate any longer, it is dropped */
    int64_t delay_ns;
    int64_t jitter_ns; /* on top of the delay, uniform in [0, jitter_ns] */
    double loss;       /* probability that it is lost */
    double overtake;   /* probability that it skips the delay and so overtakes others */
};

struct relay_counts {
    uint64_t packets, bytes; /* that came to this direction, with RELAY_FRAME_EXTRA each */
    uint64_t lost;           /* by chance */
    uint64_t dropped;        /* its queue was full, or there was no room to hold it */
};

struct relay_direction {
    struct relay_link link;
    struct relay_counts counts;
    int64_t free_ns; /* when its rate lets the next packet out */
    int64_t last_ns; /* when the last packet in order leaves */
    uint64_t key;    /* of its random numbers */
    uint64_t drawn;
};

/* A packet on its way; the heap has the earliest first. */
struct relay_held {
    int64_t due_ns;
    uint64_t number; /* of equals the first in goes first out */
    uint32_t slot;
    uint16_t from, to;
    uint16_t bytes;
    bool is_down; /* it has crossed the core */
};

struct relay_core {
    uint32_t node_count;
    struct relay_direction ways[RELAY_NODES_MAX][RELAY_WAYS];
    bool cut[RELAY_NODES_MAX][RELAY_NODES_MAX]; /* [from][to]: nothing arrives */
    uint64_t number;
    uint32_t held_count;
    struct relay_held held[RELAY_HELD_MAX];
    uint32_t free_slots[RELAY_HELD_MAX]; /* the first RELAY_HELD_MAX - held_count are free */
    uint8_t packets[RELAY_HELD_MAX][RELAY_PACKET_BYTES];
};

/* relay_core_init: an empty core in memory of zeros; links cost nothing. */
void relay_core_init(struct relay_core *core, uint32_t node_count, uint64_t seed);

/* relay_core_take: a packet from node `from` to node `to`, copied, or dropped.
 * limits  from, to < node_count; bytes <= RELAY_PACKET_BYTES */
void relay_core_take(struct relay_core *core, int64_t now_ns, uint32_t from, uint32_t to,
                     const uint8_t *packet, size_t bytes);

/* relay_core_due: when relay_core_next has something to do; INT64_MAX when nothing is held. */
int64_t relay_core_due(const struct relay_core *core);

/* relay_core_next: the next packet that has arrived at its node by now; false when there is none.
 * *packet is valid until the next relay_core_take. */
bool relay_core_next(struct relay_core *core, int64_t now_ns, uint32_t *to, const uint8_t **packet,
                     size_t *bytes);

#endif
