/* oracle_sums: the results of a commit, computed again from the contributions as their members made
 * them, and the step that members take with them. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

/* The contribution of a node to a round of a store's ledger. Where copies of the store have the
 * same round, it may have been made for the other copy. */
const struct truth *oracle_truth_of(const struct world *world, const struct tracker_store *store,
                                    uint32_t round, uint32_t node) {
    const struct truth *found = NULL;
    for (uint32_t i = 0; i < world->truth_count; i++) {
        const struct truth *truth = &world->truths[i];
        bool is_of_round = truth->round == round && truth->node == node;
        if (is_of_round && &world->stores[truth->store] == store) {
            return truth;
        }
        found = is_of_round && found == NULL ? truth : found;
    }
    return found;
}

/* The sum of the weights of all contributors; -1: one of them made no contribution that may be
 * added. */
static double check_contributors(struct world *world, const struct tracker_store *store,
                                 const struct entry *entry, uint32_t slice) {
    double weight = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((entry->slices[slice].contributors >> seat & 1) == 0) {
            continue;
        }
        const struct truth *truth =
            oracle_truth_of(world, store, entry->round, oracle_node_of(entry, seat));
        if (truth == NULL || !values_are_sound(world, &truth->slices[slice])) {
            world_fail(world, "round %u names seat %u, which has no valid contribution",
                       entry->round, seat);
            return -1;
        }
        weight += (double)entry->members[seat].weight;
    }
    return weight;
}

/* How far a result may be from the sum of its contributors for one voter: it cannot tell a change
 * from the parts of contributors whose sketches it did not receive. */
static double allowed_for_voter(const struct entry *entry, uint32_t slice, double weight,
                                uint64_t silent) {
    double allowed = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        double clip = (double)norms_clip_factor(member->norm, entry->reference_norm);
        bool is_silent = (entry->slices[slice].contributors & silent) >> seat & 1;
        allowed +=
            is_silent && weight > 0 ? clip * member->norm * (double)member->weight / weight : 0;
    }
    return allowed;
}

/* Every honest voter that signed the entry must have found the result within its bounds. */
static double allowed_difference(const struct world *world, const struct entry *entry,
                                 uint32_t slice, double weight) {
    double allowed = INFINITY;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        const struct node *voter = &world->nodes[oracle_node_of(entry, entry->signatures[i].seat)];
        if (voter->hostility == HONEST) {
            uint64_t silent = voter->checked_round == entry->round ? voter->checked_silent : 0;
            allowed = fmin(allowed, allowed_for_voter(entry, slice, weight, silent));
        }
    }
    return isfinite(allowed) ? allowed : 0;
}

/* Whether an owner that sums wrongly made a result within these bounds. No other owner may. */
static bool is_within_silence(const struct world *world, const struct entry *entry, uint32_t slice,
                              double weight, const float *mean) {
    const struct entry_slice *line = &entry->slices[slice];
    const struct node *owner = &world->nodes[oracle_node_of(entry, line->owner)];
    const struct stored *stored =
        plane_find((struct node *)(uintptr_t)owner, entry->round, slice, &line->hash);
    float found[SLICE_ELEMENTS];
    double energy = 0;
    if (stored == NULL || owner->hostility != HOSTILE_SUM || values_have_lists(world)) {
        return false;
    }
    values_decode(world, &stored->coded, found);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        energy += ((double)found[i] - (double)mean[i]) * ((double)found[i] - (double)mean[i]);
    }
    return sqrt(energy) <=
           values_silence(&stored->coded, allowed_difference(world, entry, slice, weight));
}

/* Finds the contributions to a slice as their members made them. An owner that swaps its own
 * contribution can be found by audits only; a list that has another one is not accepted. */
