/* plane: the simulated data plane: a toy codec, sums, roots, adoption, feedback. */
#include "tests/sim/parts.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 5, LEAF_MS = 30 };

struct coded plane_encode(const float *values) {
    struct coded coded = {0};
    float most = 0;
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        most = isfinite(values[i]) ? fmaxf(most, fabsf(values[i])) : INFINITY;
    }
    coded.scale = most / 127.0f;
    for (int i = 0; i < SLICE_ELEMENTS && coded.scale > 0 && isfinite(coded.scale); i++) {
        coded.steps[i] = (int8_t)lrintf(values[i] / coded.scale);
    }
    return coded;
}

int plane_is_sound(const struct coded *coded) {
    return isfinite(coded->scale) && coded->scale >= 0;
}

double plane_norm(const struct coded *coded) {
    double energy = 0;
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        double value = (double)((float)coded->steps[i] * coded->scale);
        energy += value * value;
    }
    return plane_is_sound(coded) ? sqrt(energy) : (double)INFINITY;
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

/* Only results of its own round match: results of two rounds may be the same bytes. */
struct stored *plane_find(struct node *node, uint32_t round, uint32_t slice,
                          const struct hash *hash) {
    for (int i = 0; i < STORE_ROWS; i++) {
        struct stored *stored = &node->results[i];
        if (stored->round == round && stored->slice == slice && hash_equal(&stored->hash, hash)) {
            return stored;
        }
    }
    return NULL;
}

uint32_t plane_stored(const struct world *world, const struct node *node,
                      struct slice_report *reports) {
    uint32_t round = 0;
    for (int i = 0; i < STORE_ROWS; i++) {
        round = node->results[i].round > round ? node->results[i].round : round;
    }
    memset(reports, 0, world->slice_count * sizeof(*reports));
    for (int i = 0; i < STORE_ROWS; i++) {
        const struct stored *stored = &node->results[i];
        if (round > 0 && stored->round == round) {
            struct slice_report *report = &reports[stored->slice];
            report->has_result = 1;
            report->epoch = stored->epoch;
            report->contributors = stored->contributors;
            report->hash = stored->hash;
        }
    }
    return round;
}

/* The same bytes with the statement of another owner replace the older statement, which members no
 * longer accept. */
static void keep_result(struct world *world, uint32_t index, const struct message *message,
                        struct coded coded) {
    struct node *node = &world->nodes[index];
    struct stored *stored = plane_find(node, message->round, message->slice, &message->hash);
    const int is_durable = stored != NULL && stored->is_durable;
    if (stored == NULL) {
        stored = &node->results[node->results_next];
        node->results_next = (node->results_next + 1) % (STORE_ROUNDS * world->slice_count);
    }
    *stored = (struct stored){.round = message->round,
                              .is_durable = is_durable,
                              .slice = message->slice,
                              .epoch = message->epoch,
                              .contributors = message->contributors,
                              .owner = message->owner,
                              .signature = message->signature,
                              .hash = message->hash,
                              .coded = coded};
    measure_result(world, index);
}

static float total_weight(const struct action *action) {
    uint64_t total = 0;
    for (uint32_t seat = 0; seat < MEMBERS_MOST; seat++) {
        bool is_in = (action->contributors >> seat & 1) != 0;
        total += is_in ? action->table->members[seat].weight : 0;
    }
    return total > 0 ? (float)total : 1;
}

void plane_add(const struct entry_member *member, double reference, float weight,
               const struct coded *coded, float *mean) {
    float share = (float)member->weight / weight;
    share *= norms_clip(member->norm, reference);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        mean[i] += share * ((float)coded->steps[i] * coded->scale);
    }
}

struct coded plane_swapped(struct coded coded) {
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        coded.steps[i] = (int8_t)-coded.steps[i];
    }
    return coded;
}

struct coded plane_own_addend(const struct node *node, uint32_t slice) {
    const struct coded own = node->own.slices[slice];
    return node->hostility == HOSTILE_SWAP ? plane_swapped(own) : own;
}

/* Adds the contributions in ascending order of seats in fp32, each times its share of the weight,
 * and encodes the mean once. */
