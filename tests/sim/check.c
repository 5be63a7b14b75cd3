/* check: toy sketches of a proposal, which are the values of the slices themselves, and the checks
 * of its sums. */
#include "tests/sim/parts.h"

#include "runtime/swarm/ledger/norms.h"

#include <math.h>
#include <string.h>

/* A member that lies in sketches changes those of every slice. */
static void sketch(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    memset(node->own_sketches, 0, sizeof(node->own_sketches));
    for (uint32_t s = 0; s < world->slice_count; s++) {
        if ((action->entry->slices[s].contributors >> action->seat & 1) != 0) {
            bool is_owner = action->entry->slices[s].owner == (uint32_t)action->seat;
            node->own_sketches[s] = is_owner ? plane_own_addend(node, s) : node->own.slices[s];
            node->own_sketches[s].steps[0] ^= node->hostility == HOSTILE_SKETCH ? 64 : 0;
        }
    }
    node->own_seed = action->seed;
}

/* The mean of the contributions to a slice, as a member knows them. */
struct known_mean {
    float values[SLICE_ELEMENTS];
    double missing; /* parts of the norms of contributions that it does not know */
};

/* `slots` of the seats, or their sketches if that is NULL. */
static struct known_mean find_mean(const struct node *node, const struct action *action,
                                   uint32_t slice, bool has_contributions) {
    const struct entry *entry = action->entry;
    const struct entry_slice *line = &entry->slices[slice];
    struct known_mean mean = {.missing = 0};
    float weight = line->weight > 0 ? (float)line->weight : 1;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        if ((line->contributors >> seat & 1) == 0 || member->weight == 0) {
            continue;
        }
        const struct coded *coded = &node->sketches[seat][slice];
        coded = has_contributions ? &node->slots[seat][0] : coded;
        coded = (int)seat == action->seat ? &node->own.slices[slice] : coded;
        if (!has_contributions && (action->silent >> seat & 1) != 0) {
            double clip = (double)norms_clip(member->norm, entry->reference_norm);
            mean.missing += clip * member->norm * (double)member->weight / (double)weight;
        } else {
            plane_add(member, entry->reference_norm, weight, coded, mean.values);
        }
    }
    return mean;
}

static bool is_allowed(const struct world *world, struct node *node, const struct action *action,
                       uint32_t slice) {
    const struct entry_slice *line = &action->entry->slices[slice];
    const struct known_mean mean = find_mean(node, action, slice, false);
    const struct coded coded = plane_encode(mean.values);
    const struct hash hash = hash_of(&coded, sizeof(coded));
    const struct stored *stored = plane_find(node, action->entry->round, slice, &line->hash);
    double energy = 0;
    ASSERT(stored != NULL && slice < world->slice_count);
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        double found = (double)((float)stored->coded.steps[i] * stored->coded.scale);
        energy += (found - (double)mean.values[i]) * (found - (double)mean.values[i]);
    }
    double rounding = mean.missing > 0 ? SLICE_ELEMENTS * (double)stored->coded.scale : 0;
    return hash_equal(&hash, &line->hash) || sqrt(energy) <= mean.missing + rounding;
}

/* A member that sums wrongly finds nothing wrong with that. */
static uint32_t find_failed(const struct world *world, struct node *node,
                            const struct action *action) {
    for (uint32_t s = action->slice; s < world->slice_count; s++) {
        if (node->hostility == HOSTILE_ACCUSE ||
            (node->hostility != HOSTILE_SUM && node->hostility != HOSTILE_SWAP &&
             !is_allowed(world, node, action, s))) {
            return s;
        }
    }
    return world->slice_count;
}

static struct message_refusal recheck(const struct node *node, const struct action *action) {
    const struct entry *entry = action->entry;
    const struct entry_slice *line = &entry->slices[action->slice];
    const bool is_whole = action->contributors == line->contributors;
    const struct known_mean mean = find_mean(node, action, action->slice, is_whole);
    const struct coded coded = plane_encode(mean.values);
    const struct hash hash = hash_of(&coded, sizeof(coded));
    if ((is_whole && !hash_equal(&hash, &line->hash)) || node->hostility == HOSTILE_ACCUSE) {
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

void check_act(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    struct happening *done =
        world_add(world, HAPPEN_EVENT, index, 1 + (int64_t)world_draw(world, 4));
    done->event.job = action->job;
    if (action->kind == ACTION_SKETCH) {
        sketch(world, index, action);
        done->event.kind = EVENT_SKETCHED;
    } else if (action->kind == ACTION_CHECK) {
        done->event.kind = EVENT_CHECKED;
        done->event.slice = find_failed(world, node, action);
    } else {
        done->event.kind = EVENT_RECHECKED;
        done->event.refusal = recheck(node, action);
    }
}