static uint32_t find_parts(const struct world *world, const struct tracker_store *store,
                           const struct entry *entry, uint32_t slice, struct value_part *parts) {
    const uint32_t owner = entry->slices[slice].owner;
    const bool is_swapped = world->nodes[oracle_node_of(entry, owner)].hostility == HOSTILE_SWAP &&
                            !values_have_lists(world);
    static struct coded swapped;
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        if ((entry->slices[slice].contributors >> seat & 1) != 0) {
            const struct truth *truth =
                oracle_truth_of(world, store, entry->round, oracle_node_of(entry, seat));
            const struct coded *coded = &truth->slices[slice];
            if (is_swapped && seat == owner) {
                swapped = lie_swapped(world, coded);
                coded = &swapped;
            }
            parts[count++] =
                (struct value_part){.coded = coded,
                                    .truth = truth,
                                    .weight = member->weight,
                                    .clip = norms_clip_factor(member->norm, entry->reference_norm)};
        }
    }
    return count;
}

void oracle_find_mean(const struct world *world, const struct tracker_store *store,
                      const struct entry *entry, uint32_t slice, float *mean) {
    struct value_part parts[MEMBERS_MOST];
    const uint32_t count = find_parts(world, store, entry, slice, parts);
    values_mean(world, entry, parts, count, mean);
}

/* Computes the result of a slice again, from what its contributors made. */
static void check_sum(struct world *world, const struct tracker_store *store,
                      const struct entry *entry, uint32_t slice) {
    const struct entry_slice *line = &entry->slices[slice];
    struct value_part parts[MEMBERS_MOST];
    static float mean[SLICE_ELEMENTS];
    double weight = check_contributors(world, store, entry, slice);
    if (weight < 0) {
        return;
    }
    const uint32_t count = find_parts(world, store, entry, slice, parts);
    values_mean(world, entry, parts, count, mean);
    world->swapped += (line->contributors >> line->owner & 1) != 0 &&
                      world->nodes[oracle_node_of(entry, line->owner)].hostility == HOSTILE_SWAP;
    struct coded coded = values_result(world, entry, slice, parts, count, mean);
    struct hash hash = values_result_hash(world, &coded);
    if ((!hash_equal(&hash, &line->hash) &&
         !is_within_silence(world, entry, slice, weight, mean)) ||
        (double)line->weight != weight) {
        world_fail(world, "round %u slice %u is not the sum of its contributors", entry->round,
                   slice);
    }
}

/* The line names who made the result, in which epoch, of whose contributions. A tracker that shows
 * members different owners can name either of them, if both made the same result. */
static void check_owner(struct world *world, const struct entry *entry, uint32_t slice) {
    const struct entry_slice *line = &entry->slices[slice];
    for (uint32_t i = 0; i < world->sum_count; i++) {
        const struct summed *sum = &world->sums[i];
        if (sum->round == entry->round && sum->slice == slice && sum->epoch == line->epoch &&
            (sum->owner == oracle_node_of(entry, line->owner) ||
             world->equivocation == EQUIVOCATE_TABLE) &&
            sum->contributors == line->contributors && hash_equal(&sum->hash, &line->hash)) {
            return;
        }
    }
    world_fail(world, "round %u slice %u: its owner made no such result in epoch %u", entry->round,
               slice, line->epoch);
}

void oracle_check_slice(struct world *world, const struct tracker_store *store,
                        const struct entry *entry, uint32_t slice) {
    check_sum(world, store, entry, slice);
    check_owner(world, entry, slice);
}

/* Computes the step of a commit again, from the state before it and from what the contributors
 * made, where the arithmetic of the step is written a second time. */
void oracle_check_step(struct world *world, uint32_t node, const struct entry *entry,
                       const float *before) {
    static float params[SLICE_ELEMENTS], mean[SLICE_ELEMENTS];
    const struct tracker_store *store = store_of(world, node);
    for (uint32_t slice = 0; slice < entry->slice_count; slice++) {
        const float *after = world->nodes[node].outer.values + slice * SLICE_ELEMENTS;
        memcpy(params, before + slice * SLICE_ELEMENTS, sizeof params);
        oracle_find_mean(world, store, entry, slice, mean);
        if (values_step(world, mean, params) && memcmp(params, after, sizeof params) != 0) {
            world_fail(world, "round %u slice %u: member %u takes another step", entry->round,
                       slice, node);
        }
    }
}
