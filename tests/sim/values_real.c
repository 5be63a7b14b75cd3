/* values_real: the arithmetic of the program: each running member has a replica, at a CPU level of
 * its own. What the oracle needs is computed by the reference of the codecs instead. */
#include "tests/sim/values.h"

#include "kernels/cpu/cpu.h"
#include "kernels/outer.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/replica/opposition.h"
#include "runtime/swarm/replica/sum_check.h"
#include "tests/kernels/codec_reference.h"
#include "tests/sim/parts.h"
#include "tests/sim/values_sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float OUTER_RATE = 0.1F;
static const float OUTER_MOMENTUM = 0.9F;

/* With int8 the outer momentum follows from a gain of 0.2, so that it changes with the roster: 0.5
 * for one member, 0.75 for four. */
static const double OUTER_RATE_PER_GAIN = 0.5;

/* The part of the feedback that the next contribution to a sparse codec contains. */
static const float SPARSE_DECAY = 0.95F;

/* A member's replica, with its memory. */
struct values {
    struct replica replica;
    struct flat_span span;
    void *memory[13]; /* everything that must be freed */
    uint32_t memory_count;
};

static struct slices slices_of(const struct world *world) {
    const int64_t count = (int64_t)world->slice_count * SLICE_ELEMENTS;
    if (values_have_lists(world)) {
        return values_sparse_slices(world);
    }
    return (struct slices){.parameter_count = count,
                           .codec = world->codec,
                           .elements = SLICE_ELEMENTS,
                           .count = world->slice_count,
                           .bytes_max = codec_bytes(world->codec, SLICE_ELEMENTS),
                           .bytes = codec_bytes(world->codec, count)};
}

/* Levels that this machine has are given to the nodes in turn. */
static const struct compute *compute_of(uint32_t index) {
    enum cpu_level levels[CPU_LEVEL_COUNT];
    uint32_t count = 0;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level((enum cpu_level)level)) {
            levels[count++] = (enum cpu_level)level;
        }
    }
    return codec_compute(levels[index % count]);
}

/* ---- encoded slices ---- */

size_t values_bytes(const struct world *world) {
    return values_have_lists(world) ? sparse_bytes(world->sparse, SLICE_ELEMENTS)
                                    : codec_bytes(world->codec, SLICE_ELEMENTS);
}

struct coded values_encode(const struct world *world, const float *values) {
    static float decoded[SLICE_ELEMENTS];
    struct coded coded = {{0}};
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        if (!isfinite(values[i])) {
            return coded;
        }
    }
    if (values_have_lists(world)) {
        values_encode_sparse(world, values, &coded);
    } else {
        codec_reference_encode(world->codec, SLICE_ELEMENTS, values, coded.bytes, decoded);
    }
    return coded;
}

void values_decode(const struct world *world, const struct coded *coded, float *values) {
    if (values_have_lists(world)) {
        sparse_decode(codec_compute(CPU_SCALAR), world->sparse, SLICE_ELEMENTS, coded->bytes,
                      values);
    } else {
        codec_decode(codec_compute(CPU_SCALAR), world->codec, SLICE_ELEMENTS, coded->bytes, values);
    }
}

bool values_are_sound(const struct world *world, const struct coded *coded) {
    struct fault fault;
    const size_t bytes = values_bytes(world);
    return values_have_lists(world)
               ? sparse_check(world->sparse, SLICE_ELEMENTS, coded->bytes, bytes, &fault) == OK
               : codec_check(world->codec, SLICE_ELEMENTS, coded->bytes, bytes, &fault) == OK;
}

double values_norm(const struct world *world, const struct coded *coded) {
    if (!values_are_sound(world, coded)) {
        return (double)INFINITY;
    }
    return sqrt(values_have_lists(world)
                    ? sparse_energy(world->sparse, SLICE_ELEMENTS, coded->bytes)
                    : codec_energy(world->codec, SLICE_ELEMENTS, coded->bytes));
}

