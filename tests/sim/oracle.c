/* oracle: what must hold of every entry that is appended, every state applied, and at the end. */
#include "tests/sim/world.h"

#include <string.h>

static const struct truth *truth_of(const struct world *world, uint32_t round, uint32_t index) {
    for (uint32_t i = 0; i < world->truth_count; i++) {
        if (world->truths[i].round == round && world->truths[i].session == index) {
            return &world->truths[i];
        }
    }
    return NULL;
}

/* The result of a slice, made again from what its named contributors made. */
static void check_slice(struct world *world, const struct entry *entry, uint32_t slice) {
    const struct entry_slice *line = &entry->slices[slice];
    float total[SLICE_ELEMENTS] = {0};
    float weight = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((line->contributors >> seat & 1) == 0) {
            continue;
        }
        const struct truth *truth = truth_of(world, entry->round, entry->seats[seat].id.bytes[0]);
        if (truth == NULL) {
            world_fail(world, "round %u names seat %u, which never trained", entry->round, seat);
            return;
        }
        float share = (float)entry->members[seat].weight;
        weight += share;
        for (int i = 0; i < SLICE_ELEMENTS; i++) {
            total[i] += share * ((float)truth->slices[slice].steps[i] * truth->slices[slice].scale);
        }
    }
    for (int i = 0; i < SLICE_ELEMENTS; i++) {
        total[i] = weight > 0 ? total[i] / weight : 0;
    }
    struct coded coded = plane_encode(total);
    struct hash hash = hash_of(&coded, sizeof(coded));
    if (!hash_equal(&hash, &line->hash) || (float)line->weight != weight) {
        world_fail(world, "round %u slice %u is not the sum of its contributors", entry->round,
                   slice);
    }
    world->salvages += line->epoch > 0;
    world->partial += line->contributors != entry->slices[0].contributors;
}

static void check_signatures(struct world *world, const struct entry *entry) {
    uint64_t signers = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        uint32_t seat = entry->signatures[i].seat;
        struct signature good = plane_sign(&entry->seats[seat].id, &entry->hash);
        if (memcmp(&good, &entry->signatures[i].signature, sizeof(good)) == 0) {
            signers |= UINT64_C(1) << seat;
        }
    }
    if (2 * (uint32_t)__builtin_popcountll(signers) <= entry->seat_count) {
        world_fail(world, "round %u has %d good signatures of %u", entry->round,
                   __builtin_popcountll(signers), entry->seat_count);
    }
}

static void check_samples(struct world *world, const struct entry *entry) {
    uint64_t named = 0;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        named |= entry->slices[s].contributors;
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_seat *at = &entry->seats[seat];
        for (uint32_t r = 0; (named >> seat & 1) != 0 && r < at->range_count; r++) {
            for (uint64_t k = at->ranges[r].begin; k < at->ranges[r].end; k++) {
                if (world->used[k % SAMPLES_MOST]++ > 0) {
                    world_fail(world, "sample %u is used twice", (uint32_t)k);
                    return;
                }
            }
        }
    }
}

void oracle_append(struct world *world, const struct entry *entry) {
    if (world->ledger_count == LEDGER_MOST) {
        world_fail(world, "the ledger of a schedule is full");
        return;
    }
    const struct entry *last = &world->ledger[world->ledger_count - 1];
    struct hash hash = plane_entry_hash(entry, &entry->root);
    int is_next =
        entry->kind == ENTRY_OPEN ? entry->round == last->round + 1 : entry->round == last->round;
    if (!hash_equal(&entry->prev, &last->hash) || !is_next ||
        (entry->kind == ENTRY_OPEN) == (last->kind == ENTRY_OPEN)) {
        world_fail(world, "two histories: round %u follows round %u", entry->round, last->round);
    }
    if (!hash_equal(&hash, &entry->hash)) {
        world_fail(world, "round %u: the entry's hash is another's", entry->round);
    }
    if (entry->kind == ENTRY_COMMIT) {
        check_signatures(world, entry);
        check_samples(world, entry);
        for (uint32_t s = 0; s < world->slice_count; s++) {
            check_slice(world, entry, s);
        }
        world->commits += 1;
    }
    world->aborts += entry->kind == ENTRY_ABORT;
    struct entry *kept = &world->ledger[world->ledger_count];
    kept->slices = world->ledger_slices[world->ledger_count++];
    entry_copy(kept, entry);
}

void oracle_applied(struct world *world, uint32_t node, const struct hash *root) {
    for (uint32_t i = 0; i < world->ledger_count; i++) {
        const struct entry *entry = &world->ledger[i];
        if (entry->kind == ENTRY_COMMIT && hash_equal(&entry->root, root)) {
            return;
        }
    }
    world_fail(world, "member %u stands on a root that no commit has", node);
}

uint32_t oracle_behind(const struct world *world) {
    const struct entry *commits[2] = {&world->ledger[0], &world->ledger[0]};
    for (uint32_t i = 0; i < world->ledger_count; i++) {
        if (world->ledger[i].kind == ENTRY_COMMIT) {
            commits[0] = commits[1];
            commits[1] = &world->ledger[i];
        }
    }
    for (uint32_t n = TRACKERS; n < TRACKERS + world->member_count; n++) {
        const struct node *node = &world->nodes[n];
        if (node->machine == NULL || node->has_left) {
            continue;
        }
        struct hash root = plane_root(world, &node->outer);
        if (!hash_equal(&root, &commits[0]->root) && !hash_equal(&root, &commits[1]->root)) {
            return n;
        }
    }
    return 0;
}
