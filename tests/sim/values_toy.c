/* values_toy: a codec with one scale a slice, and sketches that are the values themselves. */
#include "tests/sim/values.h"

#include "runtime/swarm/ledger/norms.h"
#include "tests/sim/parts.h"

#include <math.h>
#include <string.h>

/* ---- encoded slices ---- */

struct coded values_encode(const struct world *world, const float *values) {
    struct coded coded = {0};
    float most = 0;
    (void)world;
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        most = isfinite(values[i]) ? fmaxf(most, fabsf(values[i])) : INFINITY;
    }
    coded.scale = most / 127.0f;
    for (int i = 0; i < SLICE_ELEMENTS && coded.scale > 0 && isfinite(coded.scale); i++) {
        coded.steps[i] = (int8_t)lrintf(values[i] / coded.scale);
    }
    return coded;
}

void values_decode(const struct world *world, const struct coded *coded, float *values) {
    (void)world;
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        values[i] = (float)coded->steps[i] * coded->scale;
    }
}

bool values_are_sound(const struct world *world, const struct coded *coded) {
    (void)world;
    return isfinite(coded->scale) && coded->scale >= 0;
}

double values_norm(const struct world *world, const struct coded *coded) {
    float values[SLICE_ELEMENTS];
    double energy = 0;
    values_decode(world, coded, values);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        energy += (double)values[i] * (double)values[i];
    }
    return values_are_sound(world, coded) ? sqrt(energy) : (double)INFINITY;
}

struct hash values_hash(const struct world *world, const struct coded *coded) {
    (void)world;
    return hash_of(coded, sizeof(*coded));
}

size_t values_bytes(const struct world *world) {
    (void)world;
    return sizeof(struct coded);
}

void values_damage(const struct world *world, struct coded *coded, uint64_t byte, uint8_t bits) {
    (void)world;
    coded->steps[byte % SLICE_ELEMENTS] ^= (int8_t)bits;
}

void values_destroy(const struct world *world, struct coded *coded) {
    (void)world;
    coded->scale = NAN;
}

/* ---- results: no lists ---- */

bool values_have_lists(const struct world *world) {
    (void)world;
    return false;
}

size_t values_result_bytes(const struct world *world, const struct coded *result) {
    (void)result;
    return values_bytes(world);
}

struct hash values_result_hash(const struct world *world, const struct coded *result) {
    return values_hash(world, result);
}

bool values_inspect(const struct world *world, struct message *message,
                    const struct coded *result) {
    message->values.norm = values_norm(world, result);
    return values_are_sound(world, result);
}

void values_leave_out(const struct world *world, uint32_t slice, uint64_t left_out,
                      struct coded *list) {
    (void)world, (void)slice, (void)left_out, (void)list;
}

bool values_restore(const struct world *world, uint32_t node, struct message *message,
                    struct coded *list) {
    (void)world, (void)node, (void)message, (void)list;
    return true;
}

void values_spoil(const struct world *world, const struct action *action, struct coded *list) {
    (void)world, (void)action, (void)list;
}

struct coded values_result(const struct world *world, const struct entry *entry, uint32_t slice,
                           const struct value_part *parts, uint32_t count, const float *mean) {
    (void)entry, (void)slice, (void)parts, (void)count;
    return values_encode(world, mean);
}

bool values_step(const struct world *world, const float *mean, float *params) {
    (void)world, (void)mean, (void)params;
    return false;
}

uint64_t values_sent_values(const struct world *world) {
    (void)world;
    return 0;
}

/* ---- means ---- */

void values_mean(const struct world *world, const struct entry *entry,
                 const struct value_part *parts, uint32_t count, float *mean) {
    (void)entry;
    uint64_t total = 0;
    float values[SLICE_ELEMENTS];
    memset(mean, 0, SLICE_ELEMENTS * sizeof(*mean));
    for (uint32_t i = 0; i < count; i++) {
        total += parts[i].weight;
    }
    for (uint32_t i = 0; i < count; i++) {
        float share = (float)parts[i].weight / (total > 0 ? (float)total : 1) * parts[i].clip;
        values_decode(world, parts[i].coded, values);
        for (int k = 0; k < SLICE_ELEMENTS; k++) {
            mean[k] += share * values[k];
        }
    }
}

/* Adds the contributions in ascending order of seats in fp32, each times its share of the weight,
 * and encodes the mean once. */