struct hash values_hash(const struct world *world, const struct coded *coded) {
    return hash_of(coded->bytes, values_bytes(world));
}

void values_damage(const struct world *world, struct coded *coded, uint64_t byte, uint8_t bits) {
    (void)world;
    coded->bytes[byte % sizeof coded->bytes] ^= bits;
}

/* All bits set are NaN in a scale, and in a value. */
void values_destroy(const struct world *world, struct coded *coded) {
    memset(coded->bytes, 0xff, values_bytes(world));
}

/* ---- for the oracle ---- */

void values_mean(const struct world *world, const struct entry *entry,
                 const struct value_part *parts, uint32_t count, float *mean) {
    static float values[SLICE_ELEMENTS];
    uint64_t total = 0;
    if (values_have_lists(world)) {
        values_mean_of_list(world, entry, parts, count, mean);
        return;
    }
    memset(mean, 0, SLICE_ELEMENTS * sizeof(*mean));
    for (uint32_t i = 0; i < count; i++) {
        total += parts[i].weight;
    }
    for (uint32_t i = 0; i < count && total > 0; i++) {
        float share = (float)((double)parts[i].weight / (double)total) * parts[i].clip;
        values_decode(world, parts[i].coded, values);
        for (int k = 0; k < SLICE_ELEMENTS; k++) {
            float part = share * values[k];
            mean[k] = mean[k] + part;
        }
    }
}

struct hash values_root(const struct world *world, const struct outer *outer) {
    static struct merkle_stream stream;
    const int64_t count = (int64_t)world->slice_count * SLICE_ELEMENTS;
    const bool has_momentum = !values_have_lists(world);
    const int64_t longest = has_momentum ? LEAF_ELEMENTS : LEAF_SPARSE_ELEMENTS;
    merkle_begin(&stream);
    for (int64_t at = 0; at < count; at += longest) {
        int64_t left = count - at;
        size_t bytes = sizeof(float) * (size_t)(left < longest ? left : longest);
        merkle_add(&stream, outer->values + at, bytes);
        merkle_add(&stream, outer->momentum + at, has_momentum ? bytes : 0);
    }
    return merkle_end(&stream);
}

struct hash values_zero_root(const struct world *world) {
    const struct slices slices = slices_of(world);
    return slices_zero_root(&slices);
}

bool values_owner_residual(const struct world *world, const float *mean, float share,
                           uint32_t count, float *residual) {
    static float decoded[SLICE_ELEMENTS];
    if (values_have_lists(world) || world->codec != CODEC_INT4 || share <= 0) {
        return false;
    }
    const struct coded coded = values_encode(world, mean);
    float least = 0.25F / (float)count;
    float divisor = share < least ? least : share;
    values_decode(world, &coded, decoded);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        float left = mean[i] - decoded[i];
        residual[i] = left / divisor;
    }
    return true;
}

/* A sketch shows at least 0.4 of the norm of a change, and a check allows 1.6 of the norm that it
 * does not know. */
double values_silence(const struct coded *result, double norm) {
    (void)result;
    return 4 * norm;
}

bool values_have_sketches(const struct world *world) {
    const struct slices slices = slices_of(world);
    return sum_check_has_sketches(&slices);
}

/* ---- the state of a member ---- */

static void *take(struct values *values, uint64_t bytes) {
    if (bytes == 0) {
        return NULL;
    }
    ASSERT(values->memory_count < ARRAY_COUNT(values->memory));
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(memory, 0, bytes);
    values->memory[values->memory_count++] = memory;
    return memory;
}

