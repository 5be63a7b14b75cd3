/* check: the sketches of a proposal, and the checks of its sums, with the lies about them. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include <string.h>

/* A member that lies in sketches changes those of every slice. */
static void sketch(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    memset(node->own_sketches, 0, sizeof(node->own_sketches));
    for (uint32_t s = 0; s < world->slice_count; s++) {
        if ((action->entry->slices[s].contributors >> action->seat & 1) != 0) {
            bool is_owner = action->entry->slices[s].owner == (uint32_t)action->seat;
            const struct coded values =
                is_owner ? lie_own_addend(world, index, s) : node->own.slices[s];
            node->own_sketches[s] = values_sketch(world, index, s, &action->seed, &values);
            ((uint8_t *)&node->own_sketches[s])[sizeof(float)] ^=
                node->hostility == HOSTILE_SKETCH ? 64 : 0;
        }
    }
    node->own_seed = action->seed;
}

/* A member that sums wrongly finds nothing wrong with that. */
static uint32_t find_failed(struct world *world, uint32_t index, const struct action *action) {
    enum hostility hostility = world->nodes[index].hostility;
    for (uint32_t s = action->slice; s < world->slice_count; s++) {
        if (hostility == HOSTILE_ACCUSE || (hostility != HOSTILE_SUM && hostility != HOSTILE_SWAP &&
                                            !values_allow(world, index, action, s))) {
            return s;
        }
    }
    return world->slice_count;
}

static struct message_refusal recheck(struct world *world, uint32_t index,
                                      const struct action *action) {
    if (world->nodes[index].hostility == HOSTILE_ACCUSE) {
        uint32_t owner = action->entry->slices[action->slice].owner;
        return (struct message_refusal){.reason = REFUSAL_SUM, .suspect = owner};
    }
    const struct message_refusal refusal = values_recheck(world, index, action);
    oracle_rechecked(world, index, action, &refusal);
    return refusal;
}

void check_act(struct world *world, uint32_t index, const struct action *action) {
    struct happening *done =
        world_add(world, HAPPEN_EVENT, index, 1 + (int64_t)world_draw(world, 4));
    done->event.job = action->job;
    if (action->kind == ACTION_SKETCH) {
        sketch(world, index, action);
        done->event.kind = EVENT_SKETCHED;
    } else if (action->kind == ACTION_CHECK) {
        done->event.kind = EVENT_CHECKED;
        done->event.slice = find_failed(world, index, action);
        done->event.opposed = values_opposed(world, index, action);
        world->nodes[index].checked_round = action->entry->round;
        world->nodes[index].checked_silent = action->silent;
        world->nodes[index].suspected_slice = done->event.slice;
    } else {
        done->event.kind = EVENT_RECHECKED;
        done->event.refusal = recheck(world, index, action);
    }
}
