/* post: messages between nodes: signatures, copies, loss, forged bytes, and the checks of a
 * transport. */
#include "tests/sim/world.h"

#include "runtime/swarm/ledger/norms.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGED_ONE_IN = 200 /* slices: a bit of one changes on its way */ };

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

/* The part of a result that its owner signs. */
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

struct signature post_sign_declaration(const struct message *message) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &message->hash, sizeof(message->hash));
    hash_add(&state, &message->round, sizeof(message->round));
    hash_add(&state, &message->trained, sizeof(message->trained));
    hash_add(&state, &message->root, sizeof(message->root));
    struct hash content = hash_end(&state);
    return post_sign(&message->from, &content);
}

/* Adds the bytes that follow a message, and what was stored with them; false if the node does not
 * have them, or no longer. */
static bool add_bytes(const struct world *world, struct node *node, struct parcel *parcel) {
    struct message *message = &parcel->message;
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->coded = node->own.slices[message->slice];
        contribution_prove(node->own.nodes, node->own.norms, world->slice_count, message->slice,
                           &parcel->proof);
        return node->own.round == message->round;
    }
    const struct stored *stored = plane_find(node, message->round, message->slice, &message->hash);
    if (stored == NULL) {
        return false;
    }
    parcel->coded = stored->coded;
    message->epoch = stored->epoch;
    message->contributors = stored->contributors;
    message->owner = stored->owner;
    message->signature = stored->signature;
    return true;
}

bool post_accept(struct parcel *parcel) {
    struct message *message = &parcel->message;
    struct signature good;
    struct hash hash;
    switch (message->kind) {
    case MESSAGE_DECLARE:
        good = post_sign_declaration(message);
        return norm_is_valid(message->trained.norm) &&
               memcmp(&good, &message->signature, sizeof(good)) == 0;
    case MESSAGE_VOTE:
        hash = post_result_hash(message);
        if (message->ballot.refusal.reason == REFUSAL_SUM) {
            good = post_sign(&message->owner, &hash);
        } else if (hash_is_zero(&message->root)) {
            return true;
        } else {
            good = post_sign(&message->from, &message->hash);
        }
        return memcmp(&good, &message->signature, sizeof(good)) == 0;
    case MESSAGE_CONTRIBUTION:
        message->hash = hash_of(&parcel->coded, sizeof(parcel->coded));
        message->slice_norm = plane_norm(&parcel->coded);
        return true;
    case MESSAGE_RESULT:
        hash = hash_of(&parcel->coded, sizeof(parcel->coded));
        if (!hash_equal(&hash, &message->hash) || !plane_is_sound(&parcel->coded)) {
            return false;
        }
        message->slice_norm = plane_norm(&parcel->coded);
        hash = post_result_hash(message);
        good = post_sign(&message->owner, &hash);
        return memcmp(&good, &message->signature, sizeof(good)) == 0;
    default:
        return true;
    }
}

bool post_attach(struct world *world, uint32_t from, uint32_t to, struct parcel *parcel) {
    parcel->message.from.bytes[0] = (uint8_t)from;
    if (!add_bytes(world, &world->nodes[from], parcel)) {
        return false;
    }
    if (parcel->message.kind == MESSAGE_CONTRIBUTION) {
        lie_bytes(world, from, to, &parcel->coded);
    }
    if (!lie_message(world, from, parcel)) {
        return false;
    }
    if (!world->is_calm && world_draw(world, DAMAGED_ONE_IN) == 0) {
        parcel->coded.steps[world_draw(world, SLICE_ELEMENTS)] ^= 4;
    }
    return true;
}

/* Adds what the sender's host adds to a message without bulk data; false if there is nothing to
 * send. */
static bool complete_message(struct world *world, uint32_t from, struct parcel *parcel) {
    struct node *node = &world->nodes[from];
    struct message *message = &parcel->message;
    if (message->kind == MESSAGE_DECLARE) {
        message->signature = post_sign_declaration(message);
    } else if (message->kind == MESSAGE_VOTE && message->ballot.refusal.reason == REFUSAL_SUM) {
        const struct stored *stored =
            plane_find(node, message->round, message->slice, &message->hash);
        message->signature = stored != NULL ? stored->signature : message->signature;
    } else if (message->kind == MESSAGE_SKETCHES) {
        parcel->sketches = malloc(sizeof(node->own_sketches));
        memcpy(parcel->sketches, node->own_sketches, sizeof(node->own_sketches));
        return hash_equal(&message->ballot.seed, &node->own_seed);
    }
    return true;
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct action *action) {
    const struct message *message = &action->message;
    bool is_bulk = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
    uint64_t copies = !world->is_steady && world_draw(world, 100) < 3 ? 2 : 1;
    for (uint64_t copy = 0; copy < copies; copy++) {
        bool is_lost = (double)world_draw(world, 1000) < world->loss * 1000 ||
                       lie_withholds(world, from, message);
        if (!net_is_connected(world, from, to) || is_lost) {
            continue;
        }
        if (is_bulk) {
            net_queue(world, from, to, message, action->is_last);
            continue;
        }
        struct parcel *parcel = parcel_copy(world, message);
        parcel->message.from.bytes[0] = (uint8_t)from;
        if (complete_message(world, from, parcel) && lie_message(world, from, parcel)) {
            net_post(world, from, to, parcel);
        } else {
            parcel_free(parcel);
        }
    }
}

void post_send(struct world *world, uint32_t from, const struct action *action) {
    if (!action->to_tracker) {
        post(world, from, action->to.bytes[0], action);
        return;
    }
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        post(world, from, tracker, action);
    }
}
