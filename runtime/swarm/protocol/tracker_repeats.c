/* tracker_repeats: finds contributions that were part of an earlier commit: a member that repeats
 * its own or another member's work has not trained. Only the hashes of declarations are compared,
 * by their first eight bytes. */
#include "runtime/swarm/protocol/tracker_state.h"

enum { REPEAT_ROUNDS = 8 }; /* commits whose declarations are remembered */

size_t repeats_memory_bytes(uint32_t slice_count) {
    return carve_padded_bytes((size_t)REPEAT_ROUNDS * slice_count * SWARM_MEMBERS_MAX *
                              sizeof(uint64_t));
}

/* The first eight bytes of a hash; 0 stands for no hash. */
static uint64_t hash_prefix(const struct hash *hash) {
    uint64_t prefix;
    memcpy(&prefix, hash->bytes, sizeof prefix);
    return prefix;
}

void repeats_init(struct tracker_repeats *repeats, char **memory,
                  const struct tracker_settings *settings) {
    repeats->slice_count = settings->slice_count;
    repeats->zero_prefix = hash_prefix(&settings->zero_slice);
    repeats->last_zero_prefix = hash_prefix(&settings->last_zero_slice);
    repeats->prefixes = carve(memory, repeats_memory_bytes(settings->slice_count));
}

/* Returns the prefixes [SWARM_MEMBERS_MAX] of one slice in one remembered round. */
static uint64_t *prefixes_of_slice(const struct tracker_repeats *repeats, uint32_t index,
                                   uint32_t slice) {
    ASSERT(index < REPEAT_ROUNDS && slice < repeats->slice_count);
    return repeats->prefixes + ((size_t)index * repeats->slice_count + slice) * SWARM_MEMBERS_MAX;
}

void repeats_add_commit(struct tracker_repeats *repeats, const struct round_table *table) {
    for (uint32_t slice = 0; slice < repeats->slice_count; slice++) {
        uint64_t *prefixes = prefixes_of_slice(repeats, repeats->next, slice);
        memset(prefixes, 0, SWARM_MEMBERS_MAX * sizeof *prefixes);
        SEATS_EACH(seat, table->declared_seats) {
            prefixes[seat] = hash_prefix(&table->hashes[seat * repeats->slice_count + slice]);
        }
    }
    repeats->next = (repeats->next + 1) % REPEAT_ROUNDS;
}

void repeats_clear(struct tracker_repeats *repeats) {
    memset(repeats->prefixes, 0, repeats_memory_bytes(repeats->slice_count));
}

static bool is_remembered(const struct tracker_repeats *repeats, uint32_t slice, uint64_t prefix) {
    uint64_t found = 0;
    for (uint32_t index = 0; index < REPEAT_ROUNDS; index++) {
        const uint64_t *prefixes = prefixes_of_slice(repeats, index, slice);
        for (uint32_t seat = 0; seat < SWARM_MEMBERS_MAX; seat++) {
            found |= prefixes[seat] == prefix;
        }
    }
    return found != 0;
}

bool repeats_find(const struct tracker_repeats *repeats, const struct hash *hashes) {
    bool is_repeated = false;
    for (uint32_t slice = 0; slice < repeats->slice_count && !is_repeated; slice++) {
        uint64_t prefix = hash_prefix(&hashes[slice]);
        uint64_t zero =
            slice + 1 < repeats->slice_count ? repeats->zero_prefix : repeats->last_zero_prefix;
        is_repeated = prefix != 0 && prefix != zero && is_remembered(repeats, slice, prefix);
    }
    return is_repeated;
}
