/* plane: the simulated data plane: results, roots, and the adoption of states. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "runtime/swarm/ledger/entry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 5, LEAF_MS = 30 };

struct hash plane_root(const struct world *world, const struct outer *outer) {
    return hash_is_zero(&outer->root) ? values_root(world, outer) : outer->root;
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

/* The result of an owner that lies is off by a tenth of its norm: in one element, or in all. */
static struct coded add_up(struct world *world, uint32_t index, const struct action *action) {
    struct coded result = values_sum(world, index, action);
    static float values[SLICE_ELEMENTS];
    if (world->nodes[index].hostility == HOSTILE_SUM && values_have_lists(world)) {
        values_spoil(world, action, &result);
    } else if (world->nodes[index].hostility == HOSTILE_SUM) {
        double norm = values_norm(world, &result);
        float change = (float)(norm > 0 ? 0.1 * norm : 1);
        bool is_dense = action->round % 2 == 0;
        values_decode(world, &result, values);
        for (int i = 0; i < (is_dense ? SLICE_ELEMENTS : 1); i++) {
            values[i] += is_dense ? change / sqrtf(SLICE_ELEMENTS) : change;
        }
        result = values_encode(world, values);
    }
    return result;
}

static void sum(struct world *world, uint32_t index, const struct action *action) {
    struct coded result = add_up(world, index, action);
    struct message message = {.kind = MESSAGE_RESULT,
                              .round = action->round,
                              .slice = action->slice,
                              .epoch = action->epoch,
                              .contributors = action->contributors,
                              .owner = {{(uint8_t)index}},
                              .hash = values_result_hash(world, &result)};
    post_sign_message(world, &(struct identity){{(uint8_t)index}}, &message);
    keep_result(world, index, &message, result);
    ASSERT(world->sum_count < SUMS_MOST);
    world->sums[world->sum_count++] = (struct summed){.round = action->round,
                                                      .slice = action->slice,
                                                      .epoch = action->epoch,
                                                      .owner = index,
                                                      .start = world->nodes[index].start,
                                                      .contributors = action->contributors,
                                                      .hash = message.hash};
    struct happening *done = world_add(world, HAPPEN_EVENT, index, 1 + world_draw(world, 4));
    done->event.kind = EVENT_SUMMED;
    done->event.job = action->job;
    done->event.hash = message.hash;
}

bool plane_made_result(const struct world *world, uint32_t node, const struct entry *entry,
                       uint32_t slice) {
    for (uint32_t i = world->sum_count; i > 0; i--) {
        const struct summed *sum = &world->sums[i - 1];
        if (sum->owner == node && sum->slice == slice) {
            return sum->start == world->nodes[node].start && sum->round == entry->round &&
                   hash_equal(&sum->hash, &entry->slices[slice].hash);
        }
    }
    return false;
}

static bool has_results(const struct world *world, struct node *node, const struct entry *entry) {
    bool has_all = true;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        has_all &= plane_find(node, entry->round, s, &entry->slices[s].hash) != NULL;
    }
    return has_all;
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

static void apply(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct happening *done = add_done(world, index, action, EVENT_APPLIED);
    done->event.write_outcome = is_full(world, node) ? WRITE_FAILED : WRITE_OK;
    if (done->event.write_outcome != WRITE_OK) {
        return;
    }
    static float before[ELEMENTS_MOST];
    memcpy(before, node->outer.values, sizeof before);
    values_apply(world, index, action);
    oracle_check_step(world, index, action->entry, before);
    node->outer.round = action->entry->round;
    node->outer.root = values_root(world, &node->outer);
    node->applied += 1;
    node->snapshot = node->applied % SNAPSHOT_COMMITS == 0 ? node->outer : node->snapshot;
    done->event.root = node->outer.root;
    oracle_applied(world, index, &done->event.root, 0);
}

static void vote(struct world *world, uint32_t index, const struct action *action) {
    struct identity id = {{(uint8_t)index}};
    struct hash root = values_root_after(world, index, action->entry);
    root.bytes[0] ^= world->nodes[index].hostility == HOSTILE_VOTE;
    struct happening *done = add_done(world, index, action, EVENT_ROOT_COMPUTED);
    done->event.root = root;
    done->event.hash = plane_entry_hash(action->entry, &root);
    done->event.signature = post_sign(&id, &done->event.hash);
}

static void root_or_apply(struct world *world, uint32_t index, const struct action *action) {
    if (!has_results(world, &world->nodes[index], action->entry)) {
        world_fail(world, "node %u was told that it holds results that it lacks", index);
    } else if (action->kind == ACTION_APPLY) {
        apply(world, index, action);
    } else {
        vote(world, index, action);
    }
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

static void resign(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct happening *done = add_done(world, index, action, EVENT_RESIGNED);
    done->event.write_outcome = is_full(world, node) ? WRITE_FAILED : WRITE_OK;
    if (done->event.write_outcome == WRITE_OK) {
        node->lease = *action->lease;
    }
}

static void next_leaf(struct world *world, uint32_t index) {
    struct happening *leaf =
        world_add(world, HAPPEN_LEAF, index, 1 + (int64_t)world_draw(world, LEAF_MS));
    leaf->event.job = world->nodes[index].adopting.job;
}

/* Leaves that are here follow the next commit by its results; otherwise they are of no use. */
static bool keeps_leaves(const struct node *node, const struct entry *entry) {
    bool is_next = entry->kind == ENTRY_COMMIT && entry->commits == node->adopting_commits + 1;
    return hash_equal(&node->adopt_root, &entry->root) || (node->adopting.job > 0 && is_next);
}

static void adopt(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    if (!keeps_leaves(node, action->entry)) {
        node->leaves = 0;
    }
    world->adoptions += 1;
    chain_on_fetch(world, index, action->entry);
    node->adopting = *action;
    node->adopt_root = action->entry->root;
    node->adopting_round = action->entry->round;
    node->adopting_commits = action->entry->commits;
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
        values_adopt(world, index);
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
    node->slot_proofs[action->seat][action->slot] = parcel->proof;
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
        case ACTION_RESIGN:
            resign(world, node, action);
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
