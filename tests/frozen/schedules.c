/* schedules: what the real machines do in the simulator's schedules of seeds 0 to 999: one line
 * for each 50 seeds, with the number of actions and a digest of all of them in order.
 *
 * The digest covers meanings, never memory: each action's kind and the fields that its kind names,
 * messages and entries as they are written to the wire, the tracker's record as it is written to
 * its disk. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/tracker/tracker_durable.h"
#include "runtime/swarm/wire/wire.h"
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 1000, SEEDS_A_LINE = 50, BYTES_MAX = 1 << 20 };

struct digest {
    struct hash_state state;
    uint64_t actions;
    uint8_t bytes[BYTES_MAX];
};

static void add_number(struct digest *digest, uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(number >> 8 * i);
    }
    hash_add(&digest->state, bytes, sizeof(bytes));
}

static void add_written(struct digest *digest, size_t count) {
    add_number(digest, count);
    hash_add(&digest->state, digest->bytes, count);
}

static void add_entry(struct digest *digest, const struct entry *entry) {
    add_written(digest, entry == NULL ? 0 : entry_write(entry, digest->bytes, BYTES_MAX));
}

static void add_message(struct digest *digest, const struct world *world,
                        const struct message *message) {
    struct wire_shape shape = {.slice_count = world->slice_count, .members_max = MEMBERS_MOST};
    struct frame frame;
    uint8_t header[FRAME_HEADER_BYTES];
    int has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
    size_t count = wire_write_message(&shape, message, has_bytes ? sizeof(struct coded) : 0, &frame,
                                      digest->bytes, BYTES_MAX);
    frame_write(&frame, header);
    hash_add(&digest->state, header, sizeof(header));
    add_written(digest, count);
    hash_add(&digest->state, message->hash.bytes, HASH_BYTES); /* not every kind writes it */
}

static void add_declared(struct digest *digest, const struct round_table *table, uint32_t slices) {
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if (table->version > 0 && (table->declared_seats >> seat & 1) != 0) {
            hash_add(&digest->state, table->hashes[(size_t)seat * slices].bytes,
                     slices * sizeof(struct hash));
        }
    }
}

static void add_record(struct digest *digest, const struct world *world,
                       const struct action *action) {
    const struct tracker_record *record = action->record;
    add_number(digest, action->parts);
    add_number(digest, record->incarnation);
    add_written(digest, record_write_members(record, digest->bytes));
    add_written(digest, record_write_table(record, world->slice_count, digest->bytes));
    if ((action->parts & RECORD_DECLARED) != 0) {
        add_declared(digest, &record->table, world->slice_count);
    }
    if ((action->parts & RECORD_HEAD) != 0) {
        add_entry(digest, &record->head);
        add_entry(digest, &record->commit);
        hash_add(&digest->state, record->base_root.bytes, HASH_BYTES);
    }
    add_entry(digest, action->entry);
}

static void add_training(struct digest *digest, const struct action *action) {
    add_number(digest, action->round);
    add_number(digest, action->commits);
    add_number(digest, action->deadline_ms);
    for (uint32_t i = 0; i < action->range_count; i++) {
        add_number(digest, action->ranges[i].begin);
        add_number(digest, action->ranges[i].end);
    }
}

static void add_sum(struct digest *digest, const struct action *action) {
    add_number(digest, action->round);
    add_number(digest, action->slice);
    add_number(digest, action->epoch);
    add_number(digest, action->contributors);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        if ((action->contributors >> seat & 1) != 0) {
            add_number(digest, action->table->members[seat].weight);
            add_number(digest, (int)seat == action->seat ? 0 : action->slots[seat]);
        }
    }
}

static void add_action(struct world *world, uint32_t node, const struct action *action) {
    struct digest *digest = world->observed;
    digest->actions++;
    add_number(digest, (uint64_t)world->now);
    add_number(digest, node);
    add_number(digest, action->kind);
    switch (action->kind) {
    case ACTION_SEND:
        add_number(digest, action->to_tracker ? UINT64_MAX : action->to.bytes[0]);
        add_message(digest, world, &action->message);
        break;
    case ACTION_WRITE:
        add_record(digest, world, action);
        break;
    case ACTION_KEEP_BYTES:
        add_number(digest, (uint64_t)action->seat);
        add_number(digest, action->slot);
        break;
    case ACTION_TRAIN:
        add_training(digest, action);
        break;
    case ACTION_SUM:
    case ACTION_ROOT:
    case ACTION_STORE:
    case ACTION_APPLY:
    case ACTION_ADOPT:
        add_number(digest, action->job);
        add_number(digest, (uint64_t)action->seat);
        add_entry(digest, action->entry);
        if (action->kind == ACTION_SUM) {
            add_sum(digest, action);
        }
        break;
    case ACTION_LEFT:
        break;
    }
}

/* Gives whether every oracle held. */
static int print_line(struct world *world, uint64_t first) {
    struct digest *digest = world->observed;
    char hex[HASH_HEX_BYTES];
    int is_good = 1;
    hash_begin(&digest->state);
    digest->actions = 0;
    for (uint64_t seed = first; seed < first + SEEDS_A_LINE; seed++) {
        if (!world_run(world, seed, MISTAKE_NONE)) {
            fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, world->failure);
            is_good = 0;
        }
    }
    struct hash hash = hash_end(&digest->state);
    printf("seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " actions, %s\n", first,
           first + SEEDS_A_LINE - 1, digest->actions, hash_hex(&hash, hex));
    return is_good;
}

int main(void) {
    struct world *world = calloc(1, sizeof(*world));
    struct digest *digest = aligned_alloc(_Alignof(struct digest), sizeof(*digest));
    int is_good = 1;
    world->observe = add_action;
    world->observed = digest;
    for (uint64_t first = 0; first < SEEDS; first += SEEDS_A_LINE) {
        is_good &= print_line(world, first);
    }
    free(digest);
    free(world);
    return is_good ? 0 : 1;
}
