/* plane: the simulated data plane: a toy codec, sums, roots, signatures and messages' copies. */
#include "tests/sim/world.h"

#include "base/check.h"
#include "base/random.h"
#include "runtime/swarm/entry_code.h"

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
    struct entry *with_root = malloc(sizeof(*with_root));
    *with_root = *entry; /* shares the slices, which are only read */
    with_root->root = *root;
    struct hash hash = entry_hash(with_root);
    free(with_root);
    return hash;
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
    if (message->holders != NULL) {
        memcpy(parcel->holders, message->holders, count * sizeof(uint64_t));
        parcel->message.holders = parcel->holders;
    }
    return parcel;
}

/* Of its own round: results of two rounds may be the same bytes. */
static struct stored *find_result(struct node *node, uint32_t round, uint32_t slice,
                                  const struct hash *hash) {
    for (int i = 0; i < STORE_ROWS; i++) {
        struct stored *stored = &node->store[i];
        struct hash have = hash_of(&stored->coded, sizeof(stored->coded));
        if (stored->round == round && stored->slice == slice && hash_equal(&have, hash)) {
            return stored;
        }
    }
    return NULL;
}

/* What an owner signs of a result. */
static struct hash result_hash(const struct message *message) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &message->round, sizeof(message->round));
    hash_add(&state, &message->slice, sizeof(message->slice));
    hash_add(&state, &message->epoch, sizeof(message->epoch));
    hash_add(&state, &message->contributors, sizeof(message->contributors));
    hash_add(&state, &message->hash, sizeof(message->hash));
    return hash_end(&state);
}

/* The bytes that follow, and what was kept with them; 0 if they are not at hand. */
static int attach(struct node *node, struct parcel *parcel) {
    struct message *message = &parcel->message;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->coded = node->own.slices[message->slice];
    } else if (message->kind == MESSAGE_RESULT) {
        const struct stored *stored =
            find_result(node, message->round, message->slice, &message->hash);
        if (stored == NULL) {
            return 0;
        }
        parcel->coded = stored->coded;
        message->epoch = stored->epoch;
        message->contributors = stored->contributors;
        message->owner = stored->owner;
        message->signature = stored->signature;
    }
    return 1;
}

int plane_take(const struct world *world, struct parcel *parcel) {
    struct message *message = &parcel->message;
    if (message->kind != MESSAGE_CONTRIBUTION && message->kind != MESSAGE_RESULT) {
        return 1;
    }
    struct hash hash = hash_of(&parcel->coded, sizeof(parcel->coded));
    hash = world->mistake == MISTAKE_HASH_CHECK ? message->hash : hash;
    int is_whole = hash_equal(&hash, &message->hash);
    message->hash = hash;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        return 1;
    }
    struct hash content = result_hash(message);
    struct signature good = plane_sign(&message->owner, &content);
    return is_whole && memcmp(&good, &message->signature, sizeof(good)) == 0;
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct message *message) {
    uint64_t copies = world_draw(world, 100) < 3 ? 2 : 1;
    for (uint64_t copy = 0; copy < copies; copy++) {
        int is_lost = (double)world_draw(world, 1000) < world->loss * 1000;
        if (world->cut_until[from][to] > world->now || is_lost) {
            continue;
        }
        struct parcel *parcel = copy_message(world, message);
        parcel->message.from.bytes[0] = (uint8_t)from;
        if (!attach(&world->nodes[from], parcel)) {
            plane_free(parcel);
            continue;
        }
        int has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
        if (has_bytes && world_draw(world, 200) == 0) {
            parcel->coded.steps[world_draw(world, SLICE_ELEMENTS)] ^= 4;
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

static void keep_result(struct node *node, const struct message *message, struct coded coded) {
    node->store[node->store_next] = (struct stored){.round = message->round,
                                                    .slice = message->slice,
                                                    .epoch = message->epoch,
                                                    .contributors = message->contributors,
                                                    .owner = message->owner,
                                                    .signature = message->signature,
                                                    .coded = coded};
    node->store_next = (node->store_next + 1) % STORE_ROWS;
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
        int is_own = (int)seat == action->seat;
        const struct coded *coded =
            is_own ? &node->own.slices[action->slice] : &node->slots[seat][action->slots[seat]];
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
    struct message message = {.round = action->round,
                              .slice = action->slice,
                              .epoch = action->epoch,
                              .contributors = action->contributors,
                              .owner = {{(uint8_t)index}},
                              .hash = hash_of(&result, sizeof(result))};
    struct hash content = result_hash(&message);
    message.signature = plane_sign(&message.owner, &content);
    keep_result(node, &message, result);
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 4));
    done->event.kind = EVENT_SUMMED;
    done->event.job = action->job;
    done->event.hash = hash_of(&result, sizeof(result));
}

/* The outer state after an entry's results; 0 if one of them is not there. */
static int outer_after(const struct world *world, struct node *node, const struct entry *entry,
                       struct outer *outer) {
    *outer = node->outer;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct stored *stored = find_result(node, entry->round, s, &entry->slices[s].hash);
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
            find_result(node, action->entry->round, s, &action->entry->slices[s].hash);
        ASSERT(stored != NULL);
        stored->is_durable = 1;
    }
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 8));
    done->event.kind = EVENT_STORED;
    done->event.job = action->job;
}

enum { LEAVES = 5, LEAF_MS = 30 };

static void next_leaf(struct world *world, uint32_t index) {
    struct happening *leaf =
        world_add(world, HAPPEN_LEAF, index, 1 + (int64_t)world_draw(world, LEAF_MS));
    leaf->event.job = world->nodes[index].adopting.job;
}

static void adopt(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    if (node->adopting.job == 0 || !hash_equal(&node->adopt_root, &action->entry->root)) {
        node->leaves = 0;
    }
    node->adopting = *action;
    node->adopt_root = action->entry->root;
    next_leaf(world, index);
}

/* From any member that can be reached and stands on the root; leaves that came stay. */
void plane_leaf(struct world *world, uint32_t index, uint32_t job) {
    struct node *node = &world->nodes[index];
    if (node->adopting.job != job) {
        return; /* another adoption has begun */
    }
    uint32_t other = TRACKERS + (uint32_t)world_draw(world, world->member_count);
    const struct node *from = &world->nodes[other];
    struct hash root = plane_root(world, &from->outer);
    int is_reached = from->machine != NULL && from->paused_until <= world->now &&
                     world->cut_until[other][index] <= world->now &&
                     world->cut_until[index][other] <= world->now && other != index;
    if (!is_reached || !hash_equal(&root, &node->adopt_root)) {
        next_leaf(world, index);
        return;
    }
    if (++node->leaves < LEAVES) {
        next_leaf(world, index);
        return;
    }
    node->outer = from->outer;
    node->adopting.job = 0;
    struct happening *done =
        world_add(world, HAPPEN_EVENT, index, 1 + (int64_t)world_draw(world, 8));
    done->event.kind = EVENT_APPLIED;
    done->event.job = job;
    done->event.root = root;
    oracle_applied(world, index, &root);
}

static void keep(struct world *world, uint32_t index, const struct action *action,
                 const struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    if (parcel->message.kind == MESSAGE_RESULT) {
        keep_result(node, &parcel->message, parcel->coded);
        return;
    }
    node->slots[action->seat][action->slot] = parcel->coded;
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
            keep(world, node, action, parcel);
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
            adopt(world, node, action);
            break;
        case ACTION_LEFT:
            world->nodes[node].has_left = 1;
            break;
        }
    }
}