struct coded values_sum(struct world *world, uint32_t index, const struct action *action) {
    const struct node *node = &world->nodes[index];
    const struct coded own = lie_own_addend(world, index, action->slice);
    struct value_part parts[MEMBERS_MOST];
    uint32_t count = 0;
    for (uint32_t turn = 0; turn < MEMBERS_MOST; turn++) {
        uint32_t seat = world->mistake == MISTAKE_SUM_ORDER ? MEMBERS_MOST - 1 - turn : turn;
        if ((action->contributors >> seat & 1) != 0) {
            const struct entry_member *member = &action->table->members[seat];
            parts[count++] = (struct value_part){
                .coded = (int)seat == action->seat ? &own : &node->slots[seat][action->slots[seat]],
                .weight = member->weight,
                .clip = norms_clip_factor(member->norm, action->table->reference_norm)};
        }
    }
    float mean[SLICE_ELEMENTS];
    values_mean(world, NULL, parts, count, mean);
    return values_encode(world, mean);
}

/* ---- the state of a member ---- */

void values_start(struct world *world, uint32_t index) {
    (void)world;
    (void)index;
}

void values_stop(struct world *world, uint32_t index) {
    memset(world->nodes[index].feedback, 0, sizeof(world->nodes[index].feedback));
}

const float *values_feedback(const struct world *world, uint32_t index) {
    return world->nodes[index].feedback;
}

void values_contribute(struct world *world, uint32_t index, const float *gradient) {
    struct node *node = &world->nodes[index];
    for (uint32_t s = 0; s < world->slice_count; s++) {
        float values[SLICE_ELEMENTS], decoded[SLICE_ELEMENTS];
        uint32_t at = s * SLICE_ELEMENTS;
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            values[i] = node->feedback[at + i] + gradient[at + i];
        }
        node->own.slices[s] = values_encode(world, values);
        values_decode(world, &node->own.slices[s], decoded);
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            node->own.residual[at + i] = values[i] - decoded[i];
        }
    }
}

/* The tree over the slices of a contribution, and its root. A norm that is not sound is declared as
 * 0, because no message can contain it. */
struct hash values_declare(const struct world *world, struct truth *own, double *norm) {
    double energy = 0;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct hash hash = values_hash(world, &own->slices[s]);
        double length = values_norm(world, &own->slices[s]);
        own->norms[s] = isfinite(length) ? length : 0;
        own->nodes[s] = contribution_leaf(&hash, own->norms[s]);
        energy += own->norms[s] * own->norms[s];
    }
    ASSERT(merkle_list_node_count(world->slice_count) <= ARRAY_COUNT(own->nodes));
    merkle_list_build(own->nodes, world->slice_count);
    *norm = sqrt(energy);
    return merkle_tree_root(own->nodes, world->slice_count);
}

struct hash values_zero_root(const struct world *world) {
    static struct truth zeros;
    double norm;
    return values_declare(world, &zeros, &norm);
}

struct hash values_root(const struct world *world, const struct outer *outer) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, outer->values, world->slice_count * SLICE_ELEMENTS * sizeof(float));
    hash_add(&state, outer->momentum, world->slice_count * SLICE_ELEMENTS * sizeof(float));
    return hash_end(&state);
}

static void find_after(const struct world *world, struct node *node, const struct entry *entry,
                       struct outer *outer) {
    *outer = node->outer;
    for (uint32_t s = 0; s < world->slice_count; s++) {
        float gradient[SLICE_ELEMENTS];
        const struct stored *stored = plane_find(node, entry->round, s, &entry->slices[s].hash);
        values_decode(world, &stored->coded, gradient);
        for (uint32_t i = 0; i < SLICE_ELEMENTS; i++) {
            float *momentum = &outer->momentum[s * SLICE_ELEMENTS + i];
            *momentum = 0.9f * *momentum + gradient[i];
            outer->values[s * SLICE_ELEMENTS + i] -= 0.1f * (gradient[i] + 0.9f * *momentum);
        }
    }
}

struct hash values_root_after(struct world *world, uint32_t index, const struct entry *entry) {
    static struct outer after; /* too large for the stack */
    find_after(world, &world->nodes[index], entry, &after);
    return values_root(world, &after);
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
            bool is_named =
                (entry->slices[s].contributors >> seat & 1) != 0 && entry->members[seat].weight > 0;
            if (is_named && is_mine) {
                memcpy(feedback, residual, SLICE_ELEMENTS * sizeof(*feedback));
            } else if (is_named) {
                memset(feedback, 0, SLICE_ELEMENTS * sizeof(*feedback));
            }
        }
    }
}

void values_apply(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    advance_feedback(world, index, action);
    find_after(world, node, action->entry, &node->outer);
}