static struct coded add_up(const struct world *world, const struct node *node,
                           const struct action *action) {
    float mean[SLICE_ELEMENTS] = {0};
    float weight = total_weight(action);
    for (uint32_t turn = 0; turn < MEMBERS_MOST; turn++) {
        uint32_t seat = world->mistake == MISTAKE_SUM_ORDER ? MEMBERS_MOST - 1 - turn : turn;
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        const struct coded coded = (int)seat == action->seat
                                       ? plane_own_addend(node, action->slice)
                                       : node->slots[seat][action->slots[seat]];
        plane_add(&action->table->members[seat], action->table->reference_norm, weight, &coded,
                  mean);
    }
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        mean[i] += node->hostility == HOSTILE_SUM ? 1.0f : 0.0f;
    }
    return plane_encode(mean);
}

static void sum(struct world *world, uint32_t index, const struct action *action) {
    struct coded result = add_up(world, &world->nodes[index], action);
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = action->round,
                              .slice = action->slice,
                              .epoch = action->epoch,
                              .contributors = action->contributors,
                              .owner = {{(uint8_t)index}},
                              .hash = hash_of(&result, sizeof(result))};
    post_sign_message(world, &(struct identity){{(uint8_t)index}}, &message);
    keep_result(world, index, &message, result);
    ASSERT(world->sum_count < SUMS_MOST);
    world->sums[world->sum_count++] = (struct summed){.round = action->round,
                                                      .slice = action->slice,
                                                      .epoch = action->epoch,
                                                      .owner = index,
                                                      .contributors = action->contributors,
                                                      .hash = message.hash};
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 4));
    done->event.kind = EVENT_SUMMED;
    done->event.job = action->job;
    done->event.hash = message.hash;
}

/* The outer state after an entry's results; 0 if one of them is not there. */
static int outer_after(const struct world *world, struct node *node, const struct entry *entry,
                       struct outer *outer) {
    *outer = node->outer;
    outer->round = entry->round;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct stored *stored = plane_find(node, entry->round, s, &entry->slices[s].hash);
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

/* Feedback advances where the entry names the own seat, and nowhere else. An entry that names an
 * earlier start of this member leaves nothing of it. */
static void advance_feedback(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    const struct entry *entry = action->entry;
    int is_mine = action->seat >= 0 && node->own.round == entry->round;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        for (uint32_t s = 0; entry->seats[seat].id.bytes[0] == index && s < entry->slice_count;
             s++) {
            float *feedback = &node->feedback[s * SLICE_ELEMENTS];
            const float *residual = &node->own.residual[s * SLICE_ELEMENTS];
            if ((entry->slices[s].contributors >> seat & 1) != 0 && is_mine) {
                memcpy(feedback, residual, SLICE_ELEMENTS * sizeof(*feedback));
            } else if ((entry->slices[s].contributors >> seat & 1) != 0) {
                memset(feedback, 0, SLICE_ELEMENTS * sizeof(*feedback));
            }
        }
    }
}

static struct happening *add_done(struct world *world, uint32_t index, const struct action *action,
                                  enum event_kind kind) {
    struct happening *done =
        world_add(world, HAPPEN_EVENT, index, 1 + (int64_t)world_draw(world, 8));
    done->event.kind = kind;
    done->event.job = action->job;
    return done;
}

static int is_full(const struct world *world, const struct node *node) {
    return node->disk_full_until > world->now;
}

static void root_or_apply(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    static struct outer after; /* too large for the stack */
    if (!outer_after(world, node, action->entry, &after)) {
        world_fail(world, "node %u was told that it holds results that it lacks", index);
        return;
    }
    struct hash root = plane_root(world, &after);
    if (action->kind == ACTION_APPLY) {
        struct happening *done = add_done(world, index, action, EVENT_APPLIED);
        done->event.root = root;
        done->event.write_outcome = is_full(world, node) ? WRITE_FAILED : WRITE_OK;
        if (done->event.write_outcome == WRITE_OK) {
            advance_feedback(world, index, action);
            node->outer = after;
            node->applied += 1;
            node->snapshot = node->applied % SNAPSHOT_COMMITS == 0 ? after : node->snapshot;
            oracle_applied(world, index, &root, 0);
        }
        return;
    }
    root.bytes[0] ^= node->hostility == HOSTILE_VOTE;
    struct identity id = {{(uint8_t)index}};
    struct happening *done = add_done(world, index, action, EVENT_ROOT_COMPUTED);
    done->event.root = root;
    done->event.hash = plane_entry_hash(action->entry, &root);
    done->event.signature = post_sign(&id, &done->event.hash);
}

