/* measure: what a member measures of its own work and link, for its reports: medians of recent
 * values, as the real process takes them. */
#include "tests/sim/parts.h"

#include "base/statistics.h"

enum {
    PING_BYTES = 64,
    PING_TIMEOUT_MS = 2000, /* time until an unanswered ping is replaced */
    US_PER_MS = 1000,
    WINDOW_US = 1000000,
    KIB = 1024,
    DEFAULT_UPLOAD_KIB_S = 12800, /* rate that a member reports until it has measured one */
};

static void add_value(struct recent_values *recent, int64_t value) {
    recent->values[recent->count++ % UPLINK_RECENT_VALUES] = value;
}

static uint32_t median(const struct recent_values *recent) {
    uint32_t count = recent->count < UPLINK_RECENT_VALUES ? recent->count : UPLINK_RECENT_VALUES;
    return count > 0 ? (uint32_t)median_i64(recent->values, (int)count) : 0;
}

void measure_ping(struct world *world, uint32_t node) {
    struct measures *measures = &world->nodes[node].measures;
    if (measures->pinged_ms > 0 && world->now - measures->pinged_ms < PING_TIMEOUT_MS) {
        return;
    }
    const uint32_t tracker = world->nodes[node].store; /* the one that has this store */
    measures->pinged_ms = world->now;
    if (net_is_connected(world, node, tracker)) {
        int64_t wait_ms = net_send_control(world, node, PING_BYTES);
        struct happening *ping = world_add(world, HAPPEN_PING, tracker, wait_ms);
        ping->other = node;
        ping->lasts = world->now;
    }
}

void measure_answer(struct world *world, const struct happening *ping) {
    if (net_is_connected(world, ping->node, ping->other)) {
        int64_t wait_ms = net_send_control(world, ping->node, PING_BYTES);
        world_add(world, HAPPEN_PONG, ping->other, wait_ms)->lasts = ping->lasts;
    }
}

void measure_pong(struct world *world, const struct happening *pong) {
    struct measures *measures = &world->nodes[pong->node].measures;
    if (pong->lasts == measures->pinged_ms) {
        add_value(&measures->round_trips, world->now - pong->lasts);
        measures->pinged_ms = 0;
    }
}

void measure_training(struct node *node, int64_t step_ms) {
    add_value(&node->measures.steps, step_ms);
}

static void begin_exchange(struct world *world, struct measures *measures, uint32_t round) {
    measures->round = round;
    measures->table_ms = world->now;
    measures->last_result_ms = world->now;
    measures->window_us = world->now * US_PER_MS;
    measures->window_bytes = 0;
    measures->best_kib_s = 0;
}

static void end_exchange(struct measures *measures) {
    measures->round = 0;
    add_value(&measures->transfers, measures->last_result_ms - measures->table_ms);
    if (measures->best_kib_s > 0) {
        add_value(&measures->rates, measures->best_kib_s);
    }
}

/* The first TABLE of a round begins an exchange, and its COMMIT ends it. The OPEN of a later round
 * ends it without a value. */
void measure_message(struct world *world, uint32_t node, const struct message *message) {
    struct measures *measures = &world->nodes[node].measures;
    const struct entry *entry = message->kind == MESSAGE_ENTRY ? message->entry : NULL;
    if (message->kind == MESSAGE_TABLE && message->round > measures->round) {
        begin_exchange(world, measures, message->round);
    } else if (entry != NULL && entry->kind == ENTRY_COMMIT && entry->round == measures->round) {
        end_exchange(measures);
    } else if (entry != NULL && entry->kind == ENTRY_OPEN && entry->round > measures->round) {
        measures->round = 0;
    }
}

void measure_result(struct world *world, uint32_t node) {
    world->nodes[node].measures.last_result_ms = world->now;
}

void measure_sent(struct node *node, int64_t sent_us, uint64_t bytes) {
    struct measures *measures = &node->measures;
    int64_t passed_us = sent_us - measures->window_us;
    measures->window_bytes += bytes;
    if (measures->round == 0 || passed_us < WINDOW_US) {
        return;
    }
    uint64_t kib_s = measures->window_bytes * WINDOW_US / (uint64_t)passed_us / KIB;
    measures->best_kib_s = kib_s > measures->best_kib_s ? (uint32_t)kib_s : measures->best_kib_s;
    measures->window_us = sent_us;
    measures->window_bytes = 0;
}

void measure_draw(struct world *world, uint32_t node) {
    static const uint32_t UPS[] = {0, TIMING_UNKNOWN, 100, 1000, 3000, 10000};
    if (!world->is_measuring && world_draw(world, 4) > 0) {
        struct timing_measured measured = {.step_ms = 5 + (uint32_t)world_draw(world, 10),
                                           .transfer_ms = 50 + (uint32_t)world_draw(world, 200),
                                           .round_trip_ms = 10 + (uint32_t)world_draw(world, 100)};
        measured.upload_kib_s = UPS[world_draw(world, ARRAY_COUNT(UPS))];
        member_set_measured_medians(world->nodes[node].machine, &measured);
    }
}

/* A member that accepts no connections reports no rate, so that it owns no slices. */
void measure_report(struct world *world, uint32_t node) {
    const struct node *at = &world->nodes[node];
    if (!world->is_measuring) {
        return;
    }
    uint32_t best_kib_s = median(&at->measures.rates);
    struct timing_measured measured = {.step_ms = median(&at->measures.steps),
                                       .transfer_ms = median(&at->measures.transfers),
                                       .round_trip_ms = median(&at->measures.round_trips)};
    measured.upload_kib_s = best_kib_s > 0 ? best_kib_s : DEFAULT_UPLOAD_KIB_S;
    if (at->link.is_dial_only) {
        measured.upload_kib_s = 0;
    }
    member_set_measured_medians(at->machine, &measured);
}