void values_adopt(struct world *world, uint32_t index) {
    memset(world->nodes[index].feedback, 0, sizeof(world->nodes[index].feedback));
}

bool values_owner_residual(const struct world *world, const float *mean, float share,
                           uint32_t count, float *residual) {
    (void)world;
    (void)mean;
    (void)share;
    (void)count;
    (void)residual;
    return false;
}

/* ---- checks ---- */

double values_silence(const struct coded *result, double norm) {
    return 1.05 * norm + (norm > 0 ? SLICE_ELEMENTS * (double)result->scale : 0);
}

bool values_have_sketches(const struct world *world) {
    (void)world;
    return true;
}

struct page_sketch values_sketch(struct world *world, uint32_t index, uint32_t slice,
                                 const struct hash *seed, const struct coded *coded) {
    (void)world;
    (void)index;
    (void)slice;
    (void)seed;
    return (struct page_sketch){*coded};
}

/* The mean of the contributions to a slice, as a member knows them. */
struct known_mean {
    float values[SLICE_ELEMENTS];
    double missing; /* parts of the norms of contributions that it does not know */
};

/* Of the slots of the seats, or of their sketches. */
static struct known_mean find_mean(const struct world *world, const struct node *node,
                                   const struct action *action, uint32_t slice,
                                   bool has_contributions) {
    const struct entry *entry = action->entry;
    const struct entry_slice *line = &entry->slices[slice];
    struct known_mean mean = {.missing = 0};
    float weight = line->weight > 0 ? (float)line->weight : 1;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        if ((line->contributors >> seat & 1) == 0 || member->weight == 0) {
            continue;
        }
        const struct coded *coded = &node->sketches[seat][slice].values;
        coded = has_contributions ? &node->slots[seat][0] : coded;
        coded = (int)seat == action->seat ? &node->own.slices[slice] : coded;
        float clip = norms_clip_factor(member->norm, entry->reference_norm);
        if (!has_contributions && (action->silent >> seat & 1) != 0) {
            mean.missing += (double)clip * member->norm * (double)member->weight / (double)weight;
            continue;
        }
        float values[SLICE_ELEMENTS];
        values_decode(world, coded, values);
        for (int i = 0; i < SLICE_ELEMENTS; i++) {
            mean.values[i] += (float)member->weight / weight * clip * values[i];
        }
    }
    return mean;
}

bool values_allow(struct world *world, uint32_t index, const struct action *action,
                  uint32_t slice) {
    struct node *node = &world->nodes[index];
    const struct entry_slice *line = &action->entry->slices[slice];
    const struct known_mean mean = find_mean(world, node, action, slice, false);
    const struct coded coded = values_encode(world, mean.values);
    const struct hash hash = values_hash(world, &coded);
    const struct stored *stored = plane_find(node, action->entry->round, slice, &line->hash);
    float found[SLICE_ELEMENTS];
    double energy = 0;
    ASSERT(stored != NULL && slice < world->slice_count);
    values_decode(world, &stored->coded, found);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        double difference = (double)found[i] - (double)mean.values[i];
        energy += difference * difference;
    }
    double rounding = mean.missing > 0 ? SLICE_ELEMENTS * (double)stored->coded.scale : 0;
    return hash_equal(&hash, &line->hash) || sqrt(energy) <= mean.missing + rounding;
}

uint64_t values_opposed(const struct world *world, uint32_t index, const struct action *action) {
    (void)world, (void)index, (void)action;
    return 0;
}

struct message_refusal values_recheck(struct world *world, uint32_t index,
                                      const struct action *action) {
    const struct node *node = &world->nodes[index];
    const struct entry *entry = action->entry;
    const struct entry_slice *line = &entry->slices[action->slice];
    const bool is_whole = action->contributors == line->contributors;
    const struct known_mean mean = find_mean(world, node, action, action->slice, is_whole);
    const struct coded coded = values_encode(world, mean.values);
    const struct hash hash = values_hash(world, &coded);
    if (is_whole && !hash_equal(&hash, &line->hash)) {
        return (struct message_refusal){.reason = REFUSAL_SUM, .suspect = line->owner};
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        bool is_known = (action->contributors >> seat & 1) != 0 && (int)seat != action->seat &&
                        (action->silent >> seat & 1) == 0 && entry->members[seat].weight > 0;
        if (is_known && memcmp(&node->slots[seat][0], &node->sketches[seat][action->slice],
                               sizeof(struct coded)) != 0) {
            return (struct message_refusal){.reason = REFUSAL_SKETCH, .suspect = seat};
        }
    }
    return (struct message_refusal){.reason = REFUSAL_NONE};
}
