/* tracker_repeats: finds contributions that were declared for an earlier commit, because a member
 * that repeats its own or another member's work has not trained. Only the roots of whole
 * contributions are compared. For commits before the tracker's start, their norms are compared,
 * which the ledger has. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

void repeats_add_commit(struct tracker_repeats *repeats, const struct round_table *table,
                        const struct entry *commit) {
    struct hash *roots = repeats->roots[repeats->next];
    ASSERT(repeats->next < REPEAT_ROUNDS);
    memset(roots, 0, sizeof repeats->roots[0]);
    memset(repeats->norms[repeats->next], 0, sizeof repeats->norms[0]);
    SEATS_EACH(seat, table->declared_seats) {
        const bool is_unused = entry_lacks_contribution(commit, (uint32_t)seat);
        roots[seat] = is_unused ? (struct hash){{0}} : table->roots[seat];
    }
    repeats->next = (repeats->next + 1) % REPEAT_ROUNDS;
}

void repeats_replay_entry(struct tracker_repeats *repeats, const struct entry *entry) {
    ASSERT(repeats->next < REPEAT_ROUNDS);
    if (entry->kind != ENTRY_COMMIT) {
        repeats_clear(repeats);
        return;
    }
    memset(repeats->roots[repeats->next], 0, sizeof repeats->roots[0]);
    for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
        repeats->norms[repeats->next][seat] =
            entry_lacks_contribution(entry, seat) ? 0 : entry->members[seat].norm;
    }
    repeats->next = (repeats->next + 1) % REPEAT_ROUNDS;
}

void repeats_clear(struct tracker_repeats *repeats) {
    memset(repeats->roots, 0, sizeof repeats->roots);
    memset(repeats->norms, 0, sizeof repeats->norms);
}

bool repeats_contain(const struct tracker_repeats *repeats, const struct hash *root, double norm) {
    bool is_found = false;
    ASSERT(repeats->next < REPEAT_ROUNDS);
    for (uint32_t index = 0; index < REPEAT_ROUNDS; index++) {
        for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
            is_found |= hash_equal(&repeats->roots[index][seat], root) ||
                        (norm > 0 && memcmp(&repeats->norms[index][seat], &norm, sizeof norm) == 0);
        }
    }
    return is_found && !hash_is_zero(root);
}
