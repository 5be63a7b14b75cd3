/* theft: hostile members that request the whole contribution of another member, and declare it as
 * their own: in the same round, if it arrives before the tracker accepts no more declarations, or
 * else in the next one. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "runtime/swarm/protocol/seats.h"

#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS_MAX = 8, /* of one heartbeat */
    REPEAT_MS = 300,  /* after which a slice is requested again */
};

/* The contribution of another member that a hostile one takes. */
struct theft {
    uint32_t round, taken_count; /* of the contribution; number of its slices that have arrived */
    struct identity victim;
    bool is_taken[SLICES_MOST];
    int64_t asked_ms[SLICES_MOST];                        /* when it was requested last; 0: never */
    struct coded slices[SLICES_MOST], whole[SLICES_MOST]; /* its slices; all of an earlier one */
    bool has_whole;
};

bool theft_is_lie(enum hostility hostility) {
    return hostility == HOSTILE_COPY || hostility == HOSTILE_LATE;
}

/* Another seat of the round, whose member is honest; seats take turns. NULL: there is none. */
static const struct identity *choose_victim(const struct world *world, uint32_t index,
                                            const struct entry *open) {
    for (uint32_t i = 0; i < open->seat_count; i++) {
        const struct identity *id = &open->seats[(open->round + i) % open->seat_count].id;
        const uint32_t node = id->bytes[0];
        if (node != index && world->nodes[node].hostility == HONEST) {
            return id;
        }
    }
    return NULL;
}

/* Begins with the contribution to another round. A whole one of an earlier round is kept. */
static void begin_theft(struct theft *theft, uint32_t round, const struct identity *victim,
                        uint32_t slice_count) {
    if (theft->taken_count == slice_count) {
        memcpy(theft->whole, theft->slices, sizeof(theft->whole));
        theft->has_whole = true;
    }
    theft->round = round;
    theft->victim = *victim;
    theft->taken_count = 0;
    memset(theft->is_taken, 0, sizeof(theft->is_taken));
    memset(theft->asked_ms, 0, sizeof(theft->asked_ms));
}

static void request_slice(struct world *world, uint32_t index, uint32_t slice) {
    struct theft *theft = world->nodes[index].theft;
    struct action request = {.kind = ACTION_SEND, .to = theft->victim};
    request.message = (struct message){.kind = MESSAGE_FETCH_CONTRIBUTION,
                                       .from = {{(uint8_t)index}},
                                       .round = theft->round,
                                       .slice = slice};
    theft->asked_ms[slice] = world->now;
    post_send(world, index, &request);
}

void theft_tick(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    const struct entry *open = &store_of(world, index)->record.head;
    if (!theft_is_lie(node->hostility) || open->kind != ENTRY_OPEN) {
        return;
    }
    if (node->theft == NULL) {
        node->theft = calloc(1, sizeof(*node->theft));
    }
    struct theft *theft = node->theft;
    const struct identity *victim = choose_victim(world, index, open);
    if (victim != NULL && open->round != theft->round) {
        begin_theft(theft, open->round, victim, world->slice_count);
    }
    uint32_t requests = 0;
    for (uint32_t s = 0; victim != NULL && s < world->slice_count && requests < REQUESTS_MAX; s++) {
        if (!theft->is_taken[s] &&
            (theft->asked_ms[s] == 0 || world->now - theft->asked_ms[s] >= REPEAT_MS)) {
            request_slice(world, index, s);
            requests++;
        }
    }
}

void theft_take(struct world *world, uint32_t index, const struct parcel *parcel) {
    struct node *node = &world->nodes[index];
    struct theft *theft = node->theft;
    const struct message *message = &parcel->message;
    if (theft == NULL || message->kind != MESSAGE_CONTRIBUTION || message->round != theft->round ||
        message->slice >= world->slice_count ||
        memcmp(&message->from, &theft->victim, sizeof(theft->victim)) != 0 ||
        theft->is_taken[message->slice]) {
        return;
    }
    theft->slices[message->slice] = parcel->coded;
    theft->is_taken[message->slice] = true;
    theft->taken_count += 1;
    if (node->hostility == HOSTILE_LATE && theft->taken_count == world->slice_count) {
        training_replace(world, index, theft->round);
    }
}

/* The contribution of the open round, if it is here as a whole, or the newest whole one. A member
 * that copies only earlier rounds leaves one slice as it is, so that the copy has another root. */
void theft_contribute(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    const struct theft *theft = node->theft;
    if (theft == NULL) {
        return;
    }
    const bool is_of_round =
        theft->taken_count == world->slice_count && theft->round == node->own.round;
    const bool is_whole_before =
        theft->taken_count == world->slice_count && theft->round < node->own.round;
    const struct coded *slices = is_of_round || is_whole_before ? theft->slices
                                 : theft->has_whole             ? theft->whole
                                                                : NULL;
    const uint32_t first = node->hostility == HOSTILE_COPY && world->slice_count > 1 ? 1 : 0;
    for (uint32_t s = first; slices != NULL && s < world->slice_count; s++) {
        node->own.slices[s] = slices[s];
    }
}

/* Whether the node of a contribution has made the same slice before: it declares a contribution
 * again if the round was aborted, after others have received it. */
static bool was_made_before(const struct world *world, const struct truth *truth, uint32_t slice) {
    bool is_found = false;
    for (uint32_t i = 0; i < world->truth_count; i++) {
        const struct truth *before = &world->truths[i];
        is_found |= before->node == truth->node && before->round < truth->round &&
                    memcmp(&before->slices[slice], &truth->slices[slice],
                           sizeof(truth->slices[slice])) == 0;
    }
    return is_found;
}

/* Compares the slices to which the member in `seat` contributed. */
static void check_copy(struct world *world, const struct entry *entry, uint32_t seat,
                       const struct truth *copy, const struct truth *truth) {
    for (uint32_t s = 0; s < world->slice_count; s++) {
        const struct coded *coded = &truth->slices[s];
        if ((entry->slices[s].contributors >> seat & 1) != 0 && values_norm(world, coded) > 0 &&
            memcmp(coded, &copy->slices[s], sizeof(*coded)) == 0 &&
            !was_made_before(world, truth, s)) {
            world_fail(world, "round %u slice %u: member %u declared the contribution of member %u",
                       entry->round, s, copy->node, truth->node);
        }
    }
}

void theft_check(struct world *world, const struct entry *entry) {
    for (uint32_t i = 0; i < world->truth_count; i++) {
        const struct truth *copy = &world->truths[i];
        const struct identity id = {{(uint8_t)copy->node}};
        const int seat = roster_find_seat(entry, &id);
        if (copy->round != entry->round || seat == NO_SEAT ||
            world->nodes[copy->node].hostility != HOSTILE_LATE) {
            continue;
        }
        for (uint32_t k = 0; k < world->truth_count; k++) {
            const struct truth *truth = &world->truths[k];
            if (truth->round == entry->round && truth->store == copy->store &&
                world->nodes[truth->node].hostility == HONEST) {
                check_copy(world, entry, (uint32_t)seat, copy, truth);
            }
        }
    }
}
