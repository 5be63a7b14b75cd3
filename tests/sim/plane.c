/* plane: the simulated data plane: a toy codec, sums, roots, signatures and messages' copies. */
#include "tests/sim/world.h"

#include "base/check.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct coded plane_encode(const float *values) {
    struct coded coded = {0};
    float most = 0;
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        most = fmaxf(most, fabsf(values[i]));
    }
    coded.scale = most / 127.0f;
    for (int i = 0; i < SLICE_ELEMENTS && coded.scale > 0; i++) {
        coded.steps[i] = (int8_t)lrintf(values[i] / coded.scale);
    }
    return coded;
}

struct hash plane_root(const struct world *world, const struct outer *outer) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, outer->values, world->slice_count * SLICE_ELEMENTS * sizeof(float));
    hash_add(&state, outer->momentum, world->slice_count * SLICE_ELEMENTS * sizeof(float));
    return hash_end(&state);
}

struct hash plane_entry_hash(const struct entry *entry, const struct hash *root) {
    struct hash_state state;
    const struct data_cursor *cursor = &entry->cursor;
    hash_begin(&state);
    hash_add(&state, &entry->kind, sizeof(entry->kind));
    hash_add(&state, &entry->incarnation, sizeof(entry->incarnation));
    hash_add(&state, &entry->round, sizeof(entry->round));
    hash_add(&state, &entry->prev, sizeof(entry->prev));
    hash_add(&state, root, sizeof(*root));
    hash_add(&state, &cursor->position, sizeof(cursor->position));
    hash_add(&state, cursor->returned, cursor->returned_count * sizeof(cursor->returned[0]));
    hash_add(&state, entry->seats, entry->seat_count * sizeof(entry->seats[0]));
    hash_add(&state, entry->members, sizeof(entry->members));
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        hash_add(&state, &entry->slices[s].epoch, sizeof(uint32_t));
        hash_add(&state, &entry->slices[s].contributors, sizeof(uint64_t));
        hash_add(&state, &entry->slices[s].hash, sizeof(struct hash));
    }
    return hash_end(&state);
}

struct signature plane_sign(const struct identity *id, const struct hash *hash) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, id, sizeof(*id));
    hash_add(&state, hash, sizeof(*hash));
    struct hash signed_hash = hash_end(&state);
    struct signature signature = {{0}};
    memcpy(signature.bytes, &signed_hash, sizeof(signed_hash));
    return signature;
}

void plane_record_init(struct tracker_record *record, uint32_t slice_count) {
    memset(record, 0, sizeof(*record));
    record->head.slices = calloc(slice_count, sizeof(struct entry_slice));
    record->commit.slices = calloc(slice_count, sizeof(struct entry_slice));
    record->table.slices = calloc(slice_count, sizeof(struct slice_plan));
    record->table.hashes = calloc((size_t)SWARM_MEMBERS_MAX * slice_count, sizeof(struct hash));
}

void plane_record_finish(struct tracker_record *record) {
    free(record->head.slices);
    free(record->commit.slices);
    free(record->table.slices);
    free(record->table.hashes);
}

void plane_record_copy(struct tracker_record *to, const struct tracker_record *from,
                       uint32_t slice_count) {
    struct tracker_record arrays = *to;
    *to = *from;
    to->head.slices = arrays.head.slices;
    to->commit.slices = arrays.commit.slices;
    to->table.slices = arrays.table.slices;
    to->table.hashes = arrays.table.hashes;
    memcpy(to->head.slices, from->head.slices, slice_count * sizeof(struct entry_slice));
    memcpy(to->commit.slices, from->commit.slices, slice_count * sizeof(struct entry_slice));
    memcpy(to->table.slices, from->table.slices, slice_count * sizeof(struct slice_plan));
    memcpy(to->table.hashes, from->table.hashes,
           (size_t)SWARM_MEMBERS_MAX * slice_count * sizeof(struct hash));
}

void plane_free(struct parcel *parcel) {
    free(parcel->entry);
    free(parcel->table);
    free(parcel->declared);
    free(parcel);
}

/* A copy with arrays of its own. */
static struct parcel *copy_message(const struct world *world, const struct message *message) {
    uint32_t count = world->slice_count;
    struct parcel *parcel = calloc(1, sizeof(*parcel));
    parcel->message = *message;
    if (message->entry != NULL) {
        parcel->entry = malloc(sizeof(struct entry));
        parcel->entry->slices = parcel->slices;
        entry_copy(parcel->entry, message->entry);
        parcel->message.entry = parcel->entry;
    }
    if (message->table != NULL) {
        size_t bytes = (size_t)SWARM_MEMBERS_MAX * count * sizeof(struct hash);
        parcel->table = malloc(sizeof(struct round_table));
        *parcel->table = *message->table;
        parcel->declared = malloc(bytes);
        memcpy(parcel->declared, message->table->hashes, bytes);
        memcpy(parcel->plans, message->table->slices, count * sizeof(struct slice_plan));
        parcel->table->slices = parcel->plans;
        parcel->table->hashes = parcel->declared;
        parcel->message.table = parcel->table;
    }
    if (message->reports != NULL) {
        memcpy(parcel->reports, message->reports, count * sizeof(struct slice_report));
        parcel->message.reports = parcel->reports;
    }
    if (message->hashes != NULL) {
        memcpy(parcel->hashes, message->hashes, count * sizeof(struct hash));
        parcel->message.hashes = parcel->hashes;
    }
    return parcel;
}