void values_start(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct values *values = calloc(1, sizeof(*values));
    struct replica *replica = &values->replica;
    replica->shape = (struct replica_shape){
        .slices = slices_of(world),
        .members_max = MEMBERS_MOST,
        .outer_rate = OUTER_RATE,
        .outer_momentum = OUTER_MOMENTUM,
        .rate_per_gain =
            world->codec == CODEC_INT8 && !values_have_lists(world) ? OUTER_RATE_PER_GAIN : 0};
    const struct replica_memory memory = replica_memory_of(&replica->shape);
    const int64_t count = replica->shape.slices.parameter_count;
    replica->compute = compute_of(index);
    replica->params = take(values, memory.params);
    replica->momentum = take(values, memory.momentum);
    replica->feedback = take(values, memory.feedback);
    replica->residual = take(values, memory.residual);
    replica->contribution = take(values, memory.contribution);
    replica->results = take(values, memory.results);
    replica->residual_sources = take(values, memory.residual_sources);
    replica->leaves = take(values, memory.leaves);
    replica->voted_leaves = replica->leaves + replica_leaf_count(&replica->shape.slices);
    replica->scratch = take(values, memory.scratch);
    replica_bind_declared(replica, take(values, memory.declared));
    values->span = (struct flat_span){.count = count, .values = take(values, memory.params)};
    replica->parts = &values->span;
    replica->part_count = 1;
    node->values = values;
    values_adopt(world, index);
}

void values_stop(struct world *world, uint32_t index) {
    struct values *values = world->nodes[index].values;
    for (uint32_t i = 0; values != NULL && i < values->memory_count; i++) {
        free(values->memory[i]);
    }
    free(values);
    world->nodes[index].values = NULL;
}

void values_adopt(struct world *world, uint32_t index) {
    const struct node *node = &world->nodes[index];
    struct replica *replica = &node->values->replica;
    const size_t bytes = sizeof(float) * (size_t)replica->shape.slices.parameter_count;
    memcpy(replica->params, node->outer.values, bytes);
    if (replica->momentum != NULL) {
        memcpy(replica->momentum, node->outer.momentum, bytes);
    }
    replica_refresh_hashes(replica);
    replica_clear_feedback(replica);
    replica_reset_inner(replica);
}

const float *values_feedback(const struct world *world, uint32_t index) {
    return world->nodes[index].values->replica.feedback;
}

/* Training has moved the inner weights against the gradient. */
void values_contribute(struct world *world, uint32_t index, const float *gradient) {
    struct node *node = &world->nodes[index];
    struct replica *replica = &node->values->replica;
    const size_t bytes = values_bytes(world);
    static float decoded[SLICE_ELEMENTS];
    for (int64_t i = 0; i < replica->shape.slices.parameter_count; i++) {
        node->values->span.values[i] = replica->params[i] - gradient[i];
    }
    ASSERT(replica_encode_contribution(replica));
    for (uint32_t s = 0; s < world->slice_count; s++) {
        memset(&node->own.slices[s], 0, sizeof(node->own.slices[s]));
        memcpy(node->own.slices[s].bytes, replica_own_contribution(replica, s), bytes);
        values_decode(world, &node->own.slices[s], decoded);
        for (uint32_t i = s * SLICE_ELEMENTS; i < (s + 1) * SLICE_ELEMENTS; i++) {
            float meant = replica->params[i] - node->values->span.values[i];
            float kept = replica->feedback != NULL ? replica->feedback[i] : 0;
            kept *= values_have_lists(world) ? SPARSE_DECAY : 1;
            node->own.meant[i] = meant + kept;
            node->own.residual[i] = node->own.meant[i] - decoded[i % SLICE_ELEMENTS];
        }
    }
}

/* A member's own contribution is declared by its replica. A slice that is not sound has no norm, so
 * that of a liar is declared as 0. */
