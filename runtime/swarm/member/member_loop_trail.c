/* member_loop_trail: the commits that a member has missed, in order from the state that it stands
 * on. Where their results are less to move than the state, the machine hears the oldest of them
 * instead of the newest, and the next one when it is applied:
 *
 *     stands on root 4     trail: 5, 7, 8     the tracker says 8: the machine hears 5
 *
 * When nobody has the results any more the machine adopts, and then it is the newest after all. */
#include "runtime/swarm/member/member_loop_state.h"

#include <string.h>

void catch_up_bind(struct member_loop *loop, struct entry_slice *slices) {
    for (uint32_t i = 0; i < REPLAY_ROUNDS_MAX; i++) {
        loop->trail.entries[i].slices = slices + (size_t)i * loop->shape.slice_count;
    }
}

void catch_up_add(struct member_loop *loop, const struct entry *entry, const struct hash *base) {
    struct catch_up *trail = &loop->trail;
    const struct hash *tip =
        trail->count > 0 ? &trail->entries[trail->count - 1].root : member_root(loop->machine);
    if (entry->kind != ENTRY_COMMIT) {
        trail->count = 0; /* a rollback leads elsewhere */
    } else if (trail->count == REPLAY_ROUNDS_MAX) {
        trail->count = 0; /* there is no way back to its beginning */
    } else if (hash_equal(base, tip)) {
        trail->base = trail->count == 0 ? *base : trail->base;
        entry_copy(&trail->entries[trail->count++], entry);
    }
}

static bool is_less_to_move(const struct member_loop *loop) {
    const struct slices *slices = &loop->options.replica->shape.slices;
    return loop->trail.count * slices->bytes < replica_state_bytes(slices->parameter_count);
}

static const struct message *step_of(struct catch_up *trail, uint32_t which) {
    trail->step.entry = &trail->entries[which];
    trail->step.root = which == 0 ? trail->base : trail->entries[which - 1].root;
    return &trail->step;
}

const struct message *catch_up_substitute(struct member_loop *loop, const struct message *message) {
    struct catch_up *trail = &loop->trail;
    if (message->kind != MESSAGE_ENTRY || trail->count == 0 ||
        !hash_equal(&message->entry->hash, &trail->entries[trail->count - 1].hash)) {
        return message;
    }
    trail->step = *message;
    trail->is_said = true;
    return trail->count > 1 && is_less_to_move(loop) ? step_of(trail, 0) : message;
}

/* Entries that lead up to a root that stands, or is adopted, are behind. */
static void pass(struct catch_up *trail, const struct hash *root) {
    uint32_t passed = trail->count;
    for (uint32_t i = 0; i < trail->count; i++) {
        passed = hash_equal(&trail->entries[i].root, root) ? i + 1 : passed;
    }
    trail->base = *root;
    trail->count -= passed;
    for (uint32_t i = 0; i < trail->count; i++) {
        entry_copy(&trail->entries[i], &trail->entries[i + passed]);
    }
}

const struct message *catch_up_on_applied(struct member_loop *loop) {
    struct catch_up *trail = &loop->trail;
    const struct hash *root = member_root(loop->machine);
    if (trail->count == 0 || hash_equal(root, &trail->base)) {
        return NULL;
    }
    pass(trail, root);
    return trail->count > 0 && trail->is_said ? step_of(trail, 0) : NULL;
}

const struct message *catch_up_on_fetch(struct member_loop *loop, const struct entry *adopted) {
    struct catch_up *trail = &loop->trail;
    uint32_t count = trail->count;
    trail->count = 0;
    bool is_old = count > 1 && hash_equal(&adopted->hash, &trail->entries[0].hash);
    return is_old && trail->is_said ? step_of(trail, count - 1) : NULL;
}

bool catch_up_verifies(const struct member_loop *loop, struct message *message, const uint8_t *bulk,
                       size_t bulk_bytes) {
    const struct entry *entry = &loop->trail.entries[0];
    if (loop->trail.count == 0 || message->kind != MESSAGE_RESULT ||
        message->round != entry->round || message->slice >= entry->slice_count) {
        return false;
    }
    const struct entry_slice *line = &entry->slices[message->slice];
    struct hash hash = hash_of(bulk, bulk_bytes);
    if (!hash_equal(&hash, &line->hash)) {
        return false;
    }
    message->hash = hash;
    message->epoch = line->epoch;
    message->contributors = line->contributors;
    message->owner = entry->seats[line->owner].id;
    return true;
}