static const struct stored *find_result(const struct node *node, uint32_t slice,
                                        const struct hash *hash) {
    for (int i = 0; i < STORE_ROWS; i++) {
        struct hash have = hash_of(&node->store[i].coded, sizeof(struct coded));
        if (node->store[i].round > 0 && node->store[i].slice == slice && hash_equal(&have, hash)) {
            return &node->store[i];
        }
    }
    return NULL;
}

static void keep_result(struct node *node, uint32_t round, uint32_t slice, struct coded coded) {
    node->store[node->store_next] = (struct stored){.round = round, .slice = slice, .coded = coded};
    node->store_next = (node->store_next + 1) % STORE_ROWS;
}

/* The bytes that follow; 0 if they are not at hand. */
static int attach(const struct world *world, const struct node *node, struct parcel *parcel) {
    const struct message *message = &parcel->message;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->coded = node->own.slices[message->slice];
    } else if (message->kind == MESSAGE_RESULT) {
        const struct stored *stored = find_result(node, message->slice, &message->hash);
        if (stored == NULL) {
            return 0;
        }
        parcel->coded = stored->coded;
    } else if (message->kind == MESSAGE_STATE) {
        struct hash root = plane_root(world, &node->outer);
        if (!hash_equal(&root, &message->root)) {
            return 0;
        }
        parcel->outer = node->outer;
    }
    return 1;
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct message *message) {
    uint64_t copies = world_draw(world, 100) < 3 ? 2 : 1;
    for (uint64_t copy = 0; copy < copies; copy++) {
        int is_lost = (double)world_draw(world, 1000) < world->loss * 1000;
        if (world->cut_until[from][to] > world->now || is_lost) {
            continue;
        }
        struct parcel *parcel = copy_message(world, message);
        if (!attach(world, &world->nodes[from], parcel)) {
            plane_free(parcel);
            continue;
        }
        int has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
        if (has_bytes && world_draw(world, 200) == 0) {
            parcel->coded.steps[world_draw(world, SLICE_ELEMENTS)] ^= 4;
        }
        if (has_bytes && world->mistake != MISTAKE_HASH_CHECK) {
            parcel->message.hash = hash_of(&parcel->coded, sizeof(parcel->coded));
            if (message->kind == MESSAGE_RESULT &&
                !hash_equal(&parcel->message.hash, &message->hash)) {
                plane_free(parcel); /* not what the owner has signed */
                continue;
            }
        }
        int64_t delay = 1 + (int64_t)world_draw(world, (uint64_t)world->delay);
        delay += world_draw(world, 20) == 0 ? (int64_t)world_draw(world, 400) : 0;
        world_add(world, HAPPEN_PARCEL, to, delay)->parcel = parcel;
    }
}

static void send_message(struct world *world, uint32_t from, const struct action *action) {
    struct message message = action->message;
    if (!action->to_tracker) {
        post(world, from, action->to.bytes[0], &message);
        return;
    }
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        post(world, from, tracker, &message);
    }
}

static void write_record(struct world *world, uint32_t node, const struct action *action) {
    struct happening *write = world_add(world, HAPPEN_WRITTEN, node, 1 + world_draw(world, 5));
    write->record = malloc(sizeof(struct tracker_record));
    plane_record_init(write->record, world->slice_count);
    plane_record_copy(write->record, action->record, world->slice_count);
    write->is_appending = action->entry != NULL;
}

static void train(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct happening *done =
        world_add(world, HAPPEN_EVENT, index, node->slow * (20 + world_draw(world, 80)));
    done->event.kind = EVENT_TRAINED;
    done->event.round = action->round;
    node->own.round = action->round;
    for (uint32_t r = 0; r < action->range_count; r++) {
        done->event.tokens += action->ranges[r].end - action->ranges[r].begin;
    }
    done->event.tokens = world_draw(world, 12) == 0 ? 0 : done->event.tokens;
    uint64_t key = random_key(world->key + index, "contribution");
    for (uint32_t s = 0; s < world->slice_count; s++) {
        float values[SLICE_ELEMENTS];
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            uint64_t at = ((uint64_t)action->round * SLICES_MOST + s) * SLICE_ELEMENTS + i;
            values[i] = random_normal(key, at) + node->outer.values[s * SLICE_ELEMENTS + i];
        }
        node->own.slices[s] = plane_encode(values);
        done->hashes[s] = hash_of(&node->own.slices[s], sizeof(struct coded));
    }
    ASSERT(world->truth_count < TRUTHS);
    world->truths[world->truth_count] = node->own;
    world->truths[world->truth_count++].session = index;
}