struct hash values_declare(const struct world *world, struct truth *own, double *norm) {
    struct replica *replica = &world->nodes[own->node].values->replica;
    double energy = 0;
    bool is_sound = true;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        memcpy(replica_own_contribution(replica, s), own->slices[s].bytes, values_bytes(world));
        is_sound &= values_are_sound(world, &own->slices[s]);
    }
    if (is_sound) {
        const struct hash root = replica_declare_contribution(replica, norm);
        memcpy(own->norms, replica->declared_norms, world->slice_count * sizeof(*own->norms));
        memcpy(own->nodes, replica->declared_nodes,
               merkle_list_node_count(world->slice_count) * sizeof(*own->nodes));
        return root;
    }
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct hash hash = values_hash(world, &own->slices[s]);
        double length = values_norm(world, &own->slices[s]);
        own->norms[s] = isfinite(length) ? length : 0;
        own->nodes[s] = contribution_leaf(&hash, own->norms[s]);
        energy += own->norms[s] * own->norms[s];
    }
    merkle_list_build(own->nodes, world->slice_count);
    *norm = sqrt(energy);
    return merkle_tree_root(own->nodes, world->slice_count);
}

/* The contributions of the action's contributors to its slice. Those that are compared again are
 * all in the first slots. */
static uint32_t find_addends(const struct node *node, const struct action *action,
                             const struct coded *own, struct addend *addends) {
    const bool is_again = action->kind == ACTION_RECHECK;
    const struct entry_member *members = is_again ? action->entry->members : action->table->members;
    const double reference =
        is_again ? action->entry->reference_norm : action->table->reference_norm;
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < MEMBERS_MOST; seat++) {
        if ((action->contributors >> seat & 1) != 0) {
            bool is_own = (int)seat == action->seat;
            uint32_t slot = is_again ? 0 : action->slots[seat];
            addends[count++] =
                (struct addend){.bytes = is_own ? own->bytes : node->slots[seat][slot].bytes,
                                .weight = members[seat].weight,
                                .clip = norms_clip_factor(members[seat].norm, reference),
                                .is_own = is_own};
        }
    }
    return count;
}

struct coded values_sum(struct world *world, uint32_t index, const struct action *action) {
    const struct node *node = &world->nodes[index];
    struct replica *replica = &node->values->replica;
    struct addend addends[MEMBERS_MOST];
    struct coded coded = {{0}};
    const struct coded own = lie_own_addend(world, index, action->slice);
    const uint32_t count = find_addends(node, action, &own, addends);
    if (values_have_lists(world)) {
        values_make_list(replica, node, action, addends, &coded);
        return coded;
    }
    (void)replica_sum(replica, action->round, action->slice, addends, count);
    memcpy(coded.bytes, replica_result(replica, action->round, action->slice), values_bytes(world));
    return coded;
}

static void load_results(struct world *world, uint32_t index, const struct entry *entry) {
    struct node *node = &world->nodes[index];
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct stored *stored = plane_find(node, entry->round, s, &entry->slices[s].hash);
        memcpy(replica_result(&node->values->replica, entry->round, s), stored->coded.bytes,
               values_result_bytes(world, &stored->coded));
    }
}

struct hash values_root_after(struct world *world, uint32_t index, const struct entry *entry) {
    load_results(world, index, entry);
    return replica_root_after(&world->nodes[index].values->replica, entry->round,
                              entry->seat_count);
}

void values_apply(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct replica *replica = &node->values->replica;
    const struct identity id = {{(uint8_t)index}};
    const size_t bytes = sizeof(float) * (size_t)replica->shape.slices.parameter_count;
    bool is_mine = action->seat >= 0 && node->own.round == action->entry->round;
    load_results(world, index, action->entry);
    if (!is_mine) {
        replica_clear_sent_feedback(replica, action->entry, &id);
    }
    const struct hash root = replica_apply(replica, action->entry, is_mine ? action->seat : -1);
    memcpy(node->outer.values, replica->params, bytes);
    if (replica->momentum != NULL) {
        memcpy(node->outer.momentum, replica->momentum, bytes);
    }
    const struct hash truth = values_root(world, &node->outer);
    if (!hash_equal(&root, &truth)) {
        world_fail(world, "round %u: the root of member %u is not that of its state",
                   action->entry->round, index);
    }
}

