/* post: messages between nodes: signatures, copies, loss, forged bytes, and the checks of a
 * transport. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include "runtime/swarm/wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGED_ONE_IN = 200 /* slices: a bit of one changes on its way */ };

struct signature post_sign(const struct identity *id, const struct hash *hash) {
    const struct key_pairs keys = keys_of(id);
    struct signature signature;
    ledger_sign(&keys, hash, &signature);
    return signature;
}

static struct wire_shape shape_of(const struct world *world) {
    return (struct wire_shape){.slice_count = world->slice_count, .members_max = MEMBERS_MOST};
}

void post_sign_message(const struct world *world, const struct identity *id,
                       struct message *message) {
    const struct wire_shape shape = shape_of(world);
    const struct key_pairs keys = keys_of(id);
    wire_sign_message(&shape, &keys, message);
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
    values_leave_out(world, message->slice, message->values.left_out, &parcel->coded);
    message->epoch = stored->epoch;
    message->contributors = stored->contributors;
    message->owner = stored->owner;
    message->signature = stored->signature;
    return true;
}

/* The bytes that follow a message, as the parcel has them. */
static size_t bulk_of(const struct world *world, const struct parcel *parcel,
                      const uint8_t **bytes) {
    enum message_kind kind = parcel->message.kind;
    if (kind == MESSAGE_SKETCHES) {
        *bytes = (const uint8_t *)parcel->sketches;
        return world->slice_count * sizeof(struct page_sketch);
    }
    *bytes = (const uint8_t *)&parcel->coded;
    return kind == MESSAGE_CONTRIBUTION ? values_bytes(world)
           : kind == MESSAGE_RESULT     ? values_result_bytes(world, &parcel->coded)
                                        : 0;
}

bool post_accept(const struct world *world, const struct entry *open, struct parcel *parcel) {
    const struct wire_shape shape = shape_of(world);
    struct message *message = &parcel->message;
    const uint8_t *bulk;
    const size_t bytes = bulk_of(world, parcel, &bulk);
    if (!wire_verify_message(&shape, TRACKER_ID.bytes, open, message, bulk, bytes)) {
        return false;
    }
    if (message->kind == MESSAGE_CONTRIBUTION) {
        message->values.norm = values_norm(world, &parcel->coded);
    }
    return message->kind != MESSAGE_RESULT || values_inspect(world, message, &parcel->coded);
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
        const uint8_t *ignored;
        const size_t bytes = bulk_of(world, parcel, &ignored);
        values_damage(world, &parcel->coded, world_draw(world, bytes), 4);
    }
    return true;
}

/* The statement that a member accuses another one of, as that one signed it. */
static void add_evidence(struct node *node, struct message *vote) {
    const struct message_refusal *refusal = &vote->ballot.refusal;
    if (refusal->reason == REFUSAL_SUM || refusal->reason == REFUSAL_WITHHELD) {
        const struct stored *stored = plane_find(node, vote->round, vote->slice, &vote->hash);
        vote->signature = stored != NULL ? stored->signature : vote->signature;
    } else if (refusal->reason == REFUSAL_SKETCH) {
        vote->hash = node->sketch_messages[refusal->suspect].hash;
        vote->signature = node->sketch_messages[refusal->suspect].signature;
    }
}

/* Adds what the sender's host adds to a message without bulk data; false if there is nothing to
 * send. */
static bool complete_message(struct world *world, uint32_t from, struct parcel *parcel) {
    struct node *node = &world->nodes[from];
    struct message *message = &parcel->message;
    if (message->kind == MESSAGE_DECLARE || message->kind == MESSAGE_RESIGN) {
        post_sign_message(world, &message->from, message);
    } else if (message->kind == MESSAGE_VOTE) {
        add_evidence(node, message);
    } else if (message->kind == MESSAGE_SKETCHES) {
        parcel->sketches = malloc(sizeof(node->own_sketches));
        memcpy(parcel->sketches, node->own_sketches, sizeof(node->own_sketches));
        message->hash = hash_of(parcel->sketches, world->slice_count * sizeof(struct page_sketch));
        post_sign_message(world, &message->from, message);
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
            net_queue(world, from, to, message, action->is_for_slow_member);
            continue;
        }
        struct parcel *parcel = parcel_copy(world, message);
        parcel->message.from.bytes[0] = (uint8_t)from;
        bool is_shown = from >= TRACKERS || equivocate(world, to, parcel);
        if (complete_message(world, from, parcel) && lie_message(world, from, parcel) && is_shown) {
            net_post(world, from, to, parcel);
        } else {
            parcel_free(parcel);
        }
    }
}

void post_send(struct world *world, uint32_t from, const struct action *action) {
    equivocate_propose(world, &action->message);
    if (!action->to_tracker) {
        post(world, from, action->to.bytes[0], action);
        return;
    }
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        post(world, from, tracker, action);
    }
}