static void store(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct happening *done = add_done(world, index, action, EVENT_STORED);
    done->event.write_outcome = is_full(world, node) ? WRITE_FAILED : WRITE_OK;
    if (action->lease != NULL && done->event.write_outcome == WRITE_OK) {
        node->lease = *action->lease;
    }
    for (uint32_t s = 0; s < world->slice_count && done->event.write_outcome == WRITE_OK; s++) {
        struct stored *stored =
            plane_find(node, action->entry->round, s, &action->entry->slices[s].hash);
        ASSERT(stored != NULL);
        stored->is_durable = 1;
    }
}

static void next_leaf(struct world *world, uint32_t index) {
    struct happening *leaf =
        world_add(world, HAPPEN_LEAF, index, 1 + (int64_t)world_draw(world, LEAF_MS));
    leaf->event.job = world->nodes[index].adopting.job;
}

static void adopt(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    if (!hash_equal(&node->adopt_root, &action->entry->root)) {
        node->leaves = 0;
    }
    world->adoptions += 1;
    chain_on_fetch(world, index, action->entry);
    node->adopting = *action;
    node->adopt_root = action->entry->root;
    node->adopting_round = action->entry->round;
    next_leaf(world, index);
}

static void end_adoption(struct world *world, uint32_t index, const struct outer *outer) {
    struct node *node = &world->nodes[index];
    struct happening *done = add_done(world, index, &node->adopting, EVENT_APPLIED);
    node->adopting.job = 0;
    node->leaves = 0;
    done->event.root = node->adopt_root;
    done->event.write_outcome = is_full(world, node) ? WRITE_FAILED : WRITE_OK;
    if (done->event.write_outcome == WRITE_OK) {
        node->outer = *outer;
        node->outer.round = node->adopting_round;
        node->snapshot = node->outer;
        memset(node->feedback, 0, sizeof(node->feedback));
        oracle_applied(world, index, &done->event.root, 1);
    }
}

/* Leaves come from the member's own disk, or from any reachable member whose state has the root.
 * Those that have arrived are kept. */
void plane_leaf(struct world *world, uint32_t index, uint32_t job) {
    struct node *node = &world->nodes[index];
    if (node->adopting.job != job) {
        return; /* another adoption has begun */
    }
    struct hash root = plane_root(world, &node->outer);
    if (hash_equal(&root, &node->adopt_root)) {
        static struct outer own;
        own = node->outer;
        end_adoption(world, index, &own);
        return;
    }
    uint32_t other = TRACKERS + (uint32_t)world_draw(world, world->member_count);
    const struct node *from = &world->nodes[other];
    int is_reached = from->machine != NULL && from->paused_until <= world->now &&
                     from->adopting.job == 0 && net_is_connected(world, other, index) &&
                     net_is_connected(world, index, other);
    root = plane_root(world, &from->outer);
    node->leaves += (uint32_t)(is_reached && hash_equal(&root, &node->adopt_root));
    if (node->leaves < LEAVES || !is_reached || !hash_equal(&root, &node->adopt_root)) {
        next_leaf(world, index);
        return;
    }
    end_adoption(world, index, &from->outer);
}

static void keep(struct world *world, uint32_t index, const struct action *action,
                 const struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    if (parcel->message.kind == MESSAGE_RESULT) {
        keep_result(world, index, &parcel->message, parcel->coded);
        return;
    }
    if (parcel->message.kind == MESSAGE_SKETCHES) {
        memcpy(node->sketches[action->seat], parcel->sketches, sizeof(node->own_sketches));
        node->sketch_messages[action->seat] = parcel->message;
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
            post_send(world, node, action);
            break;
        case ACTION_WRITE:
            store_transaction(world, node, action);
            break;
        case ACTION_KEEP_BYTES:
            keep(world, node, action, parcel);
            break;
        case ACTION_TRAIN:
            training_begin(world, node, action);
            break;
        case ACTION_END_TRAINING:
            training_end(world, node, action->round);
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
        case ACTION_SKETCH:
        case ACTION_CHECK:
        case ACTION_RECHECK:
            check_act(world, node, action);
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