/* ---- checks ---- */

struct page_sketch values_sketch(struct world *world, uint32_t index, uint32_t slice,
                                 const struct hash *seed, const struct coded *coded) {
    struct page_sketch sketch;
    sum_check_sketch(&world->nodes[index].values->replica, slice, seed, coded->bytes, sketch.bytes);
    return sketch;
}

bool values_allow(struct world *world, uint32_t index, const struct action *action,
                  uint32_t slice) {
    struct node *node = &world->nodes[index];
    const struct entry *entry = action->entry;
    struct sum_part parts[SWARM_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        if ((entry->slices[slice].contributors >> seat & 1) == 0 || member->weight == 0) {
            continue;
        }
        const struct page_sketch *sketch =
            (int)seat == action->seat ? &node->own_sketches[slice] : &node->sketches[seat][slice];
        bool is_missing = (action->silent >> seat & 1) != 0;
        parts[count++] =
            (struct sum_part){.sketch = is_missing ? NULL : sketch->bytes,
                              .weight = member->weight,
                              .clip = norms_clip_factor(member->norm, entry->reference_norm),
                              .norm = member->norm};
    }
    load_results(world, index, entry);
    return sum_check_matches_parts(&node->values->replica, entry->round, slice, &action->seed,
                                   parts, count);
}

uint64_t values_opposed(const struct world *world, uint32_t index, const struct action *action) {
    const struct node *node = &world->nodes[index];
    const uint8_t *sketches[SWARM_MEMBERS_MAX] = {NULL};
    for (uint32_t seat = 0; seat < action->entry->seat_count; seat++) {
        sketches[seat] =
            (int)seat == action->seat ? node->own_sketches[0].bytes : node->sketches[seat][0].bytes;
    }
    const struct opposition_round round = {action->entry, sketches, action->silent};
    return opposition_find(&round, NULL);
}

/* Compares the contributions of the action with their sketches, where the node checked these. */
static struct message_refusal compare_sketches(const struct node *node, const struct action *action,
                                               const struct addend *addends) {
    const struct replica *replica = &node->values->replica;
    struct message_refusal refusal = {.reason = REFUSAL_NONE};
    uint32_t addend = 0;
    for (uint32_t seat = 0; seat < action->entry->seat_count; seat++) {
        if ((action->contributors >> seat & 1) == 0) {
            continue;
        }
        uint8_t sketch[SKETCH_BYTES];
        const uint8_t *bytes = addends[addend++].bytes;
        if ((action->silent >> seat & 1) != 0 || (int)seat == action->seat ||
            action->entry->members[seat].weight == 0) {
            continue;
        }
        sum_check_sketch(replica, action->slice, &action->seed, bytes, sketch);
        if (memcmp(sketch, &node->sketches[seat][action->slice], sizeof sketch) != 0) {
            refusal = (struct message_refusal){.reason = REFUSAL_SKETCH, .suspect = seat};
        }
    }
    return refusal;
}

struct message_refusal values_recheck(struct world *world, uint32_t index,
                                      const struct action *action) {
    const struct node *node = &world->nodes[index];
    const struct replica *replica = &node->values->replica;
    const struct entry_slice *line = &action->entry->slices[action->slice];
    struct addend addends[MEMBERS_MOST];
    struct message_refusal refusal = {.reason = REFUSAL_NONE};
    const uint32_t count = find_addends(node, action, &node->own.slices[action->slice], addends);
    if (values_have_sketches(world)) {
        refusal = compare_sketches(node, action, addends);
    }
    if (action->contributors != line->contributors) {
        return refusal;
    }
    const struct hash hash = sum_check_recompute(replica, action->slice, addends, count);
    return hash_equal(&hash, &line->hash)
               ? refusal
               : (struct message_refusal){.reason = REFUSAL_SUM, .suspect = line->owner};
}
