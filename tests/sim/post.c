/* post: messages between nodes: copies, loss, delay, forged bytes, and a transport's checks. */
#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

struct signature post_sign(const struct identity *id, const struct hash *hash) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, id, sizeof(*id));
    hash_add(&state, hash, sizeof(*hash));
    struct hash signed_hash = hash_end(&state);
    struct signature signature = {{0}};
    memcpy(signature.bytes, &signed_hash, sizeof(signed_hash));
    return signature;
}

/* What an owner signs of a result. */
struct hash post_result_hash(const struct message *message) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &message->round, sizeof(message->round));
    hash_add(&state, &message->slice, sizeof(message->slice));
    hash_add(&state, &message->epoch, sizeof(message->epoch));
    hash_add(&state, &message->contributors, sizeof(message->contributors));
    hash_add(&state, &message->hash, sizeof(message->hash));
    return hash_end(&state);
}

void post_free(struct parcel *parcel) {
    free(parcel->entry);
    free(parcel->table);
    free(parcel->declared);
    free(parcel);
}

static void copy_table(struct parcel *parcel, const struct round_table *table, uint32_t count) {
    size_t bytes = (size_t)SWARM_MEMBERS_MAX * count * sizeof(struct hash);
    parcel->table = malloc(sizeof(struct round_table));
    *parcel->table = *table;
    parcel->declared = malloc(bytes);
    memcpy(parcel->declared, table->hashes, bytes);
    memcpy(parcel->plans, table->slices, count * sizeof(struct slice_plan));
    parcel->table->slices = parcel->plans;
    parcel->table->hashes = parcel->declared;
    parcel->message.table = parcel->table;
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
        copy_table(parcel, message->table, count);
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

/* The bytes that follow, and what was kept with them; 0 if they are not at hand. */
static int attach(struct node *node, struct parcel *parcel) {
    struct message *message = &parcel->message;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->coded = node->own.slices[message->slice];
    } else if (message->kind == MESSAGE_RESULT) {
        const struct stored *stored =
            plane_find(node, message->round, message->slice, &message->hash);
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

/* What a hostile sender makes of a message, by whom it goes to. */
static void forge(enum hostility hostility, uint32_t to, struct parcel *parcel) {
    if (parcel->message.kind == MESSAGE_DECLARE && hostility == HOSTILE_TOKENS) {
        parcel->message.tokens = UINT64_MAX;
    }
    if (parcel->message.kind != MESSAGE_CONTRIBUTION) {
        return;
    }
    if (hostility == HOSTILE_REPLAY || (hostility == HOSTILE_UNLIKE && to % 2 == 0)) {
        parcel->coded.steps[0] ^= 1;
    }
}

int post_take(struct parcel *parcel) {
    struct message *message = &parcel->message;
    if (message->kind != MESSAGE_CONTRIBUTION && message->kind != MESSAGE_RESULT) {
        return 1;
    }
    struct hash hash = hash_of(&parcel->coded, sizeof(parcel->coded));
    int is_whole = hash_equal(&hash, &message->hash);
    message->hash = hash;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        message->is_rejected = !plane_is_sound(&parcel->coded);
        return 1;
    }
    struct hash content = post_result_hash(message);
    struct signature good = post_sign(&message->owner, &content);
    return is_whole && plane_is_sound(&parcel->coded) &&
           memcmp(&good, &message->signature, sizeof(good)) == 0;
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct message *message) {
    uint64_t copies = world_draw(world, 100) < 3 ? 2 : 1;
    for (uint64_t copy = 0; copy < copies; copy++) {
        int is_lost =
            (double)world_draw(world, 1000) < world->loss * 1000 ||
            (world->nodes[from].hostility == HOSTILE_MUTE && message->kind == MESSAGE_RESULT);
        if (world->cut_until[from][to] > world->now || is_lost) {
            continue;
        }
        struct parcel *parcel = copy_message(world, message);
        parcel->message.from.bytes[0] = (uint8_t)from;
        if (!attach(&world->nodes[from], parcel)) {
            post_free(parcel);
            continue;
        }
        forge(world->nodes[from].hostility, to, parcel);
        int has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
        if (has_bytes && !world->is_calm && world_draw(world, 200) == 0) {
            parcel->coded.steps[world_draw(world, SLICE_ELEMENTS)] ^= 4;
        }
        int64_t delay = 1 + (int64_t)world_draw(world, (uint64_t)world->delay);
        delay += world_draw(world, 20) == 0 ? (int64_t)world_draw(world, 400) : 0;
        world_add(world, HAPPEN_PARCEL, to, delay)->parcel = parcel;
    }
}

void post_send(struct world *world, uint32_t from, const struct action *action) {
    if (!action->to_tracker) {
        post(world, from, action->to.bytes[0], &action->message);
        return;
    }
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        post(world, from, tracker, &action->message);
    }
}