/* Ascending seats, in fp32, one weight after the other; then encoded once. */
static void sum(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    float total[SLICE_ELEMENTS] = {0};
    float weight = 0;
    for (uint32_t turn = 0; turn < MEMBERS_MOST; turn++) {
        uint32_t seat = world->mistake == MISTAKE_SUM_ORDER ? MEMBERS_MOST - 1 - turn : turn;
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        int is_own = seat == action->table->slices[action->slice].owner;
        const struct coded *coded =
            is_own ? &node->own.slices[action->slice]
                   : &node->kept[action->slice][action->entry->seats[seat].id.bytes[0]];
        float share = (float)action->table->members[seat].weight;
        weight += share;
        for (int i = 0; i < SLICE_ELEMENTS; i++) {
            total[i] += share * ((float)coded->steps[i] * coded->scale);
        }
    }
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        total[i] = weight > 0 ? total[i] / weight : 0;
    }
    struct coded result = plane_encode(total);
    keep_result(node, action->round, action->slice, result);
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 4));
    done->event.kind = EVENT_SUMMED;
    done->event.job = action->job;
    done->event.hash = hash_of(&result, sizeof(result));
}

/* The outer state after an entry's results; 0 if one of them is not there. */
static int outer_after(const struct world *world, const struct node *node,
                       const struct entry *entry, struct outer *outer) {
    *outer = node->outer;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct stored *stored = find_result(node, s, &entry->slices[s].hash);
        if (stored == NULL) {
            return 0;
        }
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            float gradient = (float)stored->coded.steps[i] * stored->coded.scale;
            float *momentum = &outer->momentum[s * SLICE_ELEMENTS + i];
            *momentum = 0.9f * *momentum + gradient;
            outer->values[s * SLICE_ELEMENTS + i] -= 0.1f * (gradient + 0.9f * *momentum);
        }
    }
    return 1;
}

static void root_or_apply(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct outer after;
    if (!outer_after(world, node, action->entry, &after)) {
        world_fail(world, "node %u was told that it holds results that it lacks", index);
        return;
    }
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 8));
    done->event.job = action->job;
    done->event.root = plane_root(world, &after);
    if (action->kind == ACTION_APPLY) {
        done->event.kind = EVENT_APPLIED;
        node->outer = after;
        oracle_applied(world, index, &done->event.root);
        return;
    }
    struct identity id = {{(uint8_t)index}};
    done->event.kind = EVENT_ROOTED;
    done->event.hash = plane_entry_hash(action->entry, &done->event.root);
    done->event.signature = plane_sign(&id, &done->event.hash);
}

static void store(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    for (uint32_t s = 0; s < world->slice_count; s++) {
        struct stored *stored =
            (struct stored *)find_result(node, s, &action->entry->slices[s].hash);
        ASSERT(stored != NULL);
        stored->is_durable = 1;
        stored->round = action->entry->round;
        stored->contributors = action->entry->slices[s].contributors;
    }
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 8));
    done->event.kind = EVENT_STORED;
    done->event.job = action->job;
}

static void adopt(struct world *world, uint32_t index, const struct action *action,
                  const struct parcel *parcel) {
    world->nodes[index].outer = parcel->outer;
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 8));
    done->event.kind = EVENT_APPLIED;
    done->event.job = action->job;
    done->event.root = plane_root(world, &parcel->outer);
    oracle_applied(world, index, &done->event.root);
}

static void keep(struct world *world, uint32_t index, const struct parcel *parcel) {
    const struct message *message = &parcel->message;
    struct node *node = &world->nodes[index];
    if (message->kind == MESSAGE_RESULT) {
        keep_result(node, message->round, message->slice, parcel->coded);
        return;
    }
    node->kept[message->slice][message->from.bytes[0]] = parcel->coded;
}

void plane_act(struct world *world, uint32_t node, const struct actions *actions,
               const struct parcel *parcel) {
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct action *action = &actions->rows[i];
        switch (action->kind) {
        case ACTION_SEND:
            send_message(world, node, action);
            break;
        case ACTION_WRITE:
            write_record(world, node, action);
            break;
        case ACTION_KEEP:
            keep(world, node, parcel);
            break;
        case ACTION_TRAIN:
            train(world, node, action);
            break;
        case ACTION_SUM:
            sum(world, node, action);
            break;
        case ACTION_ROOT:
        case ACTION_APPLY:
            root_or_apply(world, node, action);
            break;
        case ACTION_STORE:
            store(world, node, action);
            break;
        case ACTION_ADOPT:
            adopt(world, node, action, parcel);
            break;
        case ACTION_LEFT:
            world->nodes[node].has_left = 1;
            break;
        }
    }
}
